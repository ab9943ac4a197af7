"""A simulation of the daemon's queue: requests of one model arrive, wait, and are computed in batches. It is a
simulation of discrete events with one lane, which computes one batch at a time. Batches form as in server/jobs/batch.c,
without generation: a batch receives waiting requests in order until a limit is reached. At most LOOK_AHEAD requests
that do not fit are passed over. Each request has one sequence. All times are in seconds."""
import collections
import dataclasses
import math
import random

LOOK_AHEAD = 32
PACE_KEPT = 0.8  # factor by which older batches lose weight in the mean pace, as in server/jobs/pace.h
READ, WRITE = "read", "write"


@dataclasses.dataclass(frozen=True)
class Service:
    """Times of one core. A batch takes batch_s + token_s · tokens + request_s · requests. Reading a request takes
    read_s + read_token_s · tokens, and writing its answer takes write_s. Reading and writing interrupt the batch,
    because they are on the same core. `constant_s` is the rest of a request's latency, which keeps no core busy."""
    batch_s: float
    token_s: float
    request_s: float = 0
    read_s: float = 0
    read_token_s: float = 0
    write_s: float = 0
    constant_s: float = 0

    def of_batch(self, tokens, requests):
        return self.batch_s + self.token_s * tokens + self.request_s * requests

    def of_read(self, tokens):
        return self.read_s + self.read_token_s * tokens

    def slower(self, factor):
        """The service times if everything takes `factor` times as long."""
        return Service(*(factor * value for value in dataclasses.astuple(self)))

    def most_rate(self, mean_tokens):
        """Requests per second if batches are endless, without limits and waiting. A real rate is lower."""
        return 1 / ((self.token_s + self.read_token_s) * mean_tokens + self.request_s + self.read_s + self.write_s)


@dataclasses.dataclass(frozen=True)
class Limits:
    """The daemon's settings: --max-batch-tokens, --max-batch-requests, --max-batch-ms in seconds, --max-queue-tokens,
    --max-queue-requests. The values are the defaults. Infinity stands for the setting 0, which means no limit."""
    batch_tokens: int = 16384
    batch_requests: int = 128
    batch_s: float = 0.05
    queue_tokens: int = 1 << 20
    queue_requests: int = 16384


@dataclasses.dataclass
class Request:
    arrived_s: float
    tokens: float


@dataclasses.dataclass
class Outcome:
    """`latencies_s` has an entry for each answered request, in the order of the answers. `batches` contains the number
    of requests of each batch. `refused` is the number of answers with status 429. `ended_s` is the time of the last
    answer."""
    latencies_s: list
    batches: list
    refused: int
    ended_s: float


class Queue:
    """The waiting requests of a model, and the pace of its batches."""

    def __init__(self, service, limits):
        self.service, self.limits = service, limits
        self.requests, self.tokens = collections.deque(), 0
        self.work, self.work_s = 0.0, 0.0  # work and time of earlier batches, as in struct pace. Tokens stand for FLOPs

    def add(self, request):
        """Adds the request. Returns False if the request does not fit. An empty queue accepts any request."""
        if self.requests and (len(self.requests) >= self.limits.queue_requests or
                              self.tokens + request.tokens > self.limits.queue_tokens):
            return False
        self.requests.append(request)
        self.tokens += request.tokens
        return True

    def form_batch(self):
        batch, passed, tokens = [], [], 0
        token_s = self.work_s / self.work if self.work else 0
        most_tokens = min(self.limits.batch_tokens, self.limits.batch_s / token_s if token_s else math.inf)
        while self.requests and len(batch) < self.limits.batch_requests and len(passed) < LOOK_AHEAD:
            if batch and tokens + 1 > self.limits.batch_tokens:
                break
            request = self.requests.popleft()
            if batch and tokens + request.tokens > most_tokens:
                passed.append(request)
                continue
            batch.append(request)
            tokens += request.tokens
        self.requests.extendleft(reversed(passed))
        self.tokens -= tokens
        batch_s = self.service.of_batch(tokens, len(batch))
        self.work, self.work_s = PACE_KEPT * self.work + tokens, PACE_KEPT * self.work_s + batch_s
        return batch, batch_s


def simulate(arrivals, service, limits):
    """Simulates all requests to their end. `arrivals` yields the requests in order of time."""
    arrivals = iter(arrivals)
    coming = next(arrivals, None)
    queue, tasks = Queue(service, limits), collections.deque()  # tasks: [READ or WRITE, request, seconds left]
    batch, batch_left_s, now_s = [], 0.0, 0.0
    outcome = Outcome([], [], 0, 0.0)
    while True:
        if not batch and queue.requests and not tasks:
            batch, batch_left_s = queue.form_batch()
            outcome.batches.append(len(batch))
        ready_s = now_s + tasks[0][2] if tasks else now_s + batch_left_s if batch else math.inf
        if coming is None and ready_s == math.inf:
            return outcome
        if coming is not None and coming.arrived_s < ready_s:
            passed_s, now_s = coming.arrived_s - now_s, coming.arrived_s
            if tasks:
                tasks[0][2] -= passed_s
            elif batch:
                batch_left_s -= passed_s
            tasks.append([READ, coming, service.of_read(coming.tokens)])
            coming = next(arrivals, None)
            continue
        now_s = ready_s
        if not tasks:
            tasks.extend([WRITE, request, service.write_s] for request in batch)
            batch = []
            continue
        kind, request, _ = tasks.popleft()
        if kind == READ:
            outcome.refused += not queue.add(request)
        else:
            outcome.latencies_s.append(now_s - request.arrived_s + service.constant_s)
            outcome.ended_s = now_s


def log_uniform(lowest, highest):
    """A log-uniform distribution of lengths, as in client.c. Returns a function of a random.Random."""
    return lambda generator: round(lowest * math.exp(generator.random() * math.log(highest / lowest)))


def poisson(rate, count, draw_tokens, seed):
    """`count` requests at random times, on average `rate` per second."""
    generator, now_s = random.Random(seed), 0.0
    for _ in range(count):
        now_s += generator.expovariate(rate)
        yield Request(now_s, draw_tokens(generator))


def quantile(values, fraction):
    """The quantile of the values (nearest rank), or NaN without values."""
    values = sorted(values)
    return values[max(0, math.ceil(len(values) * fraction) - 1)] if values else math.nan


def mean_of(draw_tokens, seed):
    generator = random.Random(seed)
    return sum(draw_tokens(generator) for _ in range(10000)) / 10000


def most_rate(service, limits, draw_tokens, p99_s, seed, count=20000):
    """The highest rate of one replica at which the p99 is at most `p99_s`, and no request is refused. The error of this
    rate is at most 1 %. The result is 0 if even an almost idle replica is too slow."""
    def meets(rate):
        outcome = simulate(poisson(rate, count, draw_tokens, seed), service, limits)
        return outcome.refused == 0 and quantile(outcome.latencies_s, 0.99) <= p99_s
    high = service.most_rate(mean_of(draw_tokens, seed))
    low = high / 1000
    if not meets(low):
        return 0
    while high / low > 1.01:
        middle = math.sqrt(high * low)
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
