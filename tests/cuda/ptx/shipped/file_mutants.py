#!/usr/bin/env python3
"""file_mutants.py: plants faults in the CUDA engine that `make cuda` builds, one at a time.

The faults are in the compressed PTX, in the host code that nvcc made, and in the file's symbol table. With each fault,
the test program test_cases_bf16 must fail. Without a fault, the program must pass. The PTX emulator runs the kernels
(NAME@shipped in ptx.mk). A fault in PTX requires that the PTX is compressed with zstd, as nvcc of CUDA 13 does. BUILD
names the build folder. `make programs-shipped` builds what this script needs. If nvcc or cuBLAS is missing, the script
is skipped. The output is TAP."""

import bisect
import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from mutants import Fault, plant  # noqa: E402

BUILT = Path(os.environ.get("BUILD", "build")) / "tests/cuda/ptx/shipped"
ENGINE, PROGRAM = "libengine_cuda.so", "test_cases_bf16"
HEADER = struct.Struct("<IHHQ")  # fat_header and fat_section in fat_binary.cpp
SECTION = struct.Struct("<HHIQIIHHIIIQQQ")
MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, HEADER.size)
KIND_PTX, FLAG_ZSTD = 1, 0x8000
ZSTD = ctypes.CDLL("libzstd.so.1")
for function in ZSTD.ZSTD_compress, ZSTD.ZSTD_decompress:
    function.restype = ctypes.c_size_t
BEST = 19  # level of compression


def sections(engine):
    """Yields the offset and the header of each section of PTX that is compressed with zstd."""
    for match in re.finditer(re.escape(MAGIC), engine):
        _, _, header_bytes, size = HEADER.unpack_from(engine, match.start())
        at = match.start() + header_bytes
        end = at + size
        while at < end:
            header = SECTION.unpack_from(engine, at)
            if header[0] == KIND_PTX and header[11] & FLAG_ZSTD:
                yield at, header
            at += header[2] + header[3]


def in_ptx(edit, kernel):
    """Returns a function that plants a fault in each kernel whose mangled name matches `kernel`. The compressed text
    must still fit into its section."""

    def damage(engine):
        engine, planted = bytearray(engine), 0
        for at, header in sections(bytes(engine)):
            data, room, size, text_size = at + header[2], header[3], header[4], header[13]
            text, packed = ctypes.create_string_buffer(text_size), bytes(engine[data:data + size])
            ZSTD.ZSTD_decompress(text, ctypes.c_size_t(text_size), packed, ctypes.c_size_t(size))
            old = text.raw.decode("latin-1")
            if not re.search(r"\.entry \w*" + kernel, old):
                continue
            new = plant(old, Fault(edit, kernel, None, PROGRAM, "")).encode("latin-1")
            packed = ctypes.create_string_buffer(2 * text_size)
            size = ZSTD.ZSTD_compress(packed, ctypes.c_size_t(2 * text_size), new, ctypes.c_size_t(text_size), BEST)
            if size > room:
                raise ValueError(f"no room for the text of {kernel}")
            engine[data:data + size] = packed.raw[:size]
            struct.pack_into("<I", engine, at + 16, size)
            planted += 1
        return bytes(engine), planted

    return damage


def functions(file):
    """Returns the address and the name of each function, sorted by address. In .text, an address is also the offset in
    the file."""
    listed = subprocess.run(["nm", file], capture_output=True, text=True, check=True).stdout
    fields = (line.split() for line in listed.splitlines())
    return sorted((int(words[0], 16), words[2]) for words in fields if len(words) == 3 and words[1] in "tTwW")


def in_host(name, caller):
    """Returns a function that plants a fault in host code. Each call of the function `name` becomes the result 0 if the
    mangled name of the caller matches `caller`."""

    def damage(engine):
        engine, planted = bytearray(engine), 0
        known = functions(BUILT / ENGINE)
        target = next(address for address, function in known if function == name)
        for match in re.finditer(rb"\xe8(....)", bytes(engine), re.DOTALL):  # call
            at = match.start()
            if at + 5 + struct.unpack("<i", match[1])[0] != target:
                continue
            if re.search(caller, known[bisect.bisect(known, (at, "~")) - 1][1]):
                engine[at:at + 5] = b"\x31\xc0\x90\x90\x90"  # xor eax, eax, and three times nop
                planted += 1
        return bytes(engine), planted

    return damage


def strip(engine):
    with tempfile.NamedTemporaryFile() as file:
        file.write(engine)
        file.flush()
        subprocess.run(["strip", file.name], check=True)
        return Path(file.name).read_bytes(), 1


BFLOAT = "I13__nv_bfloat16"
FAULTS = {
    "registers of a matrix A are swapped in attend_tensor":
        in_ptx("registers of a matrix A are swapped", "attend_tensor" + BFLOAT),
    "a barrier is missing in project_tensor": in_ptx("a barrier is missing", "project_tensor" + BFLOAT),
    "a sum is a difference in layer_norm": in_ptx("a sum becomes a difference", "10layer_norm" + BFLOAT),
    "a launch is missing in cuda_rotate": in_host("cudaLaunchKernelExC", "cuda_rotate" + BFLOAT),
    "nothing records an event": in_host("cudaEventRecord", ""),
    "the engine has no symbols": strip,
}


def run(folder):
    """Returns whether the program failed, and its last complaint. A program that launches no kernel has failed."""
    entries = folder / "entries"
    entries.unlink(missing_ok=True)
    environment = dict(os.environ, LD_LIBRARY_PATH=str(folder), SHIM_SEED="1", PTX_ENTRIES=str(entries))
    done = subprocess.run([folder / PROGRAM], env=environment, capture_output=True, timeout=600, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    complaints = [line for line in said if re.search("PTX|rror:|NaN|fail|differ", line)]
    return done.returncode or not entries.exists(), (complaints or said or [""])[-1].strip()


def main():
    missing = BUILT / "missing"
    if missing.exists() and missing.read_text():
        print(f"1..1\nok 1 # SKIP {missing.read_text().splitlines()[0]}")
        return 0
    failed = 0
    engine = (BUILT / ENGINE).read_bytes()
    print(f"1..{len(FAULTS) + 1}")
    with tempfile.TemporaryDirectory(dir=BUILT) as name:
        folder = Path(name)
        for file in BUILT.iterdir():
            if file.is_file() and file.name != ENGINE and not file.name.endswith(".o"):
                os.link(file, folder / file.name, follow_symlinks=True)
        for number, (what, damage) in enumerate([("no fault", None), *FAULTS.items()], 1):
            damaged, planted = damage(engine) if damage else (engine, 1)
            (folder / ENGINE).write_bytes(damaged)
            status, said = run(folder)
            good = planted > 0 and bool(status) == bool(damage)
            if planted == 0 and not any(sections(engine)):
                print(f"ok {number} # SKIP no PTX of this engine is compressed with zstd")
                continue
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number} - {what}")
            print(f"#     {said if planted else 'no such place'}", flush=True)
    return 1 if failed else 0


sys.exit(main())
