"""The kernels of one run and their own times, as ncu measures them in a worker that runs the same a few times."""
import csv
import os
import re
import statistics
import subprocess

RUNS = 5  # after the one that prepares
SAME = 4  # of the last runs at least: the first ones are not a graph's yet


class NotMeasurable(Exception):
    """ncu may not count here; which says nothing of the engine."""


def kernel_times(text):
    """(name, microseconds) of each kernel, in order, from what ncu prints with --csv and --print-units base."""
    if '"ID"' not in text:
        return []
    rows = csv.DictReader(text[text.index('"ID"'):].splitlines())
    return [(row["Kernel Name"], float(row["Metric Value"].replace(",", "")) / 1e3) for row in rows
            if row["Metric Name"] == "gpu__time_duration.sum"]


def repetitions(names, period):
    """How often the last `period` names are there at the end, one time behind the other."""
    length = period
    while length < len(names) and names[-1 - length] == names[-1 - length + period]:
        length += 1
    return length // period


def period_of(names):
    """How many kernels a run has. The runs are alike, so names repeat at the end; a run's own layers repeat as well, so
    it is the longest period of those that are there SAME times: two runs together are not."""
    longest = next((period for period in range(len(names) // SAME, 0, -1) if repetitions(names, period) >= SAME), None)
    if longest is None:
        raise RuntimeError(f"the last {SAME} runs are not alike in the {len(names)} kernels that ncu saw")
    return longest


def one_run(kernels):
    """(how many, microseconds of all together) of one run: the median of the last ones."""
    period = period_of([name for name, _ in kernels])
    times = [us for _, us in kernels]
    sums = [sum(times[len(times) - (i + 1) * period:len(times) - i * period]) for i in range(SAME)]
    return period, statistics.median(sums)


def profile(ncu, command, line, path, environment, timeout):
    """Of a worker that prepares what `line` says, and runs it. `path` is where ncu may write."""
    arguments = [ncu, "--clock-control", "none", "--cache-control", "none", "--print-units", "base", "--csv",
                 "--metrics", "gpu__time_duration.sum", "--log-file", path, *command]
    path.unlink(missing_ok=True)  # what an earlier one wrote is no answer
    process = subprocess.run(arguments, input=line + "\n" + "run 0\n" * RUNS, capture_output=True, text=True,
                             timeout=timeout, env=os.environ | environment)
    said = "\n".join([path.read_text() if path.exists() else "", process.stdout, process.stderr])
    failed = re.search("^failed |The application returned an error", said, re.MULTILINE)
    if not failed and re.search("==ERROR==|ERR_NVGPUCTRPERM|LibraryNotLoaded|not supported on", said):
        raise NotMeasurable(f"ncu cannot count here: {said[-300:]}")
    if failed or process.returncode != 0:
        raise RuntimeError(f"ncu: status {process.returncode}: {said[-300:]}")
    return one_run(kernel_times(said))
