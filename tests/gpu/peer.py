#!/usr/bin/env python3
"""Runs a model of plain.py in PyTorch, on commands from standard input. tests/bench/worker does the same with the
engine.

    peer.py KIND FOLDER DTYPE DEVICE

KIND is one of these:

    eager           without torch.compile, attention as in the library
    compile         torch.compile with mode "max-autotune" and static shapes, attention as in the library
    fused           without torch.compile, attention by scaled_dot_product_attention
    fused-compile   torch.compile as above, attention by scaled_dot_product_attention

DTYPE is the number format of weights and activations: f32, tf32, bf16 or f16. With f32, TF32 is off. FOLDER contains
the model, and DEVICE is cuda or cpu.

A run begins with copying the ids from the host's memory, and ends when the means of the last hidden states are in the
host's memory. tests/bench/worker measures the same.

Each command is a line. The text after the arrow is the answer:

    pooled FILE LENGTH…   prepares sequences of these lengths, which must be equal. FILE contains the ids as int32. Runs
                          the batch once
                          -> ready
    run SECONDS           repeats the batch for this time, at least once -> ms T1 T2 …
    save FILE             writes the last output as raw f32 -> saved
    compare FILE          compares the floats in FILE with the last output -> l2 E, the relative L2 error
    rate SIZE             measures products of random matrices of the shape (SIZE, SIZE) -> tflops R

The answer to a command that fails is "failed MESSAGE". Output of libraries goes to standard error."""
import os
import pathlib
import statistics
import sys
import time
import warnings

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
warnings.simplefilter("ignore")

import numpy as np
import torch

import plain

TYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
RATE_ROUNDS, RATE_PRODUCTS = 9, 10


class Peer:
    def __init__(self, kind, folder, dtype, device):
        self.device, self.type = device, TYPES[dtype]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        self.model = plain.load(folder, kind.startswith("fused"), device, self.type)
        self.compiled = kind.endswith("compile")
        self.forward = self.pooled
        self.name = torch.cuda.get_device_name() if device == "cuda" else device

    def pooled(self, ids):
        return self.model.hidden(ids).mean(1, dtype=torch.float32)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def prepare(self, ids):
        self.ids = torch.from_numpy(ids)
        if self.device == "cuda":
            self.ids = self.ids.pin_memory()
        if self.compiled:
            torch._dynamo.reset()
            self.forward = torch.compile(self.pooled, dynamic=False, mode="max-autotune")
            for _ in range(3):  # compiles, and records the CUDA graph
                self.run()

    def run(self):
        with torch.inference_mode():
            self.output = self.forward(self.ids.to(self.device, non_blocking=True)).cpu()

    def rate(self, size):
        """Returns TFLOP/s of products of (size, size) matrices, the median of RATE_ROUNDS rounds. A round consists of
        several products, so that the time of a single launch hardly matters."""
        a, b = (torch.randn(size, size, device=self.device).to(self.type) for _ in range(2))
        rates = []
        for turn in range(RATE_ROUNDS + 1):
            self.wait()
            start = time.perf_counter()
            for _ in range(RATE_PRODUCTS):
                a @ b
            self.wait()
            rates.append(2 * size ** 3 * RATE_PRODUCTS / (time.perf_counter() - start) / 1e12)
        return statistics.median(rates[1:])


def relative_l2(found, expected):
    """Returns the L2 norm of the difference, divided by the L2 norm of `expected`."""
    found, expected = found.ravel().astype(np.float64), expected.ravel().astype(np.float64)
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def obey(peer, command, arguments):
    """Executes a command, and returns the answer."""
    if command == "pooled":
        lengths = [int(word) for word in arguments[1:]]
        if len(set(lengths)) != 1:
            raise ValueError("sequences of different lengths")
        peer.prepare(np.fromfile(arguments[0], np.int32).reshape(len(lengths), lengths[0]))
        peer.run()
        return "ready"
    if command == "run":
        begin, times = time.perf_counter(), []
        while not times or time.perf_counter() - begin < float(arguments[0]):
            start = time.perf_counter()
            peer.run()
            times.append(1e3 * (time.perf_counter() - start))
        return "ms " + " ".join(f"{ms:.4f}" for ms in times)
    if command == "save":
        peer.output.numpy().tofile(arguments[0])
        return "saved"
    if command == "compare":
        return f"l2 {relative_l2(np.fromfile(arguments[0], np.float32), peer.output.numpy()):.3e}"
    if command == "rate":
        return f"tflops {peer.rate(int(arguments[0])):.4g}"
    raise ValueError(f"no command {command}")


def answer(text):
    print(" ".join(text.split()), file=answers, flush=True)


def main():
    kind, folder, dtype, device = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    try:
        peer = Peer(kind, folder, dtype, device)
        answer(f"ready torch {torch.__version__} on {peer.name}")
    except Exception as error:
        return answer(f"failed {type(error).__name__}: {str(error)[:300]}")
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            answer(obey(peer, command, arguments))
        except Exception as error:
            answer(f"failed {type(error).__name__}: {str(error)[:300]}")


if __name__ == "__main__":
    main()
