"""Predicted latencies and rates for other request rates and machines. A simulation computes them from measured service
times. capacity.py writes these tables into docs/capacity.md."""
import dataclasses
import math

import report
from queueing import mean_of, most_rate, poisson, quantile, simulate

TARGETS_MS = (10, 20, 50, 100, 200)
RATES = (1000, 10000, 100000)
EXAMPLE_RATE, EXAMPLE_P99_MS = 3000, 50

# Assumptions about other machines. None of them was measured.
CORES = 64
THREADS = 8  # number of threads of a daemon, if several cores compute one batch
THREADS_EFFICIENCY = 0.8  # efficiency of these threads for the work that grows with the batch
GPUS = 8
GPU_BATCH_S = 0.002
GPU_SPEED = 100  # speed relative to one core, for the work that grows with the batch
NETWORK_ANSWER_BYTES = 4096
OUTLOOK_P99_MS = 50


def replicas(rate, one):
    return report.integer(math.ceil(rate / one)) if one else "–"


def replica_rows(service, limits, draw_tokens, seed, peak, checked):
    """The rows of the table of replicas. peak: number of answers of a replica per second under overload. checked: the
    part of the peak up to which a measured p99 is compared with the predicted p99."""
    rows = []
    for target_ms in TARGETS_MS:
        one = most_rate(service, limits, draw_tokens, target_ms / 1e3, seed)
        part = [f"{one / peak:.0%}", "yes" if one <= checked * peak else "no"] if one else ["–", "–"]
        rows.append([target_ms, report.number(one) if one else "not reached", *part, *(replicas(rate, one) for rate in RATES)])
    return rows


def mean_latency_s(service, limits, draw_tokens, rate, seed):
    latencies_s = simulate(poisson(rate, 20000, draw_tokens, seed), service, limits).latencies_s
    return sum(latencies_s) / len(latencies_s)


def example(service, limits, draw_tokens, seed):
    one = most_rate(service, limits, draw_tokens, EXAMPLE_P99_MS / 1e3, seed)
    if not one:
        return f"No replica reaches a p99 of {EXAMPLE_P99_MS} ms.\n"
    count = math.ceil(EXAMPLE_RATE / one)
    outcome = simulate(poisson(EXAMPLE_RATE / count, 20000, draw_tokens, seed + 1), service, limits)
    p99_ms = 1e3 * quantile(outcome.latencies_s, 0.99)
    return (f"*Example.* {EXAMPLE_RATE} requests a second, and a p99 of at most {EXAMPLE_P99_MS} ms. One replica answers "
            f"{one:.0f} requests a second.\n{EXAMPLE_RATE} / {one:.0f} = {EXAMPLE_RATE / one:.1f}, so {count} replicas "
            f"are needed. Each gets {EXAMPLE_RATE / count:.0f} requests a second, and the simulation\ngives a p99 of "
            f"{p99_ms:.0f} ms. With one replica more, one may be missing at any time: {count + 1}.\n")


def faster(service, times, batch_s, own_http_cores):
    """The service times if the work that grows with the batch is done `times` times as fast. If HTTP has its own cores,
    the constant parts of its time only add to the latency, and the time for each token is left out."""
    constant_s = service.constant_s + (service.read_s + service.write_s if own_http_cores else 0)
    http = dict(read_s=0, read_token_s=0, write_s=0) if own_http_cores else {}
    return dataclasses.replace(service, batch_s=batch_s, token_s=service.token_s / times,
                               request_s=service.request_s / times, constant_s=constant_s, **http)


def outlook_rows(service, limits, draw_tokens, seed):
    """Rows of: machine, requests per second of each daemon, total requests per second, p50 in ms, and number of cores
    that HTTP keeps busy at the total rate."""
    http_s = service.read_s + service.read_token_s * mean_of(draw_tokens, seed) + service.write_s
    wide = faster(service, THREADS * THREADS_EFFICIENCY, service.batch_s, False)
    machines = [(f"{CORES} cores, {CORES} daemons with 1 thread", CORES, service),
                (f"{CORES} cores, {CORES // THREADS} daemons with {THREADS} threads", CORES // THREADS, wide),
                (f"{GPUS} GPUs", GPUS, faster(service, GPU_SPEED, GPU_BATCH_S, True))]
    rows = []
    for name, count, one in machines:
        rate = most_rate(one, limits, draw_tokens, OUTLOOK_P99_MS / 1e3, seed)
        latencies_s = simulate(poisson(rate, 20000, draw_tokens, seed), one, limits).latencies_s
        rows.append([name, report.number(rate), report.number(rate * count),
                     report.number(1e3 * quantile(latencies_s, 0.5)), report.number(rate * count * http_s)])
    return rows


def large_rate_rows(service, limits, draw_tokens, seed, request_bytes):
    rate = RATES[-1]
    one = most_rate(service, limits, draw_tokens, OUTLOOK_P99_MS / 1e3, seed)
    http_s = service.read_s + service.read_token_s * mean_of(draw_tokens, seed) + service.write_s
    open_requests = rate * mean_latency_s(service, limits, draw_tokens, one, seed)
    return [("daemons with one core", replicas(rate, one)),
            ("cores of these that HTTP keeps busy", report.number(rate * http_s)),
            ("requests that are open at a time (rate × mean latency)", report.number(open_requests)),
            ("network to the daemons, Gbit/s", report.number(8e-9 * rate * request_bytes)),
            (f"network from the daemons, Gbit/s, for answers of {NETWORK_ANSWER_BYTES} bytes",
             report.number(8e-9 * rate * NETWORK_ANSWER_BYTES))]


def write(service, limits, draw_tokens, seed, request_bytes, peak, checked):
    arguments = service, limits, draw_tokens, seed
    report.write("replicas", report.table(
        ["p99 at most, ms", "requests a second of one replica", "part of the peak", "p99 is checked at this load",
         *(f"replicas for {report.integer(rate)}/s" for rate in RATES)], replica_rows(*arguments, peak, checked)))
    report.write("example", example(*arguments))
    report.write("machines", report.table(
        ["machine", "requests a second of one daemon or GPU", "of all", "p50, ms", "cores busy with HTTP"],
        outlook_rows(*arguments)))
    report.write("large-rate", report.table(
        [f"at {report.integer(RATES[-1])} requests a second", "calculated"],
        large_rate_rows(*arguments, request_bytes)))
