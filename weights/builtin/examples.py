#!/usr/bin/env python3
"""Writes examples.json (what the model fills in and finds alike) and parity.safetensors (inputs
with the outputs PyTorch gives, for comparing other implementations) for a model directory.

    python3 examples.py --model .
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import evaluate as ev

FILL = [
    "The file is opened for read[MASK]ng and writ[MASK]ng.",
    "This option ca[MASK] be used more than o[MASK]ce.",
    "On success, zero is returned.  On er[MASK]or, -1 is returned, and errno is set.",
    "If the direct[MASK]ry does not exist, it is crea[MASK]ed.",
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


def ids_of(text):
    ids = []
    for i, part in enumerate(text.split("[MASK]")):
        ids += [ev.MASK] * (i > 0) + [ev.FIRST_BYTE + byte for byte in part.encode()]
    return torch.tensor([ids])


def name_of(token):
    return ["[PAD]", "[END]", "[MASK]"][token] if token < ev.FIRST_BYTE else chr(token - ev.FIRST_BYTE) \
        if token - ev.FIRST_BYTE < 128 else f"byte {token - ev.FIRST_BYTE}"


@torch.no_grad()
def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, default=Path(__file__).parent)
    options = options.parse_args()
    model = ev.load(options.model)

    fill = []
    for text in FILL:
        ids = ids_of(text)
        shares = model(ids)[0].softmax(-1)
        masked = []
        for at in (ids[0] == ev.MASK).nonzero().flatten().tolist():
            top = shares[at].topk(5)
            masked.append({"position": at, "top": [
                {"id": i, "text": name_of(i), "probability": round(p, 4)}
                for i, p in zip(top.indices.tolist(), top.values.tolist())]})
        fill.append({"text": text, "masked": masked})
    vectors = torch.cat([ev.embed(model, ids_of(text)) for text in ALIKE.values()])
    cosines = {a: {b: round((vectors[i] @ vectors[j]).item(), 3) for j, b in enumerate(ALIKE)}
               for i, a in enumerate(ALIKE)}
    examples = {"fill": fill, "alike": {"texts": ALIKE, "cosines": cosines}}
    (options.model / "examples.json").write_text(json.dumps(examples, indent=2, ensure_ascii=False) + "\n")

    rng = np.random.default_rng(ev.SEED)
    sample = "".join(ALIKE.values()).encode()
    parity = {}
    for i, length in enumerate((17, 200, model.max_seq_len)):
        ids = torch.tensor([list(np.resize(np.frombuffer(sample, np.uint8), length).astype(np.int64) + ev.FIRST_BYTE)])
        ids[0, torch.from_numpy(rng.random(length) < ev.MASKED_SHARE)] = ev.MASK
        rows = torch.from_numpy(np.sort(rng.choice(length, 8, replace=False)))
        parity[f"{i}/in/x"] = ids
        parity[f"{i}/out/rows"] = rows
        parity[f"{i}/out/output"] = model(ids)[0, rows].contiguous()
        parity[f"{i}/out/embedding"] = ev.embed(model, ids)[0].contiguous()
    path = options.model / "parity.safetensors"
    save_file(parity, path, metadata={"format": "pt"})
    path.chmod(0o644)


if __name__ == "__main__":
    main()
