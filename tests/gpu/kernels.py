"""The number of kernels of a run, and the sum of their times. ncu measures them in a worker that repeats one batch a
few times."""
import csv
import os
import re
import statistics
import subprocess

RUNS = 5  # after the first run, which prepares the batch
SAME = 4  # least number of equal runs at the end. The first runs do not use a CUDA graph yet


class NotMeasurable(Exception):
    """This machine does not let ncu measure. The engine has not failed."""


def kernel_times(text):
    """[(name, microseconds)] of the kernels, in order. `text` is the output of ncu with --csv and --print-units
    base."""
    if '"ID"' not in text:
        return []
    rows = csv.DictReader(text[text.index('"ID"'):].splitlines())
    return [(row["Kernel Name"], float(row["Metric Value"].replace(",", "")) / 1e3) for row in rows
            if row["Metric Name"] == "gpu__time_duration.sum"]


def repetitions(names, period):
    """How many times the last `period` names are repeated at the end of the list, without gaps."""
    length = period
    while length < len(names) and names[-1 - length] == names[-1 - length + period]:
        length += 1
    return length // period


def period_of(names):
    """The number of kernels of a run. Equal runs repeat the names at the end of the list, and so do the layers within a
    run. So the run is the longest period that occurs SAME times. A period of two runs is longer, but the list has too
    few runs for SAME such periods."""
    longest = next((period for period in range(len(names) // SAME, 0, -1) if repetitions(names, period) >= SAME), None)
    if longest is None:
        raise RuntimeError(f"the last {SAME} runs are not alike in the {len(names)} kernels that ncu saw")
    return longest


def one_run(kernels):
    """(number of kernels of a run, sum of their microseconds). The sum is the median of the last SAME runs."""
    period = period_of([name for name, _ in kernels])
    times = [us for _, us in kernels]
    sums = [sum(times[len(times) - (i + 1) * period:len(times) - i * period]) for i in range(SAME)]
    return period, statistics.median(sums)


def profile(ncu, command, line, path, environment, timeout):
    """one_run() of a worker that prepares the batch of `line` and runs it. ncu writes its output to `path`."""
    arguments = [ncu, "--clock-control", "none", "--cache-control", "none", "--print-units", "base", "--csv",
                 "--metrics", "gpu__time_duration.sum", "--log-file", path, *command]
    path.unlink(missing_ok=True)  # so that the output of an earlier ncu is not read
    process = subprocess.run(arguments, input=line + "\n" + "run 0\n" * RUNS, capture_output=True, text=True,
                             timeout=timeout, env=os.environ | environment)
    said = "\n".join([path.read_text() if path.exists() else "", process.stdout, process.stderr])
    failed = re.search("^failed |The application returned an error", said, re.MULTILINE)
    if not failed and re.search("==ERROR==|ERR_NVGPUCTRPERM|LibraryNotLoaded|not supported on", said):
        raise NotMeasurable(f"ncu cannot measure here: {said[-300:]}")
    if failed or process.returncode != 0:
        raise RuntimeError(f"ncu: status {process.returncode}: {said[-300:]}")
    return one_run(kernel_times(said))
