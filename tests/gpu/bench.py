#!/usr/bin/env python3
"""Measures the CUDA engine and PyTorch in one run on the same GPU, with the same weights and ids. The time of a model's
run begins with the ids in the host's memory, and ends with the means of the last hidden states in the host's memory.

    bench.py [OPTIONS] [PART…]

Without PART, bench.py measures all parts:

    rates    TFLOP/s of products of large matrices, for each dtype. Other parts compare their figures with these rates
    short    one sequence of 128 ids: the time of a run, and the sum of the times of its kernels by ncu
    mixed    tokens/s of sequences of 16 to 4096 ids in one batch, compared with sequences of the full length
    compare  milliseconds, tokens/s and ratios to PyTorch's times, at several batch sizes. Also the share of the rate in
             `rates` that the model's matrix products reach. The model is linformer.LinformerLM with dim 512,
             seq_len 4096, depth 12, heads 8 and k 256
    table3   the rows of Table 3 of Wang et al. 2020, arXiv 2006.04768: the Linformer compared with standard attention.
             The engine (full_attention) and PyTorch (flash attention) compute standard attention

The part `compare` runs PyTorch eagerly and through torch.compile with mode max-autotune. It compiles two models. The
first model computes attention as the library does. The second model uses scaled_dot_product_attention, and should be
the fastest PyTorch.

bench.py writes two files into the folder of --log. bench.json contains all results, which goals.py reads. bench.md
contains tables. bench.py writes both files again after each figure. Therefore they contain all figures so far if a time
limit ends the program. The exit status is the first in this list that applies:

    1   the engine failed, or an output differs from the reference
    4   a goal was missed, and the run was not dry
    3   something was not measured, because time, PyTorch or ncu was missing, or because PyTorch failed
    0   otherwise"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "bench"))

import goals
import measure
import report
import tables
import workers
from goals import MODELS, OURS
from measure import CHIP, DRY, DTYPES, PARTS, PEERS, OutOfTime

SHARED = {"one_kv_head": True, "share_kv": True}


class Bench:
    """The options of a run, its state, and its results so far."""

    def __init__(self, options):
        self.options, self.began = options, time.monotonic()
        self.sizes = DRY if options.dry else CHIP
        self.batches = options.batches or self.sizes["batches"]
        self.device = "cpu" if options.dry else "cuda"  # PyTorch's device. The engine always uses cuda
        self.compile_s = 0 if options.dry else measure.COMPILE_S
        self.failures, self.not_measured = [], []  # lists of sentences for the reports
        self.results = {"began": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
                        "commit": report.commit(), "dry": options.dry, "versions": [], "measured": [],
                        "failures": self.failures, "not_measured": self.not_measured}
        self.work = options.programs / "bench"
        for folder in (self.work, options.log):
            folder.mkdir(parents=True, exist_ok=True)
        self.write()

    def left_s(self):
        return self.options.seconds - (time.monotonic() - self.began)

    def check_time(self, wanted, takes_s=0):
        """If at most takes_s seconds are left, notes that `wanted` was not measured, and raises OutOfTime."""
        if self.left_s() <= takes_s:
            self.not_measured.append(f"{wanted}: no time was left")
            raise OutOfTime

    def in_time(self, measure_one, *arguments):
        """Calls measure_one(self, *arguments). Returns normally if the time ran out, because a later measurement may
        need less time."""
        try:
            measure_one(self, *arguments)
        except OutOfTime:
            pass

    def add(self, part, **found):
        self.results["measured"].append({"part": part} | found)
        self.write()

    def write(self):
        """Writes bench.json and bench.md. If the program is killed meanwhile, each file is complete, old or new."""
        text = {"json": json.dumps(self.results, indent=1) + "\n",
                "md": tables.markdown(self.results, self.sizes, self.options.command)}
        for suffix in text:
            path = self.options.log / f"bench.{suffix}"
            path.with_suffix(".new").write_text(text[suffix])
            path.with_suffix(".new").replace(path)

    def stop(self, *_):
        """Handles the signal that a time limit sends. Writes the files and ends the program. Worker processes end with
        their parent."""
        self.not_measured.append("the remaining measurements: a signal stopped bench.py")
        self.write()
        os._exit(self.status())

    def status(self):
        if self.failures:
            return 1
        missed = not self.options.dry and any(row[-1] == "NOT MET" for row in goals.judged(self.results))
        return 4 if missed else 3 if self.not_measured else 0

    # ---- models, inputs, workers

    def model(self, name, architecture, kwargs):
        import plain
        folder = self.work / name
        plain.write(architecture, kwargs, folder, seed=20261121)
        return folder

    def language_model(self, name):
        """Returns the folder of the model with this name. The first call writes the model."""
        if (self.work / name).exists():
            return self.work / name
        sizes = self.sizes
        kwargs = {key: sizes[key] for key in ("dim", "seq_len", "depth", "heads", "k")}
        return self.model(name, "linformer.LinformerLM",
                          kwargs | {"num_tokens": sizes["vocabulary"]} | (SHARED if name == "shared" else {}))

    def ids(self, count):
        import numpy
        path = self.work / f"ids_{count}"
        numpy.random.default_rng(1).integers(0, self.sizes["vocabulary"], count).astype("<i4").tofile(path)
        return path

    def ours(self, folder, dtype, tokens, items):
        return [self.options.programs / "worker", folder, dtype, str(tokens), str(items), "0", "cuda"]

    def start_ours(self, group, folder, dtype, tokens, items, environment=None):
        group.start(f"{OURS} {dtype}", self.ours(folder, dtype, tokens, items),
                    self.options.log / f"worker_{folder.name}_{dtype}.log", {"SHIM_SEED": "0"} | (environment or {}))

    def start_peer(self, group, kind, folder, dtype):
        group.start(f"{kind} {dtype}", [sys.executable, FOLDER / "peer.py", kind, folder, dtype, self.device],
                    self.options.log / f"peer_{folder.name}_{kind}_{dtype}.log",
                    {"TORCHINDUCTOR_CACHE_DIR": str(self.work / "inductor"), "PYTHONDONTWRITEBYTECODE": "1"})

    def note(self, what, name, why):
        """Notes why a worker did not answer. If the worker runs the engine, this is a failure. If the worker is a peer
        (PyTorch), its figures count as not measured."""
        (self.failures if name.startswith(OURS) else self.not_measured).append(f"{what}: {name}: {why}")

    def ready(self, group, what):
        group.wait_ready()
        for name, why in group.failures.items():
            self.note(what, name, why)
        group.failures = {}
        for version in group.descriptions.values():
            if version not in self.results["versions"]:
                self.results["versions"].append(version)

    def ask(self, group, name, line, what):
        """Sends the command to a worker. Returns the answer. If the worker fails, notes the reason and returns None."""
        try:
            return group.running[name].ask(line)
        except workers.WorkerFailed as failure:
            self.note(what, name, failure)
            if group.running[name].process.poll() is not None:
                group.drop(name, failure)
                group.failures = {}
            return None


def words(known):
    """Returns a function for argparse, which splits a list at commas and refuses words that are not in `known`."""
    def read(text):
        chosen = text.split(",")
        unknown = [word for word in chosen if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}. Expected some of {', '.join(known)}")
        return chosen
    return read


def command_line(arguments):
    """Returns the command line for bench.md. It lacks --programs and --log, because these name folders of this
    machine."""
    folders = {place for place, word in enumerate(arguments) if word in ("--programs", "--log")}
    return " ".join(["bench.py", *(word for place, word in enumerate(arguments)
                                   if place not in folders and place - 1 not in folders)])


def read_options():
    kinds = list(dict.fromkeys(kind for kinds in PEERS.values() for kind in kinds))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true",
                        help="dry run: tiny sizes, the engine on the shim, PyTorch on the CPU")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/gpu"),
                        help="folder of the program worker (%(default)s)")
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("build/log/gpu"),
                        help="folder for bench.json, bench.md and logs (%(default)s)")
    parser.add_argument("--seconds", type=float, default=420,
                        help="after this time, no measurement begins (%(default)s)")
    parser.add_argument("--models", type=words(MODELS), default=list(MODELS), help="some of shared,full")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")],
                        help="sizes of batches (1,8,32)")
    parser.add_argument("--dtypes", type=words(DTYPES), default=list(DTYPES), help="some of " + ",".join(DTYPES))
    parser.add_argument("--peers", type=words(kinds), default=kinds, help="some of " + ",".join(kinds))
    parser.add_argument("parts", nargs="*", metavar="PART", help="a part to measure")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part: {', '.join(unknown)}. Expected some of {', '.join(PARTS)}")
    options.log, options.programs = options.log.resolve(), options.programs.resolve()
    found = sorted(pathlib.Path("/opt/nvidia/nsight-compute").glob("*/ncu"))
    options.ncu = shutil.which("ncu") or (str(found[-1]) if found else None)
    options.command = command_line(sys.argv[1:])
    return options


def measure_part(bench, part):
    try:
        PARTS[part](bench)
    except OutOfTime:
        pass
    except ImportError as error:
        bench.not_measured.append(f"{part}: {error}")
    except Exception as error:  # the other parts are measured nevertheless
        bench.failures.append(f"{part}: {type(error).__name__}: {error}")
    bench.write()


def main():
    options = read_options()
    shutil.rmtree(options.programs / "bench", ignore_errors=True)
    bench = Bench(options)
    signal.signal(signal.SIGTERM, bench.stop)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for part in options.parts or PARTS:
        measure_part(bench, part)
    shutil.rmtree(bench.work, ignore_errors=True)
    print((options.log / "bench.md").read_text())
    return bench.status()


if __name__ == "__main__":
    sys.exit(main())
