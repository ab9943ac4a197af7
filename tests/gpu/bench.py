#!/usr/bin/env python3
"""The CUDA engine beside PyTorch on the same GPU, in one run: same weights, same ids, from the host's memory to the mean
of the last hidden states in the host's memory.

    bench.py [OPTIONS] [PART…]         parts: rates compare short mixed table3; all of them without a word

rates    what the chip does in products of large matrices, by element type; what the others are held against
compare  linformer.LinformerLM, dim 512, seq_len 4096, depth 12, heads 8, k 256: milliseconds, tokens/s, ratios to PyTorch
         (eager; torch.compile with mode max-autotune; the same with scaled_dot_product_attention), and which part of the
         chip's own rate of products the plan's products are done at
short    batch 1, n 128: against the sum of the kernels' own times, which ncu measures
mixed    lengths 16 to 4096, packed, against sequences of the full length
table3   linformer against standard attention, as Table 3 of Wang et al. 2020, arXiv 2006.04768: against the engine's own
         full_attention, and PyTorch's flash attention

Writes bench.json (all that was measured) and bench.md (tables) into the folder of --log after each step, so what a time
limit leaves is whole. Its exit status is 0 when everything wanted was measured, and every output was the reference's; 3
when but time was missing."""
import argparse
import csv
import datetime
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "bench"))

import report
import workers
from workers import median_ms, ratio

DTYPES = ("f32", "tf32", "bf16", "f16")
PEERS = {"f32": ["eager"], "tf32": ["eager"], "bf16": ["eager", "compile", "fused-compile"], "f16": ["eager"]}
OURS = "linformerd"
MOST_ERROR = {"f32": 1e-4, "tf32": 1e-2, "bf16": 5e-2, "f16": 1e-2}  # more is another computation
PRODUCTS = {"linear", "feed_forward", "project_sequence", "attend"}  # the plan's operations that are products
SHARED = {"one_kv_head": True, "share_kv": True}

CHIP = dict(dim=512, seq_len=4096, depth=12, heads=8, k=256, vocabulary=256, batches=(1, 8, 32), short=128, shortest=16,
            rate=8192, table_tokens=65536, table=dict(channels=512, nhead=8, dim_ff=2048, depth=2),
            lengths=tuple(512 << i for i in range(8)), ks=tuple(128 << i for i in range(5)), rounds=5, slice_s=0.4)
DRY = dict(dim=32, seq_len=64, depth=2, heads=4, k=8, vocabulary=64, batches=(1, 2), short=16, shortest=4,
           rate=128, table_tokens=128, table=dict(channels=32, nhead=4, dim_ff=64, depth=2),
           lengths=(32, 64), ks=(8, 16), rounds=2, slice_s=0.0)

# Time saved; https://ar5iv.labs.arxiv.org/html/2006.04768#S5.T3, left; a 16 GB V100, E and F shared layerwise.
PAPER = {512: (1.5, 1.3), 1024: (1.7, 1.6, 1.3), 2048: (2.6, 2.4, 2.1, 1.3), 4096: (3.4, 3.2, 2.8, 2.2, 1.3),
         8192: (5.5, 5.0, 4.4, 3.5, 2.1), 16384: (8.6, 7.8, 7.0, 5.6, 3.3), 32768: (13, 12, 11, 8.8, 5.0),
         65536: (20, 18, 16, 14, 7.9)}


class OutOfTime(Exception):
    pass


class Bench:
    """What was asked for, and what was found so far."""

    def __init__(self, options):
        self.options, self.began = options, time.monotonic()
        self.sizes = DRY if options.dry else CHIP
        self.batches = options.batches or self.sizes["batches"]
        self.device = "cpu" if options.dry else "cuda"  # of PyTorch; the engine's is always cuda
        self.results = {"began": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
                        "commit": report.commit(), "dry": options.dry, "versions": [], "measured": []}
        self.failures, self.too_late = [], []  # lines of text
        self.work = options.log / "bench"
        self.work.mkdir(parents=True, exist_ok=True)
        self.write()

    def check_time(self, wanted):
        """`wanted` names what is not measured when no time is left."""
        if time.monotonic() - self.began > self.options.seconds:
            self.too_late.append(f"{wanted}: not measured: --seconds {self.options.seconds} are over")
            raise OutOfTime

    def add(self, part, **found):
        self.results["measured"].append({"part": part} | found)
        self.write()

    def find(self, part, **wanted):
        return [row for row in self.results["measured"]
                if row["part"] == part and all(row.get(key) == value for key, value in wanted.items())]

    def write(self):
        results = self.results | {"failures": self.failures, "too_late": self.too_late}
        (self.options.log / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
        (self.options.log / "bench.md").write_text(markdown(self))

    # ---- models, inputs, workers

    def model(self, name, architecture, kwargs):
        import plain
        folder = self.work / name
        plain.write(architecture, kwargs, folder, seed=20261121)
        return folder

    def language_model(self, name):
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

    def start_ours(self, group, folder, dtype, tokens, items):
        group.start(f"{OURS} {dtype}", self.ours(folder, dtype, tokens, items),
                    self.options.log / f"worker_{folder.name}_{dtype}.log", {"SHIM_SEED": "0"})

    def start_peer(self, group, kind, folder, dtype):
        group.start(f"{kind} {dtype}", [sys.executable, FOLDER / "peer.py", kind, folder, dtype, self.device],
                    self.options.log / f"peer_{folder.name}_{kind}_{dtype}.log",
                    {"TORCHINDUCTOR_CACHE_DIR": str(self.work / "inductor"), "PYTHONDONTWRITEBYTECODE": "1"})

    def ready(self, group, what):
        group.wait_ready()
        for name, why in group.failures.items():
            self.failures.append(f"{what}: {name}: {why}")
        group.failures = {}
        for version in group.descriptions.values():
            if version not in self.results["versions"]:
                self.results["versions"].append(version)

    def ask(self, group, name, line, what):
        """The answer; None, and a failure noted, when there is none."""
        try:
            return group.running[name].ask(line)
        except workers.WorkerFailed as failure:
            self.failures.append(f"{what}: {name}: {failure}")
            if group.running[name].process.poll() is not None:
                group.drop(name, failure)
            return None


def pooled(path, lengths):
    return f"pooled {path} {' '.join(map(str, lengths))}"


# ---- rates

def measure_rates(bench):
    bench.check_time("rates")
    folder = bench.language_model("shared")
    with workers.Workers() as group:
        for dtype in bench.options.dtypes:
            bench.start_peer(group, "eager", folder, dtype)
        bench.ready(group, "rates")
        for dtype in bench.options.dtypes:
            if f"eager {dtype}" in group.running:
                answer = bench.ask(group, f"eager {dtype}", f"rate {bench.sizes['rate']}", "rates")
                if answer:
                    bench.add("rates", dtype=dtype, tflops=float(answer))


def chip_rate(bench, dtype):
    """TFLOP/s; NaN: not measured."""
    found = bench.find("rates", dtype=dtype)
    return found[0]["tflops"] if found else math.nan


# ---- compare

def product_flops(text):
    """Of the plan's steps that are products, one sequence."""
    steps = re.findall(r"^ *\d+ (\S+) +(\d+) ", text, re.MULTILINE)
    return sum(int(flops) for operation, flops in steps if operation in PRODUCTS)


def explained_flops(bench, group, name, length):
    path = bench.work / "explained"
    if bench.ask(group, name, f"explain {length} {path}", "FLOPs") is None:
        return math.nan
    return product_flops(path.read_text())


def agreeing(bench, group, names, what):
    """Those whose output is that of PyTorch in f32; whose is another is not measured."""
    path, good = bench.work / "output.raw", []
    reference = "eager f32" if "eager f32" in names else None
    if reference is None:
        bench.failures.append(f"{what}: no PyTorch in f32 to compare with")
        return [], {}
    errors = {}
    for name in names:
        if bench.ask(group, name, f"save {path}", what) is None:
            continue
        errors[name] = float(bench.ask(group, reference, f"compare {path}", what) or math.nan)
        if errors[name] <= MOST_ERROR[name.split()[1]]:
            good.append(name)
        else:
            bench.failures.append(f"{what}: {name}: its output differs by {errors[name]:.1e}")
    return good, errors


def prepare(bench, group, line, what):
    """One worker after the other: torch.compile measures candidates, and must be alone."""
    return [name for name in list(group.running) if bench.ask(group, name, line, what) is not None]


def compare_batch(bench, group, name, batch):
    what, length = f"compare {name}, batch {batch}", bench.sizes["seq_len"]
    bench.check_time(what)
    print(f"{what}: preparing", flush=True)
    ready = prepare(bench, group, pooled(bench.ids(batch * length), [length] * batch), what)
    good, errors = agreeing(bench, group, ready, what)
    times = group.measure(good, bench.sizes["rounds"], bench.sizes["slice_s"], budget_s=30)
    for worker in good:
        print(f"    {worker:20} {report.number(median_ms(times, worker)):>8} ms", flush=True)
        bench.add("compare", model=name, batch=batch, worker=worker, ms=times[worker], error=errors[worker])


def measure_compare(bench):
    for name in bench.options.models:
        bench.check_time(f"compare {name}")
        folder, length, most = bench.language_model(name), bench.sizes["seq_len"], max(bench.batches)
        with workers.Workers() as group:
            for dtype in bench.options.dtypes:
                bench.start_ours(group, folder, dtype, most * length, most)
                for kind in PEERS[dtype]:
                    if kind in bench.options.peers:
                        bench.start_peer(group, kind, folder, dtype)
            if "eager f32" not in group.running:
                bench.start_peer(group, "eager", folder, "f32")  # the reference
            bench.ready(group, f"compare {name}")
            for dtype in bench.options.dtypes:
                if f"{OURS} {dtype}" in group.running:
                    bench.add("flops", model=name, length=length,
                              flops=explained_flops(bench, group, f"{OURS} {dtype}", length))
                    break
            for batch in bench.batches:
                compare_batch(bench, group, name, batch)


# ---- short

def kernel_times(text):
    """Microseconds of each kernel, in order, from what ncu prints with --csv and --print-units base."""
    lines = text[text.index('"ID"'):].splitlines()
    return [float(row["Metric Value"].replace(",", "")) / 1e3 for row in csv.DictReader(lines)
            if row["Metric Name"] == "gpu__time_duration.sum"]


def profiled(bench, command, line, runs):
    """What ncu says of all kernels of a worker that prepares and then runs so often."""
    path = bench.work / "ncu.csv"
    ncu = [bench.options.ncu, "--clock-control", "none", "--cache-control", "none", "--print-units", "base", "--csv",
           "--metrics", "gpu__time_duration.sum", "--log-file", path]
    process = subprocess.run([*ncu, *command], input=line + "\n" + "run 0\n" * runs, capture_output=True, text=True,
                             timeout=120)
    if process.returncode != 0 or re.search("^failed ", process.stdout, re.MULTILINE):
        raise RuntimeError(f"ncu: status {process.returncode}: {(process.stdout + process.stderr)[-300:]}")
    return kernel_times((path.read_text() if path.exists() else "") + process.stdout)


def one_run(bench, command, line):
    """The kernels of one run: what four runs have more than three. The first ones are not a graph's yet."""
    three, four = (profiled(bench, command, line, runs) for runs in (3, 4))
    count = len(four) - len(three)
    if count < 1:
        raise RuntimeError(f"ncu saw {len(three)} kernels with three runs and {len(four)} with four")
    return four[-count:]


def measure_short(bench):
    length = bench.sizes["short"]
    for name in bench.options.models:
        what = f"short {name}"
        bench.check_time(what)
        folder, line = bench.language_model(name), pooled(bench.ids(length), [length])
        for dtype in ("bf16", "f32"):
            if dtype not in bench.options.dtypes:
                continue
            with workers.Workers() as group:
                bench.start_ours(group, folder, dtype, length, 1)
                bench.ready(group, what)
                if not prepare(bench, group, line, what):
                    continue
                times = group.measure(list(group.running), bench.sizes["rounds"], bench.sizes["slice_s"], 10)
            kernels = None
            if bench.options.ncu:
                try:
                    kernels = one_run(bench, bench.ours(folder, dtype, length, 1), line)
                except (RuntimeError, ValueError, OSError, subprocess.TimeoutExpired) as error:
                    bench.failures.append(f"{what} {dtype}: {error}")
            elif not bench.options.dry:
                bench.failures.append(f"{what} {dtype}: there is no ncu")
            bench.add("short", model=name, dtype=dtype, length=length, ms=times[f"{OURS} {dtype}"],
                      kernels=kernels and len(kernels), kernels_us=kernels and sum(kernels))


# ---- mixed

def mixed_lengths(sizes, total, seed=2006):
    """Log-uniform, as many as fit; the last one is cut."""
    generator, lengths = random.Random(seed), []
    while sum(lengths) < total:
        length = round(math.exp(generator.uniform(math.log(sizes["shortest"]), math.log(sizes["seq_len"]))))
        lengths.append(min(length, total - sum(lengths)))
    return lengths


def measure_mixed(bench):
    length = bench.sizes["seq_len"]
    total = max(bench.batches) * length
    lengths = mixed_lengths(bench.sizes, total)
    for name in bench.options.models:
        what = f"mixed {name}"
        bench.check_time(what)
        folder, path = bench.language_model(name), bench.ids(total)
        with workers.Workers() as group:
            bench.start_ours(group, folder, "bf16", total, len(lengths))
            bench.ready(group, what)
            worker, found = f"{OURS} bf16", {"full": [], "mixed": []}
            for _ in range(bench.sizes["rounds"] if group.running else 0):
                for kind, shape in (("full", [length] * (total // length)), ("mixed", lengths)):
                    if bench.ask(group, worker, pooled(path, shape), what) is not None:
                        answer = bench.ask(group, worker, f"run {bench.sizes['slice_s']}", what)
                        found[kind].append(statistics.median(map(float, answer.split())))
            if found["mixed"]:
                bench.add("mixed", model=name, tokens=total, items=len(lengths), full=found["full"], mixed=found["mixed"])


# ---- table3

def time_one(bench, what, folder, kind, prepared, tokens, items, then=None):
    """(milliseconds of one worker in bf16, its answer to `then`); None for what failed, which is noted."""
    bench.check_time(what)
    with workers.Workers() as group:
        if kind == OURS:
            bench.start_ours(group, folder, "bf16", tokens, items)
        else:
            bench.start_peer(group, kind, folder, "bf16")
        bench.ready(group, what)
        if not prepare(bench, group, prepared, what):
            return None, None
        answer = bench.ask(group, f"{kind} bf16", f"run {2 * bench.sizes['slice_s']}", what)
        said = bench.ask(group, f"{kind} bf16", then, what) if answer and then else None
        return answer and statistics.median(map(float, answer.split())), said


def standard_attention(bench, n, folder, prepared, tokens):
    """Ours and PyTorch's, which must agree."""
    what, output = f"table3 n {n}, standard", bench.work / "output.raw"
    ours, _ = time_one(bench, what, folder, OURS, prepared, tokens, tokens // n, f"save {output}")
    bench.add("table3", n=n, k=None, worker=OURS, ms=ours)
    flash, error = time_one(bench, what, folder, "fused", prepared, tokens, tokens // n, f"compare {output}")
    bench.add("table3", n=n, k=None, worker="fused", ms=flash, error=error)
    if ours and not float(error or "nan") <= MOST_ERROR["bf16"]:
        bench.failures.append(f"{what}: the outputs differ by {error}")


def measure_table3(bench):
    sizes = bench.sizes
    tokens = sizes["table_tokens"]
    path = bench.ids(tokens)
    for n in sizes["lengths"]:
        prepared = pooled(path, [n] * (tokens // n))
        kwargs = dict(sizes["table"], num_tokens=sizes["vocabulary"], input_size=n)
        folder = bench.model("table3", "linformer_pytorch.LinformerLM",
                             kwargs | {"dim_k": sizes["ks"][0], "full_attention": True})
        standard_attention(bench, n, folder, prepared, tokens)
        for k in (k for k in sizes["ks"] if k <= n // 2):
            folder = bench.model("table3", "linformer_pytorch.LinformerLM", kwargs | {"dim_k": k})
            ms, _ = time_one(bench, f"table3 n {n}, k {k}", folder, OURS, prepared, tokens, tokens // n)
            bench.add("table3", n=n, k=k, worker=OURS, ms=ms)


# ---- tables

MODELS = {"shared": "(a) one_kv_head, share_kv", "full": "(b) full heads"}


def compare_table(bench):
    length, rows = bench.sizes["seq_len"], []
    for name in MODELS:
        flops = [row["flops"] for row in bench.find("flops", model=name)]
        for batch in bench.batches:
            times = {row["worker"]: row["ms"] for row in bench.find("compare", model=name, batch=batch)}
            for row in bench.find("compare", model=name, batch=batch):
                kind, dtype = row["worker"].split()
                ms = median_ms(times, row["worker"])
                part = "–"
                if kind == OURS and flops:
                    part = f"{flops[0] * batch / ms / 1e9 / chip_rate(bench, dtype):.2f}"
                rows.append([MODELS[name], batch, row["worker"], report.number(ms),
                             report.integer(round(length * batch / ms * 1e3)),
                             "" if kind == OURS else report.times(ratio(times, row["worker"], f"{OURS} {dtype}")),
                             part, f"{row['error']:.1e}"])
    return report.table(["model", "batch", "", "ms", "tokens/s", "times ours", "of the chip's rate", "error"], rows)


def short_table(bench):
    rows = []
    for row in bench.find("short"):
        ms = statistics.median(row["ms"])
        kernels = row["kernels_us"]
        rows.append([MODELS[row["model"]], row["dtype"], report.number(1e3 * ms), row["kernels"] or "–",
                     report.number(kernels) if kernels else "–", report.times(1e3 * ms / kernels) if kernels else "–"])
    return report.table(["model", "", "µs", "kernels", "µs of kernels", "ratio"], rows)


def mixed_table(bench):
    rows = []
    for row in bench.find("mixed"):
        full, mixed = (statistics.median(row[kind]) for kind in ("full", "mixed"))
        rows.append([MODELS[row["model"]], row["tokens"], row["items"],
                     *(report.integer(round(row["tokens"] / ms * 1e3)) for ms in (full, mixed)),
                     f"{statistics.median(a / b for a, b in zip(row['full'], row['mixed'])):.2f}"])
    return report.table(["model", "tokens", "sequences", "tokens/s at full length", "tokens/s mixed", "mixed : full"], rows)


def table3_table(bench):
    found = {(row["n"], row["k"], row["worker"]): row["ms"] for row in bench.find("table3")}
    rows = []
    for n in sorted({n for n, _, _ in found}):
        own, flash = found.get((n, None, OURS)), found.get((n, None, "fused"))
        cells = [n, *(report.number(ms) if ms else "–" for ms in (own, flash))]
        for i, k in enumerate(bench.sizes["ks"]):
            ms = found.get((n, k, OURS))
            saved = [f"{standard / ms:.1f}" if ms and standard else "–" for standard in (own, flash)]
            paper = PAPER.get(n, ())[i] if i < len(PAPER.get(n, ())) else "–"
            cells.append(f"{saved[0]} / {saved[1]} / {paper}" if ms else "")
        rows.append(cells)
    return report.table(["n", "own full attention, ms", "PyTorch flash, ms", *(f"k {k}" for k in bench.sizes["ks"])], rows)


def goals(bench):
    """(what, found, wanted, met) of each goal that was measured."""
    def compared(name, batch, peer, dtype):
        times = {row["worker"]: row["ms"] for row in bench.find("compare", model=name, batch=batch)}
        return ratio(times, f"{peer} {dtype}", f"{OURS} {dtype}")
    for name in MODELS:
        for batch in bench.batches:
            for peer, dtype, wanted in (("compile", "bf16", 1.3), ("eager", "bf16", 2.5), ("eager", "f32", 1.5)):
                found = compared(name, batch, peer, dtype)
                yield f"{MODELS[name]}, batch {batch}: {peer} {dtype} : ours", found, f"≥ {wanted}", found >= wanted
        flops = bench.find("flops", model=name)
        times = bench.find("compare", model=name, batch=max(bench.batches), worker=f"{OURS} bf16")
        if flops and times:
            batch = max(bench.batches)
            found = flops[0]["flops"] * batch / statistics.median(times[0]["ms"]) / 1e9 / chip_rate(bench, "bf16")
            yield f"{MODELS[name]}, batch {batch}: part of the chip's bf16 rate", found, "≥ 0.6", found >= 0.6
    for row in bench.find("short"):
        if row["kernels_us"]:
            found = 1e3 * statistics.median(row["ms"]) / row["kernels_us"]
            yield f"{MODELS[row['model']]}, batch 1, n {row['length']}, {row['dtype']}: time : kernels' own", found, "≤ 2", \
                found <= 2
    for row in bench.find("mixed"):
        found = statistics.median(a / b for a, b in zip(row["full"], row["mixed"]))
        yield f"{MODELS[row['model']]}: mixed : full length, tokens/s", found, "≥ 0.85", found >= 0.85


def markdown(bench):
    options = bench.options
    text = [f"Measured {bench.results['began']}, {bench.results['commit']}, `{options.command}`; "
            + "; ".join(bench.results["versions"]) + ".\n"]
    if options.dry:
        text.append("**A dry run: the shim on a CPU, tiny sizes. No figure here says anything about a device.**\n")
    rates = [[row["dtype"], report.number(row["tflops"])] for row in bench.find("rates")]
    sections = [("rates", "Products of large matrices on this device, by PyTorch:\n", report.table(["", "TFLOP/s"], rates)),
                ("compare", "Ids on the host to mean last hidden states on the host:\n", compare_table(bench)),
                ("short", f"Batch 1, n {bench.sizes['short']}, and the kernels' own times as ncu measures them:\n",
                 short_table(bench)),
                ("mixed", f"bf16, lengths {bench.sizes['shortest']} to {bench.sizes['seq_len']} (log-uniform), packed:\n",
                 mixed_table(bench)),
                ("table3", f"Time saved by Linformer, bf16, {bench.sizes['table_tokens']} tokens a batch, "
                 + ", ".join(f"{key} {value}" for key, value in bench.sizes["table"].items())
                 + ", E shared layerwise: against our own full attention / PyTorch's flash attention / the paper's figure "
                 "(arXiv 2006.04768, Table 3, on a V100):\n", table3_table(bench))]
    text += [f"{title}\n{table}" for part, title, table in sections if bench.find(part)]
    rows = [[what, report.number(found), wanted, "met" if met else "**not met**"]
            for what, found, wanted, met in goals(bench) if found == found]
    if rows:
        text.append("Goals:\n\n" + report.table(["", "found", "wanted", ""], rows))
    text += [f"- {failure}" for failure in bench.failures + bench.too_late]
    return "\n".join(text) + "\n"


PARTS = {"rates": measure_rates, "compare": measure_compare, "short": measure_short, "mixed": measure_mixed,
         "table3": measure_table3}


def words(known):
    def read(text):
        chosen = text.split(",")
        unknown = [word for word in chosen if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen
    return read


def read_options():
    kinds = sorted({kind for kinds in PEERS.values() for kind in kinds})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="tiny sizes, PyTorch on the CPU, for the shim's engine")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/gpu"), help="where worker is")
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("build/log/gpu"))
    parser.add_argument("--seconds", type=float, default=420, help="after which nothing new begins (%(default)s)")
    parser.add_argument("--models", type=words(MODELS), default=list(MODELS), help="shared,full")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], help="1,8,32")
    parser.add_argument("--dtypes", type=words(DTYPES), default=list(DTYPES), help=",".join(DTYPES))
    parser.add_argument("--peers", type=words(kinds), default=["eager", "compile"], help=",".join(kinds))
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    options.log, options.programs = options.log.resolve(), options.programs.resolve()
    found = sorted(pathlib.Path("/opt/nvidia/nsight-compute").glob("*/ncu"))
    options.ncu = shutil.which("ncu") or (str(found[-1]) if found else None)
    options.command = " ".join(["bench.py", *sys.argv[1:]])
    return options


def main():
    bench = Bench(read_options())
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for part in bench.options.parts or PARTS:
        try:
            PARTS[part](bench)
        except OutOfTime:
            pass
        except Exception as error:  # the other parts are worth having all the same
            bench.failures.append(f"{part}: {type(error).__name__}: {error}")
    bench.write()
    shutil.rmtree(bench.work, ignore_errors=True)
    print((bench.options.log / "bench.md").read_text())
    return 1 if bench.failures else 3 if bench.too_late else 0


if __name__ == "__main__":
    sys.exit(main())
