#!/usr/bin/env python3
"""Writes the table of docs/reliability.md. The rows of reliability.py report figures, which results.json keeps. The
texts around the figures are in this file.

    page.py         writes the table from results.json. A run does this itself, so this is only needed if a text changed
    page.py check   fails if the table of the page is not that of results.json. Also fails if results.json or this file
                    has a row that reliability.py lacks, or if one of them lacks a row of reliability.py

The environment variables RESULTS and PAGE name other files."""

import datetime
import json
import os
import platform
import re
import string
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(FOLDER))
RESULTS = os.path.join(FOLDER, "results.json")
PAGE = os.path.join(TREE, "docs", "reliability.md")
BEGIN, END = "<!-- begin rows -->\n", "<!-- end rows -->\n"

# For each row: what was tried, how often, and what was lost. The row's figures replace the braces.
OVERLOAD = ("{refused} requests, which were refused with 429 at once. The other {answered} were answered, with a median of "
            "{median_ms:.0f} ms ({idle_median_ms:.0f} ms without load). The goals are explained below. Answers in a second: "
            "{rate:.1f}, which is {share:.0f} % of the peak (goal: at least {least_share} %). p99 of a refusal: "
            "{refusal_ms:.1f} ms (goal: at most {refusal_goal_ms:.0f} ms). p99 of an answer: {p99_ms:.0f} ms (goal: at most "
            "{goal_ms:.0f} ms; {idle_p99_ms:.0f} ms without load). Resident memory grew by {grown:.2f} %. Threads and "
            "descriptors did not grow. Every count in `/metrics` equals the count of the clients")
TEXTS = {
    "mixed_traffic": (
        "Mixed traffic: valid and invalid requests, {clients} clients at a time, over all {routes} routes of the OpenAPI "
        "document",
        "{requests} requests, of which {refused} were refused. This is an hour's worth at {hourly} requests/s",
        "Nothing. From the first {share} % of the requests to the end, resident memory grew by {grown:.2f} %. Threads and "
        "descriptors did not grow. Every count in `/metrics` equals the count of the clients"),
    "slow_clients": (
        "Slow clients: half send headers and half send bodies, byte by byte",
        "{clients} clients at a time",
        "Nothing. All were answered. So were {between} requests that other clients sent meanwhile"),
    "idle_connections": (
        "Idle connections",
        "{connections} at a time, {each_kib:.1f} KiB each",
        "Nothing. Then each connection sent a request, and all were answered"),
    "vanishing_clients": (
        "Clients that vanish at a random byte, with an orderly end or a reset",
        "{clients} clients",
        "Nothing. {compared} requests of another client, sent in between, were answered. No descriptor, thread or place in the "
        "queue was lost"),
    "slots": (
        "Slots for [generation](generation.md): clients read, send invalid requests, close the sending half, or break off, "
        "also while they wait for a slot ([test_slots_kept.c](../tests/http/test_slots_kept.c))",
        "{requests} requests (`VISITS={visits}`): {read} answers were read, {invalid} requests were invalid, {half_closed} "
        "clients closed their sending half, and {broke_off} broke off. Of the answers, {overloaded} were 429, "
        "because the queue was full",
        "Nothing. No slot was lost, and none of {embedded} answers of `/embed` was wrong"),
    "bodies_at_the_limit": (
        "Bodies at the limit of {limit_mib} MiB, one byte above, and gzip bombs of {bomb_mb:.1f} MB that unpack to "
        "{unpacked_mib} MiB",
        "{rounds} times 6 bodies",
        "Nothing. What is too large is refused with 413. From the first round to the last, resident memory grew by {grown_kib} "
        "KiB"),
    "requests_in_one_piece": (
        "Sequences of 1 to 8 requests on one connection, cut at random bytes",
        "{requests} requests in {sequences} sequences",
        "Nothing. All were answered, in order"),
    "smuggled_requests": (
        "Requests with an ambiguous end, followed by a second request",
        "{requests} requests of {shapes} shapes",
        "Nothing. All were refused, and no second request was answered"),
    "few_descriptors": (
        "Descriptors run out: the limit of the running daemon leaves 20 for clients",
        "{rounds} times {clients} clients at a time",
        "Nothing, but time. When {idle} idle clients have connected, no descriptor is left. A new client then waits until "
        "[`--connection-timeout-s`](configuration.md#network) closes an idle connection. Open connections are answered meanwhile"),
    "little_memory": (
        "Memory runs out: the address space of the running daemon has 0 to 16 MiB of room, and requests of up to 16 MiB arrive",
        "{rounds} times {each} requests",
        "Some answers, with a status other than 200 and 422. The status 422 is right for too many or too long inputs. Answers "
        "by status: {statuses}. With memory again, all answers were as before"),
    "no_threads": (
        "Threads run out: the running daemon may not create a thread",
        "{rounds} times two requests, a reload, an unload and a load. {starts} starts with 2 to {most} threads allowed",
        "No request and no change of models: the daemon creates no thread for them, and the same {threads} threads ran at the "
        "end. {spans} spans were lost, because libcurl needs a thread to find the address of a collector. The log and "
        "`/metrics` said so. {refused} of the starts were refused with a message, and {served} served"),
    "full_log": (
        "A full disk under the log: `/dev/full`, and a file at its largest size",
        "{requests} requests with a line each",
        "No answer. All {lost} lines of the log were lost. `/metrics` counts each lost line"),
    "small_disk": (
        "A full disk under the log: a file system of 64 KiB",
        "{requests} requests with a line each",
        "No answer. {lost} lines of the log were lost. `/metrics` counts each lost line. The other {kept} lines are in the file"),
    "blocked_log": (
        "A blocked pipe under the log, of 4096 bytes",
        "{requests} requests with a line each",
        "No answer. {lost} lines of the log were lost. `/metrics` counts each lost line. The other {kept} lines were in the pipe "
        "when it was read"),
    "damaged_models": (
        "The weights are truncated, or their header is damaged, in place or by a new file. Then SIGHUP arrives",
        "{files} files",
        "Nothing. Each file was refused, and the old model answered before and after. Then the whole file was loaded"),
    "jumping_clock": (
        "The clock jumps by 1 s to 10 years, forwards and backwards (with libfaketime)",
        "{jumps} jumps",
        "Nothing, also on a connection that stayed open"),
    "failing_allocations": (
        "Every n-th allocation fails, for each n, in programs of their own ([tests/unit/\\*_alloc.c](../tests/unit))",
        "{failures} failures in {operations} operations: parsing, running and answering requests (also for generation and its "
        "streams), starting the batcher, the parsers of settings, models, pictures and tokenizers, and loading a model",
        "Nothing. Each failure was reported, and no memory was lost. Not included are allocations inside of libraries"),
    "failing_allocations_served": (
        "Every n-th allocation fails, for each n, in connections, requests and answers of a running daemon, with TLS and "
        "without. These are calls of the daemon, libmicrohttpd, "
        "jansson, zlib and the C library",
        "{failures} failures in {kinds} kinds of requests. One kind sends two requests. Answers by status: {statuses}",
        "Answers with a status other than 200 and 404, and closed connections. One kind of request is answered with 404. "
        "Every other answer was right. After each failure, the next client was answered. No memory was lost. Calls of GnuTLS "
        "are left out: GnuTLS ends the process if GMP, its library for large integers, gets no memory"),
    "failing_allocations_reloaded": (
        "Every n-th allocation fails, for each n, while a running daemon reloads settings, keys, a certificate and a model. The "
        "failing calls are those of the row above",
        "{failures} failures. After {refused} of them, a part of the reload kept its old state",
        "Nothing. Each part was the old one or the new one, and the daemon answered. The next reload succeeded. No memory was "
        "lost. If memory for oneDNN's copy of the weights was missing, OpenBLAS computed instead of oneDNN"),
    "restarts": (
        "Restarts behind {proxies}: daemons are killed, drained, restarted, reloaded and stopped under load "
        "([deployment](deployment.md))",
        "{events} such events, and {answers} answers",
        "Nothing. No answer failed, and none differed from that of a single daemon. HAProxy sent {sent_again} requests again. "
        "nginx does not count this"),
    "overload": (
        "More load than the daemon can answer: twice its peak of {peak:.1f} requests/s, with a queue for two requests",
        "{requests} requests of {sequences} sequences in {seconds:.0f} s",
        OVERLOAD),
    "overload_by_time": (
        "More load than the daemon can answer: twice its peak of {peak:.1f} requests/s, with the default queue and "
        "`--max-queue-ms {queue_ms}`",
        "{requests} requests of {sequences} sequences in {seconds:.0f} s",
        OVERLOAD),
    "damaged_inputs": (
        "Damaged inputs under the address sanitizer: 1 to 8 changes in a good input. A good input is a body, a folder's "
        "`config.json`, a graph of a module, a picture, a list of numbers, a file of `torch.save`, a tokenizer, or a "
        "safetensors file",
        "{inputs} for each of {parsers} parsers: {names}",
        "Nothing. Each result and each failure was valid, and all memory was given back"),
    "damaged_folders": (
        "Damaged model folders under the address sanitizer: changes in `config.json`, `model.safetensors` and "
        "`tokenizer.json`, or one of them is missing",
        "{folders} copies of {models} models",
        "Nothing. {refused} were refused with a message. The others were loaded, and computed a batch"),
}


class Formatter(string.Formatter):
    """Writes integers from 10 000 on in groups of three digits."""

    def format_field(self, value, format_spec):
        if isinstance(value, int) and not format_spec and value >= 10000:
            return f"{value:,}".replace(",", " ")
        return super().format_field(value, format_spec)


def in_words(statuses):
    """Converts "closed: 2, 200: 30" to "2 closed connections, 30 with 200"."""
    return re.sub(r"(\d+): (\d+)", r"\2 with \1", re.sub(r"closed: (\d+)", r"\1 closed connections", statuses))


def cells(name, figures):
    """The cells of a row: what was tried, how often, and what was lost."""
    if "statuses" in figures:
        figures = figures | {"statuses": in_words(figures["statuses"])}
    tried, often, lost = (Formatter().vformat(text, (), figures) for text in TEXTS[name])
    return f"{tried} (`{name}`)", often, lost


def report(name, figures):
    """The cells of a row, as text for a log."""
    return ". ".join(cells(name, figures))


# ---- Runs

def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=TREE).stdout.strip()


def commit():
    """The commit, with a note if files differ from it. Files that a run writes do not count."""
    own = [":!" + os.path.relpath(path, TREE) for path in (RESULTS, PAGE)]
    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", *own)
        return git("rev-parse", "--short=8", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine():
    with open("/proc/cpuinfo") as file:
        found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.M)
    return f"{len(os.sched_getaffinity(0))} processors ({found.group(1) if found else platform.machine()})"


def new_run(seed, scale):
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"began": f"{now:%Y-%m-%d %H:%M:%S}", "commit": commit(), "machine": machine(), "seed": str(seed), "scale": scale}


def read_results(path):
    if not os.path.exists(path):
        return {"runs": [], "rows": {}}
    with open(path) as file:
        return json.load(file)


def keep(path, run, name, seconds, figures):
    """Replaces the earlier result of the row. Removes runs that no row refers to."""
    results = read_results(path)
    figures = {key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()}
    results["rows"][name] = {"began": run["began"], "seconds": round(seconds), "figures": figures}
    runs = {one["began"]: one for one in [*results["runs"], run]}
    used = {row["began"] for row in results["rows"].values()}
    results["runs"] = [runs[began] for began in sorted(used)]
    with open(path + ".new", "w") as file:
        json.dump(results, file, indent=1, sort_keys=True)
        file.write("\n")
    os.rename(path + ".new", path)


# ---- The page

def table(results):
    """The table of the rows, each with the number of its run, followed by the table of the runs."""
    numbers = {run["began"]: i for i, run in enumerate(results["runs"], 1)}
    lines = ["| tried | how often | lost | run |", "|---|---|---|---|"]
    for name in TEXTS:
        row = results["rows"].get(name)
        if row:
            lines.append(f"| {' | '.join(cells(name, row['figures']))} | {numbers[row['began']]} |")
    lines += ["", "| run | began (UTC) | commit | machine | rows | minutes | repeated with |", "|---|---|---|---|---|---|---|"]
    for run in results["runs"]:
        rows = [row for row in results["rows"].values() if row["began"] == run["began"]]
        minutes = f"{sum(row['seconds'] for row in rows) / 60:.1f}" if any(row["seconds"] for row in rows) else "not recorded"
        scale = "" if run["scale"] == 1 else f" SCALE={run['scale']:g}"
        lines.append(f"| {numbers[run['began']]} | {run['began']} | {run['commit']} | {run['machine']} | {len(rows)} | "
                     f"{minutes} | `SEED={run['seed']}{scale}` |")
    return "\n".join(lines) + "\n"


def parts_of(page):
    """The text before the table, the table, and the text after it."""
    with open(page) as file:
        before, begin, rest = file.read().partition(BEGIN)
    written, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{page}: the markers {BEGIN.strip()} and {END.strip()} were expected")
    return before, written, after


def write(results_path, page):
    before, _, after = parts_of(page)
    with open(page, "w") as file:
        file.write(before + BEGIN + table(read_results(results_path)) + END + after)


def faults(results_path, page, names):
    """The faults of the page and of the results. names: the names of the rows of reliability.py."""
    results = read_results(results_path)
    found = [f"{page}: there is a row {name}, and no run has such a row" for name in results["rows"] if name not in names]
    found += [f"{results_path}: there is no row {name}. 'make reliability ARGS={name}' runs it" for name in names
              if name not in results["rows"]]
    found += [f"page.py: there is no text for the row {name}" for name in names if name not in TEXTS]
    found += [f"page.py: there is a text for {name}, and no run has such a row" for name in TEXTS if name not in names]
    if not found and parts_of(page)[1] != table(results):
        found.append(f"{page}: the table is not the one of {results_path}. 'make reliability' or page.py writes it")
    return found


def main():
    sys.dont_write_bytecode = True
    import reliability  # pylint: disable=import-outside-toplevel # reliability imports this file
    results, page = os.environ.get("RESULTS") or RESULTS, os.environ.get("PAGE") or PAGE
    if sys.argv[1:] == ["check"]:
        found = faults(results, page, [run.__name__ for run in reliability.ROWS])
        print("\n".join(found))
        sys.exit(bool(found))
    if sys.argv[1:]:
        sys.exit(__doc__)
    write(results, page)


if __name__ == "__main__":
    main()
