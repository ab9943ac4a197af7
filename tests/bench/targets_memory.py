#!/usr/bin/env python3
"""Measures the memory that the log-probabilities of a long sequence need.

    targets_memory.py [--tokens 11216] [--vocabulary 20000] [--daemon build/linformerd]

The script writes a linformer.LinformerLM with random weights, and serves this model. Then it sends one sequence to
/logits with "targets": "next". It prints the daemon's resident memory before the request, and the peak during the
request. Both values are from /proc/PID/status (VmRSS and VmHWM)."""

import argparse
import array
import json
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import time
import urllib.request

DIM, K, HEADS = 256, 64, 4


def shapes(options):
    layer = "linformer.net.layers.0."
    return {
        "token_emb.weight": [options.vocabulary, DIM],
        "pos_emb.weight": [options.tokens, DIM],
        layer + "0.fn.to_q.weight": [DIM, DIM],
        layer + "0.fn.to_k.weight": [DIM, DIM],
        layer + "0.fn.to_v.weight": [DIM, DIM],
        layer + "0.fn.proj_k": [options.tokens, K],
        layer + "0.fn.proj_v": [options.tokens, K],
        layer + "0.fn.to_out.weight": [DIM, DIM],
        layer + "0.fn.to_out.bias": [DIM],
        layer + "0.norm.weight": [DIM],
        layer + "0.norm.bias": [DIM],
        layer + "1.norm.weight": [DIM],
        layer + "1.norm.bias": [DIM],
        layer + "1.fn.w1.weight": [4 * DIM, DIM],
        layer + "1.fn.w1.bias": [4 * DIM],
        layer + "1.fn.w2.weight": [DIM, 4 * DIM],
        layer + "1.fn.w2.bias": [DIM],
        "to_logits.weight": [options.vocabulary, DIM],
        "to_logits.bias": [options.vocabulary],
    }


def write_model(folder, options):
    numbers = array.array("f", (random.gauss(0, 0.05) for _ in range(100003)))
    header, parts, end = {}, [], 0
    for name, shape in shapes(options).items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        parts.append((numbers * (count // len(numbers) + 1))[:count].tobytes())
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + 4 * count]}
        end += 4 * count
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    kwargs = {"num_tokens": options.vocabulary, "dim": DIM, "seq_len": options.tokens, "depth": 1, "k": K, "heads": HEADS}
    (folder / "config.json").write_text(json.dumps({"architecture": "linformer.LinformerLM", "kwargs": kwargs}))


def start(daemon, folder):
    process = subprocess.Popen([daemon, "--model", str(folder), "--port", "0"], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return process, found[1]
    raise RuntimeError("the daemon did not start")


def memory(process, name):
    """A field of /proc/PID/status in MB."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(name + r":\s+(\d+) kB", status)[1]) * 1024 / 1e6


def forget_peak(process):
    """Resets the peak of the process's memory (VmHWM) to its current memory."""
    pathlib.Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=11216)
    parser.add_argument("--vocabulary", type=int, default=20000)
    parser.add_argument("--daemon", default="build/linformerd")
    options = parser.parse_args()
    random.seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder, options)
        process, address = start(options.daemon, folder)
        try:
            forget_peak(process)
            before = memory(process, "VmRSS")
            ids = [random.randrange(options.vocabulary) for _ in range(options.tokens)]
            body = json.dumps({"inputs": ids, "targets": "next"}).encode()
            began = time.monotonic()
            with urllib.request.urlopen(urllib.request.Request(address + "/logits", body)) as answer:
                (result,) = json.load(answer)
            seconds = time.monotonic() - began
            after = memory(process, "VmHWM")
        finally:
            process.terminate()
            process.wait()
    logits = options.tokens * options.vocabulary * 4 / 1e6
    print(f"{result['n']} log-probabilities, mean {result['mean_logprob']:.4f}, {seconds:.1f} s")
    print(f"resident memory: {before:.0f} MB before the request, at most {after:.0f} MB during it")
    print(f"all logits alone would take {logits:.0f} MB")


if __name__ == "__main__":
    main()
