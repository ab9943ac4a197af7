#!/usr/bin/env python3
"""Compares the figures of bench.py with the goals of speed on a device.

    goals.py [--tabs] [BENCH_JSON…]

Prints a line for each goal. The line contains the name, the measured number, the wanted number and a verdict: "met",
"NOT MET" or "not measured". In a name, "a to b" means a divided by b. With --tabs, tabs separate these fields.

bench.py may measure its parts in several commands, so there may be several files. If several files contain the same
figure, the last one counts. Figures of a dry run are not used, because no device computed them. The exit status is 1 if
a goal is missed."""
import json
import math
import pathlib
import statistics
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "bench"))

from workers import ratio

OURS = "linformerd"
MODELS = {"shared": "(a) one_kv_head, share_kv", "full": "(b) full heads"}
BATCHES = (1, 8, 32)
COMPILED = ("compile", "fused-compile")  # without a figure of the last kind, the fastest peer counts as not measured
# The goals on each chip at each batch. They are based on the predictions of predict.py in docs/cuda.md.
FASTEST = 1.0  # minimum of: time of the fastest peer in bf16 / time of the engine in bf16
FLOATS = 1.7   # minimum of: time of eager PyTorch in float32 / time of the engine in float32
PART = 0.57    # minimum share of the chip's rate of large products, at batch 32

# The paper's speedups for each n, with k = 128, 256, 512, … Source:
# https://ar5iv.labs.arxiv.org/html/2006.04768#S5.T3, left part. The paper measured them on a V100 with 16 GB. E and F
# were shared layerwise.
PAPER = {512: (1.5, 1.3), 1024: (1.7, 1.6, 1.3), 2048: (2.6, 2.4, 2.1, 1.3), 4096: (3.4, 3.2, 2.8, 2.2, 1.3),
         8192: (5.5, 5.0, 4.4, 3.5, 2.1), 16384: (8.6, 7.8, 7.0, 5.6, 3.3), 32768: (13, 12, 11, 8.8, 5.0),
         65536: (20, 18, 16, 14, 7.9)}


def find(results, part, **wanted):
    """Returns the rows of results["measured"] that belong to this part and contain the wanted values."""
    return [row for row in results["measured"]
            if row["part"] == part and all(row.get(key) == value for key, value in wanted.items())]


def against(results, model, batch, dtype, peer):
    """Returns the time of the peer divided by the time of the engine, measured in turns. NaN if not measured."""
    turns = [row["times"] for row in find(results, "compare", model=model, batch=batch)
             if f"{peer} {dtype}" in row["times"]]
    return ratio(turns[-1], f"{peer} {dtype}", f"{OURS} {dtype}") if turns else math.nan


def fastest(results, model, batch):
    """Returns against() for the fastest peer in bf16. NaN if the last peer of COMPILED was not measured."""
    ratios = {peer: against(results, model, batch, "bf16", peer) for peer in ("eager", *COMPILED)}
    return math.nan if math.isnan(ratios[COMPILED[-1]]) else min(r for r in ratios.values() if not math.isnan(r))


def chip_rate(results, dtype):
    """TFLOP/s of large products. NaN if not measured."""
    found = find(results, "rates", dtype=dtype)
    return found[-1]["tflops"] if found else math.nan


def part_of_rate(results, model, batch, dtype):
    """The FLOP/s of the plan's products, as a share of the chip's rate of large products. NaN if not measured."""
    flops = find(results, "flops", model=model)
    times = [row["times"] for row in find(results, "compare", model=model, batch=batch)
             if f"{OURS} {dtype}" in row["times"]]
    if not flops or not times:
        return math.nan
    ms = statistics.median(times[-1][f"{OURS} {dtype}"])
    return flops[-1]["flops"] * batch / ms / 1e9 / chip_rate(results, dtype)


def to_kernels(results, model, dtype):
    """The time of a run divided by the sum of the times of its kernels. NaN if not measured."""
    rows = [row for row in find(results, "short", model=model, dtype=dtype) if row["kernels_us"]]
    return 1e3 * statistics.median(rows[-1]["ms"]) / rows[-1]["kernels_us"] if rows else math.nan


def mixed_to_full(results, model):
    """Tokens/s with mixed lengths divided by tokens/s with the full length. NaN if not measured."""
    rows = find(results, "mixed", model=model)
    return statistics.median(a / b for a, b in zip(rows[-1]["full"], rows[-1]["mixed"])) if rows else math.nan


def table3_cells(results):
    """The number of figures in PAPER for which the Linformer and both kinds of standard attention were measured."""
    ms = {(row["n"], row["k"], row["worker"]): row["ms"] for row in find(results, "table3")}
    return sum(bool(ms.get((n, 128 << i, OURS)) and ms.get((n, None, OURS)) and ms.get((n, None, "fused")))
               for n, row in PAPER.items() for i in range(len(row)))


def goals(results):
    """Yields (name, found number, ">=" or "<=", wanted number) for each goal. The found number is NaN if not
    measured."""
    for model, title in MODELS.items():
        for batch in BATCHES:
            where = f"{title}, batch {batch}: "
            yield where + "fastest PyTorch bf16 to ours", fastest(results, model, batch), ">=", FASTEST
            yield where + "eager f32 to ours", against(results, model, batch, "f32", "eager"), ">=", FLOATS
        yield f"{title}, batch 32: part of the chip's bf16 rate", part_of_rate(results, model, 32, "bf16"), ">=", PART
        for dtype in ("bf16", "f32"):
            yield f"{title}, batch 1, n 128, {dtype}: run to its kernels", \
                to_kernels(results, model, dtype), "<=", 2.0
        yield f"{title}: tokens/s mixed to full length", mixed_to_full(results, model), ">=", 0.85
    cells = table3_cells(results)
    yield "measured figures of the paper's Table 3", float(cells) if cells else math.nan, ">=", \
        float(sum(map(len, PAPER.values())))


def verdict(found, sign, wanted):
    if math.isnan(found):
        return "not measured"
    return "met" if (found >= wanted if sign == ">=" else found <= wanted) else "NOT MET"


def judged(results):
    """Yields (name, found number, wanted number, verdict) for each goal, as texts."""
    for what, found, sign, wanted in goals(results):
        yield what, "-" if math.isnan(found) else f"{found:.3g}", f"{sign} {wanted:g}", verdict(found, sign, wanted)


def read(paths):
    """Returns {"measured": rows} with the rows of all files, except files of dry runs."""
    files = [json.loads(pathlib.Path(path).read_text()) for path in paths]
    return {"measured": [row for results in files if not results["dry"] for row in results["measured"]]}


def main():
    tabs = "--tabs" in sys.argv
    rows = list(judged(read(path for path in sys.argv[1:] if path != "--tabs")))
    for row in rows:
        print("\t".join(row) if tabs else "{:<66} {:>8} {:>8}  {}".format(*row))
    return any(row[-1] == "NOT MET" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
