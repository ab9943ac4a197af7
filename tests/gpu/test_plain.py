#!/usr/bin/env python3
"""Compares the modules of plain.py with the libraries' outputs in tests/reference. Also tests that plain.py can read
the models that it writes. Needs PyTorch and numpy. Prints TAP.

    test_plain.py [DEVICE]         DEVICE is cpu or cuda. The default is cpu"""
import pathlib
import sys
import tempfile

import torch

import plain

REFERENCE = pathlib.Path(__file__).resolve().parents[1] / "reference"
CASES = ("linformer_lm", "linformer_lm_share_kv", "linformer_lm_one_kv_head", "linformer_lm_one_kv_head_share_kv",
         "linformer_lm_dim_head", "linformer_encoder", "linformer_pytorch_lm", "linformer_pytorch_full_attention",
         "linformer_pytorch_share_layerwise")
TOLERANCE = 1e-5  # maximum relative L2 error


def errors(case, fused, device):
    """Yields the relative L2 error of each call of a case in tests/reference, except calls with masks."""
    model = plain.load(REFERENCE / case, fused, device)
    calls = plain.read_tensors(REFERENCE / case / "calls.safetensors", device)
    for index in range(len(calls)):
        names = [name for name in calls if name.startswith(f"{index}/in/")]
        if len(names) == 1:
            expected = calls[f"{index}/out/output"]
            yield ((model(calls[names[0]]) - expected).norm() / expected.norm()).item()


def written_is_read():
    """plain.py writes a model, and load() reads it. Returns whether the loaded model has the tensors that
    read_tensors() finds in the file. Also tests that the size of the header is a multiple of 8. Both measured
    architectures are tested."""
    small = {"linformer.LinformerLM": dict(num_tokens=7, dim=8, seq_len=6, depth=1, heads=2, k=3),
             "linformer_pytorch.LinformerLM": dict(num_tokens=7, channels=8, input_size=6, dim_k=3, dim_ff=5, nhead=2,
                                                   depth=1)}
    with tempfile.TemporaryDirectory() as name:
        folder, found = pathlib.Path(name), []
        for architecture, kwargs in small.items():
            plain.write(architecture, kwargs, folder, seed=1)
            state = plain.load(folder).state_dict()
            stored = plain.read_tensors(folder / "model.safetensors")
            size = (folder / "model.safetensors").read_bytes()[:8]
            found.append(int.from_bytes(size, "little") % 8 == 0 and state.keys() == stored.keys()
                         and all(torch.equal(state[name], stored[name]) for name in state))
        return all(found)


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = 0
    print(f"1..{2 * len(CASES) + 1}")
    for number, (case, fused) in enumerate(((case, fused) for case in CASES for fused in (False, True)), 1):
        found = list(errors(case, fused, device))
        good = bool(found) and max(found) <= TOLERANCE
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {case}{', fused' if fused else ''}: outputs agree with the library's")
        print(f"# {len(found)} calls, relative L2 error {max(found, default=float('nan')):.2g}")
    good = written_is_read()
    print(f"{'ok' if good else 'not ok'} {2 * len(CASES) + 1} - a written model has the same tensors after reading")
    return failed > 0 or not good


if __name__ == "__main__":
    sys.exit(main())
