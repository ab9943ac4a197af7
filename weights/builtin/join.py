#!/usr/bin/env python3
"""Writes the built-in model's config.json and model.safetensors, in F16, from the results of the two training scripts.

    PYTHONPATH=.. python3 join.py --out model

OUT contains tokenizer.json, guesses.pt of train_guesses.py and vectors.pt of train_vectors.py.
"""
import argparse
import os
import shutil
from pathlib import Path

import torch

import model as builtin
from export import export_module


def joined(vectors, guesses):
    model = builtin.Builtin(vectors.shape[1])
    model.table.weight = torch.nn.Parameter(torch.cat((vectors, guesses.pop("columns")), dim=1))
    model.bias = torch.nn.Parameter(guesses.pop("bias"))
    model.reader.load_state_dict({name.removeprefix("reader."): tensor for name, tensor in guesses.items()})
    return model


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True)
    options = options.parse_args()
    model = joined(torch.load(options.out / "vectors.pt"), torch.load(options.out / "guesses.pt"))
    example = {"x": torch.randint(builtin.SPECIAL, builtin.VOCABULARY, (2, 100))}
    export_module(model.half().eval(), example, options.out / "export", name="builtin", pooling="mean", normalize=True,
                  daemon=False, tokenizer=str(options.out / "tokenizer.json"))
    for name in ("config.json", "model.safetensors"):
        os.replace(options.out / "export" / name, options.out / name)
    shutil.rmtree(options.out / "export")
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {model.vector_columns} vector columns")


if __name__ == "__main__":
    main()
