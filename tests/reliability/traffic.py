"""A row of docs/reliability.md with mixed valid and invalid requests on all documented routes."""

import collections
import json
import os
import random
import re
import threading

from daemon import TREE, Client, Daemon, check, until

EMBED = ['{"inputs": "cp copies files."}', '{"inputs": ["cp", "mv moves files."], "dimensions": 4}']
INFER = ['{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "INT64", "data": [102, 115]}]}']
EMBEDDINGS = ['{"input": ["cp", "mv"], "dimensions": 2}']
COMPLETIONS = ['{"prompt": "This option", "max_tokens": 4, "seed": 2}']
# Valid bodies for routes that have a body.
BODIES = {
    "/": EMBED,
    "/invocations": EMBED,
    "/embed": EMBED,
    "/embed_all": ['{"inputs": [[102, 115]]}'],
    "/similarity": ['{"inputs": {"source_sentence": "copies files", "sentences": ["cp", "mv"]}}'],
    "/logits": ['{"inputs": [[102, 115]], "positions": "last"}'],
    "/fill-mask": ['{"inputs": "The quick brown f[MASK]x", "parameters": {"top_k": 2}}'],
    "/generate": ['{"inputs": "This option", "parameters": {"max_new_tokens": 4, "seed": 2}}'],
    "/generate_stream": ['{"inputs": "This option", "parameters": {"max_new_tokens": 2, "seed": 2}}'],
    "/tokenize": ['{"inputs": "a[MASK]b"}'],
    "/decode": ['{"ids": [[100, 101], [108]]}'],
    "/v1/embeddings": EMBEDDINGS,
    "/embeddings": EMBEDDINGS,
    "/openai/v1/embeddings": EMBEDDINGS,
    "/openai/deployments/{deployment}/embeddings": EMBEDDINGS,
    "/v1/completions": COMPLETIONS,
    "/openai/v1/completions": COMPLETIONS,
    "/openai/deployments/{deployment}/completions": COMPLETIONS,
    "/api/embed": ['{"model": "builtin", "input": "cp"}'],
    "/api/embeddings": ['{"model": "builtin", "prompt": "cp"}'],
    "/v2/models/{model}/infer": INFER,
    "/v2/models/{model}/versions/{version}/infer": INFER,
    "/v2/repository/index": ["{}"],
}
# Routes that refuse every request, because the served models do not support them, or because --model-control is not
# set. Every other route has a valid request.
REFUSED = {
    "/predict": '{"inputs": "cp"}',
    "/classify": '{"input": "cp"}',
    "/rerank": '{"query": "cp", "texts": ["mv"]}',
    "/embed_sparse": '{"inputs": "cp"}',
    "/v2/repository/models/{model}/load": "{}",
    "/v2/repository/models/{model}/unload": "{}",
}
QUERIES = {"/v2/models/{model}/plan": "?tokens=3", "/v2/models/{model}/attention.png": "?text=cp"}
# Routes whose answers contain times, counts or random ids. All other answers must equal the answers of the idle daemon,
# byte by byte.
CHANGING = {"/metrics", "/v1/completions", "/openai/v1/completions", "/openai/deployments/{deployment}/completions", "/api/embed",
            "/v2/models/stats", "/v2/models/{model}/stats", "/v2/models/{model}/versions/{version}/stats"}


class Route:
    """A method and a path of the OpenAPI document."""

    def __init__(self, method, template, description):
        self.method = method
        self.template = template
        self.name = re.sub(r"\{[^}]*\}", "{}", template)  # label of the route in /metrics
        self.statuses = {int(status) for status in description["responses"]}
        model = "builtin-writer" if template.endswith("/completions") else "builtin"
        self.path = self.path_of(model)
        check(method == "GET" or template in BODIES or template in REFUSED, f"{method} {template} has no request in {__file__}")
        self.refused = template in REFUSED
        self.bodies = [None] if method == "GET" else [REFUSED[template]] if self.refused else BODIES[template]

    def path_of(self, model):
        return self.template.replace("{model}", model).replace("{deployment}", model).replace("{version}", "1") + \
            QUERIES.get(self.template, "")

    def accepts(self, status):
        """True if a valid request may have this status."""
        return 400 <= status < 429 and status in self.statuses if self.refused else status == 200

    def may_refuse(self, status):
        """True if any request to a daemon without overload may have this status."""
        return status in self.statuses and (status == 200 or 400 <= status < 429)


def documented_routes():
    """All routes of the OpenAPI document. A new route that is not a GET needs a request in this file."""
    with open(os.path.join(TREE, "server", "dialects", "openapi.json")) as file:
        paths = json.load(file)["paths"]
    return [Route(method.upper(), template, description) for template, methods in paths.items()
            for method, description in methods.items()]


LASTING = 10000  # the growth of memory is judged from this number of requests of each client on


def mutated(draw, body):
    """The body after a few random changes: bytes are changed, removed, repeated or added."""
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


def draw_request(draw, routes):
    """A random request: the route's name in /metrics, the arguments of Client.ask, and a function that judges the
    status."""
    route = draw.choice(routes)
    body = draw.choice(route.bodies)
    kind = draw.random()
    if kind < 0.05:
        return "unmatched", ("/nothing/" + str(draw.random()), None), lambda status: status == 404
    if kind >= 0.5:
        return route.name, (route.path, body), route.accepts
    if body is not None:
        return route.name, (route.path, mutated(draw, body)), route.may_refuse
    if "{model}" in route.template:
        return route.name, (route.path_of("nothing"), None), lambda status: status == 404
    return "unmatched", (route.path, None, "", "DELETE"), lambda status: status == 405


def send_some(daemon, seed, count, routes, expected, counts, failures):
    """Sends `count` requests on several connections, one after another. Counts the answers by route and status."""
    draw = random.Random(seed)
    client = Client(daemon)
    try:
        for _ in range(count):
            name, arguments, fits = draw_request(draw, routes)
            answer = client.ask(*arguments)
            check(answer is not None, f"{arguments}: no answer")
            check(fits(answer.status), f"{arguments}: {answer.status} {answer.body[:200]}")
            check(expected.get(arguments, answer.body) == answer.body, f"{arguments}: a wrong answer")
            counts[name, answer.status] += 1
            if draw.random() < 0.02 or answer.headers.get("connection", "").lower() == "close":
                client.close()
                client = Client(daemon)
    except Exception as failure:  # pylint: disable=broad-except # any error makes the row fail
        failures.append(failure)
    finally:
        client.close()


def requests_by_route(daemon):
    """The counts of /metrics by route and status, without the counts of the route /metrics."""
    found = collections.Counter()
    for name, value in daemon.metrics().items():
        if name.startswith("linformerd_requests_total{"):
            labels = dict(part.split("=", 1) for part in name[name.index("{") + 1:-1].split(","))
            found[labels["route"].strip('"'), int(labels["status"].strip('"'))] += int(value)
    return collections.Counter({key: value for key, value in found.items() if key[0] != "/metrics" and value})


def answers_when_idle(daemon, routes):
    """The answers of an idle daemon that must not change, by path and body."""
    expected = {}
    for route in routes:
        for body in route.bodies:
            answer = daemon.ask(route.path, body)
            check(answer and route.accepts(answer.status), f"{route.method} {route.path}: {answer and answer.status}")
            if route.template not in CHANGING:
                expected[route.path, body] = answer.body
    return expected


def mixed_traffic(row):
    """Valid and invalid requests over all documented routes, from several clients at a time."""
    clients, count = 4, row.size(400, 50000)
    parts = 2 if row.short else 4
    routes = documented_routes()
    with Daemon() as daemon:
        expected = answers_when_idle(daemon, routes)
        first = None
        before = requests_by_route(daemon)
        counts = collections.Counter()
        for part in range(parts):
            failures, own = [], [collections.Counter() for _ in range(clients)]
            threads = [threading.Thread(target=send_some, args=(daemon, f"{row.seed} {part} {i}", count // parts, routes,
                                                                expected, own[i], failures)) for i in range(clients)]
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
        asked = {name for name, _ in counts}
        check(all(route.name in asked for route in routes), f"no request to {({route.name for route in routes} - asked)}")
        counts = collections.Counter({key: value for key, value in counts.items() if key[0] != "/metrics"})
        found = requests_by_route(daemon) - before
        check(found == counts, f"/metrics counts {found - counts} more, and {counts - found} less")
        grown = 100 * (state[2] - first[2]) / first[2]
        # The growth includes the memory of the first requests. So the growth is judged only after many requests.
        check(count < LASTING or grown < 1, f"resident memory grew by {grown:.1f} % from {first[2]} KiB")
        refused = sum(value for (_, status), value in counts.items() if status != 200)
        return {"requests": total, "clients": clients, "routes": len(routes), "refused": refused, "hourly": total // 3600,
                "share": 100 // parts, "grown": grown}
