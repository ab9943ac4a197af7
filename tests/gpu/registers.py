#!/usr/bin/env python3
"""Computes the tables of registers and shared memory in docs/cuda.md. `make predict` writes registers.json and the
page.

    registers.py    prints the tables

registers.json contains two numbers that ptxas prints for each kernel and compute capability: the registers of a thread,
and the bytes that spill. For a kernel that spills, registers.json contains two more numbers: all instructions of one
pass of the main loop, and the instructions of the pass that access the stack."""
import json
import math
import pathlib
import sys

sys.dont_write_bytecode = True

import page

COUNTS = pathlib.Path(__file__).resolve().parent / "registers.json"
KEYS = 256
# For each group of compute capabilities: KiB of shared memory of a block and of a multiprocessor, and the code that
# runs. The sizes are from NVIDIA's table of compute capabilities. Each block occupies one KiB more than it requests.
CHIPS = {"8.6, 8.9, 12.0": (99, 100, ("80", "120")), "8.0": (163, 164, ("80",)), "9.0, 10.0": (227, 228, ("90", "100"))}
REGISTERS = 65536  # registers of a multiprocessor. A warp occupies a multiple of 256 registers


def attend_kib(width, chip):
    """Returns the KiB of shared memory of a block in attend_tensor.cu, for heads of `width` features. If there is room,
    the block has a place for each tile of 64 keys, and one place for queries and results. Otherwise it has two
    places."""
    block, processor, _ = chip
    tile = 2 * 64 * (width + 8) * 2 / 1024
    places = KEYS // 64 + 1
    return tile * (places if places * tile <= (processor / 2 - 1 if width <= 64 else block) else 2)


def project_kib(lines, turned):
    """Returns the KiB of shared memory of a block in project_tensor.cu, for four stages of E and x. If `turned`, the
    shape of E is (k, positions)."""
    depth = 64 if lines < 128 else 32
    return 4 * 2 * ((lines * (depth + 8) if turned else depth * (lines + 8)) + depth * (lines + 8)) / 1024


def attention(width):
    tall = 2 if width <= 64 else 1
    return f"attend_tensor<TYPE, {width}, {tall}>", 256 // tall, lambda chip: [attend_kib(width, chip)]


def projection(lines):
    return f"project_tensor<TYPE, {lines}, {lines}, ", 256, lambda _: [project_kib(lines, turned) for turned in (False, True)]


# (title, (beginning of the kernel's name, threads of a block, function from a chip to a list of KiB of shared memory))
ROWS = (("attention, heads of up to 32 features", attention(32)), ("up to 64 features", attention(64)),
        ("up to 96 features", attention(96)), ("up to 128 features", attention(128)),
        ("projection, large tiles", projection(128)), ("projection, small tiles", projection(64)))


def most_registers(kernels, name, capabilities):
    """Returns the maximum number of registers of a thread, in all kernels in bf16 and f16 whose names begin with
    `name`."""
    return max(counts[capability][0] for kernel, counts in kernels.items() for capability in capabilities
               if kernel.startswith(tuple(name.replace("TYPE", word) for word in ("__nv_bfloat16", "__half"))))


def blocks_of(registers, threads, kib, chip):
    """Returns the number of blocks that a multiprocessor runs at a time. `registers` is the number of registers of a
    thread, and `kib` is the shared memory of a block."""
    warp = math.ceil(registers * 32 / 256) * 256
    return min(REGISTERS // (warp * threads // 32), int(chip[1] // (kib + 1)))


def room_cell(kernels, kernel, chip):
    """Returns a cell of the table: KiB of shared memory of a block, and number of blocks of a multiprocessor."""
    name, threads, kib_of = kernel
    kib, registers = kib_of(chip), most_registers(kernels, name, chip[2])
    blocks = blocks_of(registers, threads, max(kib), chip)
    size = f"{min(kib):.0f}" if min(kib) == max(kib) else f"{min(kib):.0f} to {max(kib):.0f}"
    return f"{size}, {blocks} block{'s' * (blocks > 1)}"


def rooms(counts):
    """The table of shared memory."""
    kernels = counts["kernels"]
    capabilities = list(next(iter(kernels.values())))
    rows = [(what, most_registers(kernels, kernel[0], capabilities),
             *(room_cell(kernels, kernel, chip) for chip in CHIPS.values())) for what, kernel in ROWS]
    return page.table(["kernel", "maximum registers per thread", *CHIPS], rows)


def dotted(capability):
    """The capability with a dot, such as "8.0" for "80"."""
    return f"{capability[:-1]}.{capability[-1]}"


def spill_cell(registers, spilled, *loop):
    """Returns a cell of the table of spills. The arguments are the numbers in registers.json."""
    return f"{spilled} ({loop[1]} of {loop[0]})" if spilled else "–"


def spills(counts):
    """The paragraphs and the table about spills."""
    spilling = {name: found for name, found in counts["kernels"].items() if any(kernel[1] for kernel in found.values())}
    capabilities = list(next(iter(counts["kernels"].values())))
    text = f"""Of the {len(counts["kernels"])} kernels, {len(spilling)} spill for at least one compute capability. The table
        gives the spilled bytes of each thread. In brackets are two numbers for one pass of the main loop: the instructions
        that access these bytes, and all instructions. Loops within the main loop count once. The compiler was nvcc,
        {counts["nvcc"]}."""
    if not spilling:
        return page.paragraph(f"None of the {len(counts['kernels'])} kernels spills. The compiler was nvcc, {counts['nvcc']}.")
    share, name, capability = max((found[capability][3] / found[capability][2], name, capability)
                                  for name, found in spilling.items() for capability in found if found[capability][1])
    return "\n".join((page.paragraph(text), page.table(
        ["kernel", *map(dotted, capabilities)],
        [(f"`{name}`", *(spill_cell(*found[capability]) for capability in capabilities)) for name, found in spilling.items()]),
        page.paragraph(f"""The largest share of such instructions is {100 * share:.1f} %, in `{name}` for
                       {dotted(capability)}.""")))


def written():
    """The blocks of docs/cuda.md, as {name: text}."""
    counts = json.loads(COUNTS.read_text())
    return {"rooms": rooms(counts), "spills": spills(counts)}


if __name__ == "__main__":
    print(*written().values(), sep="\n", end="")
