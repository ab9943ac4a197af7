"""Rows of docs/reliability.md about allocations that fail in a running daemon, in connections and answers, and in
reloads. failing_alloc.c lets the n-th allocation fail, for each n. The daemon must answer as usual, refuse the request
or the reload, or close the connection. Afterwards it must answer requests, and no memory may be lost."""

import gzip
import json
import mmap
import os
import random
import shutil
import signal
import ssl
import struct
import subprocess
import tempfile
import time

from daemon import Client, Daemon, Failure, Skipped, check, request, until
from resources import ModelFolder

LIBRARY = os.path.abspath(os.path.join(os.environ.get("BUILD", "build"), "tests", "reliability", "failing_alloc.so"))
# Libraries whose allocations also fail. GnuTLS is not in the list: it computes with GMP, which cannot report a failed
# allocation and would end the process.
LIBRARIES = "libc.so libmicrohttpd.so libjansson.so libz.so "
MAX_ALLOCATIONS = 100000  # more than the number of allocations of any operation
CHOSEN = 40  # approximate number of allocations that fail in an operation with `some` (each_allocation)


class FailingAllocations:
    """The memory that the daemon and this process share. Its layout is that of struct control in failing_alloc.c."""

    def __enter__(self):
        if not os.path.exists(LIBRARY):
            raise Skipped(f"there is no {LIBRARY} (make)")
        self.file = tempfile.NamedTemporaryFile(prefix="reliability-allocations.")
        self.file.truncate(mmap.PAGESIZE)
        self.memory = mmap.mmap(self.file.fileno(), mmap.PAGESIZE)
        self.environment = {"LD_PRELOAD": LIBRARY, "FAILING_ALLOC": self.file.name}
        return self

    def __exit__(self, *_):
        self.memory.close()
        self.file.close()

    def arm(self, countdown):
        self.memory[32 + 256:32 + 512] = LIBRARIES.encode().ljust(256, b"\0")
        struct.pack_into("q", self.memory, 0, countdown)

    def disarm(self):
        struct.pack_into("q", self.memory, 0, 0)

    def left(self):
        return struct.unpack_from("q", self.memory, 0)[0]

    def failures(self):
        return struct.unpack_from("q", self.memory, 8)[0]

    def live(self):
        return struct.unpack_from("q", self.memory, 16)[0]

    def place(self):
        """The place of the last failed allocation: the object file, and the offset for addr2line."""
        name = self.memory[32:32 + 256].split(b"\0")[0].decode()
        return f"{os.path.basename(name)}+{struct.unpack_from('q', self.memory, 24)[0]:#x}"


def each_allocation(row, allocations, operation, recover, some):
    """Lets the first allocation of an operation fail, then the second, and so on, until none fails. With `some`, the
    numbers have gaps, so that about CHOSEN allocations fail. Returns the number of allocations that have failed."""
    step = 1
    if some:  # counts the allocations of the operation
        allocations.arm(MAX_ALLOCATIONS)
        operation()
        step = max(1, (MAX_ALLOCATIONS - allocations.left()) // CHOSEN)
        allocations.disarm()
        recover()
    failed = 0
    n = random.Random(row.seed).randint(1, step)
    while True:
        before = allocations.failures()
        allocations.arm(n)
        try:
            operation()
            allocations.disarm()
            if allocations.failures() == before:
                return failed
            recover()
        except Exception as failure:
            allocations.disarm()
            raise Failure(f"allocation {n} failed at {allocations.place()}: {failure}") from failure
        failed += 1
        n += step
        check(n < MAX_ALLOCATIONS, "the operation does not end")


def without_loss(row, allocations, daemon, run):
    """Calls run(some) twice, first with some=True. In the long form, the second call lets all allocations fail, one
    after another. Returns the number of allocations that have failed, and the number of memory blocks that the second
    call did not free."""
    def left(readings, at_most=0):
        """Reads the number of blocks again, at most `readings` times, until it is at most `at_most`. Returns the
        smallest number. A connection that is being closed still owns some blocks, and a busy machine closes it
        late."""
        until(lambda: daemon.metrics()["linformerd_connections"] == 1, "the connections are closed")
        least = allocations.live()
        for _ in range(readings):
            if least <= at_most:
                break
            time.sleep(0.02)
            least = min(least, allocations.live())
        return least

    failed = run(True)
    first = left(50)
    failed += run(row.short)
    return failed, left(500, first) - first


# ---- Connections and answers

BODY = '{"inputs": "well"}'
LARGE = BODY.ljust(100000)  # so large that a worker thread of the daemon parses it
INFER = gzip.compress(json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "INT64", "data": [102, 115]}]}).encode())
STREAM = '{"model": "builtin-writer", "inputs": "This option", "parameters": {"max_new_tokens": 3, "do_sample": false}}'
REQUESTS = {
    "/health": request("/health"),
    "/metrics": request("/metrics"),
    "/nothing": request("/nothing"),
    "/embed": request("/embed", BODY, "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nX-Request-Id: a\r\n"),
    "/embed in a chunk": f"POST /embed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n".encode(),
    "a large /embed": request("/embed", LARGE),
    "two requests": request("/embed", BODY) + request("/v1/models"),
    "gzip": request("/v2/models/builtin/infer", INFER, "Content-Encoding: gzip\r\n"),
    "/generate_stream": request("/generate_stream", STREAM),
    "/v2/repository/index": request("/v2/repository/index", "{}"),
}
CHANGING = {"/metrics"}  # paths with answers that differ each time
STREAMS = {"/generate_stream"}  # paths with answers in which an error may follow the status
REFUSALS = (429, 500, 503)


def call(daemon, data):
    """Sends requests on one connection. Returns the answers. An answer is None if the connection ended before the
    answer. All answers are None if the connection broke."""
    count = data.count(b" HTTP/1.1\r\n")
    try:
        with Client(daemon) as client:
            client.send_until_closed(data)
            return [client.answer() for _ in range(count)]
    except (ConnectionError, ssl.SSLError):
        return [None] * count


def failing_connections(row, tls):
    """Sends every request many times, each time with one failing allocation. Returns the number of allocations that
    failed, the answers by status, and the number of lost blocks."""
    with FailingAllocations() as allocations, Certificates() as certificates, \
            Daemon("--access-log", "--connection-timeout-s", "3600", *(certificates.flags() if tls else ()), tls=tls,
                   environment=allocations.environment) as daemon:
        embedding = daemon.is_well()
        counts = {}

        def expect(name, expected):
            answers = call(daemon, REQUESTS[name])
            for answer, right in zip(answers, expected):
                status = answer.status if answer else "closed"
                counts[status] = counts.get(status, 0) + 1
                if answer is None:
                    break  # the connection has ended
                check(status in (right.status, *REFUSALS), f"{name}: {status} {answer.body[:200]}")
                check(status != right.status or name in CHANGING or answer.body == right.body or
                      name in STREAMS and b'"error"' in answer.body, f"{name}: a wrong answer: {answer.body[:1000]}")

        def all_requests(some):
            failed = 0
            for name, data in REQUESTS.items():
                expected = call(daemon, data)
                check(None not in expected, f"{name}: no answer")
                failed += each_allocation(row, allocations, lambda: expect(name, expected), lambda: daemon.is_well(embedding), some)
            return failed

        failed, lost = without_loss(row, allocations, daemon, all_requests)
        check(daemon.end() == 0, "the daemon did not end with status 0")
        return failed, counts, lost


class Certificates:
    """Two certificates with their keys. The daemon reads a copy of one of these pairs."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="reliability-certificates.")
        self.expected = []
        for i in range(2):
            try:
                subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                                f"/CN=certificate {i}", "-days", "2", "-keyout", self.file(f"key{i}"), "-out", self.file(f"certificate{i}")],
                               check=True, capture_output=True)
            except OSError:
                raise Skipped("there is no openssl (docker/packages.sh reliability)") from None
            with open(self.file(f"certificate{i}")) as file:
                self.expected.append(ssl.PEM_cert_to_DER_cert(file.read()))
        self.use(0)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.path, name)

    def use(self, i):
        for name in ("key", "certificate"):
            shutil.copy(self.file(f"{name}{i}"), self.file(name))

    def flags(self):
        return "--tls-certificate", self.file("certificate"), "--tls-key", self.file("key")


def as_text(counts):
    return ", ".join(f"{status}: {count}" for status, count in sorted(counts.items(), key=str))


def failing_allocations_served(row):
    """Connections, requests and answers, with TLS and without."""
    plain, counts, plain_lost = failing_connections(row, tls=False)
    secure, secure_counts, secure_lost = failing_connections(row, tls=True)
    check(plain_lost <= 0 and secure_lost <= 0, f"{plain_lost} blocks of memory are lost, and {secure_lost} with TLS")
    for status, count in secure_counts.items():
        counts[status] = counts.get(status, 0) + count
    return {"failures": plain + secure, "kinds": len(REQUESTS), "statuses": as_text(counts)}


# ---- Reloads

class Live:
    """A daemon whose settings, keys, certificate and model change before each reload. `number` identifies the state of
    the files."""

    def __init__(self, allocations, certificates, folder):
        self.certificates = certificates
        self.folder = folder
        self.number = 0  # state of the last written files
        self.refusals = 0  # number of reloads that kept at least one old part
        self.refused = False
        self.keys = os.path.join(folder.path, "keys")
        self.settings = os.path.join(folder.path, "settings.json")
        self.write()
        self.daemon = Daemon("--config", self.settings, "--model", "builtin=" + folder.path, "--connection-timeout-s", "3600",
                             *certificates.flags(), tls=True, environment=allocations.environment)
        self.daemon.headers = self.header(0)
        self.embedding = json.loads(self.daemon.is_well())

    def header(self, number):
        return f"Authorization: Bearer key-{number}\r\n"

    def write(self):
        with open(self.keys, "w") as file:
            file.write("".join(f"name-{i}:key-{self.number if i == 0 else f'other-{i}'}\n" for i in range(5)))
        os.chmod(self.keys, 0o600)
        with open(self.settings, "w") as file:
            json.dump({"api_key_file": self.keys, "max_queue_requests": 1000 + self.number}, file)
        self.certificates.use(self.number % 2)
        self.folder.touch()

    def certificate(self):
        with Client(self.daemon) as client:
            return self.certificates.expected.index(client.socket.getpeercert(binary_form=True))

    def reload(self):
        """Sends SIGHUP. Returns the lines of the log that the reload wrote."""
        before = len(self.daemon.said())
        self.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: " reload ended" in self.daemon.said()[before:] or self.daemon.process.poll() is not None, "the reload ends")
        check(self.daemon.process.poll() is None, f"the daemon ended with status {self.daemon.process.poll()}")
        return self.daemon.said()[before:]

    def accepts(self, number):
        with Client(self.daemon) as client:
            answer = client.ask("/embed", BODY, self.header(number))
        check(answer and answer.status in (200, 401), f"{answer and answer.status} in place of 200 or 401")
        check(answer.status == 401 or self.is_right(json.loads(answer.body)), "a wrong embedding")
        return answer.status == 200

    def is_right(self, embedding):
        """Allows a difference from rounding. If there is no memory for the weights in oneDNN's order, OpenBLAS computes
        the products."""
        return max(abs(a - b) for a, b in zip(embedding[0], self.embedding[0], strict=True)) < 1e-5

    def change(self):
        """Changes the files, and reloads them while an allocation may fail."""
        self.number += 1
        self.write()
        said = self.reload()
        self.refused = "cannot reload" in said or "failed=0" not in said

    def recover(self):
        """After `change`, the daemon must serve with the old or the new key, and with the old or the new certificate.
        Reloads the same files without a failing allocation. Afterwards, key and certificate must be new, and the log
        must report no failure."""
        check(self.accepts(self.number - 1) != self.accepts(self.number), "both keys are valid, or none")
        self.certificate()
        said = self.reload()
        check("failed=0" in said and "cannot reload" not in said, f"the files are not loaded\n{said}")
        self.daemon.headers = self.header(self.number)
        check(self.is_right(json.loads(self.daemon.is_well())), "a wrong embedding")
        check(not self.accepts(self.number - 1), "an old key is valid")
        check(self.certificate() == self.number % 2, "the certificate is an old one")
        self.refusals += self.refused


def failing_allocations_reloaded(row):
    """Reloads of settings, keys, a certificate and a model."""
    with FailingAllocations() as allocations, Certificates() as certificates, ModelFolder() as folder:
        live = Live(allocations, certificates, folder)
        with live.daemon as daemon:
            def all_reloads(some):
                failed = each_allocation(row, allocations, live.change, live.recover, some)
                live.recover()
                return failed

            failed, lost = without_loss(row, allocations, daemon, all_reloads)
            check(lost <= 0, f"{lost} blocks of memory are lost")
            check(daemon.end() == 0, "the daemon did not end with status 0")
        return {"failures": failed, "refused": live.refusals}
