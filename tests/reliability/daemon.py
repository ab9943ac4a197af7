"""A daemon under test, and the connections of its clients.

A client that waits longer than HANG_S seconds for an answer reports that the daemon hangs. No other result depends on
HANG_S."""

import os
import re
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time

HANG_S = 300
BINARY = os.environ.get("LINFORMERD") or os.path.join(os.environ.get("BUILD", "build"), "linformerd")


class Failure(Exception):
    """A check of a row failed."""


class Skipped(Exception):
    """The row needs something that this machine does not permit."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def until(condition, text):
    """Waits until condition() is true. Fails after HANG_S seconds."""
    end = time.monotonic() + HANG_S
    while not condition():
        check(time.monotonic() < end, f"did not happen: {text}")
        time.sleep(0.02)


def parents():
    """{number of a process: number of its parent}, for all processes of this machine."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", errors="replace") as file:
                found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # the process has ended
            pass
    return found


def end_descendants(number):
    """Sends a signal to all descendants of this process. Stopped processes continue, so that they can end."""
    parent, ended, more = parents(), set(), {os.getpid()}
    while more:
        more = {process for process, of in parent.items() if of in more}
        ended |= more
    for process in ended:
        try:
            os.kill(process, number)
            os.kill(process, signal.SIGCONT)
        except OSError:
            pass


def request(path, body=None, headers="", method=None):
    """The bytes of a request."""
    method = method or ("GET" if body is None else "POST")
    body = b"" if body is None else body if isinstance(body, bytes) else body.encode()
    length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}{length}\r\n".encode() + body


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body


class Client:
    """One connection. Answers are read one after another."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.socket = socket.socket(socket.AF_UNIX if daemon.path else socket.AF_INET)
        self.socket.settimeout(HANG_S)
        self.socket.connect(daemon.path or ("127.0.0.1", daemon.port))
        if not daemon.path:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if daemon.tls:
            self.socket = daemon.tls.wrap_socket(self.socket)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_until_closed(self, data):
        """Sends the data. The other side may close the connection before all data is sent."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise

    def more(self):
        """Reads more bytes. Returns False if the connection has ended."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        self.rest += data
        return data != b""

    def take(self, length):
        while len(self.rest) < length:
            if not self.more():
                return None
        data, self.rest = self.rest[:length], self.rest[length:]
        return data

    def line(self):
        while b"\r\n" not in self.rest:
            if not self.more():
                return None
        data, self.rest = self.rest.split(b"\r\n", 1)
        return data

    def answer(self):
        """The next answer, or None if the connection ends before the answer is complete."""
        while True:
            first = self.line()
            if first is None:
                return None
            status = int(first.split()[1])
            headers = {}
            while line := self.line():
                name, value = line.decode("latin-1").split(":", 1)
                headers[name.lower()] = value.strip()
            if line is None:
                return None
            if status != 100:
                break
        body = self.chunks() if "chunked" in headers.get("transfer-encoding", "") else self.take(int(headers.get("content-length", 0)))
        if body is None:
            return None
        self.daemon.answers += 1
        return Answer(status, headers, body)

    def chunks(self):
        body = b""
        while True:
            size = self.line()
            if size is None:
                return None
            data = self.take(int(size, 16) + 2)
            if data is None:
                return None
            if len(data) == 2:
                return body
            body += data[:-2]

    def ask(self, path, body=None, headers="", method=None):
        self.send_until_closed(request(path, body, headers, method))
        return self.answer()

    def reset(self):
        """Ends the connection with a reset (RST) in place of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()


# A model whose tokens are the bytes of a text, and the built-in model that writes texts. They replace the built-in
# models, and have the same names.
TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAND_INS = ("--model", "builtin=" + os.path.join(TREE, "tests", "models", "bytes"),
             "--model", "builtin-writer=" + os.path.join(TREE, "weights", "writer"))


class Daemon:
    """A process of linformerd. Without a model in the arguments, the daemon serves STAND_INS. log: a descriptor for its
    standard error, or None for a file that the tests read. on_socket: the daemon listens on a Unix socket, so the tests
    need not read its port from the log. user: number of the user that runs the daemon. tls: clients encrypt, and accept
    every certificate."""

    def __init__(self, *arguments, log=None, on_socket=False, user=None, limits=(), environment=None, tls=False):
        self.folder = tempfile.mkdtemp(prefix="reliability.")
        os.chmod(self.folder, 0o777)
        self.path = os.path.join(self.folder, "socket") if on_socket else None
        self.port = None
        self.user = user
        self.headers = ""  # header lines that ask() adds to each request
        self.tls = tls and ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if tls:
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE
        # Number of answers that clients have read. The number is exact if only one thread at a time reads answers.
        self.answers = 0
        self.log_path = os.path.join(self.folder, "log")
        if "--model" not in arguments:
            arguments = (*STAND_INS, *arguments)
        address = ("--host", "unix:" + self.path) if on_socket else ("--port", "0")

        def prepare():
            for name, value in limits:
                resource.setrlimit(name, (value, value))
            if user is not None:
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)

        with open(self.log_path, "wb") as own_log:
            self.process = subprocess.Popen([BINARY, *address, "--threads", "1", *arguments], stdin=subprocess.DEVNULL,
                                            stderr=own_log if log is None else log, preexec_fn=prepare,
                                            env={**os.environ, **(environment or {})})
        try:
            until(self.listens, "the daemon listens")
        except Failure as failure:
            said = self.said()
            self.end()
            raise Failure(f"{failure}\n{said}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def listens(self):
        check(self.process.poll() is None, f"the daemon ended with status {self.process.poll()}")
        if self.path:
            try:
                with Client(self):
                    return True
            except OSError:
                return False
        found = re.search(r"listening on https?://127\.0\.0\.1:(\d+)", self.said())
        self.port = found and int(found.group(1))
        return found

    def said(self):
        """The lines that the daemon has logged."""
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def ask(self, path, body=None, headers="", method=None):
        with Client(self) as client:
            return client.ask(path, body, headers + self.headers, method)

    def expect(self, status, *arguments, **named):
        answer = self.ask(*arguments, **named)
        check(self.process.poll() is None, f"the daemon ended with status {self.process.poll()}\n{self.said()[-2000:]}")
        check(answer is not None, f"{arguments[0]}: no answer")
        check(answer.status == status, f"{arguments[0]}: {answer.status} in place of {status}: {answer.body[:200]}")
        return answer.body

    def is_well(self, embedding=None):
        """/health must answer 200, and /embed must return this embedding. Returns the embedding."""
        self.expect(200, "/health")
        body = self.expect(200, "/embed", '{"inputs": "well"}')
        check(embedding in (None, body), "a wrong embedding")
        return body

    def metrics(self):
        """The samples of /metrics, by name and labels."""
        lines = self.expect(200, "/metrics").decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def threads(self):
        return len(self.thread_numbers())

    def thread_numbers(self):
        """The numbers of the daemon's threads. The kernel does not soon reuse a number, so a new number means a new
        thread."""
        return set(os.listdir(f"/proc/{self.process.pid}/task"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def limit(self, name, value):
        """Sets a soft limit of the running daemon. None sets the value of this process."""
        soft, hard = resource.getrlimit(name)
        limits = soft if value is None else value, hard
        if self.user is None:
            resource.prlimit(self.process.pid, name, limits)
            return
        child = os.fork()  # only a process of the daemon's user may set it
        if child == 0:
            try:
                os.setresgid(self.user, self.user, self.user)
                os.setresuid(self.user, self.user, self.user)
                resource.prlimit(self.process.pid, name, limits)
                os._exit(0)
            finally:
                os._exit(1)
        check(os.waitpid(child, 0)[1] == 0, "the limit of the daemon cannot be set")

    def end(self):
        """Sends SIGTERM. Returns the exit status, which is 0 after an orderly end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(HANG_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.process.returncode
