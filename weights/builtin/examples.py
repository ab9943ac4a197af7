#!/usr/bin/env python3
"""Writes examples.json and parity.safetensors for a model's folder. examples.json has masked words that the model fills
in, and texts that it finds similar. parity.safetensors has inputs with the outputs that PyTorch computes. The tests
compare the daemon with parity.safetensors.

    python3 examples.py --model .
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import evaluate as ev
from model import MASK, SPECIAL, VOCABULARY

FILL = [
    "The file is opened for reading and [MASK].",
    "This option can be used more [MASK] once.",
    "On success, zero is returned. On [MASK], -1 is returned, and errno is set.",
    "If the directory does not [MASK], it is created.",
]
ALIKE = {
    "copy": "cp - copy files and directories. Copy SOURCE to DEST, or multiple SOURCE(s) to DIRECTORY. "
            "--recursive: copy directories recursively. --force: if an existing destination file cannot be "
            "opened, remove it and try again.",
    "move": "mv - move (rename) files. Rename SOURCE to DEST, or move SOURCE(s) to DIRECTORY. --force: do not "
            "prompt before overwriting. --no-clobber: do not overwrite an existing file.",
    "sql": "SELECT retrieves rows from zero or more tables. If the WHERE clause is specified, all rows that do "
           "not satisfy the condition are eliminated from the output. GROUP BY combines rows into groups.",
    "sql index": "CREATE INDEX constructs an index on the specified columns of the specified table. Indexes are "
                 "primarily used to enhance database query performance, though they can slow down inserts.",
    "policy": "The maintainer of a package should listen to the bug reports of its users, and keep the package in "
              "good shape for the next stable release of the Debian distribution.",
}
LENGTHS = (1, 17, 200, 512)     # tokens of the inputs in parity.safetensors


def ids_of(model, text):
    return torch.tensor([model.tokens.tokenizer.encode(text).ids])


def guesses(model, text):
    ids = ids_of(model, text)
    shares = model.model.module(ids)[0].softmax(-1)
    masked = []
    for at in (ids[0] == MASK).nonzero().flatten().tolist():
        top = shares[at].topk(5)
        masked.append({"position": at, "top": [
            {"id": i, "text": model.tokens.bytes_of(i).decode(errors="replace"), "probability": round(p, 4)}
            for i, p in zip(top.indices.tolist(), top.values.tolist())]})
    return {"text": text, "masked": masked}


@torch.no_grad()
def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, default=Path(__file__).parent)
    options = options.parse_args()
    model = ev.load(options.model)
    vectors = torch.cat([model.embed(ids_of(model, text)) for text in ALIKE.values()])
    cosines = {a: {b: round((vectors[i] @ vectors[j]).item(), 3) for j, b in enumerate(ALIKE)}
               for i, a in enumerate(ALIKE)}
    examples = {"fill": [guesses(model, text) for text in FILL], "alike": {"texts": ALIKE, "cosines": cosines}}
    (options.model / "examples.json").write_text(json.dumps(examples, indent=2, ensure_ascii=False) + "\n")

    # The inputs are pieces of a repeated text, so that tokens occur several times. Some tokens are masked, and some are
    # random ids.
    rng = np.random.default_rng(ev.SEED)
    sample = ids_of(model, " ".join(ALIKE.values()))[0].numpy()
    parity = {}
    for i, length in enumerate(LENGTHS):
        ids = np.resize(sample, length)
        ids = np.where(rng.random(length) < 0.1, rng.integers(SPECIAL, VOCABULARY, length), ids)
        ids = torch.from_numpy(np.where(rng.random(length) < ev.MASKED_SHARE, MASK, ids))[None]
        rows = torch.from_numpy(np.sort(rng.choice(length, min(length, 4), replace=False)))
        parity[f"{i}/in/x"] = ids
        parity[f"{i}/out/rows"] = rows
        parity[f"{i}/out/output"] = model.model.module(ids)[0, rows].contiguous()
        parity[f"{i}/out/embedding"] = model.embed(ids)[0].contiguous()
    path = options.model / "parity.safetensors"
    save_file(parity, path, metadata={"format": "pt"})
    path.chmod(0o644)


if __name__ == "__main__":
    main()
