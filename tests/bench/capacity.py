#!/usr/bin/env python3
"""Measures the service times of a daemon, predicts its latency by the simulation in queueing.py, and measures it.

    capacity.py [SECONDS]

SECONDS is the time of each measured load, by default 45. The daemon runs on one core with one thread, and this program
on another core. Writes the tables of docs/capacity.md, if SECONDS is at least the default. With 0, only the service
times are measured, and the tables that follow from them are written.

The exit status is 1 if a predicted throughput or p99 differs by more than 15 % from the measured value. It is 2 if other
programs used the two cores. Such a run proves nothing, and the table of the comparison is not written."""
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
MOST_FOREIGN = 0.05  # of a core's time, for other programs on the two cores
LENGTHS = (16, 256)
DRAW = log_uniform(*LENGTHS)
LIMITS = Limits(queue_requests=128)
LOADS = (0.5, 0.8)  # of the measured peak
OVERLOAD = 1.5  # of the rate in endless batches
SECONDS = 45
OVERLOAD_S = 12
SEED = 20261123
BURSTS = (1, 1, 1, 2, 3, 4, 6, 8, 12, 16)  # requests in a burst of the calibration
DRAWS, REPEATS = 6, 6  # random lengths for each of BURSTS, and bursts with each of them


# ---- Service times

class Daemon(Server):
    def __init__(self, core):
        settings = ["--threads", 1, "--http-threads", 1, "--max-queue-requests", LIMITS.queue_requests]
        super().__init__("capacity", lambda port: ["taskset", "-c", str(core), environment.LINFORMERD, "--port",
                                                   str(port), *map(str, settings)])

    def cpu_s(self):
        """CPU time of the thread that computes, and of all other threads. The threads must be idle."""
        lane_s = others_s = 0
        for task in environment.pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            used_s = int((task / "schedstat").read_text().split()[0]) / 1e9
            if (task / "comm").read_text().strip() == "batches":
                lane_s += used_s
            else:
                others_s += used_s
        return lane_s, others_s

    def foreign_s(self, cores):
        """Time for which the cores worked for programs other than this one and the daemon, or were taken away from
        this machine. Only differences have a meaning."""
        busy = 0
        for line in environment.pathlib.Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name in [f"cpu{core}" for core in cores]:
                user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, ticks[:8])
                busy += user + nice + system + interrupts + soft_interrupts + stolen
        return busy / os.sysconf("SC_CLK_TCK") - sum(self.cpu_s()) - time.process_time()

    def batches(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(line.split()[-1]) for line in lines if line.startswith("linformerd_batch_duration_seconds_count"))


def solve(matrix, right):
    """Gaussian elimination of a few equations whose matrix is positive definite."""
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
    """Least squares of the relative errors. A point is a pair: the factors of the unknown values, and their sum."""
    scaled = [[factor / total for factor in factors] for factors, total in points]
    size = range(len(scaled[0]))
    matrix = [[sum(row[i] * row[j] for row in scaled) for j in size] for i in size]
    return solve(matrix, [sum(row[i] for row in scaled) for i in size])


def measure_point(daemon, lengths, seed):
    """Means of REPEATS equal bursts: batches, and CPU time of the lane and of the other threads."""
    batches = daemon.batches()
    time.sleep(0.02)  # until the threads are idle
    lane_s, others_s = daemon.cpu_s()
    latencies_s = open_loop.burst(daemon.port, lengths, REPEATS, seed)
    time.sleep(0.02)
    lane_after_s, others_after_s = daemon.cpu_s()
    return dict(batches=(daemon.batches() - batches) / REPEATS, tokens=sum(lengths), requests=len(lengths),
                lane_s=(lane_after_s - lane_s) / REPEATS, others_s=(others_after_s - others_s) / REPEATS,
                latency_s=quantile(latencies_s, 0.5))


def measure_service(daemon):
    """The service times, and the median relative error of the fit of batches."""
    generator, points = random.Random(SEED), []
    open_loop.burst(daemon.port, [LENGTHS[1]], 100, SEED)  # warms up
    for number in range(DRAWS):
        for count in BURSTS:
            points.append(measure_point(daemon, [DRAW(generator) for _ in range(count)], number))
    lane = [((p["batches"], p["tokens"], p["requests"]), p["lane_s"]) for p in points]
    batch_s, token_s, request_s = (max(0, value) for value in fit(lane))
    # A burst wakes the threads for HTTP once for its requests, and once for the answers of each batch.
    http = [((p["batches"] + 1, p["requests"], p["tokens"]), p["others_s"]) for p in points]
    wake_s, http_s, read_token_s = (max(0, value) for value in fit(http))
    constant_s = quantile([p["latency_s"] - p["lane_s"] - p["others_s"] for p in points if p["requests"] == 1], 0.5)
    service = Service(batch_s, token_s, request_s, http_s / 2, read_token_s, http_s / 2, wake_s, max(0, constant_s))
    errors = [abs((batch_s * batches + token_s * tokens + request_s * requests) / lane_s - 1)
              for (batches, tokens, requests), lane_s in lane]
    return service, quantile(errors, 0.5)


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


def spread(service, rate, seconds):
    """The p99 of runs as short as the measurement: the second lowest and the second highest of 20."""
    values = sorted(predict(service, schedule_of(rate, seconds, SEED + run)).p99_ms for run in range(1, 21))
    return values[1], values[-2]


def measure(daemon, rate, schedule):
    result = open_loop.run(daemon.port, schedule, SEED)
    if result.failed:
        raise RuntimeError(f"{result.failed} requests failed")
    late_ms = 1e3 * quantile(result.late_s, 0.99)
    print(f"{rate:.0f} requests a second: 99 % were sent at most {late_ms:.2f} ms late", flush=True)
    return Figures(result.latencies_s, result.refused, result.ended_s)


def error(predicted, measured):
    return predicted / measured - 1 if measured else float("nan")


def compare(name, rate, predicted, measured, range_ms=None):
    """A row of the table, and whether both figures are within the tolerance."""
    errors = error(predicted.rate, measured.rate), error(predicted.p99_ms, measured.p99_ms)
    row = [name, *(report.number(value) for value in (rate, predicted.rate, measured.rate)), f"{errors[0]:+.1%}",
           *(report.number(value) for value in (predicted.p50_ms, measured.p50_ms, predicted.p99_ms, measured.p99_ms)),
           f"{errors[1]:+.1%}", " to ".join(report.number(value) for value in range_ms) if range_ms else "–",
           f"{predicted.refused:.1%}", f"{measured.refused:.1%}"]
    return row, all(abs(value) <= TOLERANCE for value in errors)


COLUMNS = ["load", "offered, 1/s", "answered, predicted", "measured", "error", "p50 ms, predicted", "measured",
           "p99 ms, predicted", "measured", "error", "p99 ms, range of such runs", "429, predicted", "measured"]


def service_table(service, fit_error):
    rows = [("a batch", service.batch_s), ("each token of a batch", service.token_s),
            ("each request of a batch", service.request_s), ("reading a request", service.read_s),
            ("reading each of its tokens", service.read_token_s), ("writing an answer", service.write_s),
            ("more for the first request or answer after a pause", service.wake_s),
            ("the rest, for which no core of the daemon is busy", service.constant_s)]
    return (report.table(["part", "µs"], [(name, report.number(1e6 * value)) for name, value in rows]) +
            f"\nThe median error of a batch's time by these figures is {fit_error:.1%}.\n")


def request_bytes():
    """Mean size of a request."""
    generator = random.Random(SEED)
    return sum(len(open_loop.request_of(DRAW(generator), generator)) for _ in range(1000)) / 1000


def run_loads(daemon, service, seconds):
    """The rows of the comparison, and whether all predictions are close enough. The throughput under overload counts,
    but not its p99, which the limit of the queue determines."""
    rate = OVERLOAD * service.most_rate(mean_of(DRAW, SEED))
    schedule = schedule_of(rate, OVERLOAD_S)
    predicted, measured = predict(service, schedule), measure(daemon, rate, schedule)
    rows = [compare("overload", rate, predicted, measured)[0]]
    good = abs(error(predicted.rate, measured.rate)) <= TOLERANCE
    peak = measured.rate
    for load in LOADS:
        rate = load * peak
        schedule = schedule_of(rate, seconds)
        predicted, range_ms = predict(service, schedule), spread(service, rate, seconds)
        row, close = compare(f"{load:.0%} of the peak", rate, predicted, measure(daemon, rate, schedule), range_ms)
        rows.append(row)
        good = good and close
    return rows, good


def compare_loads(daemon, service, seconds, cores):
    """Returns the exit status."""
    began_s, foreign_s = time.perf_counter(), daemon.foreign_s(cores)
    rows, good = run_loads(daemon, service, seconds)
    foreign = (daemon.foreign_s(cores) - foreign_s) / (time.perf_counter() - began_s)
    comparison = report.table(COLUMNS, rows) + f"\nOther programs used {foreign:.1%} of a core.\n"
    if foreign > MOST_FOREIGN or seconds < SECONDS:
        print(comparison)
    else:
        report.write("comparison", comparison)
    if foreign > MOST_FOREIGN:
        print("capacity: other programs used the cores. The comparison proves nothing")
        return 2
    print("all predictions are within 15 %" if good else "capacity: a prediction differs by more than 15 %")
    return 0 if good else 1


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    report.PATH = environment.ROOT / "docs" / "capacity.md"
    heading = report.heading("make capacity" + (f" ARGS={sys.argv[1]}" if len(sys.argv) > 1 else ""))
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("capacity: expected two cores, one for the daemon and one for the client")
    os.sched_setaffinity(0, {cores[1]})
    with Daemon(cores[0]) as daemon:
        service, fit_error = measure_service(daemon)
        print(service_table(service, fit_error), flush=True)
        status = compare_loads(daemon, service, seconds, cores) if seconds else 0
    if status != 2 and (seconds >= SECONDS or not seconds):
        report.write("service", heading + "\n" + service_table(service, fit_error))
        outlooks.write(service, LIMITS, DRAW, SEED, request_bytes())
    sys.exit(status)


if __name__ == "__main__":
    main()
