"""Row about overload. It reports rates and times, and judges only the answers."""

import collections
import threading
import time

from daemon import Client, Daemon, check, request, until
from traffic import requests_by_route

SEQUENCES = 32
BATCH_MS = 50  # --max-batch-ms
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
    except Exception as failure:  # pylint: disable=broad-except; the row fails with it
        failures.append(failure)


def percentile(times, percent):
    ordered = sorted(times)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0


def at_rate(daemon, rate, seconds, embedding):
    """Sends requests at a constant rate, whether or not answers come. Returns status and time of each, and the duration."""
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


def in_turn(daemon, clients, seconds, embedding):
    """Each client sends its next request when it has its answer."""
    results, failures = [], []
    end = time.monotonic() + seconds

    def run():
        while time.monotonic() < end and not failures:
            ask(daemon, results, embedding, failures)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def state_of(daemon):
    """Resident memory, threads, descriptors, and answers of /embed by status. No other client is connected."""
    until(lambda: daemon.metrics()["linformerd_connections"] == 1, "the connections are closed")
    answers = {status: count for (route, status), count in requests_by_route(daemon).items() if route == "/embed"}
    return daemon.resident_kib(), daemon.threads(), daemon.descriptors(), collections.Counter(answers)


def compare_states(before, daemon, counts):
    """Threads, descriptors and counts must be right. Returns by how many percent resident memory has grown."""
    after = state_of(daemon)
    check(after[1] == before[1], f"{after[1]} threads in place of {before[1]}")
    until(lambda: daemon.descriptors() <= before[2], "the descriptors are free")
    check(after[3] - before[3] == counts, f"/metrics counts {after[3] - before[3]}, and the clients {counts}")
    return 100 * (after[0] - before[0]) / before[0]


def overload(row):
    """Twice the rate that the daemon can answer, with a queue for two requests."""
    seconds = row.size(5, 600)
    with Daemon("--max-queue-requests", str(2 * SEQUENCES), "--max-batch-requests", str(SEQUENCES)) as daemon:
        with Client(daemon) as client:
            client.send(BODY)
            embedding = client.answer().body
        alone = in_turn(daemon, 1, min(seconds, 20), embedding)
        started = time.monotonic()
        saturated = in_turn(daemon, 2, min(seconds, 20), embedding)
        peak = sum(status == 200 for status, _ in saturated) / (time.monotonic() - started)
        before = state_of(daemon)
        results, duration = at_rate(daemon, 2 * peak, seconds, embedding)
        grown = compare_states(before, daemon, collections.Counter(status for status, _ in results))
        accepted = [taken for status, taken in results if status == 200]
        refused = [taken for status, taken in results if status == 429]
        check(len(accepted) > 0, "no request was accepted")
        daemon.is_well()
        alone_ms = [percentile([taken for _, taken in alone], percent) for percent in (50, 99)]
        goal_ms = 2 * alone_ms[1] + BATCH_MS
        return f"{len(results)} requests of {SEQUENCES} sequences in {duration:.0f} s, twice the peak of {peak:.1f} requests/s. " \
               f"{len(accepted)} were answered ({len(accepted) / duration:.1f} requests/s, {100 * len(accepted) / duration / peak:.0f} % of the peak). " \
               f"{len(refused)} were refused with 429, p99 {percentile(refused, 99):.1f} ms. The accepted ones took {percentile(accepted, 50):.0f} ms " \
               f"(median) and {percentile(accepted, 99):.0f} ms (p99). Without load it was {alone_ms[0]:.0f} and {alone_ms[1]:.0f} ms. The goal, " \
               f"a p99 of twice the latter plus a batch of {BATCH_MS} ms, is {goal_ms:.0f} ms. Resident memory grew by {grown:.2f} %, threads and descriptors did not grow. The " \
               f"counts of /metrics equal those of the clients"
