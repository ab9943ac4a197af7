"""Tests the wheel in an environment without any other package. Run the script with the Python of this environment, in
the root of the repository."""

import importlib.metadata
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))

import linformerd
from tap import expect, run

BUILTIN, WRITER = str(ROOT / "weights" / "builtin"), str(ROOT / "weights" / "writer")
TESTS = []


def test(function):
    TESTS.append((function.__name__.replace("_", " "), function))
    return function


def plain_post(url, path, body):
    """The answer to a request without linformerd's client."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request) as response:
        return json.load(response)


def as_float32(numbers):
    return list(struct.unpack(f"{len(numbers)}f", struct.pack(f"{len(numbers)}f", *numbers)))


def exists(pid):
    """True if the process runs. A process that has ended, but whose parent has not read its status, does not count."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_for_end(pid):
    while exists(pid):
        time.sleep(0.02)


# ---- The package


@test
def the_command_linformerd_runs_the_daemon():
    command = pathlib.Path(sys.executable).parent / "linformerd"
    found = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert found == f"linformerd {linformerd.__version__}\n", found
    assert linformerd.__version__ == importlib.metadata.version("linformerd")
    found = subprocess.run([sys.executable, "-m", "linformerd", "--nonsense"], capture_output=True, text=True)
    assert found.returncode == 2 and "unknown flag" in found.stderr, found


@test
def the_client_needs_no_other_package():
    code = "import sys, linformerd; print([n for n in sys.modules if n.partition('.')[0] in ('numpy', 'torch')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    expect(ModuleNotFoundError, lambda: linformerd.export(None, {}, "none"), "numpy")


@test
def the_wheel_contains_the_licences_of_its_libraries():
    files = {str(one) for one in importlib.metadata.files("linformerd")}
    libraries = [one for one in files if one.startswith("linformerd/lib/")]
    assert len(libraries) > 5, files
    listed = next(one for one in importlib.metadata.files("linformerd") if one.name == "LIBRARIES").read_text()
    packages = [line.split()[0] for line in listed.partition("\n\n")[2].splitlines()]
    assert {"libopenblas0-openmp", "libmicrohttpd12", "libjansson4"} & set(packages), packages
    for package in packages:
        assert any(one.endswith(f"licenses/{package}/copyright") for one in files), package
    assert any(one.endswith("licenses/LICENSE") for one in files)


@test
def the_daemon_loads_the_libraries_of_the_wheel():
    # These files have the names of libraries, but are not libraries. A daemon that reads them does not start.
    folder = pathlib.Path(os.environ["FOLDER"], "wrong")
    folder.mkdir(exist_ok=True)
    for name in ("libjansson.so.4", "libopenblas.so.0", "libgfortran.so.5", "libgnutls.so.30"):
        (folder / name).write_text("no library")
    os.environ["LD_LIBRARY_PATH"] = str(folder)
    try:
        with linformerd.serve(BUILTIN) as server:
            server.embed("a")
            maps = pathlib.Path(f"/proc/{server.pid}/maps").read_text()
    finally:
        del os.environ["LD_LIBRARY_PATH"]
    package = str(pathlib.Path(linformerd.__file__).parent)
    libraries = {line.split()[5] for line in maps.splitlines() if ".so" in line}
    outside = {pathlib.Path(one).name for one in libraries if not one.startswith(package)}
    assert f"{package}/lib/libopenblas.so.0" in libraries, libraries
    assert all(name.startswith(("libc.", "libm.", "ld-linux", "libdl.", "libpthread.", "librt.")) for name in outside), outside


# ---- Requests


@test
def the_client_returns_the_answers_of_the_routes():
    with linformerd.serve() as server:
        assert server.url.startswith("http://127.0.0.1:"), server.url
        ask = lambda path, **body: plain_post(server.url, path, body)
        texts = ["cp", "mv -f"]
        assert server.embed(texts) == [as_float32(one) for one in ask("/embed", inputs=texts)]
        assert server.embed(texts, dimensions=3) == [as_float32(one) for one in ask("/embed", inputs=texts, dimensions=3)]
        found, expected = server.embed_all(texts), ask("/embed_all", inputs=texts)
        assert [[len(row) for row in one] for one in found] == [[len(row) for row in one] for one in expected]
        assert found == [[as_float32(row) for row in one] for one in expected]
        assert server.logits("a[MASK]", positions=[1], top_k=2) == ask("/logits", inputs="a[MASK]", positions=[1], top_k=2)
        assert server.similarity("a", ["b", "a"]) == ask(
            "/similarity", inputs={"source_sentence": "a", "sentences": ["b", "a"]})
        assert server.fill_mask("a[MASK]", top_k=2) == ask("/fill-mask", inputs="a[MASK]", parameters={"top_k": 2})
        assert server.tokenize("ab") == ask("/tokenize", inputs="ab") and server.decode([[67, 68]]) == ["ab"]
        assert [model["name"] for model in server.info()["models"]] == ["builtin", "builtin-writer"]
        assert "linformerd_build_info" in server.get("/metrics")


@test
def generate_and_generate_stream_return_the_same_tokens():
    with linformerd.serve() as server:
        parameters = {"max_new_tokens": 12, "seed": 5}
        body = {"inputs": "This option", "parameters": {**parameters, "details": True}}
        expected = plain_post(server.url, "/generate", body)
        found = server.generate("This option", **parameters)
        assert found.text == expected["generated_text"] and found.finish_reason == "length", found
        assert found.ids == [token["id"] for token in expected["details"]["tokens"]]
        tokens = list(server.generate_stream("This option", model="builtin-writer", **parameters))
        assert [token.id for token in tokens] == found.ids and "".join(token.text for token in tokens) == found.text
        stream = server.generate_stream("This option", max_new_tokens=100000)
        next(stream)
        stream.close()
        assert server.generate("This option", **parameters) == found


@test
def errors_of_the_client_contain_the_message_of_the_daemon():
    with linformerd.serve() as server:
        error = expect(linformerd.RequestError, lambda: server.embed([[8192]]), "ids of model", "below 8192")
        assert (error.status, error.error_type) == (422, "Validation"), error
        error = expect(linformerd.RequestError, lambda: server.post("/v1/embeddings", {"input": [8192]}), "below 8192")
        assert (error.status, error.error_type) == (400, "invalid_request_error"), error
        error = expect(linformerd.RequestError, lambda: list(server.generate_stream("a", model="builtin")), "causal")
        assert error.status == 422, error
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            server.embed("a", normalise=True)
        assert len(caught) == 1 and "normalise" in str(caught[0].message), caught
        assert caught[0].filename == __file__, caught[0].filename
        expect(ValueError, lambda: server.embed(embeddings=[[float("nan")]]))
    expect(ConnectionError, lambda: server.embed("a"))


@test
def several_threads_can_share_a_server():
    with linformerd.serve() as server:
        expected, wrong = server.embed("a", model="builtin"), []

        def ask():
            for _ in range(20):
                if server.embed("a", model="builtin") != expected:
                    wrong.append(1)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not wrong
        text = server.get("/metrics")
        assert 'route="/embed"' in text, text[:400]


# ---- Models and settings


@test
def folders_are_served_under_their_names():
    with linformerd.serve(BUILTIN) as server, linformerd.serve({"one": WRITER, "a b": pathlib.Path(BUILTIN)}) as other:
        assert [model["name"] for model in server.info()["models"]] == ["builtin"]
        assert [model["name"] for model in other.info()["models"]] == ["one", "a b"]
        assert other.embed("a", model="a b") == server.embed("a")


@test
def settings_come_from_keywords_and_not_from_the_environment():
    outside = {"LINFORMERD_MODEL": "/nonexistent", "NOTIFY_SOCKET": "/nonexistent"}
    os.environ.update(outside)
    try:
        with linformerd.serve(max_client_batch_size=1, strict=True) as server:
            variables = pathlib.Path(f"/proc/{server.pid}/environ").read_bytes()
            assert b"/nonexistent" not in variables, variables
            expect(linformerd.RequestError, lambda: server.embed(["a", "b"]), "422")
            expect(linformerd.RequestError, lambda: server.embed("a", nonsense=1), "nonsense")
    finally:
        for name in outside:
            del os.environ[name]
    expect(linformerd.StartError, lambda: linformerd.serve(threadz=1), "LINFORMERD_THREADS?")
    expect(linformerd.StartError, lambda: linformerd.serve(threads=-1), "0 to 4096")
    expect(TypeError, lambda: linformerd.serve(object()), "kwargs")
    expect(TypeError, lambda: linformerd.serve(BUILTIN, config={"name": "a"}), "config")


@test
def one_of_the_hosts_must_be_a_tcp_address():
    with tempfile.TemporaryDirectory() as folder:
        sockets = f"unix:{folder}/one,unix:{folder}/two"
        expect(linformerd.StartError, lambda: linformerd.serve(host=f"unix:{folder}/one"), "127.0.0.1")
        expect(linformerd.StartError, lambda: linformerd.serve(host=sockets), "127.0.0.1")
        with linformerd.serve(host=f"{sockets},127.0.0.1") as server:
            assert server.url.startswith("http://127.0.0.1:"), server.url
            assert len(server.embed("a")) == 1
            assert pathlib.Path(folder, "one").is_socket()


@test
def the_error_says_why_a_model_cannot_be_loaded():
    error = expect(linformerd.StartError, lambda: linformerd.serve("/nonexistent"), "status 1", "/nonexistent/config.json")
    assert "ERROR" in str(error)


@test
def the_api_key_is_sent_and_not_in_the_command_line():
    with linformerd.serve(api_key="a-secret-key") as server:
        assert len(server.embed("a")) == 1
        error = expect(linformerd.RequestError, lambda: linformerd.Client(server.url).embed("a"))
        assert error.status == 401, error
        assert linformerd.Client(server.url, api_key="a-secret-key").embed("a") == server.embed("a")
        assert b"a-secret-key" not in pathlib.Path(f"/proc/{server.pid}/cmdline").read_bytes()


# ---- The end


@test
def the_daemon_ends_at_the_end_of_the_with_block():
    with linformerd.serve() as server:
        assert exists(server.pid)
    assert not exists(server.pid)
    server.close()
    assert "stopped" in server.log[-1], server.log
    try:
        with linformerd.serve() as server:
            raise KeyError
    except KeyError:
        assert not exists(server.pid)


# The code of a process with a server. It prints the id of the daemon's process, and then executes the last line.
CHILD = "import linformerd, os, sys, time\nserver = linformerd.serve()\nprint(server.pid, flush=True)\n"


def started(last_line):
    child = subprocess.Popen([sys.executable, "-c", CHILD + last_line], stdout=subprocess.PIPE, text=True)
    return child, int(child.stdout.readline())


@test
def the_daemon_ends_when_the_python_process_ends():
    for last_line, number in (("time.sleep(1000)", signal.SIGKILL), ("time.sleep(1000)", signal.SIGTERM),
                              ("os.abort()", None), ("sys.exit(3)", None), ("os._exit(0)", None), ("", None)):
        child, pid = started(last_line)
        if number:
            assert exists(pid)
            child.send_signal(number)
        child.wait()
        wait_for_end(pid)


@test
def the_daemon_outlives_the_thread_that_started_it():
    servers = []
    thread = threading.Thread(target=lambda: servers.append(linformerd.serve()))
    thread.start()
    thread.join()
    with servers[0] as server:
        assert len(server.embed("a")) == 1


@test
def an_interrupt_of_the_group_and_a_fork_leave_the_daemon_alone():
    with linformerd.serve() as server:
        assert os.getpgid(server.pid) != os.getpgid(0)
        child = os.fork()
        if child == 0:
            server.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert len(server.embed("a")) == 1


if __name__ == "__main__":
    sys.exit(1 if run(TESTS) else 0)
