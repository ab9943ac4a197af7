#!/usr/bin/env python3
"""Measures the service times of a daemon. Predicts its latency with the simulation in queueing.py, and also measures
this latency.

    capacity.py [SECONDS]

SECONDS is the duration of each measured load, by default 30. The daemon runs on one core with one thread, and this
program on another core. If SECONDS is at least the default, the program writes the tables of docs/capacity.md. With 0,
it measures only the service times, and writes only the tables that follow from them.

The exit status is 1 if a prediction differs by more than 15 % from the measurement. The compared figures are the
throughput at each load, and the p99 at loads up to JUDGED. The exit status is 2 if other programs used more than
MAX_FOREIGN of the daemon's core. Such a run proves nothing, and the table of the comparison is not written."""
import dataclasses
import gc
import itertools
import os
import random
import sys
import time
import urllib.request

import environment
import open_loop
import outlooks
import report
from queueing import Limits, Service, log_uniform, mean_of, poisson, quantile, simulate
from servers import Server

TOLERANCE = 0.15
MAX_FOREIGN = 0.05  # upper limit for the time that the daemon's core spends on other programs, as a part of all time
LENGTHS = (16, 256)
DRAW = log_uniform(*LENGTHS)
LIMITS = Limits(queue_requests=128)
LOADS = (0.5, 0.7, 0.8)  # rates of the measured loads, as parts of the measured peak
JUDGED = 0.7  # at higher loads, the p99 depends too much on the machine's speed, which is not constant
OVERLOAD = 1.5  # rate of the overload, as a multiple of Service.most_rate (queueing.py)
SECONDS = 30
OVERLOAD_S = 8
SEED = 20261123
BURSTS = (1, 1, 2, 3, 4, 6, 8, 12, 16)  # numbers of requests in the bursts of the calibration
DRAWS, REPEATS = 4, 6  # number of draws of random lengths for each of BURSTS, and number of bursts for each draw
POINT_LOADS = (0.4, 0.6)  # rates of the loads under which the time of HTTP is measured, as parts of Service.most_rate
POINT_LENGTHS = ((32, 64), (192, 256))
POINT_S = 2
SLOWER = 1.02  # factor of the service times in the column that shows how the p99 depends on them


# ---- Service times

class Daemon(Server):
    def __init__(self, core):
        self.core = core
        model = environment.ROOT / "tests" / "models" / "bytes"
        settings = ["--model", f"builtin={model}", "--threads", 1, "--http-threads", 1,
                    "--max-queue-requests", LIMITS.queue_requests]
        super().__init__("capacity", lambda port: ["taskset", "-c", str(core), environment.LINFORMERD, "--port",
                                                   str(port), *map(str, settings)])

    def cpu_s(self):
        """CPU time of the thread that computes, and CPU time of all other threads. The caller must wait until the
        threads are idle."""
        lane_s = others_s = 0
        for task in environment.pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            used_s = int((task / "schedstat").read_text().split()[0]) / 1e9
            if (task / "comm").read_text().strip() == "batches":
                lane_s += used_s
            else:
                others_s += used_s
        return lane_s, others_s

    def foreign_s(self):
        """Time for which the daemon's core worked for other programs, or was taken away from this virtual machine. Only
        the difference of two results has a meaning."""
        busy = 0
        for line in environment.pathlib.Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name == f"cpu{self.core}":
                user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, ticks[:8])
                busy = user + nice + system + interrupts + soft_interrupts + stolen
        return busy / os.sysconf("SC_CLK_TCK") - sum(self.cpu_s())

    def counts(self):
        """Number of batches since the start, number of their tokens, and number of their requests."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return [sum(float(line.split()[-1]) for line in lines if line.startswith(f"linformerd_batch_{name}"))
                for name in ("items_count", "tokens_sum", "items_sum")]


def solve(matrix, right):
    """Solves a few equations whose matrix is positive definite, by Gaussian elimination."""
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1:]:
            factor = row[i] / pivot[i]
            row[:] = [value - factor * other for value, other in zip(row, pivot)]
    solution = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, len(rows)))
        solution[i] = (rows[i][-1] - known) / rows[i][i]
    return solution


def fit(points):
    """Finds the unknown values of which measured sums consist, by least squares of the relative errors. A point is a
    pair: the factors of the unknown values in a sum, and the measured sum."""
    scaled = [[factor / total for factor in factors] for factors, total in points]
    size = range(len(scaled[0]))
    matrix = [[sum(row[i] * row[j] for row in scaled) for j in size] for i in size]
    return solve(matrix, [sum(row[i] for row in scaled) for i in size])


@dataclasses.dataclass
class Point:
    """The daemon's work for some requests. `sent` and `sent_tokens` also count refused requests. `lane_s` is the CPU
    time of the thread that computes, `others_s` that of all other threads."""
    batches: float
    tokens: float
    requests: float
    sent_tokens: float
    sent: float
    lane_s: float
    others_s: float


def measure_point(daemon, sent_tokens, sent, send):
    """Measures the work for the requests that send() sends. send() waits for their answers."""
    counts = daemon.counts()
    time.sleep(0.02)  # waits until the threads are idle
    began = daemon.cpu_s()
    send()
    time.sleep(0.02)
    ended = daemon.cpu_s()
    return Point(*(after - before for after, before in zip(daemon.counts(), counts)), sent_tokens, sent,
                 *(after - before for after, before in zip(ended, began)))


def measure_bursts(daemon, seed):
    """Points with batches of many sizes. Requests of a burst arrive together, so they form few batches."""
    generator, points = random.Random(seed), []
    for number in range(DRAWS):
        for count in BURSTS:
            lengths = [DRAW(generator) for _ in range(count)]
            points.append(measure_point(daemon, REPEATS * sum(lengths), REPEATS * count,
                                        lambda: open_loop.burst(daemon.port, lengths, REPEATS, number)))
    return points


def measure_rates(daemon, rough, seed):
    """Points with requests at random times. Rates and lengths differ from those of the predicted loads. A request that
    arrives alone needs more time in HTTP than a request of a burst."""
    points = []
    for load, lengths in itertools.product(POINT_LOADS, POINT_LENGTHS):
        draw = log_uniform(*lengths)
        rate = load * rough.most_rate(mean_of(draw, SEED))
        schedule = list(poisson(rate, round(rate * POINT_S), draw, seed))
        points.append(measure_point(daemon, sum(request.tokens for request in schedule), len(schedule),
                                    lambda: open_loop.run(daemon.port, schedule, seed)))
    return points


def fit_lane(points):
    """The times of a batch, of a token and of a request, fitted to the points. Also returns the median relative
    error."""
    sums = [((point.batches, point.tokens, point.requests), point.lane_s) for point in points]
    times = [max(0, value) for value in fit(sums)]
    errors = [abs(sum(time_s * factor for time_s, factor in zip(times, factors)) / lane_s - 1)
              for factors, lane_s in sums]
    return times, quantile(errors, 0.5)


def service_of(bursts, rates):
    """The service times, and the median relative error of the fitted times of the computing thread."""
    (batch_s, token_s, request_s), fit_error = fit_lane(bursts)
    http_s, read_token_s = (max(0, value) for value in
                            fit([((point.sent, point.sent_tokens), point.others_s) for point in rates]))
    return Service(batch_s, token_s, request_s, http_s / 2, read_token_s, http_s / 2), fit_error


def calibrate(daemon, seed):
    """Two lists of points: of bursts, and of requests at random times."""
    open_loop.burst(daemon.port, [LENGTHS[1]], 100, SEED)  # warms the daemon up
    bursts = measure_bursts(daemon, seed)
    return bursts, measure_rates(daemon, Service(*fit_lane(bursts)[0]), seed)


# ---- Prediction and measurement

class Figures:
    def __init__(self, latencies_s, refused, ended_s):
        count = len(latencies_s)
        self.rate = count / ended_s if count else 0
        self.p50_ms, self.p99_ms = (1e3 * quantile(latencies_s, fraction) for fraction in (0.5, 0.99))
        self.refused = refused / max(1, count + refused)


def schedule_of(rate, seconds, seed=SEED):
    return list(poisson(rate, round(rate * seconds), DRAW, seed))


def predict(service, schedule):
    outcome = simulate(schedule, service, LIMITS)
    return Figures(outcome.latencies_s, outcome.refused, outcome.ended_s)


def measure(daemon, rate, schedule):
    result = open_loop.run(daemon.port, schedule, SEED)
    if result.failed:
        raise RuntimeError(f"{result.failed} requests failed")
    late_ms = 1e3 * quantile(result.late_s, 0.99)
    print(f"{rate:.0f} requests a second: 99 % were sent at most {late_ms:.2f} ms late", flush=True)
    return Figures(result.latencies_s, result.refused, result.ended_s)


def error(predicted, measured):
    return predicted / measured - 1 if measured else float("nan")


@dataclasses.dataclass
class Load:
    """A measured load. The prediction uses the same arrival times and lengths of requests."""
    name: str
    rate: float
    schedule: list
    measured: Figures
    counts_p99: bool  # whether an error of the p99 is a failure. Only at loads up to JUDGED

    def row(self, service):
        """A row of the table, and True if the figures are within the tolerance."""
        predicted, slower = predict(service, self.schedule), predict(service.slower(SLOWER), self.schedule)
        measured = self.measured
        errors = error(predicted.rate, measured.rate), error(predicted.p99_ms, measured.p99_ms)
        row = [self.name, *(report.number(value) for value in (self.rate, predicted.rate, measured.rate)),
               f"{errors[0]:+.1%}", *(report.number(value) for value in (predicted.p50_ms, measured.p50_ms,
                                                                         predicted.p99_ms, measured.p99_ms)),
               f"{errors[1]:+.1%}", report.number(slower.p99_ms), f"{predicted.refused:.1%}", f"{measured.refused:.1%}"]
        return row, all(abs(value) <= TOLERANCE for value in errors[:1 + self.counts_p99])


COLUMNS = ["load", "offered, 1/s", "answered, predicted", "measured", "error", "p50 ms, predicted", "measured",
           "p99 ms, predicted", "measured", "error", "p99 ms, predicted for times 2 % longer", "429, predicted", "measured"]


def service_table(service, fit_error):
    rows = [("a batch", service.batch_s), ("each token of a batch", service.token_s),
            ("each request of a batch", service.request_s), ("reading a request", service.read_s),
            ("reading each of its tokens", service.read_token_s), ("writing an answer", service.write_s)]
    return (report.table(["part", "µs"], [(name, report.number(1e6 * value)) for name, value in rows]) +
            f"\nThe median error of a batch's time by these figures is {fit_error:.1%}.\n")


def request_bytes():
    """Mean size of a request in bytes."""
    generator = random.Random(SEED)
    return sum(len(open_loop.request_of(DRAW(generator), generator)) for _ in range(1000)) / 1000


def run_loads(daemon, service, seconds):
    """Measures the loads. `service` only determines the rate of the overload."""
    loads = []
    rate = OVERLOAD * service.most_rate(mean_of(DRAW, SEED))
    schedule = schedule_of(rate, OVERLOAD_S)
    loads.append(Load("overload", rate, schedule, measure(daemon, rate, schedule), False))
    for load in LOADS:
        rate = load * loads[0].measured.rate
        schedule = schedule_of(rate, seconds)
        loads.append(Load(f"{load:.0%} of the peak", rate, schedule, measure(daemon, rate, schedule), load <= JUDGED))
    return loads


def compare(loads, service, foreign, seconds):
    """Writes the table of the comparison. Returns the exit status."""
    rows, good = zip(*(load.row(service) for load in loads))
    comparison = report.table(COLUMNS, rows) + f"\nOther programs used {max(0, foreign):.1%} of the daemon's core.\n"
    print(comparison)
    if foreign > MAX_FOREIGN:
        print("capacity: other programs used the core. The comparison proves nothing")
        return 2
    if seconds >= SECONDS:
        report.write("comparison", comparison)
    print("all predictions are within 15 %" if all(good) else "capacity: a prediction differs by more than 15 %")
    return 0 if all(good) else 1


def measure_all(seconds, cores):
    """Calibrates before and after the loads, because the speed of a machine may change within minutes. Returns the
    points of the calibration (bursts and random times), and the loads. The last result is the part of the core's time
    that other programs used during the loads."""
    with Daemon(cores[0]) as daemon:
        bursts, rates = calibrate(daemon, SEED)
        loads, foreign = [], 0
        if seconds:
            began_s, foreign_s = time.perf_counter(), daemon.foreign_s()
            loads = run_loads(daemon, service_of(bursts, rates)[0], seconds)
            foreign = (daemon.foreign_s() - foreign_s) / (time.perf_counter() - began_s)
            more_bursts, more_rates = calibrate(daemon, SEED + 1)
            for name, points in (("before", (bursts, rates)), ("after", (more_bursts, more_rates))):
                print(f"{name} the loads:\n{service_table(*service_of(*points))}", flush=True)
            bursts, rates = bursts + more_bursts, rates + more_rates
    return bursts, rates, loads, foreign


def peak_of(service, loads):
    """The measured peak rate, or without loads the predicted one."""
    rate = OVERLOAD * service.most_rate(mean_of(DRAW, SEED))
    return loads[0].measured.rate if loads else predict(service, schedule_of(rate, OVERLOAD_S)).rate


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    report.PATH = environment.ROOT / "docs" / "capacity.md"
    heading = report.heading("make capacity" + (f" ARGS={sys.argv[1]}" if len(sys.argv) > 1 else ""))
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("capacity: expected two cores, one for the daemon and one for the client")
    os.sched_setaffinity(0, {cores[1]})
    gc.disable()  # prevents a collection of garbage that would delay a request
    bursts, rates, loads, foreign = measure_all(seconds, cores)
    service, fit_error = service_of(bursts, rates)
    print(service_table(service, fit_error), flush=True)
    status = compare(loads, service, foreign, seconds) if seconds else 0
    if status != 2 and (seconds >= SECONDS or not seconds):
        report.write("service", heading + "\n" + service_table(service, fit_error))
        outlooks.write(service, LIMITS, DRAW, SEED, request_bytes(), peak_of(service, loads), JUDGED)
    sys.exit(status)


if __name__ == "__main__":
    main()
