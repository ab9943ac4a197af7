#!/usr/bin/env python3
"""Tests how bench.py and goals.py evaluate figures: kernels of one run, goals, exit statuses and tables. Needs no
device and no PyTorch. Prints TAP."""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True

import bench
import goals
import kernels
import measure
import tables
from goals import BATCHES, MODELS, PAPER


def the_times_of_ncu_are_read():
    found = kernels.kernel_times("""==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","a, b(int)","gpu__time_duration.sum","ns","2,304"
"1","7","c","gpu__time_duration.sum","ns","896"
""")
    return found == [("a, b(int)", 2.304), ("c", 0.896)] and kernels.kernel_times("nothing") == []


RUN = ["embed", *["norm", "product", "attend", "product"] * 12, "pool"]


def the_number_of_kernels_in_a_repeated_run_is_found():
    """period_of() finds the period for several numbers of equal runs, and after other kernels. It also finds the period
    if a run ends with its layers, and if a run is a single kernel."""
    cases = [(["load"] * 7 + RUN * 6, len(RUN)), (["x", *RUN[:9], "y"] + RUN * 4, len(RUN)), (RUN * 7, len(RUN)),
             (RUN[:-1] * 6, len(RUN) - 1), (["a", "b"] * 6, 2), (["a"] * 6, 1)]
    return [kernels.period_of(names) for names, _ in cases] == [period for _, period in cases]


def kernels_without_equal_runs_at_the_end_are_refused():
    """period_of() raises RuntimeError if the list does not end with SAME equal runs."""
    for names in (list("abcdefgh"), RUN * 3, RUN * 4 + ["tail"], []):
        try:
            kernels.period_of(names)
            return False
        except RuntimeError:
            pass
    return True


def the_time_of_a_run_is_the_median_of_the_last_runs():
    """one_run() returns the median of the last runs. One of these runs is slow. The first run does not count."""
    first, usual, slow = ([("a", a), ("b", b)] for a, b in ((100.0, 100.0), (1.0, 2.0), (9.0, 9.0)))
    return kernels.one_run(first + usual * 2 + slow + usual * 2) == (2, 3.0)


def ncu_that_says(folder, text, status):
    """Returns the path of a program that replaces ncu. The program prints `text` and exits with `status`."""
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\necho '{text}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def times_are_not_measurable_if_ncu_lacks_rights(folder):
    """profile() raises NotMeasurable if ncu is not allowed to measure, and RuntimeError if the worker fails."""
    found = []
    for text, status in (("ERR_NVGPUCTRPERM", 1), ("==ERROR== A driver resource was unavailable.", 9),
                         ("failed no model", 0), ("anything", 3),
                         ("==ERROR== The application returned an error code (11).", 11)):
        try:
            kernels.profile(ncu_that_says(folder, text, status), ["worker"], "pooled", folder / "log", {}, 60)
        except (kernels.NotMeasurable, RuntimeError) as error:
            found.append(type(error))
    return found == [kernels.NotMeasurable] * 2 + [RuntimeError] * 3


def all_measured(ours=1.0):
    """Returns results in which the engine takes `ours` milliseconds. With one millisecond, each goal is just met."""
    rows = [{"part": "rates", "dtype": "bf16", "tflops": 1.0}]
    for model in MODELS:
        rows.append({"part": "flops", "model": model, "flops": 0.58e9 / 32})
        for batch in BATCHES:
            rows.append({"part": "compare", "model": model, "batch": batch, "compiled": False, "errors": {},
                         "times": {"linformerd bf16": [ours], "eager bf16": [2.6], "linformerd f32": [ours],
                                   "eager f32": [1.75]}})
            rows.append({"part": "compare", "model": model, "batch": batch, "compiled": True, "errors": {},
                         "times": {"linformerd bf16": [ours], "compile bf16": [1.06], "fused-compile bf16": [1.04]}})
        rows += [{"part": "short", "model": model, "dtype": dtype, "length": 128, "ms": [ours], "kernels": 3,
                  "kernels_us": 501.0} for dtype in ("bf16", "f32")]
        rows.append({"part": "mixed", "model": model, "tokens": 1, "items": 1, "full": [0.86], "mixed": [ours]})
    for n, paper in PAPER.items():
        of = [(None, "fused"), (None, "linformerd"), *((128 << i, "linformerd") for i in range(len(paper)))]
        rows += [{"part": "table3", "n": n, "k": k, "worker": worker, "ms": 1.0} for k, worker in of]
    return {"measured": rows, "dry": False, "failures": [], "not_measured": [], "began": "", "commit": "",
            "versions": []}


def verdicts(results):
    return [row[-1] for row in goals.judged(results)]


def goals_are_judged_as_met_missed_or_not_measured():
    """The results of all_measured() meet all goals, and empty results measure none. An engine that takes a tenth longer
    misses all goals except the last goal, which counts figures."""
    missed = verdicts(all_measured(1.1))
    return set(verdicts(all_measured())) == {"met"} and set(verdicts({"measured": []})) == {"not measured"} \
        and missed[-1] == "met" and set(missed[:-1]) == {"NOT MET"}


def the_engine_is_compared_with_the_fastest_peer():
    """fastest() uses the fastest peer. Without a time of fused-compile, it returns NaN."""
    results = all_measured()
    for row in results["measured"]:
        if row.get("compiled"):
            row["times"]["compile bf16"] = [1.02]
    faster = goals.fastest(results, "full", 8)
    for row in results["measured"]:
        if row.get("compiled"):
            del row["times"]["fused-compile bf16"]
    return abs(faster - 1.02) < 1e-9 and goals.fastest(results, "full", 8) != goals.fastest(results, "full", 8)


def run_goals(folder, *results):
    """Runs goals.py on a file for each of the results. Returns (exit status, verdicts)."""
    paths = []
    for number, result in enumerate(results):
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(json.dumps(result))
    done = subprocess.run([sys.executable, FOLDER / "goals.py", "--tabs", *paths], capture_output=True, text=True)
    return done.returncode, [line.split("\t")[-1] for line in done.stdout.splitlines()]


def the_exit_status_of_goals_py_is_1_if_a_goal_is_missed(folder):
    """goals.py exits with 0 if nothing was measured. A dry run neither meets nor misses a goal. Figures of several
    files are joined."""
    good, slow = all_measured(), all_measured(1.1)
    parts = [good | {"measured": [row for row in good["measured"] if (row["part"] == "mixed") == mixed]}
             for mixed in (True, False)]
    return (run_goals(folder, good)[0], run_goals(folder, slow)[0], run_goals(folder)[0]) == (0, 1, 0) \
        and set(run_goals(folder, slow | {"dry": True})[1]) == {"not measured"} \
        and "not measured" in run_goals(folder, parts[0])[1] and set(run_goals(folder, *parts)[1]) == {"met"}


def options(folder, dry=False, seconds=100):
    return argparse.Namespace(dry=dry, seconds=seconds, programs=folder, log=folder, batches=None, command="bench.py")


def failures_come_before_missed_goals_in_the_exit_status(folder):
    """Tests the exit status of bench.py. Failures take precedence over missed goals, and missed goals over missing
    measurements. A dry run misses no goal."""
    found = []
    for measured, failures, missing in (([], [], []), ([], [], ["x"]), (all_measured(1.1)["measured"], [], ["x"]),
                                        (all_measured(1.1)["measured"], ["x"], ["x"])):
        one = bench.Bench(options(folder))
        one.results["measured"] += measured
        one.failures += failures
        one.not_measured += missing
        found.append(one.status())
    one = bench.Bench(options(folder, dry=True))
    one.results["measured"] += all_measured(1.1)["measured"]
    return [*found, one.status()] == [0, 3, 4, 1, 0]


def parts_without_time_are_listed_as_not_measured(folder):
    """Without time, each measurement of the parts rates, short and mixed is noted as not measured."""
    one = bench.Bench(options(folder, seconds=0))
    for part in ("rates", "short", "mixed"):
        one.options.models, one.options.dtypes = list(MODELS), ["bf16"]
        bench.measure_part(one, part)
    return len(one.not_measured) == 5 and one.status() == 3 and all("no time" in line for line in one.not_measured)


def earlier_results_are_kept_after_a_signal(folder):
    """After a signal, bench.json contains the figures so far, and mentions the signal."""
    program = f"""
import argparse, pathlib, signal, sys
sys.path.insert(0, {str(FOLDER)!r})
import bench
folder = pathlib.Path({str(folder)!r})
one = bench.Bench(argparse.Namespace(dry=True, seconds=100, programs=folder, log=folder, batches=None, command=""))
signal.signal(signal.SIGTERM, one.stop)
one.add("rates", dtype="f32", tflops=1.0)
print("measured", flush=True)
signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    results = json.loads((folder / "bench.json").read_text())
    return process.returncode == 3 and len(results["measured"]) == 1 and "signal" in results["not_measured"][0]


def bench_md_has_tables_of_all_figures():
    """bench.md has tables with the measured figures, the paper's figures and the goals. It also lists what was not
    measured."""
    results = all_measured() | {"not_measured": ["no ncu"]}
    for row in results["measured"]:
        if row["part"] == "compare":
            row["errors"] = {worker: 1e-3 for worker in row["times"]}
    text = tables.markdown(results, measure.CHIP, "bench.py")
    return all(part in text for part in ("| (b) full heads | 32 | fused-compile bf16 | 1.04", "1.0 / 1.0 / 7.9 |",
                                         "| 0.58 |", "2.00×", "| 0.86 |", ">= 1.7 | met |", "- no ncu"))


def main():
    failed = 0
    tests = [the_times_of_ncu_are_read, the_number_of_kernels_in_a_repeated_run_is_found,
             kernels_without_equal_runs_at_the_end_are_refused, the_time_of_a_run_is_the_median_of_the_last_runs,
             times_are_not_measurable_if_ncu_lacks_rights, goals_are_judged_as_met_missed_or_not_measured,
             the_engine_is_compared_with_the_fastest_peer, the_exit_status_of_goals_py_is_1_if_a_goal_is_missed,
             failures_come_before_missed_goals_in_the_exit_status, parts_without_time_are_listed_as_not_measured,
             earlier_results_are_kept_after_a_signal, bench_md_has_tables_of_all_figures]
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory() as name:
            try:
                good = test(*[pathlib.Path(name)] * test.__code__.co_argcount)
            except Exception as error:
                good = print(f"# {type(error).__name__}: {error}")
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {test.__name__.replace('_', ' ')}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
