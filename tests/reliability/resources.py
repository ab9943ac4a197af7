"""Rows of docs/reliability.md about resources that run out or change while the daemon runs: descriptors, memory,
threads, the log, model files, clocks."""

import fcntl
import http.server
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from daemon import Client, Daemon, Failure, Skipped, check, request, until

NOBODY = 65534
TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def few_descriptors(row):
    """There are many more clients than the daemon has descriptors. In the first part the clients send requests. In the
    second part they are idle."""
    rounds, count, idle = row.size(3, 100), 300, 40
    with Daemon("--connection-timeout-s", "2") as daemon:
        embedding = daemon.is_well()
        daemon.limit(resource.RLIMIT_NOFILE, daemon.descriptors() + 20)
        for _ in range(rounds):
            clients = [Client(daemon) for _ in range(count)]
            for client in clients:
                client.send(request("/embed", '{"inputs": "well"}', "Connection: close\r\n"))
            for client in clients:
                answer = client.answer()
                check(answer and answer.status == 200 and answer.body == embedding, "an answer is missing or wrong")
                client.close()
        with Client(daemon) as kept:
            check(kept.ask("/health").status == 200, "/health fails")
            clients = [Client(daemon) for _ in range(idle)]
            check(kept.ask("/health").status == 200, "/health fails on an open connection")
        daemon.is_well(embedding)  # this connection is new. The daemon must have closed idle connections for it
        for client in clients:
            client.close()
        daemon.is_well(embedding)
        check(daemon.end() == 0, "the daemon did not end with status 0")
    return {"rounds": rounds, "clients": count, "idle": idle}


def little_memory(row):
    """The address space of the running daemon is limited to a little more than it uses. Large requests arrive."""
    rounds, each = row.size(6, 300), 3
    draw = random.Random(row.seed)
    counts = {}
    with Daemon() as daemon:
        embedding = daemon.is_well()
        for _ in range(rounds):
            size = int(daemon.metrics()["process_virtual_memory_bytes"])
            room = draw.choice([0, 1 << 16, 1 << 20, 1 << 22, 1 << 24])
            daemon.limit(resource.RLIMIT_AS, size + room)
            bodies = ['{"inputs": ["' + '","'.join("x" * 1000 for _ in range(draw.choice([1, 10, 100]))) + '"]}',
                      '{"inputs": "' + "y" * draw.choice([1 << 10, 1 << 20, 1 << 24]) + '"}',
                      '{"inputs": [' + ",".join(["[1]"] * 1500) + "]}", '{"inputs": "z"}']
            for _ in range(each):
                answer = daemon.ask("/embed", draw.choice(bodies))
                status = answer.status if answer else "closed"
                check(status in (200, 413, 422, 429, 500, 503, "closed"), f"status {status}")
                counts[status] = counts.get(status, 0) + 1
                check(daemon.process.poll() is None, f"the daemon ended\n{daemon.said()[-2000:]}")
            daemon.expect(200, "/health")
            daemon.limit(resource.RLIMIT_AS, None)
            daemon.is_well(embedding)
        check(daemon.end() == 0, "the daemon did not end with status 0")
    statuses = [f"{status}: {count}" for status, count in sorted(counts.items(), key=str)]
    return {"rounds": rounds, "each": each, "statuses": ", ".join(statuses)}


def no_threads(row):
    """The running daemon may not create threads while it answers, reloads, loads and unloads. Only one function would
    need another thread: libcurl starts a thread to resolve the name of a collector."""
    rounds = row.size(10, 300)
    # The limit has no effect on root. So root runs the daemon as another user.
    user = NOBODY if os.getuid() == 0 else None
    with Collector() as collector, ModelFolder() as folder, \
            Daemon("--model", "builtin=" + folder.path, "--model", "other=" + folder.path, "--model-control",
                   "--otlp-endpoint", collector.url, user=user) as daemon:
        daemon.limit(resource.RLIMIT_NPROC, 1)
        threads = daemon.thread_numbers()
        embedding = daemon.is_well()  # this request causes the first span
        for _ in range(rounds):
            daemon.is_well(embedding)
            folder.touch()
            check("failed=0" in reload(daemon), "the model is not loaded again\n" + daemon.said()[-1000:])
            for change in ("unload", "load"):
                daemon.expect(200, f"/v2/repository/models/other/{change}", "{}")
            daemon.is_well(embedding)
        until(lambda: "spans are lost" in daemon.said() or collector.bodies, "spans are lost, or arrive")
        check("thread failed to start" in daemon.said(), "the limit was without effect\n" + daemon.said()[-1000:])
        lost = int(daemon.metrics()["linformerd_spans_dropped_total"])
        check(lost > 0 and not collector.bodies, f"{lost} spans were lost, and the collector has {len(collector.bodies)} bodies")
        check(daemon.thread_numbers() == threads, "other threads run than before")
        daemon.limit(resource.RLIMIT_NPROC, None)
        daemon.is_well(embedding)
        until(lambda: collector.bodies, "spans arrive")
        check(daemon.end() == 0, "the daemon did not end with status 0")
        served, refused = starts_with_few_threads(folder)
        return {"rounds": rounds, "threads": len(threads), "spans": lost, "starts": served + refused, "most": MAX_THREADS,
                "refused": refused, "served": served}


MAX_THREADS = 24


def starts_with_few_threads(folder):
    """Starts the daemon with 2, 3, … allowed threads. Returns the number of daemons that served, and the number of
    daemons that ended with a message."""
    served = refused = 0
    for most in range(2, MAX_THREADS + 1):
        # The limit counts all processes of a user. So the daemon runs as a user without other processes.
        user = 1000000 + os.getpid() if os.getuid() == 0 else None
        try:
            with Daemon("--model", "builtin=" + folder.path, "--threads", "4", user=user,
                        limits=((resource.RLIMIT_NPROC, most),)) as daemon:
                daemon.is_well()
                served += 1
        except Failure as failure:
            said = str(failure)
            check("ended with status 1" in said and "cannot start" in said and "ulimit -u" in said, said)
            refused += 1
    check(refused > 0, "no start was refused")
    check(served > 0 or user is None, "no start served")
    return served, refused


class Collector:
    """A collector of spans. Its URL contains this machine's name, which libcurl must resolve."""

    def __enter__(self):
        bodies = self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name # http.server requires this name
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        name = socket.gethostname()
        try:
            self.server = http.server.HTTPServer((name, 0), Handler)
        except OSError:
            raise Skipped(f"this machine has no address for its own name, {name}") from None
        self.url = f"http://{name}:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def reload(daemon):
    """Sends SIGHUP. Returns the line of the log that reports the end of the reload."""
    before = daemon.said().count(" models reloaded ")
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: daemon.said().count(" models reloaded ") > before, "the models are reloaded")
    return [line for line in daemon.said().splitlines() if " models reloaded " in line][-1]


class ModelFolder:
    """A copy of the model of bytes that a row may change."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="reliability-model.")
        os.chmod(self.path, 0o755)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(TREE, "tests", "models", "bytes", name), self.path)
        self.weights = os.path.join(self.path, "model.safetensors")
        with open(self.weights, "rb") as file:
            self.whole = file.read()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def touch(self):
        now = time.time_ns()
        os.utime(os.path.join(self.path, "config.json"), ns=(now, now))

    def write(self, data, rename):
        """Writes the weights into the file, or into a new file that then replaces it."""
        path = self.weights + ".new" if rename else self.weights
        with open(path, "wb") as file:
            file.write(data)
        if rename:
            os.rename(path, self.weights)
        self.touch()


def damaged_models(row):
    """The weights are truncated, overwritten or replaced while the daemon serves. SIGHUP follows."""
    count = row.size(20, 1000)
    draw = random.Random(row.seed)
    with ModelFolder() as folder, Daemon("--model", "builtin=" + folder.path) as daemon:
        embedding = daemon.is_well()
        head = 8 + int.from_bytes(folder.whole[:8], "little")
        for i in range(count):
            data = bytearray(folder.whole)
            if i % 2:
                del data[draw.choice([0, 7, 8, head, head + 1, draw.randrange(len(data)), len(data) - 1]):]
            else:  # the header, so that the model's numbers stay the same
                data[draw.randrange(8)] ^= draw.randint(1, 255)
            folder.write(data, rename=draw.random() < 0.5)
            daemon.is_well(embedding)
            line = reload(daemon)
            check("failed=1" in line, f"a damaged file was loaded: {line}")
            daemon.is_well(embedding)
        folder.write(folder.whole, rename=True)
        check("failed=0" in reload(daemon), "the whole file is not loaded")
        daemon.is_well(embedding)
    return {"files": count}


def full_log(row):
    """The log goes to a disk that is always full, and to a file that has reached its size limit."""
    count = row.size(200, 20000)
    with open("/dev/full", "wb") as full:
        lost, kept = logged_requests(count, full, lambda: b"")
        check(kept == 0, "a full disk has lines")
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 65535 + b"\n")
        file.flush()
        limited, kept = logged_requests(count, file, lambda: os.pread(file.fileno(), 1 << 20, 65536),
                                        limits=((resource.RLIMIT_FSIZE, 65536),))
        check(kept == 0, "the file has lines beyond the limit")
    return {"requests": 2 * count, "lost": lost + limited}


def blocked_log(row):
    """The log goes to a full pipe that nobody reads for some time."""
    count = row.size(3000, 20000)
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(read_end, False)
    text = bytearray()

    def read():
        try:
            while data := os.read(read_end, 65536):
                text.extend(data)
        except BlockingIOError:
            pass
        return text

    try:
        lost, kept = logged_requests(count, write_end, read, end=lambda: os.close(read_end))
    finally:
        os.close(write_end)
    return {"requests": count, "lost": lost, "kept": kept}


LOST = b"log lines were lost"


def whole_lines(text):
    """The number of whole lines in the text. Lines that report lost lines do not count."""
    return sum(line.endswith(b"\n") and LOST not in line for line in text.splitlines(keepends=True))


def lines_of_a_start():
    """The number of lines that a start writes with the arguments of logged_requests."""
    with Daemon("--access-log", on_socket=True) as daemon:
        daemon.expect(200, "/health")
        until(lambda: " path=/health " in daemon.said(), "the line of the request is written")
        return daemon.said()[:daemon.said().index(" path=/health ")].count("\n")


def logged_requests(count, log, text, limits=(), end=lambda: None):
    """Sends `count` requests. text() returns the bytes of the log. Each line must be in the log or be counted as lost.
    Returns the number of lost lines, and the number of lines in the log."""
    written = lines_of_a_start()
    with Daemon("--access-log", log=log, on_socket=True, limits=limits) as daemon:
        embedding = daemon.is_well()
        with Client(daemon) as client:
            for _ in range(count):
                answer = client.ask("/embed", '{"inputs": "well"}')
                check(answer and answer.status == 200 and answer.body == embedding, "an answer is missing or wrong")
        lost = kept = 0

        def all_are_found():
            nonlocal lost, kept
            expected = written + daemon.answers
            kept = whole_lines(text())
            lost = int(daemon.metrics()["linformerd_log_lines_dropped_total"])
            check(kept + lost <= expected, f"{kept} lines and {lost} lost ones are more than the {expected} that were written")
            return kept + lost == expected

        until(all_are_found, "each line is found or counted as lost")
        check(lost > 0, "no line was lost")
        end()
        check(daemon.end() == 0, "the daemon did not end with status 0")
    return lost, kept


def jumping_clock(row):
    """The system clock jumps by up to ten years, forwards and backwards, while requests arrive."""
    library = next((path for path in FAKETIME if os.path.exists(path)), None)
    if library is None:
        raise Skipped("there is no libfaketime (package faketime)")
    count = row.size(30, 1000)
    draw = random.Random(row.seed)
    with tempfile.NamedTemporaryFile("w") as offset:
        def jump(seconds):
            offset.seek(0)
            offset.truncate()
            offset.write(f"{seconds:+d}\n")
            offset.flush()

        jump(0)
        fake = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": offset.name, "FAKETIME_NO_CACHE": "1",
                "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        years = set()
        with Daemon("--access-log", environment=fake) as daemon, Client(daemon) as kept:
            embedding = daemon.is_well()
            for _ in range(count):
                jump(draw.choice([-1, 1]) * draw.choice([1, 60, 3600, 86400, 10 * 365 * 86400]))
                answer = kept.ask("/embed", '{"inputs": "well"}')
                check(answer and answer.status == 200 and answer.body == embedding, "an answer is missing or wrong")
                daemon.is_well(embedding)
            years = {line[:4] for line in daemon.said().splitlines() if line[:2] == "20"}
            check(len(years) > 1, "the clock did not jump")
            check(daemon.end() == 0, "the daemon did not end with status 0")
    return {"jumps": count}


FAKETIME = [f"/usr/lib/{machine}-linux-gnu/faketime/libfaketimeMT.so.1" for machine in ("x86_64", "aarch64")]


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def small_disk(row):
    """The log goes to a file system of 64 KiB, which fills up."""
    count = row.size(1000, 20000)
    folder = tempfile.mkdtemp(prefix="reliability-disk.")
    try:
        mounted = os.getuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder],
                                                      capture_output=True, check=False).returncode == 0
        if not mounted:
            raise Skipped("this user may not mount a tmpfs")
        try:
            with open(os.path.join(folder, "log"), "ab") as log:
                lost, kept = logged_requests(count, log, lambda: read_file(log.name))
                check(kept > 0, "the log is empty")
        finally:
            subprocess.run(["umount", folder], check=True)
    finally:
        os.rmdir(folder)
    return {"requests": count, "lost": lost, "kept": kept}
