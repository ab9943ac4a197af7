#!/usr/bin/env python3
"""Exports each module of this folder, and writes calls with the results of PyTorch.

    generate.py [--folder tests/modules/reference] [--daemon build/linformerd] [NAME …]

    <folder>/<name>/config.json, model.safetensors   files that export_module() writes
    <folder>/<name>/calls.safetensors                "<i>/in/<parameter>" and "<i>/out/<output>"

Weights and inputs are random. Their seed is a checksum of the name. Norms and biases are random, too, instead of 0 and
1."""
import argparse
import importlib
import pathlib
import sys
import unittest
import warnings
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "weights")]

import torch
from export import ALL_DTYPES, export_module, write_safetensors

HELPERS = {"generate", "test_examples", "packages", "random_modules", "random_steps", "test_modules"}
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)


def load(name):
    """Returns the Python module of the case, and its PyTorch module with random weights."""
    case = importlib.import_module(name)
    torch.manual_seed(zlib.crc32(name.encode()))
    module = case.module().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        for path, buffer in module.named_buffers():
            if path.endswith("running_mean"):
                buffer.copy_(torch.randn_like(buffer) * 0.3)
            elif path.endswith("running_var"):
                buffer.copy_(torch.rand_like(buffer) + 0.5)
    return case, module


def outputs_of(module, inputs):
    """Returns the outputs of forward() by the names that the daemon gives to them."""
    with torch.no_grad():
        outputs = module(**{name: value.clone() for name, value in inputs.items()})
    if isinstance(outputs, torch.Tensor):
        return {"output": outputs}
    return dict(named(outputs, [] if isinstance(outputs, dict) else ["output"]))


def named(outputs, words):
    """Yields pairs of a name and a tensor. A name consists of the given words, followed by keys of dicts and indices in
    tuples."""
    if isinstance(outputs, torch.Tensor):
        yield ".".join(words), outputs
        return
    for key, value in outputs.items() if isinstance(outputs, dict) else enumerate(outputs):
        yield from named(value, [*words, str(key)])


def generate(name, folder, daemon):
    case, module = load(name)
    example = case.inputs(*case.EXAMPLE)
    tensors = {}
    for i, size in enumerate(case.CALLS):
        inputs = case.inputs(*size)
        tensors.update({f"{i}/in/{key}": value for key, value in inputs.items()})
        tensors.update({f"{i}/out/{key}": value.clone() for key, value in outputs_of(module, inputs).items()})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", module="torch|einops")
        export_module(module, example, folder / name, daemon=daemon, **getattr(case, "CONFIG", {}))
    with open(folder / name / "calls.safetensors", "wb") as file:
        write_safetensors(file, tensors, ALL_DTYPES)
    size = sum(path.stat().st_size for path in (folder / name).iterdir())
    print(f"{name}: {size} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "reference")
    parser.add_argument("--daemon", default=False)
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        try:
            generate(name, options.folder, options.daemon)
        except unittest.SkipTest as reason:
            print(f"{name}: skipped, {reason}")


if __name__ == "__main__":
    main()
