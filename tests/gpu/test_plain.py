#!/usr/bin/env python3
"""plain.py computes what the libraries compute: its modules against tests/reference, in TAP. Needs torch, safetensors.

    test_plain.py [DEVICE]"""
import pathlib
import sys

import torch
from safetensors.torch import load_file

import plain

REFERENCE = pathlib.Path(__file__).resolve().parents[1] / "reference"
CASES = ("linformer_lm", "linformer_lm_share_kv", "linformer_lm_one_kv_head", "linformer_lm_one_kv_head_share_kv",
         "linformer_lm_dim_head", "linformer_encoder", "linformer_pytorch_lm", "linformer_pytorch_full_attention",
         "linformer_pytorch_share_layerwise")
TOLERANCE = 1e-5


def errors(case, fused, device):
    """Of each call of the case that gives no masks."""
    model = plain.load(REFERENCE / case, fused, device)
    calls = load_file(REFERENCE / case / "calls.safetensors", device=device)
    for index in range(len(calls)):
        names = [name for name in calls if name.startswith(f"{index}/in/")]
        if len(names) == 1:
            expected = calls[f"{index}/out/output"]
            yield ((model(calls[names[0]]) - expected).norm() / expected.norm()).item()


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = 0
    print(f"1..{2 * len(CASES)}")
    for number, (case, fused) in enumerate(((case, fused) for case in CASES for fused in (False, True)), 1):
        found = list(errors(case, fused, device))
        good = bool(found) and max(found) <= TOLERANCE
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {case}{', fused' if fused else ''}")
        print(f"# {len(found)} calls, relative L2 error {max(found, default=float('nan')):.2g}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
