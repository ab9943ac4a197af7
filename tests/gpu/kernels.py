"""Determines the number of kernels of a run, and the sum of their times. NVIDIA's profiler ncu measures them in a
worker process that repeats one batch a few times."""
import csv
import os
import re
import statistics
import subprocess

RUNS = 5  # number of runs after the first run, which prepares the batch
SAME = 4  # minimum number of equal runs at the end. The first runs do not use a CUDA graph yet


class NotMeasurable(Exception):
    """This machine does not let ncu measure. The engine has not failed."""


def kernel_times(text):
    """Returns [(name, microseconds)] of the kernels, in order. `text` is the output of ncu with --csv and --print-units
    base."""
    if '"ID"' not in text:
        return []
    rows = csv.DictReader(text[text.index('"ID"'):].splitlines())
    return [(row["Kernel Name"], float(row["Metric Value"].replace(",", "")) / 1e3) for row in rows
            if row["Metric Name"] == "gpu__time_duration.sum"]


def repetitions(names, period):
    """Returns how many times the last `period` names occur at the end of the list, without gaps."""
    length = period
    while length < len(names) and names[-1 - length] == names[-1 - length + period]:
        length += 1
    return length // period


def period_of(names):
    """Returns the number of kernels of a run. Equal runs repeat the names at the end of the list. The layers within a
    run also repeat names. Therefore the run is the longest period that occurs SAME times. A period of two runs would be
    longer, but the list contains too few runs for SAME such periods."""
    longest = next((period for period in range(len(names) // SAME, 0, -1) if repetitions(names, period) >= SAME), None)
    if longest is None:
        raise RuntimeError(f"the last {SAME} runs are not alike in the {len(names)} kernels that ncu saw")
    return longest


def one_run(kernels):
    """Returns (number of kernels of a run, sum of their microseconds). The sum is the median of the last SAME runs."""
    period = period_of([name for name, _ in kernels])
    times = [us for _, us in kernels]
    sums = [sum(times[len(times) - (i + 1) * period:len(times) - i * period]) for i in range(SAME)]
    return period, statistics.median(sums)


def profile(ncu, command, line, path, environment, timeout):
    """Returns one_run() for a worker that prepares and runs the batch of the command `line`. ncu writes to `path`."""
    arguments = [ncu, "--clock-control", "none", "--cache-control", "none", "--print-units", "base", "--csv",
                 "--metrics", "gpu__time_duration.sum", "--log-file", path, *command]
    path.unlink(missing_ok=True)  # prevents reading the output of an earlier ncu
    process = subprocess.run(arguments, input=line + "\n" + "run 0\n" * RUNS, capture_output=True, text=True,
                             timeout=timeout, env=os.environ | environment)
    said = "\n".join([path.read_text() if path.exists() else "", process.stdout, process.stderr])
    failed = re.search("^failed |The application returned an error", said, re.MULTILINE)
    if not failed and re.search("==ERROR==|ERR_NVGPUCTRPERM|LibraryNotLoaded|not supported on", said):
        raise NotMeasurable(f"ncu cannot measure here: {said[-300:]}")
    if failed or process.returncode != 0:
        raise RuntimeError(f"ncu: status {process.returncode}: {said[-300:]}")
    return one_run(kernel_times(said))
