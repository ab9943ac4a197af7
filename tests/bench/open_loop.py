"""A client that sends requests at random times, without waiting for earlier answers (open loop). It runs in the calling
process, with one thread. While nothing happens, the thread sleeps, so that other programs use the client's core and not
the daemon's core. Give the client a separate core."""
import collections
import dataclasses
import math
import random
import select
import socket
import time

IDLE_CONNECTIONS = 16  # number of connections that are opened before the first request
AWAKE_S = 0.0002  # the client wakes this long before a request is due, because a sleep may last too long
MAX_CONNECTIONS = 2000
DRAIN_S = 60


@dataclasses.dataclass
class Result:
    """`latencies_s`: for each answer with status 200, the time since its request was due. So a delay of the client is
    included. `late_s`: the delay of each request. `ended_s`: time from the start to the last answer."""
    latencies_s: list = dataclasses.field(default_factory=list)
    late_s: list = dataclasses.field(default_factory=list)
    refused: int = 0
    failed: int = 0
    ended_s: float = 0.0

    def count(self, status, due_s):
        if status == 200:
            self.ended_s = time.perf_counter()
            self.latencies_s.append(self.ended_s - due_s)
        self.refused += status == 429
        self.failed += status not in (200, 429)


def request_of(length, generator):
    """A sequence of random bytes, as ids of the byte tokenizer."""
    ids = ",".join(str(generator.randrange(3, 259)) for _ in range(length))
    body = ('{"inputs":[[' + ids + "]]}").encode()
    return (b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body)) + body


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due_s, self.answer, self.waits = 0.0, b"", False  # waits: True while a request waits for its answer

    def status(self):
        """Reads the bytes that have arrived. Returns the status of a complete answer, None if the answer is not
        complete, or 0 if the connection broke."""
        try:
            part = self.socket.recv(1 << 20)
        except OSError:
            return 0
        self.answer += part
        if not part:
            return 0
        head, found, body = self.answer.partition(b"\r\n\r\n")
        if not found:
            return None
        at = head.lower().find(b"\r\ncontent-length:")
        if len(body) < int(head[at + 17:].split(b"\r\n", 1)[0]):
            return None
        return int(head[9:12])


class Client:
    def __init__(self, port):
        self.port, self.poll = port, select.epoll()
        self.open, self.idle = {}, collections.deque()
        for _ in range(IDLE_CONNECTIONS):
            self.idle.append(self.connect())

    def connect(self):
        connection = Connection(self.port)
        self.open[connection.socket.fileno()] = connection
        self.poll.register(connection.socket.fileno(), select.EPOLLIN)
        return connection

    def close(self):
        for connection in self.open.values():
            connection.socket.close()
        self.poll.close()

    def send(self, request, due_s):
        if not self.idle and len(self.open) >= MAX_CONNECTIONS:
            return False
        connection = self.idle.pop() if self.idle else self.connect()
        connection.due_s, connection.answer, connection.waits = due_s, b"", True
        connection.socket.sendall(request)
        return True

    def sleep(self, seconds):
        """Waits until an answer arrives, but at most `seconds`. select has a finer clock than epoll."""
        if seconds > 0:
            select.select([self.poll.fileno()], [], [], seconds)

    def receive(self, result):
        """Counts the complete answers. Returns the number of requests that have ended."""
        ended = 0
        for descriptor, _ in self.poll.poll(0):
            connection = self.open[descriptor]
            status = connection.status()
            if status is None:
                continue
            if connection.waits:
                ended += 1
                result.count(status, connection.due_s)
            else:
                self.idle.remove(connection)
            connection.waits = False
            if status == 0:
                self.poll.unregister(descriptor)
                del self.open[descriptor]
                connection.socket.close()
            else:
                self.idle.append(connection)
        return ended


def run(port, schedule, seed):
    """Sends each request of the schedule (queueing.Request) when it is due, and waits for the answers. All requests are
    built before the first one is sent."""
    generator = random.Random(seed)
    due = [request.arrived_s for request in schedule]
    requests = [request_of(request.tokens, generator) for request in schedule]
    client, result, under_way, sent = Client(port), Result(), 0, 0
    began_s = time.perf_counter()
    while sent < len(due) or (under_way and time.perf_counter() - began_s < due[-1] + DRAIN_S):
        if sent < len(due) and time.perf_counter() - began_s >= due[sent]:
            due_s = began_s + due[sent]
            accepted = client.send(requests[sent], due_s)
            result.late_s.append(time.perf_counter() - due_s)
            result.failed += not accepted
            under_way += accepted
            sent += 1
        next_s = began_s + due[sent] - AWAKE_S if sent < len(due) else math.inf
        client.sleep(min(next_s - time.perf_counter(), 1))
        under_way -= client.receive(result)
    client.close()
    result.failed += under_way
    result.ended_s -= began_s
    return result


def burst(port, lengths, count, seed):
    """Sends a request of each length at the same time, and waits for all answers. Does this `count` times. Returns the
    latencies of all answers in seconds."""
    client, generator, result = Client(port), random.Random(seed), Result()
    requests = [request_of(length, generator) for length in lengths]
    for _ in range(count):
        for request in requests:
            client.send(request, time.perf_counter())
        under_way = len(requests)
        while under_way:
            client.sleep(1)
            under_way -= client.receive(result)
    client.close()
    if result.failed or result.refused:
        raise RuntimeError("the daemon refused a request of the calibration")
    return result.latencies_s
