"""Row about mixed valid and invalid requests over all routes."""

import collections
import random
import threading

from daemon import Client, Daemon, check, until

PICTURE_PATH = "/v2/models/builtin/attention.png?text=cp"
INFER = '{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "INT64", "data": [102, 115]}]}'
# Route as /metrics names it, path, body.
VALID = [
    ("/embed", "/embed", '{"inputs": "cp copies files."}'),
    ("/embed", "/embed", '{"inputs": ["cp", "mv moves files."], "dimensions": 4}'),
    ("/embed_all", "/embed_all", '{"inputs": [[102, 115]]}'),
    ("/similarity", "/similarity", '{"inputs": {"source_sentence": "copies files", "sentences": ["cp", "mv"]}}'),
    ("/logits", "/logits", '{"inputs": [[102, 115]], "positions": "last"}'),
    ("/fill-mask", "/fill-mask", '{"inputs": "The quick brown f[MASK]x", "parameters": {"top_k": 2}}'),
    ("/generate", "/generate", '{"inputs": "This option", "parameters": {"max_new_tokens": 4, "seed": 2}}'),
    ("/generate_stream", "/generate_stream", '{"inputs": "This option", "parameters": {"max_new_tokens": 2, "seed": 2}}'),
    ("/tokenize", "/tokenize", '{"inputs": "a[MASK]b"}'),
    ("/decode", "/decode", '{"ids": [[100, 101], [108]]}'),
    ("/v1/embeddings", "/v1/embeddings", '{"input": ["cp", "mv"], "dimensions": 2}'),
    ("/v1/completions", "/v1/completions", '{"prompt": "This option", "max_tokens": 4, "seed": 2}'),
    ("/api/embed", "/api/embed", '{"model": "builtin", "input": "cp"}'),
    ("/v2/models/{}/infer", "/v2/models/builtin/infer", INFER),
    ("/v2/models/{}", "/v2/models/builtin", None),
    ("/v2/models/{}/stats", "/v2/models/builtin/stats", None),
    ("/v2/models/{}/attention.png", PICTURE_PATH, None),
    ("/v1/models", "/v1/models", None),
    ("/info", "/info", None),
    ("/health", "/health", None),
]
LASTING = 10000  # requests of each client from which on memory may not grow
# What the idle daemon answers, it answers byte by byte at any other time.
SAME = {"/embed", "/embed_all", "/logits", "/fill-mask", "/similarity", "/tokenize", "/decode", "/v1/embeddings",
        "/v2/models/{}/infer", "/v2/models/{}/attention.png"}


def mutated(draw, body):
    """The body with a few bytes changed, removed, repeated or added."""
    data = bytearray(body.encode())
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data) + 1)
        kind = draw.randrange(4)
        if kind == 0 and at < len(data):
            data[at] = draw.randrange(256)
        elif kind == 1:
            del data[at:at + draw.randint(1, 8)]
        elif kind == 2:
            data[at:at] = data[at:at + draw.randint(1, 16)]
        else:
            data[at:at] = draw.choice([b"[", b"{", b"\"", b"-", b"1e999", b"\0", b"\\u0000", b"\xff", b"null", b"9" * 30])
    return bytes(data)


def send_some(daemon, seed, count, expected, counts, failures):
    """Sends count requests on one connection after another, and counts the answers by route and status."""
    draw = random.Random(seed)
    client = Client(daemon)
    try:
        for _ in range(count):
            route, path, body = draw.choice(VALID)
            kind = draw.random()
            if kind < 0.05:
                route, path, body = "unmatched", "/nothing/" + str(draw.random()), None
            elif kind < 0.5 and body is not None:
                answer = client.ask(path, mutated(draw, body))
                check(answer is not None, f"{path}: no answer")
                check(answer.status in (200, 400, 404, 413, 422), f"{path}: {answer.status} {answer.body[:200]}")
                counts[route, answer.status] += 1
                body = False
            if body is not False:
                answer = client.ask(path, body)
                check(answer is not None, f"{path}: no answer")
                check(answer.status == (404 if route == "unmatched" else 200), f"{path}: {answer.status} {answer.body[:200]}")
                check(expected.get((path, body), answer.body) == answer.body, f"{path}: a wrong answer")
                counts[route, answer.status] += 1
            if draw.random() < 0.02 or answer.headers.get("connection", "").lower() == "close":
                client.close()
                client = Client(daemon)
    except Exception as failure:  # pylint: disable=broad-except; the row fails with it
        failures.append(failure)
    finally:
        client.close()


def requests_by_route(daemon):
    """Counts of /metrics by route and status, without the route /metrics itself."""
    found = collections.Counter()
    for name, value in daemon.metrics().items():
        if name.startswith("linformerd_requests_total{"):
            labels = dict(part.split("=", 1) for part in name[name.index("{") + 1:-1].split(","))
            found[labels["route"].strip('"'), int(labels["status"].strip('"'))] += int(value)
    return collections.Counter({key: value for key, value in found.items() if key[0] != "/metrics" and value})


def mixed_traffic(row):
    """Valid and invalid requests over all routes, from several clients at a time."""
    clients, count = 4, row.size(400, 50000)
    parts = 2 if row.short else 4
    total = 0
    with Daemon() as daemon:
        expected = {(path, body): daemon.expect(200, path, body) for route, path, body in VALID if route in SAME}
        first = None
        before = requests_by_route(daemon)
        counts = collections.Counter()
        for part in range(parts):
            failures, own = [], [collections.Counter() for _ in range(clients)]
            threads = [threading.Thread(target=send_some, args=(daemon, f"{row.seed} {part} {i}", count // parts, expected,
                                                                own[i], failures)) for i in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]
            counts = sum(own, counts)
            until(lambda: daemon.metrics()["linformerd_connections"] == 1, "the connections are closed")
            state = daemon.descriptors(), daemon.threads(), daemon.resident_kib()
            first = first or state
            check(daemon.threads() == first[1], f"{daemon.threads()} threads in place of {first[1]}")
            until(lambda: daemon.descriptors() <= first[0], "the descriptors are free")
        total = sum(counts.values())
        found = requests_by_route(daemon) - before
        check(found == counts, f"/metrics counts {found - counts} more, and {counts - found} less")
        grown = 100 * (state[2] - first[2]) / first[2]
        # The memory of the first requests is growth, too. Few requests say nothing about the others.
        check(count < LASTING or grown < 1, f"resident memory grew by {grown:.1f} % from {first[2]} KiB")
        refused = sum(value for (_, status), value in counts.items() if status != 200)
        return f"{total} requests of {clients} clients over {len({route for route, _ in counts})} routes. {refused} were invalid, and refused. " \
               f"All others were answered. After {100 // parts} % of them, resident memory grew by {grown:.2f} %, threads and " \
               f"descriptors did not grow. All counts of /metrics equal those of the clients"
