#!/usr/bin/env python3
"""The CUDA engine beside PyTorch on the same GPU, in one run: same weights, same ids, from the host's memory to the mean
of the last hidden states in the host's memory.

    bench.py [OPTIONS] [PART…]         parts: rates short mixed compare table3; all of them without a word

rates    what the chip does in products of large matrices, by element type; what the others are held against
short    batch 1, n 128: against the sum of the kernels' own times, which ncu measures
mixed    lengths 16 to 4096, packed, against sequences of the full length
compare  linformer.LinformerLM, dim 512, seq_len 4096, depth 12, heads 8, k 256: milliseconds, tokens/s, ratios to PyTorch
         (eager; torch.compile with mode max-autotune, of attention as the library has it and, which is the strongest, of
         scaled_dot_product_attention), and which part of the chip's own rate of products the plan's products are done at
table3   linformer against standard attention, as Table 3 of Wang et al. 2020, arXiv 2006.04768: against the engine's own
         full_attention, and PyTorch's flash attention

Writes bench.json (all that was measured; goals.py reads it) and bench.md (tables) into the folder of --log after each
figure, so what a time limit leaves is whole. Exits with 1 when the engine failed or an output was not the reference's;
else 4 when a goal was not met; else 3 when something wanted was not measured: for lack of time, PyTorch or ncu."""
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
    """What was asked for, and what was found so far."""

    def __init__(self, options):
        self.options, self.began = options, time.monotonic()
        self.sizes = DRY if options.dry else CHIP
        self.batches = options.batches or self.sizes["batches"]
        self.device = "cpu" if options.dry else "cuda"  # of PyTorch; the engine's is always cuda
        self.compile_s = 0 if options.dry else measure.COMPILE_S
        self.failures, self.not_measured = [], []  # lines of text
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
        """`wanted` names what is not measured when no time is left."""
        if self.left_s() <= takes_s:
            self.not_measured.append(f"{wanted}: no time was left")
            raise OutOfTime

    def in_time(self, measure_one, *arguments):
        """Goes on when time was short for this one: the next says so, too, or takes less."""
        try:
            measure_one(self, *arguments)
        except OutOfTime:
            pass

    def add(self, part, **found):
        self.results["measured"].append({"part": part} | found)
        self.write()

    def write(self):
        """A file is the old one or the new one whenever this is killed."""
        text = {"json": json.dumps(self.results, indent=1) + "\n",
                "md": tables.markdown(self.results, self.sizes, self.options.command)}
        for suffix in text:
            path = self.options.log / f"bench.{suffix}"
            path.with_suffix(".new").write_text(text[suffix])
            path.with_suffix(".new").replace(path)

    def stop(self, *_):
        """At a signal, which is the end of time. Workers end with their parent."""
        self.not_measured.append("what follows was not measured: stopped by a signal")
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
        """Made once."""
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
        """That a peer cannot is no failure of ours."""
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
        """The answer; None, which is noted, when there is none."""
        try:
            return group.running[name].ask(line)
        except workers.WorkerFailed as failure:
            self.note(what, name, failure)
            if group.running[name].process.poll() is not None:
                group.drop(name, failure)
                group.failures = {}
            return None


def words(known):
    def read(text):
        chosen = text.split(",")
        unknown = [word for word in chosen if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen
    return read


def command_line(arguments):
    """What was asked for, without the folders of this machine."""
    folders = {place for place, word in enumerate(arguments) if word in ("--programs", "--log")}
    return " ".join(["bench.py", *(word for place, word in enumerate(arguments)
                                   if place not in folders and place - 1 not in folders)])


def read_options():
    kinds = list(dict.fromkeys(kind for kinds in PEERS.values() for kind in kinds))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="tiny sizes, PyTorch on the CPU, for the shim's engine")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/gpu"), help="where worker is")
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("build/log/gpu"))
    parser.add_argument("--seconds", type=float, default=420, help="after which nothing new begins (%(default)s)")
    parser.add_argument("--models", type=words(MODELS), default=list(MODELS), help="shared,full")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], help="1,8,32")
    parser.add_argument("--dtypes", type=words(DTYPES), default=list(DTYPES), help=",".join(DTYPES))
    parser.add_argument("--peers", type=words(kinds), default=kinds, help=",".join(kinds))
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
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
    except Exception as error:  # the other parts are worth having all the same
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
