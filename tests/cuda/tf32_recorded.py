#!/usr/bin/env python3
"""tf32_recorded.py FOLDER: writes tests/cuda/tf32_recorded.h, sums of products in TF32 as tensor cores compute them.

FOLDER is a clone of github.com/microsoft/MMA-Sim, a model of tensor cores that its authors compared with GPUs. The sums
are those of the generation Ampere. A row contains eight pairs of factors, the number that is added to their products,
and the sum. All numbers are written as bits. torch must be installed."""

import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402
from mmasim.simulator.nv_ptx import mma  # noqa: E402

SEED, COUNT = 18, 96


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def draw(chance, spread):
    """Draws a float whose exponent is at most `spread` away from 0. One in eight floats is 0."""
    if chance.randrange(8) == 0:
        return 0.0
    x = (1 + chance.random()) * 2.0 ** chance.randint(-spread, spread) * chance.choice([-1, 1])
    return struct.unpack("<f", struct.pack("<f", x))[0]


chance = random.Random(SEED)
multiply = mma("Ampere", "m16n8k8.f32.tf32.tf32.f32")
lines = []
for number in range(COUNT):
    spread = (1, 4, 12, 40)[number % 4]
    a, b = torch.zeros(16, 8), torch.zeros(8, 8)
    c = torch.zeros(16, 8)
    a[0] = torch.tensor([draw(chance, spread) for _ in range(8)])
    b[:, 0] = torch.tensor([draw(chance, spread) for _ in range(8)])
    c[0, 0] = draw(chance, 2 * spread)
    d = multiply(a, b, c)
    values = [*a[0].tolist(), *b[:, 0].tolist(), c[0, 0].item(), d[0, 0].item()]
    lines.append("    {" + ", ".join(f"{bits(x):#010x}" for x in values) + "},")
Path(__file__).with_suffix(".h").write_text(
    f"""/* tf32_recorded: sums of products in TF32 on tensor cores of the generation Ampere, as MMA-Sim computes them.
 * tf32_recorded.py wrote this file. A row has the bits of eight factors a, of eight factors b, of c, and of
 * c + a[0] * b[0] + … + a[7] * b[7]. */
#define TF32_RECORDED {COUNT}

/* clang-format off */
static const uint32_t tf32_recorded[TF32_RECORDED][18] = {{
""" + "\n".join(lines) + "\n};\n/* clang-format on */\n")
