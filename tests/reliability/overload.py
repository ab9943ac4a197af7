"""Rows of docs/reliability.md about overload. In the long form, rows judge rates and times, so the machine must have no
other work. In the short form, they judge only the answers."""

import collections
import threading
import time

from daemon import Client, Daemon, check, request, until
from traffic import requests_by_route

SEQUENCES = 32
BATCH_MS = 50  # time limit of a batch, --max-batch-ms, in ms
QUEUE_MS = 500  # time limit of the queue, --max-queue-ms, in ms
MIN_SHARE = 90  # lowest allowed rate of answers under overload, in percent of the peak rate
# Numbers of requests in the long form. With fewer requests, the p99 without load would be the largest time.
ALONE = 200  # number of requests of one client, which waits for each answer
SATURATED = 40  # number of requests of each of two clients, which wait for each answer
BODY = request("/embed", '{"inputs": [' + ",".join(['"' + "x" * 512 + '"'] * SEQUENCES) + '], "dimensions": 1}')


def ask(daemon, results, embedding, failures):
    started = time.monotonic()
    try:
        with Client(daemon) as client:
            client.send(BODY)
            answer = client.answer()
        check(answer is not None, "no answer")
        check(answer.status in (200, 429), f"status {answer.status}")
        check(answer.status == 429 or answer.body == embedding, "a wrong answer")
        results.append((answer.status, time.monotonic() - started))
    except Exception as failure:  # pylint: disable=broad-except # any error makes the row fail
        failures.append(failure)


def percentile(times, percent):
    ordered = sorted(times)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0


def at_rate(daemon, rate, seconds, embedding):
    """Sends requests at a constant rate, even if answers are late. Returns the status and the latency of each answer,
    and the whole duration."""
    results, failures, threads = [], [], []
    started = time.monotonic()
    for i in range(int(rate * seconds)):
        wait = started + i / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        thread = threading.Thread(target=ask, args=(daemon, results, embedding, failures))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results, time.monotonic() - started


def in_turn(daemon, clients, count, embedding):
    """Each client sends `count` requests, and waits for each answer. Returns the status and the latency of each answer,
    and the whole duration."""
    results, failures = [], []
    started = time.monotonic()

    def run():
        for _ in range(count):
            if not failures:
                ask(daemon, results, embedding, failures)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results, time.monotonic() - started


def state_of(daemon):
    """Resident memory, threads, descriptors, and the number of answers of /embed by status. No other client may be
    connected."""
    until(lambda: daemon.metrics()["linformerd_connections"] == 1, "the connections are closed")
    answers = {status: count for (route, status), count in requests_by_route(daemon).items() if route == "/embed"}
    return daemon.resident_kib(), daemon.threads(), daemon.descriptors(), collections.Counter(answers)


def compare_states(before, daemon, counts):
    """Threads, descriptors and counts must be the expected ones. Returns the growth of the resident memory in
    percent."""
    after = state_of(daemon)
    check(after[1] == before[1], f"{after[1]} threads in place of {before[1]}")
    until(lambda: daemon.descriptors() <= before[2], "the descriptors are free")
    check(after[3] - before[3] == counts, f"/metrics counts {after[3] - before[3]}, and the clients {counts}")
    return 100 * (after[0] - before[0]) / before[0]


def twice_the_peak(row, seconds, arguments, goal):
    """Sends twice the rate that the daemon can answer. goal(median, p99) receives the latencies without load. It
    returns the highest p99 that accepted requests may have. All times are in milliseconds."""
    with Daemon(*arguments) as daemon:
        with Client(daemon) as client:
            client.send(BODY)
            embedding = client.answer().body
        alone = [taken for _, taken in in_turn(daemon, 1, 10 if row.short else ALONE, embedding)[0]]
        saturated, duration = in_turn(daemon, 2, 5 if row.short else SATURATED, embedding)
        peak = sum(status == 200 for status, _ in saturated) / duration
        before = state_of(daemon)
        results, duration = at_rate(daemon, 2 * peak, seconds, embedding)
        grown = compare_states(before, daemon, collections.Counter(status for status, _ in results))
        daemon.is_well()
    accepted = [taken for status, taken in results if status == 200]
    refused = [taken for status, taken in results if status == 429]
    share = 100 * len(accepted) / duration / peak
    goal_ms = goal(percentile(alone, 50), percentile(alone, 99))
    at_once_ms = percentile(alone, 50) / 10
    figures = {"peak": peak, "requests": len(results), "sequences": SEQUENCES, "seconds": duration, "answered": len(accepted),
               "rate": len(accepted) / duration, "share": share, "least_share": MIN_SHARE, "refused": len(refused),
               "refusal_ms": percentile(refused, 99), "refusal_goal_ms": at_once_ms, "median_ms": percentile(accepted, 50),
               "p99_ms": percentile(accepted, 99), "goal_ms": goal_ms, "idle_median_ms": percentile(alone, 50),
               "idle_p99_ms": percentile(alone, 99), "grown": grown, "queue_ms": QUEUE_MS}
    check(accepted, "no request was accepted")
    goals = {"too few answers": share >= MIN_SHARE, "no request was refused": refused,
             "the refused requests waited": percentile(refused, 99) <= at_once_ms,
             "the accepted requests waited too long": percentile(accepted, 99) <= goal_ms}
    missed = [text for text, met in goals.items() if not met]
    check(row.short or not missed, f"{', '.join(missed)}\n{figures}")
    return figures


def overload(row):
    """The queue holds two requests. The p99 may be at most twice the p99 without load, plus the time of one batch."""
    return twice_the_peak(row, row.size(5, 600), ("--max-queue-requests", str(2 * SEQUENCES), "--max-batch-requests", str(SEQUENCES)),
                          lambda _, slow_ms: 2 * slow_ms + BATCH_MS)


def overload_by_time(row):
    """The queue has its default size, and is bounded by --max-queue-ms. A request may wait for this time, and then need
    the p99 without load and the time of one batch. The daemon estimates the wait from the mean speed. So the goal
    multiplies the wait by the ratio of p99 and median."""
    return twice_the_peak(row, row.size(5, 30), ("--max-queue-ms", str(QUEUE_MS)),
                          lambda median_ms, slow_ms: QUEUE_MS * slow_ms / median_ms + slow_ms + BATCH_MS)
