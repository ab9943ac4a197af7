"""Rows of docs/reliability.md about clients: slow clients, idle clients, clients that vanish, large bodies, and
requests that arrive in one piece."""

import gzip
import random
import resource

from daemon import Client, Daemon, check, request, until

EMBED = request("/embed", '{"inputs": "well"}')


def slow_clients(row):
    """Slow headers and slow bodies: each client sends a byte, and waits until all other clients have sent a byte."""
    count = row.size(200, 4000)
    head = EMBED.index(b"\r\n\r\n") + 4
    with Daemon() as daemon:
        embedding = daemon.is_well()
        clients = [Client(daemon) for _ in range(count)]
        sent = [0 if i % 2 else head for i in range(count)]
        for client, start in zip(clients, sent):
            client.send(EMBED[:start])
        answered = 0
        while min(sent) < len(EMBED):
            for i, client in enumerate(clients):
                client.send(EMBED[sent[i]:sent[i] + 1])
                sent[i] += 1
            daemon.is_well(embedding)
            answered += 1
        for client in clients:
            answer = client.answer()
            check(answer and answer.status == 200 and answer.body == embedding, "a slow client's answer is missing or wrong")
            client.close()
        return {"clients": count, "between": answered}


def idle_connections(row):
    """Many open connections without a request."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = min(row.size(1000, 10000), most - 100)
    with Daemon(limits=((resource.RLIMIT_NOFILE, most),)) as daemon:
        embedding = daemon.is_well()
        descriptors, threads, before = daemon.descriptors(), daemon.threads(), daemon.resident_kib()
        clients = [Client(daemon) for _ in range(count)]
        until(lambda: daemon.metrics()["linformerd_connections"] > count, "all connections are open")
        each = (daemon.resident_kib() - before) / count
        daemon.is_well(embedding)
        for client in clients:
            client.send(request("/health"))
        for client in clients:
            answer = client.answer()
            check(answer and answer.status == 200, "an idle connection was lost")
            client.close()
        until(lambda: daemon.descriptors() <= descriptors, "the descriptors are free")
        check(daemon.threads() == threads, "threads remain")
        return {"connections": count, "each_kib": each}


def vanishing_clients(row):
    """Clients that end or reset the connection at a random byte of a request, or before its answer."""
    count = row.size(1000, 50000)
    draw = random.Random(row.seed)
    bodies = ['{"inputs": "well"}', '{"inputs": ["' + "x" * 900 + '"]}', '{"inputs": [300]}', '{"inputs": "']
    with Daemon() as daemon:
        embedding = daemon.is_well()
        descriptors, threads = daemon.descriptors(), daemon.threads()
        compared = 0
        for i in range(count):
            data = request("/embed", draw.choice(bodies))
            client = Client(daemon)
            client.send(data[:draw.choice([draw.randint(0, len(data)), len(data)])])
            client.reset() if draw.random() < 0.5 else client.close()
            if i % 20 == 0:
                daemon.is_well(embedding)
                compared += 1
        until(lambda: daemon.descriptors() <= descriptors, "the descriptors are free")
        until(lambda: all(value == 0 for name, value in daemon.metrics().items() if name.startswith("linformerd_queue_")),
              "the queues are empty")
        check(daemon.threads() == threads, "threads remain")
        daemon.is_well(embedding)
        return {"clients": count, "compared": compared}


def bodies_at_the_limit(row):
    """Bodies of exactly the size limit, bodies that exceed the limit by one byte, and gzip bombs."""
    limit = 4 << 20
    rounds = row.size(3, 100)
    embed = b'{"inputs": "well"}'
    infer = b'{"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["well"]}]}'
    bomb = gzip.compress(b" " * (100 * limit), 9)
    gzipped = "Content-Encoding: gzip\r\n"
    path = "/v2/models/builtin/infer"
    with Daemon("--payload-limit", str(limit)) as daemon:
        embedding = daemon.is_well()
        fits = daemon.ask(path, gzip.compress(infer.ljust(limit), 9), gzipped).status
        before = 0
        for i in range(rounds):
            check(daemon.expect(200, "/embed", embed.ljust(limit)) == embedding, "a wrong answer at the limit")
            daemon.expect(413, "/embed", embed.ljust(limit + 1))
            check(daemon.ask(path, gzip.compress(infer.ljust(limit), 1), gzipped).status == fits, "another status")
            daemon.expect(413, path, gzip.compress(infer.ljust(limit + 1), 9), gzipped)
            daemon.expect(413, path, bomb, gzipped)
            daemon.expect(415, "/embed", bomb, gzipped)
            daemon.is_well(embedding)
            before = before or daemon.resident_kib()
        grown = daemon.resident_kib() - before
        check(grown * 1024 < 4 * limit, f"memory grew by {grown} KiB")
        return {"rounds": rounds, "limit_mib": limit >> 20, "bomb_mb": len(bomb) / 1e6, "unpacked_mib": 100 * limit >> 20,
                "grown_kib": grown}


def requests_in_one_piece(row):
    """Random sequences of requests on one connection, cut into packets at random bytes. The requests must be answered
    in order."""
    count = row.size(300, 20000)
    draw = random.Random(row.seed)
    shapes = [(200, EMBED), (404, request("/nothing")), (200, request("/health")), (422, request("/embed", '{"inputs": [300]}')),
              (400, request("/embed", '{"inputs": ')), (405, request("/health", method="DELETE"))]
    sent = 0
    with Daemon() as daemon:
        embedding = daemon.is_well()
        for _ in range(count):
            chosen = draw.choices(shapes, k=draw.randint(1, 8))
            data = b"".join(piece for _, piece in chosen)
            cuts = sorted(draw.randint(0, len(data)) for _ in range(draw.randint(0, 4)))
            with Client(daemon) as client:
                for start, end in zip([0, *cuts], [*cuts, len(data)]):
                    client.send(data[start:end])
                for status, piece in chosen:
                    answer = client.answer()
                    check(answer and answer.status == status, f"{answer and answer.status} in place of {status}")
                    check(piece is not EMBED or answer.body == embedding, "a wrong embedding")
                check(client.rest == b"", "more bytes than answers")
            sent += len(chosen)
    return {"requests": sent, "sequences": count}


# Each of these requests has two headers that disagree about the end of the body, or a line that proxies read in
# different ways. The body contains a second request, which must not be answered.
SECOND = request("/health")
SMUGGLED = [
    ("Content-Length: {n}\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: {n}", b"0\r\n\r\n"),
    ("Content-Length: {n}\r\nContent-Length: 0", b""),
    ("Content-Length: 0\r\nContent-Length: {n}", b""),
    ("Content-Length: 0, {n}", b""),
    ("Content-Length: +{n}", b""),
    ("Content-Length : {n}", b""),
    ("Content-Length: 0x10", b""),
    ("Transfer-Encoding: chunked, identity", b"0\r\n\r\n"),
    ("Transfer-Encoding: xchunked", b"0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"0\r\n\r\n"),
    ("Transfer-Encoding : chunked", b"0\r\n\r\n"),
    ("X: y\r\n Transfer-Encoding: chunked", b"0\r\n\r\n"),
    ("Transfer-Encoding:\r\n chunked", b"0\r\n\r\n"),
]


def smuggled_requests(row):
    """Requests whose end is ambiguous, followed by a second request."""
    rounds = row.size(10, 1000)
    draw = random.Random(row.seed)
    with Daemon() as daemon:
        embedding = daemon.is_well()
        for _ in range(rounds):
            for headers, start in draw.sample(SMUGGLED, len(SMUGGLED)):
                body = start + SECOND
                with Client(daemon) as client:
                    client.send_until_closed(f"POST /embed HTTP/1.1\r\nHost: x\r\n{headers.format(n=len(body))}\r\n\r\n".encode() + body)
                    answer = client.answer()
                    check(answer is None or answer.status in (400, 413), f"{headers!r}: {answer and answer.status}")
                    check(client.answer() is None, f"{headers!r}: the second request was answered")
            daemon.is_well(embedding)
    return {"requests": rounds * len(SMUGGLED), "shapes": len(SMUGGLED)}
