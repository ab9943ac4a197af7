"""Writes a wheel that contains the daemon, the libraries that it loads, and the Python package with the exporter.

    wheel.py DAEMON FOLDER

DAEMON looks for its libraries in ../lib first. FOLDER gets linformerd-VERSION-py3-none-PLATFORM.whl. The libraries are
copied from this machine, with their licences. Only the libraries of the C library's package stay outside. PLATFORM
names the newest version of the C library that a file in the wheel requires. Needs Debian or Ubuntu, readelf and
patchelf."""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ROOT / "weights" / "python" / "linformerd"
EXPORTER = [ROOT / "weights" / "export.py", *sorted((ROOT / "weights" / "export_parts").glob("*.py"))]

# Libraries that the daemon loads while it runs (engine/cpu/products.c, onednn_library.h). Each list has the names of
# one library, and the first installed name is used. libcurl, which server/tracing loads, stays outside, because it
# needs some thirty libraries.
LOADED = [["libopenblas.so.0"], ["libdnnl.so.2", "libdnnl.so.3", "libdnnl.so.3.6"]]
OUTSIDE = "libc6"  # the package of the C library
LICENCES = pathlib.Path("/usr/share/common-licenses")  # texts that the packages' copyright files point to


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def fail(message):
    sys.exit(f"wheel.py: {message}")


# ---- Libraries ------------------------------------------------------------------------------------------------------


def known_libraries():
    """Paths of libraries, by the names under which the dynamic linker of this machine finds them."""
    machine = os.uname().machine.replace("_", "-")
    lines = re.findall(r"^\s+(\S+) \(([^)]*)\) => (\S+)$", run("/sbin/ldconfig", "-p"), re.MULTILINE)
    return {name: path for name, kind, path in reversed(lines) if machine in kind.lower()}


def needed(path):
    """Names of the libraries that an ELF file is linked with."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", run("readelf", "--dynamic", "--wide", path))


def package_of(path):
    """The Debian package of a file. dpkg knows some files by their paths in /lib, and others by those in /usr/lib."""
    real = os.path.realpath(path)
    for one in (real, real[len("/usr"):] if real.startswith("/usr/") else "/usr" + real):
        found = subprocess.run(["dpkg", "--search", one], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":", 1)[0]
    return fail(f"{real} belongs to no package, so its licence is unknown")


def libraries_of(daemon):
    """{name: (path, package)} of all libraries that go into the wheel."""
    known, found = known_libraries(), {}
    waiting = needed(daemon)
    for names in LOADED:
        name = next((one for one in names if one in known), None)
        if not name:
            fail(f"{' or '.join(names)} is not installed; 'docker/packages.sh build' installs it")
        waiting.append(name)
    while waiting:
        name = waiting.pop()
        if name in found or name.startswith("ld-linux"):
            continue
        if name not in known:
            fail(f"{name} is not installed")
        package = package_of(known[name])
        if package != OUTSIDE:
            found[name] = known[name], package
            waiting += needed(known[name])
    return found


def bytes_of(library):
    """The bytes of the library, changed so that it looks for other libraries in its own folder first. It uses DT_RPATH,
    which comes before LD_LIBRARY_PATH. conda and CUDA set LD_LIBRARY_PATH to folders with other versions."""
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(pathlib.Path(library).read_bytes())
        copy.flush()
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", copy.name)
        return pathlib.Path(copy.name).read_bytes()


def newest_libc(files):
    """The newest GLIBC_2.N that the files require, as N."""
    asked = re.findall(r"Name: GLIBC_2\.(\d+)", "".join(run("readelf", "--version-info", "--wide", one) for one in files))
    return max(int(minor) for minor in asked)


# ---- Licences -------------------------------------------------------------------------------------------------------


def licences_of(packages):
    """{file: bytes} of the licence of linformerd, the licences of the packages, and the texts that these licences
    name."""
    files = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    versions = run("dpkg-query", "--show", "--showformat=${Package} ${Version} ${source:Package} ${source:Version}\n",
                   *packages)
    files["LIBRARIES"] = (
        "linformerd is under the MIT license, see LICENSE. The libraries in linformerd/lib are files of these packages. Only\n"
        "the folder in which they look for others was changed (DT_RPATH). The columns are package, version, source package\n"
        "and its version. The sources are in the archive of the distribution. A library may be replaced by another version\n"
        "of it, in the same folder.\n\n" + versions).encode()
    for package in packages:
        files[f"{package}/copyright"] = pathlib.Path("/usr/share/doc", package, "copyright").read_bytes()
    for name in sorted(set(re.findall(rb"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", b"".join(files.values())))):
        files[f"common-licenses/{name.decode()}"] = (LICENCES / name.decode()).read_bytes()
    return files


# ---- The wheel ------------------------------------------------------------------------------------------------------


def metadata_of(version, licences):
    lines = ["Metadata-Version: 2.4", "Name: linformerd", f"Version: {version}",
             "Summary: Serves Linformer models over HTTP: the daemon, an exporter for trained models, and a client",
             "License: MIT; the libraries in the wheel have licences of their own",
             *(f"License-File: {name}" for name in licences), "Requires-Python: >=3.9",
             "Provides-Extra: export", 'Requires-Dist: numpy; extra == "export"',
             "Classifier: Operating System :: POSIX :: Linux", "Classifier: Typing :: Typed",
             "Description-Content-Type: text/plain", ""]
    text = (SOURCES / "__init__.py").read_text().split('"""')[1]
    return "\n".join([*lines, text]).encode()


def contents(daemon, libraries, version, platform):
    """{path in the wheel: (bytes, whether the file is a program)}."""
    files = {f"linformerd/{one.relative_to(SOURCES)}": (one.read_bytes(), False)
             for one in sorted(SOURCES.rglob("*")) if one.suffix == ".py" or one.name == "py.typed"}
    for one in EXPORTER:
        files[f"linformerd/exporter/{one.relative_to(ROOT / 'weights')}"] = one.read_bytes(), False
    files["linformerd/bin/linformerd"] = pathlib.Path(daemon).read_bytes(), True
    for name, (path, _) in sorted(libraries.items()):
        files[f"linformerd/lib/{name}"] = bytes_of(path), True
    licences = licences_of(sorted({package for _, package in libraries.values()}))
    described = {
        "METADATA": metadata_of(version, licences),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: docker/wheel.py\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode(),
        "entry_points.txt": b"[console_scripts]\nlinformerd = linformerd.__main__:main\n",
        **{f"licenses/{name}": text for name, text in licences.items()},
    }
    files.update({f"linformerd-{version}.dist-info/{name}": (text, False) for name, text in described.items()})
    return files


def write_wheel(path, files, version):
    """Writes a zip file that contains the hashes of its files. The same files and SOURCE_DATE_EPOCH give the same
    bytes."""
    # A zip file has no earlier date than 1980-01-01.
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    record = f"linformerd-{version}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        def add(name, data, is_program):
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for name, (data, is_program) in files.items():
            add(name, data, is_program)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
        add(record, "".join([*lines, f"{record},,\n"]).encode(), False)


def main(daemon, folder):
    version = run(daemon, "--version").split()[1]
    libraries = libraries_of(daemon)
    minor = newest_libc([daemon, *(path for path, _ in libraries.values())])
    platform = f"manylinux_2_{minor}_{os.uname().machine}"
    path = pathlib.Path(folder, f"linformerd-{version}-py3-none-{platform}.whl")
    for older in pathlib.Path(folder).glob("linformerd-*.whl"):
        older.unlink()
    write_wheel(path, contents(daemon, libraries, version, platform), version)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        fail("expected the arguments DAEMON FOLDER")
    main(*sys.argv[1:])
