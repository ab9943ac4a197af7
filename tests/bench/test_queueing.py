"""Compares the simulation of the queue with theory, and with examples that were computed by hand."""
import math
import sys

from queueing import Limits, Request, Service, log_uniform, most_rate, poisson, quantile, simulate

SEED = 20261123
ONE_BY_ONE = Limits(batch_requests=1, batch_s=math.inf, queue_tokens=math.inf, queue_requests=math.inf)


def wait(service, rate, draw_tokens, mean_s):
    """The mean simulated time of a request in the queue."""
    latencies_s = simulate(poisson(rate, 300000, draw_tokens, SEED), service, ONE_BY_ONE).latencies_s
    return sum(latencies_s) / len(latencies_s) - mean_s


def near(value, expected, tolerance):
    return "agrees" if abs(value / expected - 1) <= tolerance else f"{value} instead of {expected}"


def theory():
    """One server. The Pollaczek-Khinchine formula: let the mean service time be 1, and the load r. For exponential
    times (M/M/1), the mean wait is r / (1 - r). For constant times (M/D/1), it is half as long."""
    for load in (0.5, 0.7):
        constant = wait(Service(1, 0), load, lambda generator: 1, 1)
        print("M/D/1", load, near(constant, load / (1 - load) / 2, 0.03))
        exponential = wait(Service(0, 1), load, lambda generator: generator.expovariate(1), 1)
        print("M/M/1", load, near(exponential, load / (1 - load), 0.03))
    split = wait(Service(0.5, 0, 0.1, 0.2, 0, 0.2), 0.5, lambda generator: 1, 1)
    print("work for HTTP counts as load:", "yes" if split > 0.3 else f"wait {split}")


def seconds(values):
    return " ".join(f"{value:g}" for value in values)


def by_hand():
    requests = [Request(0, 5), Request(1, 2), Request(2, 2), Request(3, 8)]
    ten_and_tokens = Service(10, 1)
    none = Limits(batch_s=math.inf)
    print("batches", seconds(simulate(requests, ten_and_tokens, none).latencies_s))
    limited = Limits(batch_tokens=11, batch_s=math.inf)
    print("tokens", seconds(simulate(requests, ten_and_tokens, limited).latencies_s))
    two = Limits(batch_requests=2, batch_s=math.inf)
    print("requests", seconds(simulate(requests, ten_and_tokens, two).latencies_s))
    timed = Limits(batch_s=15)  # the first batch takes 3 s for each token, so 15 s allow 5 tokens
    print("time", seconds(simulate(requests, ten_and_tokens, timed).latencies_s))
    full = simulate(requests, ten_and_tokens, Limits(batch_s=math.inf, queue_requests=1))
    print("full", seconds(full.latencies_s), "refused", full.refused)
    tokens = simulate(requests, ten_and_tokens, Limits(batch_s=math.inf, queue_tokens=9))
    print("queue tokens", seconds(tokens.latencies_s), "refused", tokens.refused)
    mixed = [Request(0, 5), Request(1, 8), Request(2, 4), Request(3, 3), Request(20, 11)]
    passed = simulate(mixed, ten_and_tokens, Limits(batch_tokens=11, batch_s=math.inf, queue_tokens=15))
    print("passed over", seconds(passed.latencies_s), "refused", passed.refused)
    http = simulate([Request(0, 1), Request(3, 1)], Service(4, 0, 0, 1, 0, 2, 0.5), none)
    print("interrupted", seconds(http.latencies_s))
    slower = simulate(requests, ten_and_tokens.slower(2), none)
    print("slower", seconds(slower.latencies_s))


def rates():
    lengths = log_uniform(16, 256)
    service = Service(0.001, 1e-5)
    rate = most_rate(service, Limits(), lengths, 0.02, SEED)
    p99 = [quantile(simulate(poisson(factor * rate, 40000, lengths, SEED), service, Limits()).latencies_s, 0.99)
           for factor in (1, 1.02)]
    print("highest rate", "yes" if p99[0] <= 0.02 < p99[1] else f"{rate}: {p99}")
    print("too short", most_rate(service, Limits(), lengths, 0.001, SEED))


if __name__ == "__main__":
    print("seed", SEED, file=sys.stderr)
    theory()
    by_hand()
    rates()
