#!/usr/bin/env python3
"""Predicts the times of the engine and of PyTorch on A100, H100 and H200, for the models of goals.py. Nothing here was
measured.

    predict.py             prints the texts of predict_page.py for docs/cuda.md
    predict.py --kernels   prints the times of the slowest kernels in each run
    predict.py --table     writes the texts of predict_page.py and registers.py into docs/cuda.md
    predict.py --recount   counts again, and writes counts.json and registers.json (the registers of all kernels)

A prediction consists of counts and of a model of the chip. counts.json contains the counts:

- The engine's launches, and the shapes of its products. The shim (CUDA on the CPU) runs the engine and records each
  launch. Some steps can run in two ways, with cuBLASLt or with a kernel of the engine. Both ways are counted, and the
  way with the shorter predicted time is used. The engine's tuning would choose in the same way.
- The instructions of the engine's largest kernels, in the SASS that nvcc makes for compute capability 8.0 and 9.0
  (sass.py).
- PyTorch's launches and the bytes that they move, from a trace of the same models (predict_peers.py).

The model of a chip has the assumptions below. A kernel uses several units, and takes as long as the slowest of them.
The units are instruction issue, tensor cores, arithmetic of floats, arithmetic of integers, exponentials, shared
memory, the L2 cache and memory. This file contains all constants."""
import json
import math
import pathlib
import sys
import typing

FOLDER = pathlib.Path(__file__).resolve().parent
COUNTS = FOLDER / "counts.json"
sys.dont_write_bytecode = True
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "bench")]

import page
from goals import BATCHES, MODELS

SIZES = dict(num_tokens=256, dim=512, seq_len=4096, depth=12, heads=8, k=256)


class Batch(typing.NamedTuple):
    items: int
    rows: int  # number of rows of all items together


def whole(items):
    """Returns a batch of items that have SIZES["seq_len"] rows each."""
    return Batch(items, items * SIZES["seq_len"])


# The lengths of a batch of items with several lengths. The longest item has SIZES["seq_len"] rows, and each further
# item has 64 rows less.
LENGTHS = [SIZES["seq_len"] - 64 * i for i in range(32)]

# The constants of each chip:
# - sass: the compute capability of the code that runs.
# - processors, memory, peak: number of multiprocessors, bytes per second of memory, and FLOP/s of bf16 products. They
#   are from NVIDIA's data sheets, for SXM and without sparsity.
# - clock: cycles per second under load. The boost clock of H100 and H200 is higher, 1.83 GHz.
# - cache: bytes per second of the L2 cache.
# - cached: if a kernel reads fewer bytes than this, they are assumed to be in the L2 cache.
# - large: the share of the peak that cuBLAS reaches in large bf16 products. The source is S. Bekman, Machine Learning
#   Engineering, "maximum achievable matmul FLOPS". For H200, the share of H100 is assumed.
# - mma: the share of the peak that the instruction mma.sync reaches. The source for Hopper is W. Luo and others 2024,
#   arXiv 2402.13499. The figure was not checked against this source.
# - lanes: number of float32 operations that a multiprocessor begins in a cycle.
# - shared_kib: the maximum shared memory of a block, in KiB.
CHIPS = {
    "A100": dict(sass="80", processors=108, clock=1.41e9, memory=2.04e12, cache=4.5e12, cached=20e6, peak=312e12,
                 large=0.86, mma=1.0, lanes=64, shared_kib=163),
    "H100": dict(sass="90", processors=132, clock=1.70e9, memory=3.35e12, cache=5.5e12, cached=25e6, peak=989e12,
                 large=0.80, mma=0.63, lanes=128, shared_kib=227),
    "H200": dict(sass="90", processors=132, clock=1.70e9, memory=4.80e12, cache=5.5e12, cached=25e6, peak=989e12,
                 large=0.80, mma=0.63, lanes=128, shared_kib=227)}

# Seconds that each launch in a CUDA graph adds, because a kernel does not fill the device at its beginning and end.
LAUNCH_S = 3e-6
EAGER_S = 5e-6          # seconds that eager PyTorch takes on the host for each operation
BUSY = 0.75             # a kernel of the engine reaches this share of the rate of its slowest unit
MEMORY_SHARE = 0.90     # share of the memory's peak rate that a kernel reaches
FLOAT_SHARE = 0.85      # share of the float32 peak that cuBLAS reaches in large products
PIPELINE_DEPTH = 128    # elements of depth that take as long as the beginning and end of a product
ATTENTION_SHARE = 0.45  # share of the peak that PyTorch's flash attention reaches, with 256 keys and 64 features a head
# The tiles among which cuBLAS chooses: rows, columns, and the share of the rate of large products that the tile
# reaches.
TILES = ((128, 256, 1.0), (128, 128, 0.9), (64, 128, 0.75), (64, 64, 0.5))
SPLITS = (1, 2, 4, 8)   # numbers of parts into which cuBLAS may divide the depth of a product


def per_lane(chip, cycles):
    """Returns the seconds that a number of cycles takes."""
    return cycles / chip["clock"]


def memory_s(chip, moved):
    """Returns the seconds to move `moved` bytes. If there are fewer than chip["cached"] bytes, they come from the L2
    cache, because they were just written. Otherwise they come from memory."""
    return moved / (chip["cache"] if moved < chip["cached"] else chip["memory"] * MEMORY_SHARE)


def waste(blocks, processors):
    """Returns the time of the blocks, divided by the time that they would take if the multiprocessors could share them
    evenly."""
    return math.ceil(blocks / processors) * processors / blocks


def product_s(chip, shape, element, extra_bytes=0):
    """Returns the seconds of a product of cuBLAS, with the fastest of TILES and SPLITS. `shape` is (batch, rows,
    columns, depth). `element` is the number of bytes of an element. `extra_bytes` are also moved."""
    batch, rows, columns, depth = shape
    rate = chip["peak"] * chip["large"] if element == 2 else \
        2 * chip["lanes"] * chip["processors"] * chip["clock"] * FLOAT_SHARE
    seconds = math.inf
    for tall, wide, share in TILES:
        for split in SPLITS:
            blocks = batch * split * min(math.ceil(rows / tall) * math.ceil(columns / wide),
                                         math.ceil(rows / wide) * math.ceil(columns / tall))
            flops = 2 * blocks * tall * wide * (depth / split + PIPELINE_DEPTH)
            seconds = min(seconds, flops * waste(blocks, chip["processors"]) / rate / share)
    moved = batch * (rows * depth + depth * columns + rows * columns) * element + extra_bytes
    return max(seconds, memory_s(chip, moved))


def grouped_s(chip, shape, element):
    """Returns the seconds of a call of cublasGemmGroupedBatchedEx, with the fastest of TILES. The call is assumed to
    use the instruction mma.sync, like the engine's own kernels. `shape` is (rows, columns, sum of the depths, number of
    products). `element` is the number of bytes of an element."""
    rows, columns, depths, products = shape
    rate, seconds = chip["peak"] * chip["large"] * chip["mma"], math.inf
    for tall, wide, share in TILES:
        tiles = min(math.ceil(rows / tall) * math.ceil(columns / wide), math.ceil(rows / wide) * math.ceil(columns / tall))
        flops = 2 * tiles * tall * wide * (depths + products * PIPELINE_DEPTH)
        seconds = min(seconds, flops * waste(tiles * products, chip["processors"]) / rate / share)
    moved = (rows + columns) * depths * element + rows * columns * products * element
    return max(seconds, memory_s(chip, moved))


# ---- Kernels of the engine

def kernel_s(chip, blocks, work, moved):
    """Returns the seconds of a kernel of the engine with `blocks` blocks. The kernel moves `moved` bytes of memory.
    `work` contains the numbers of instructions of all warps in all blocks, by opcode. LDGSTS copies 16 bytes for each
    thread from the L2 cache. A multiprocessor has four schedulers. In one cycle, each unit of a scheduler does this:
    - issue: one instruction.
    - tensor cores: 512 FLOP of bf16 on an A100. The instruction m16n8k16 has 4096 FLOP. In TF32, m16n8k8 takes as long.
    - exponentials: 4 of the 32 lanes of a warp.
    - floats: a quarter of chip["lanes"] operations.
    - integers: operations of 16 lanes.
    - shared memory: a quarter of the 128 bytes that a multiprocessor accesses in a cycle."""
    flops_a_cycle = chip["peak"] * chip["mma"] / chip["processors"] / chip["clock"] / 4
    cycles = max(work["all"], work.get("HMMA", 0) * 4096 / flops_a_cycle, work.get("MUFU", 0) * 8,
                 work.get("float", 0) * 128 / chip["lanes"], work.get("integer", 0) * 2, work.get("shared", 0) * 4)
    busy = cycles / 4 / chip["processors"] / BUSY * waste(blocks, chip["processors"])
    return max(per_lane(chip, busy), work.get("LDGSTS", 0) * 512 / chip["cache"], memory_s(chip, moved))


def add(*parts):
    """Returns {opcode: number}, the sum of times * counts over all `parts`. Each part is (times, counts), and counts is
    {opcode: number}."""
    total = {}
    for times, counts in parts:
        for code, number in counts.items():
            total[code] = total.get(code, 0) + times * number
    return total


def attend_tensor_work(counts, launch, batch):
    """Returns (blocks with work, instructions of all warps, bytes moved) of attend_tensor.cu. A unit of work is 128
    rows of a head. For each unit, each warp copies its queries, and computes its rows with all tiles of 64 keys. If all
    tiles stay in shared memory, a block copies them once. Otherwise the block copies them for each unit. An instruction
    copies 16 bytes for each thread."""
    keys, heads, width = SIZES["k"], SIZES["heads"], SIZES["dim"] // SIZES["heads"]
    warps, units = launch["threads"] // 32, batch.rows // 128 * heads
    tiles = keys // 64
    stay = launch["shared"] > 2 * 2 * 64 * (width + 8) * 2
    blocks = launch["grid"][0] * launch["grid"][1]
    fetches = (blocks if stay else units) * keys * 2 * width // 8 // 32
    queries = units * 128 * width // 8 // 32
    work = add((units * warps * tiles, counts["hot"]), (units * warps, counts["rest"]),
               (fetches + queries, counts["copy"]))
    moved = 2 * batch.rows * SIZES["dim"] * 2
    return min(blocks, units), work, moved


def part_rows(launch, batch):
    """Returns the number of rows of a part in a projection along the sequence. The grid contains one more part for each
    item (parts_at_most in projection.h). These additional parts have no rows."""
    return batch.rows // (launch["grid"][0] - batch.items)


def template_numbers(name):
    """Returns the integers among the template arguments in a kernel's name. For
    project_tensor<__nv_bfloat16, 64, 128, false>, they are [64, 128]."""
    return [int(word) for word in name.split("<")[1].rstrip(">").split(", ") if word.isdigit()]


def project_tensor_work(counts, launch, batch):
    """Returns (blocks with work, instructions of all warps, bytes moved) of project_tensor.cu. A block multiplies the
    rows of a part, `depth` rows at a time."""
    tall, wide = template_numbers(launch["name"])
    depth, warps = (64 if tall < 128 else 32), launch["threads"] // 32
    x, y, z = launch["grid"]
    parts = x - batch.items
    blocks = parts * y * z
    steps = blocks * part_rows(launch, batch) // depth
    copies = steps * depth * (tall + wide) // 8 // 32
    work = add((steps * warps, counts["hot"]), (blocks * warps, counts["rest"]), (copies, counts["copy"]))
    columns = z * wide
    moved = batch.rows * columns * 2 + parts * y * tall * columns * 4
    return blocks, work, moved


def split_work(counts, launch, blocks, tiles):
    """Returns the instructions of all warps in a kernel that splits floats (split.h). `tiles` is the number of passes
    of the kernel's outer loop."""
    warps = launch["threads"] // 32
    return add((blocks * warps * tiles, counts["tile"]), (blocks * warps, counts["rest"]))


def split_depth(name):
    """Returns the depth that a kernel loads into shared memory at a time. The constant split_depth in split_tile.h has
    the same value."""
    return 32 if template_numbers(name)[0] < 128 else 16


def multiply_split_work(counts, launch, _):
    """Returns (blocks, instructions of all warps, bytes moved) of a product of floats. A block computes a tile of the
    result."""
    columns, rows, depth = launch["shape"]
    blocks = launch["grid"][0]
    work = split_work(counts, launch, blocks, math.ceil(depth / split_depth(launch["name"])))
    return blocks, work, (rows * depth + depth * columns + (1 + launch["added"]) * rows * columns) * 4


def multiply_part_work(counts, launch, batch):
    """Returns (blocks with work, instructions of all warps, bytes moved) of a projection of floats. A block multiplies
    the rows of a part."""
    lines, (x, y, z) = template_numbers(launch["name"])[0], launch["grid"]
    parts = x - batch.items
    blocks, columns = parts * y * z, z * lines
    work = split_work(counts, launch, blocks, math.ceil(part_rows(launch, batch) / split_depth(launch["name"])))
    return blocks, work, batch.rows * columns * 4 + parts * y * lines * columns * 4


def attend_part_work(counts, launch, batch):
    """Returns (blocks with work, instructions of all warps, bytes moved) of attention of floats. A block computes 128
    rows of a head, and reads 32 keys at a time."""
    blocks = batch.rows // 128 * SIZES["heads"]
    work = split_work(counts, launch, blocks, SIZES["k"] // 32)
    return blocks, work, 2 * batch.rows * SIZES["dim"] * 4


def moved_by(name, launch, batch, element):
    """Returns the bytes that a kernel moves, for kernels that do hardly anything else. A block has 8 warps, and each
    warp handles a row."""
    rows, dim = launch["grid"][0] * 8, SIZES["dim"]
    if name.startswith(("layer_norm", "copy_rows", "gather_rows", "add_norm")):
        return 2 * rows * dim * element
    if name.startswith(("embed", "place_input")):
        return rows * dim * element if name[0] == "e" else batch.rows * 12
    if name.startswith(("finish_linear", "finish_product")):  # a hidden row has 4 * dim elements
        return 2 * rows * 4 * dim * element
    if name.startswith("pool"):
        return batch.rows * dim * element
    if name.startswith("finish_projection"):
        columns = launch["threads"] if launch["threads"] < 256 else dim  # a block has at most 256 threads
        few = SIZES["k"] * columns <= 256 * 64                           # parts are shorter then (project.cu)
        parts = SIZES["seq_len"] // ((1024 if element == 2 else 512) // (4 if few else 1))
        return launch["grid"][0] * launch["grid"][1] * columns * (4 * parts + element)
    if name.startswith("address_matrices"):  # a thread writes the addresses of three matrices
        return launch["grid"][0] * launch["threads"] * 3 * 8
    raise SystemExit(f"{name}: predict.py does not know how many bytes it moves")


WORK = {"attend_tensor": attend_tensor_work, "project_tensor": project_tensor_work, "multiply_split": multiply_split_work,
        "multiply_part": multiply_part_work, "attend_part": attend_part_work}


def launch_s(chip, counts, launch, batch, element):
    """Returns the seconds of the kernel or product of one launch of the engine, without LAUNCH_S."""
    if launch["kind"] == "product":
        rows, columns, depth, *products = launch["shape"]
        return product_s(chip, (*(products or [1]), rows, columns, depth), element,
                         launch["added"] * rows * columns * element)
    if launch["kind"] == "grouped":
        return grouped_s(chip, launch["shape"], element)
    family = launch["name"].split("<")[0]
    if family not in WORK:
        return memory_s(chip, moved_by(launch["name"], launch, batch, element))
    return kernel_s(chip, *WORK[family](counts["sass"][chip["sass"]][launch["name"]], launch, batch))


def name_of(launch):
    return launch["name"] if launch["kind"] == "kernel" else \
        f"{launch['kind']} " + " x ".join(map(str, launch["shape"]))


# The two ways to compute a step: cuBLASLt computes as much of the step as it can, or the engine's kernels compute it.
WAYS = ("library", "kernel")


def ways_of(step, ways, gelu_apart):
    """Returns the launches of each way that the engine may choose for a step, as a list of lists. `ways` limits the
    choice. With `gelu_apart`, a kernel of the engine must compute GELU."""
    if "library" not in step:
        return [[step]]
    if gelu_apart and any(name_of(launch).startswith("finish_product") for launch in step["kernel"]):
        return [step["kernel"]]
    return [step[way] for way in ways]


def run_s(chip, counts, steps, batch, element, ways_of_step):
    """Returns (seconds of a run, {kernel: seconds}). ways_of_step(step) returns the launches of each possible way of a
    step. The fastest way counts."""
    times = {}
    for step in steps:
        timed = [[(name_of(launch), launch_s(chip, counts, launch, batch, element) + LAUNCH_S) for launch in launches]
                 for launches in ways_of_step(step)]
        for name, seconds in min(timed, key=lambda way: sum(seconds for _, seconds in way)):
            times[name] = times.get(name, 0) + step["times"] * seconds
    return sum(times.values()), times


def engine_s(chip, counts, model, dtype, batch, ways=WAYS, gelu_apart=False):
    """Returns (seconds of a run, {kernel: seconds}). If a step has two ways, the faster way among `ways` counts. With
    `gelu_apart`, cuBLASLt does not compute GELU."""
    steps = counts["engine"][f"{model} {dtype} {batch} {chip['processors']}"]
    return run_s(chip, counts, steps, whole(batch), 2 if dtype == "bf16" else 4,
                 lambda step: ways_of(step, ways, gelu_apart))


def lengths_s(chip, counts, model, way):
    """Returns the seconds of a run in bf16 of a batch with items of the lengths LENGTHS. With the way "library", cuBLAS
    computes all projections: a product for the item of the full length, and grouped products for the others. With
    "kernel", the engine's own kernel computes them."""
    def ways(step):
        grouped = any(launch["kind"] == "grouped" for launch in step.get("library", []))
        return ways_of(step, [way] if grouped else WAYS, False)
    return run_s(chip, counts, counts["lengths"][f"{model} {chip['processors']}"], Batch(len(LENGTHS), sum(LENGTHS)), 2,
                 ways)[0]


# ---- PyTorch

PEERS = {"eager": "eager", "compile": "torch.compile", "fused-compile": "torch.compile, SDPA"}


def peer_s(chip, counts, model, dtype, batch, peer):
    """Returns the seconds of a run of a peer (PyTorch). counts.json contains the bytes for one sequence in bf16. They
    are multiplied by the batch size. Weights are therefore counted for each sequence, which hardly matters."""
    element, seconds, launches = 2 if dtype == "bf16" else 4, 0, 0
    for kind, shape, moved, times in counts["peers"][f"{model} {peer}"]:
        moved = moved * batch * element // 2
        if kind == "product":
            n, rows, columns, depth = shape
            one = product_s(chip, (n * batch, rows, columns, depth) if n > 1 or rows != SIZES["seq_len"]
                            else (1, rows * batch, columns, depth), element)
        elif kind == "attention":
            one = max(shape * batch / chip["peak"] / ATTENTION_SHARE, memory_s(chip, moved))
        else:
            one = memory_s(chip, moved)
        seconds += times * (one + LAUNCH_S)
        launches += times
    return max(seconds, launches * EAGER_S) if peer == "eager" else seconds


# ---- The figures that goals.py compares

def flops_of(counts, model, batch):
    """Returns the FLOPs of the engine's plan for a batch: products, projections along the sequence as cuBLASLt computes
    them, and attention."""
    total = 0
    for step in counts["engine"][f"{model} bf16 {batch} 132"]:
        for launch in step.get("library", [step]):
            if launch["kind"] == "product":
                total += step["times"] * 2 * math.prod(launch["shape"])
            elif launch["name"].startswith("attend_tensor"):
                total += step["times"] * 4 * batch * SIZES["seq_len"] * SIZES["k"] * SIZES["dim"]
    return total


def predict(counts, chip_name, model, batch):
    """Returns {name: number} for one case. Most numbers are seconds of a run. "apart" is the time in bf16 with
    gelu_apart. "peers" is a list of the times of PEERS in bf16. "part" is the share of the rate of large products that
    the engine reaches."""
    chip, found = CHIPS[chip_name], {}
    for dtype in ("bf16", "f32"):
        found[dtype] = engine_s(chip, counts, model, dtype, batch)[0]
        for way in WAYS:
            found[f"{dtype} {way}"] = engine_s(chip, counts, model, dtype, batch, [way])[0]
        found[f"eager {dtype}"] = peer_s(chip, counts, model, dtype, batch, "eager")
    found["compile f32"] = peer_s(chip, counts, model, "f32", batch, "compile")
    found["apart"] = engine_s(chip, counts, model, "bf16", batch, gelu_apart=True)[0]
    found["peers"] = [peer_s(chip, counts, model, "bf16", batch, peer) for peer in PEERS]
    found["part"] = flops_of(counts, model, batch) / found["bf16"] / chip["peak"] / chip["large"]
    return found


CASES = [(chip, model, batch) for chip in CHIPS for model in MODELS for batch in BATCHES]


def counted_for():
    """Returns the values that counts.json depends on, besides the sources."""
    return [SIZES, BATCHES, list(MODELS), LENGTHS,
            [[chip[key] for key in ("sass", "processors", "shared_kib")] for chip in CHIPS.values()]]


def print_kernels(counts):
    for chip, model, batch in CASES:
        for dtype in ("bf16", "f32"):
            total, times = engine_s(CHIPS[chip], counts, model, dtype, batch)
            print(f"{chip} {model} {dtype} batch {batch}: {1e3 * total:.2f} ms")
            for name, seconds in sorted(times.items(), key=lambda item: -item[1])[:8]:
                print(f"    {1e3 * seconds:9.2f} ms {seconds / total:5.0%}  {name}")


def main():
    import predict_page  # these modules import this file
    import registers
    if "--recount" in sys.argv:
        import predict_counts
        texts = predict_counts.registers_text(), predict_counts.text()
        registers.COUNTS.write_text(texts[0])
        COUNTS.write_text(texts[1])
    counts = json.loads(COUNTS.read_text())
    if "--table" in sys.argv:
        page.write(predict_page.written(counts) | registers.written())
    elif "--kernels" in sys.argv:
        print_kernels(counts)
    else:
        print(*predict_page.written(counts).values(), sep="\n", end="")


if __name__ == "__main__":
    main()
