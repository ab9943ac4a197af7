#!/usr/bin/env python3
"""Compares random models of the five libraries with the daemon: same arguments, weights and inputs.

If the library runs a call, the daemon must answer with a relative L2 error of at most 1e-5. If the library's
constructor or forward() raises an error, the daemon must refuse the model or the request. README.md lists the
exceptions. Both messages are written to a record, so that a person can judge whether the daemon's message is equally
clear. If the constructor refuses arguments, the daemon's message must name one of the arguments that were spoiled.

The last line is `N agreed, M refused alike, K failed`. The numbers count models, each with all of its calls. The exit
status is 1 if K > 0."""

import argparse
import collections
import contextlib
import datetime
import importlib
import importlib.metadata
import json
import pathlib
import random
import shutil
import sys
import tempfile
import warnings

import numpy as np

from daemon import Daemon, Refused, load_refusal

# NAME_cases.py contains the cases of the library NAME. Some libraries are a file of a repository, and not on PyPI. For
# these, the three strings are the environment variable with the file's path, the repository on GitHub, and the path in
# the repository.
LIBRARIES = {
    "linformer": None,
    "linear_attention_transformer": None,
    "linformer_pytorch": None,
    "linear_multihead_attention": ("KUIXU_PY", "kuixu/Linear-Multihead-Attention", "linear_multihead_attention.py"),
    "keras": ("KERAS_PY", "dholland42/linformer", "linformer/attention.py"),
}
PACKAGES = ["torch", "linformer", "linear-attention-transformer", "local-attention", "product-key-memory",
            "axial-positional-embedding", "linformer-pytorch", "tensorflow-cpu", "tf_keras"]
TOLERANCE = 1e-5
GROUP = 25  # number of models that one daemon serves


class Trial:
    """A case, the results of the library and of the daemon, and the verdict."""

    def __init__(self, number, case):
        self.number, self.case = number, case
        self.name = f"m{number}"
        self.construction = None  # the library's error if its constructor raises one
        self.expected = []  # the outputs of each call, or the library's error
        self.export = None  # the error of weights/export.py if it does not save the model
        self.load = None  # the daemon's message if it does not load the model
        self.model = None
        self.failures, self.deviations, self.refusals, self.notes = [], [], [], []
        self.worst, self.calls_agreed = 0.0, 0

    def verdict(self):
        if self.failures:
            return "FAILED"
        return "agreed" if self.calls_agreed else "deviates" if self.deviations else "refused"

    def refused(self, what, library, daemon):
        self.refusals.append((what, f"{type(library).__name__}: {library}", daemon))

    def unlike(self, what, call, message):
        """Counts a call that the library runs and the daemon refuses."""
        reason = self.case.deviation(call)
        if reason:
            self.deviations.append(reason)
        else:
            self.failures.append(f"{what}: the library runs it, the daemon says: {message}")

    def lenient(self, what, call, raised):
        """Counts a call that the library refuses and the daemon answers."""
        reason = self.case.leniency(call)
        if reason:
            self.deviations.append(reason)
        else:
            self.failures.append(f"{what}: the library refuses it, the daemon answers: {raised!r}")


def ask_library(trial, folder):
    """Makes, calls and saves the library's model."""
    case = trial.case
    try:
        model = case.make(case.kwargs)
    except Exception as raised:
        trial.construction = raised
        case.save_unchecked(case.make(case.sound), folder)
        return
    trial.model = model
    for call in case.calls:
        try:
            trial.expected.append(case.call(model, call))
        except Exception as raised:
            trial.expected.append(raised)
    try:
        case.save(model, folder)
    except Exception as raised:
        trial.export = raised
        if not isinstance(raised, ValueError):
            trial.failures.append(f"export() raised {raised!r}")
        case.save_unchecked(model, folder)


def judge_export(trial):
    """Judges export(), which must refuse each model that the daemon refuses. It may also refuse a model if the library
    runs none of the model's calls."""
    if trial.export is None and trial.load is not None:
        if not any(trial.case.deviation(call) for call in trial.case.calls):
            trial.failures.append(f"export() saves it, the daemon says: {trial.load}")
    elif trial.export is None:
        return
    elif trial.load is None and not all(isinstance(expected, Exception) for expected in trial.expected):
        trial.failures.append(f"the library runs it and the daemon loads it, export() refuses it: {trial.export}")
    else:
        trial.refused("export", trial.export, trial.load or "loads the model, of which the library runs no call")


def judge_load(trial):
    """Judges whether the daemon had to load the folder, or to refuse it. Returns whether there are calls to compare."""
    if trial.construction is not None:
        if trial.load is None:
            trial.failures.append(f"the library refuses the arguments, the daemon loads them: {trial.construction!r}")
            return False
        trial.refused("arguments", trial.construction, trial.load)
        if not any(trial.case.names(name, trial.load) for name in trial.case.spoiled):
            trial.failures.append(f"the daemon names none of {', '.join(trial.case.spoiled)}: {trial.load}")
        return False
    judge_export(trial)
    if trial.load is None:
        return True
    for call, expected in zip(trial.case.calls, trial.expected):
        if isinstance(expected, Exception):
            trial.refused(call.describe(), expected, trial.load)
        else:
            trial.unlike(f"load ({call.describe()})", call, trial.load)
    return False


def relative_error(found, expected):
    if found.shape != expected.shape or not np.isfinite(found).all():
        return np.inf
    norm = np.linalg.norm(expected.astype(np.float64))
    return np.linalg.norm(found.astype(np.float64) - expected) / (norm if norm > 0 else 1.0)


def largest_error(found, expected):
    """Returns the largest error of the outputs, or infinity if a shape differs."""
    return max(relative_error(found[name], value) for name, value in expected.items())


def compare(trial, call, found, expected):
    error = largest_error(found, expected)
    if error > TOLERANCE:
        variants = (largest_error(found, variant) for variant in trial.case.variants(trial.model, call))
        other = next((e for e in variants if e <= TOLERANCE), None)
        if other is not None:
            trial.notes.append(f"{call.describe()}: relative error {error:.2e}; {other:.2e} after a rounding error")
            error = other
    if error <= TOLERANCE:
        trial.worst = max(trial.worst, error)
        trial.calls_agreed += 1
        return
    for name, value in expected.items():
        trial.failures.append(f"{call.describe()}: {name}: relative error {relative_error(found[name], value):.2e}, "
                              f"shape {list(found[name].shape)}, expected {list(value.shape)}")


def ask_daemon(trial, daemon):
    all_outputs = daemon.outputs(trial.name)
    for call, expected in zip(trial.case.calls, trial.expected):
        what = call.describe()
        wanted = all_outputs if call.attentions else all_outputs[:1]
        finite = isinstance(expected, Exception) or all(np.isfinite(value).all() for value in expected.values())
        try:
            found = daemon.infer(trial.name, call.inputs, wanted)
        except Refused as refusal:
            if isinstance(expected, Exception):
                if refusal.status < 500:
                    trial.refused(what, expected, str(refusal))
                else:
                    trial.lenient(what, call, expected)
            elif not finite and refusal.status == 500:
                trial.refused(what, ArithmeticError("the result is not finite"), str(refusal))
            else:
                trial.unlike(what, call, f"{refusal.status} {refusal}")
            continue
        if isinstance(expected, Exception):
            trial.lenient(what, call, expected)
        elif not finite:
            trial.failures.append(f"{what}: the library's result is not finite, the daemon answers")
        elif set(found) != set(expected):
            trial.failures.append(f"{what}: outputs {sorted(found)}, expected {sorted(expected)}")
        else:
            compare(trial, call, found, expected)


def run_group(trials, binary, keep):
    """Runs some trials. One daemon serves all models that load. The folders of models that failed are kept."""
    with tempfile.TemporaryDirectory() as folder:
        served = []
        for trial in trials:
            place = pathlib.Path(folder, trial.name)
            place.mkdir()
            ask_library(trial, place)
            try:
                trial.load = load_refusal(binary, str(place))
            except RuntimeError as died:
                trial.failures.append(str(died))
            if not trial.failures and judge_load(trial):
                served.append(trial)
            elif not trial.failures:
                shutil.rmtree(place)
            else:
                shutil.move(place, keep / trial.name)
        with Daemon(binary, folder) if served else contextlib.nullcontext() as daemon:
            for trial in served:
                ask_daemon(trial, daemon)
        for trial in served:
            if trial.failures:
                shutil.move(pathlib.Path(folder, trial.name), keep / trial.name)


# ---- Reports


def describe(trial):
    case = trial.case
    settings = f" {json.dumps(case.settings)}" if case.settings else ""
    return f"{trial.number} {case.architecture} {json.dumps(case.kwargs)}{settings}"


def write_trial(trial, record):
    record.write(f"\n{trial.verdict()} {describe(trial)}\n")
    if trial.calls_agreed:
        record.write(f"    {trial.calls_agreed} calls agreed, largest error {trial.worst:.1e}\n")
    for failure in trial.failures:
        record.write(f"    FAILED   {failure}\n")
    for note in trial.notes:
        record.write(f"    note     {note}\n")
    for reason in sorted(set(trial.deviations)):
        record.write(f"    deviates {reason}\n")
    for what, library, daemon in trial.refusals:
        record.write(f"    refused  {what}\n        library  {' '.join(library.split())}\n        daemon   {daemon}\n")


class Table:
    """A table of the numbers of models, verdicts and calls for each class."""

    def __init__(self):
        self.rows = collections.defaultdict(lambda: collections.Counter(worst=0.0))

    def add(self, trial):
        row = self.rows[trial.case.architecture]
        row["models"] += 1
        row[trial.verdict()] += 1
        row["calls"] += trial.calls_agreed
        row["refusals"] += len(trial.refusals)
        row["worst"] = max(row["worst"], trial.worst)

    def total(self, verdict):
        return sum(row[verdict] for row in self.rows.values())

    def text(self):
        lines = ["| class | models | agreed | refused alike | deviate | failed | calls that agree | refusals | "
                 "largest error |", "|---|---|---|---|---|---|---|---|---|"]
        for name in sorted(self.rows):
            row = self.rows[name]
            lines.append(f"| `{name}` | {row['models']} | {row['agreed']} | {row['refused']} | {row['deviates']} | "
                         f"{row['FAILED']} | {row['calls']} | {row['refusals']} | {row['worst']:.1e} |")
        return "\n".join(lines) + "\n"


def versions():
    found = []
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{package} {importlib.metadata.version(package)}")
    return ", ".join(found)


def generators(names):
    """Returns the generators of these libraries. The order mixes the libraries, so that few models already test all of
    them."""
    found = []
    for name in names:
        functions = importlib.import_module(f"{name}_cases").GENERATORS
        found += [((i + 0.5) / len(functions), function) for i, function in enumerate(functions)]
    return [function for _, function in sorted(found, key=lambda entry: entry[0])]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="number of models (300)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the random numbers (random, and printed)")
    parser.add_argument("--first", type=int, default=0, help="number of the first model, to repeat one of them (0)")
    parser.add_argument("--library", action="append", choices=LIBRARIES,
                        help="tests only this library (all). May be given several times")
    parser.add_argument("--libraries", action="store_true",
                        help="only lists the libraries. For one that is not on PyPI, it also prints the variable that "
                             "names its file, its repository and the path in it")
    parser.add_argument("--daemon", default="build/linformerd")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/libraries"),
                        help="folder for record.txt, and for failed/ with the models that failed (build/libraries)")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 32)
    return arguments


def main():
    arguments = read_arguments()
    if arguments.libraries:
        print("\n".join(" ".join((name, *(source or ()))) for name, source in LIBRARIES.items()))
        return
    warnings.simplefilter("ignore")
    libraries = arguments.library or list(LIBRARIES)
    makers = generators(libraries)
    keep = arguments.folder / "failed"
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir(parents=True)
    again = "" if libraries == list(LIBRARIES) else "".join(f" --library {name}" for name in libraries)
    print(f"seed {arguments.seed}; a model again: --seed {arguments.seed}{again} --count 1 --first NUMBER", flush=True)
    table = Table()
    with open(arguments.folder / "record.txt", "w") as record:
        record.write(f"{datetime.date.today()}, seed {arguments.seed}{again}, {versions()}\n")
        numbers = range(arguments.first, arguments.first + arguments.count)
        for start in range(0, len(numbers), GROUP):
            trials = []
            for number in numbers[start:start + GROUP]:
                maker = makers[number % len(makers)]
                trials.append(Trial(number, maker(random.Random(f"{arguments.seed}/{number}"))))
            run_group(trials, arguments.daemon, keep)
            for trial in trials:
                trial.model = None
                table.add(trial)
                write_trial(trial, record)
                if trial.failures:
                    print(f"FAILED {describe(trial)}", *trial.failures, f"folder: {keep / trial.name}", sep="\n    ")
            print(f"{start + len(trials)} of {len(numbers)}", flush=True)
        last = f"{table.total('agreed')} agreed, {table.total('refused')} refused alike, {table.total('FAILED')} failed"
        record.write(f"\n{table.text()}\n{last}\n")
    deviating = table.total("deviates")
    print(table.text())
    print(f"record: {record.name}" + (f"; {deviating} deviate for a known reason" if deviating else ""))
    print(last)
    sys.exit(1 if table.total("FAILED") else 0)


if __name__ == "__main__":
    main()
