#!/usr/bin/env python3
# requirements: ../libraries/requirements.txt
"""Writes cases of linear-attention-transformer's ImageLinearAttention whose convolutions move, grow or shrink images.

    generate_images.py [--folder tests/reference]"""
import argparse
import json
import pathlib

import torch
from linear_attention_transformer.images import ImageLinearAttention
from safetensors.torch import save_file

# By name of the case: the arguments of the class, and for each call the shape of x, and of context if there is one.
CASES = {
    "stride": (
        {"chan": 6, "kernel_size": 1, "padding": 1, "stride": 2, "key_dim": 4, "value_dim": 4, "heads": 2},
        [[(2, 6, 3, 3)], [(1, 6, 2, 3), (1, 6, 5)], [(2, 6, 3, 2), (2, 6, 2, 3)], [(1, 6, 2, 2), (1, 6)]],
    ),
    "same": (
        {"chan": 4, "chan_out": 3, "kernel_size": [2, 4], "padding": "same", "key_dim": 5, "value_dim": 7, "heads": 3},
        [[(2, 4, 5, 6)], [(1, 4, 1, 1)], [(1, 4, 1, 9)]],
    ),
    "turned": (  # the inputs are images of n + 2 by n pixels, of which the convolution makes n by n + 2 pixels
        {"chan": 4, "kernel_size": [3, 1], "padding": [0, 1], "key_dim": 6, "value_dim": 2, "heads": 2,
         "norm_queries": False},
        [[(2, 4, 5, 3)], [(1, 4, 3, 1)]],
    ),
}


def generate(kwargs, shapes):
    model = ImageLinearAttention(**{key: tuple(v) if isinstance(v, list) else v for key, v in kwargs.items()}).eval()
    tensors = {}
    for call, sizes in enumerate(shapes):
        inputs = dict(zip(("x", "context"), (torch.randn(size) for size in sizes)))
        with torch.no_grad():
            tensors[f"{call}/out/output"] = model(**inputs).contiguous()
        tensors.update({f"{call}/in/{name}": tensor for name, tensor in inputs.items()})
    return model.state_dict(), tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("tests/reference"))
    options = parser.parse_args()
    torch.manual_seed(20261120)
    for name, (kwargs, shapes) in CASES.items():
        weights, calls = generate(kwargs, shapes)
        folder = options.folder / f"linear_attention_image_{name}"
        folder.mkdir(parents=True, exist_ok=True)
        config = {"architecture": "linear_attention_transformer.ImageLinearAttention", "kwargs": kwargs}
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_file(weights, folder / "model.safetensors")
        save_file(calls, folder / "calls.safetensors")
        print(name, {key: tuple(tensor.shape) for key, tensor in calls.items()})


if __name__ == "__main__":
    main()
