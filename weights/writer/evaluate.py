#!/usr/bin/env python3
"""Prints how many bits a model and compressors need for a byte of text that the model was not trained on.

    python3 evaluate.py --model . --corpus corpus
    python3 evaluate.py --compressors --corpus corpus

The model predicts each token of a document from the tokens before it, and the end of the document. It sees at most
max_seq_len tokens. Before each token, it sees at least a quarter of max_seq_len tokens, or all earlier tokens if there
are fewer. The sum of -log2 of the probabilities is divided by the bytes of the documents. The model's weights do not
change meanwhile.

A compressor's figure is the size of the compressed text, in bits, divided by the bytes of the text. The documents are
compressed one by one, as the model sees them, and all together. "After the training text" is the size of the compressed
training text with all documents behind it, minus the size of the compressed training text.

There are two texts. `foreign` has the documents of packages that the training text leaves out. `heldout` has other
documents of the packages in the training text.
"""
import argparse
import json
import math
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from linear_attention_transformer import LinearAttentionTransformerLM
from safetensors.torch import load_file
from tokenizers import Tokenizer

import train
from train_tokenizer import END, documents

TEXTS = ("foreign", "heldout")
PPMD = ["7z", "a", "-bso0", "-m0=PPMd:o=16:mem=1600m"]

# name: command, whether it writes to stdout, and whether it is also run after the training text
COMPRESSORS = {
    # Its window has 32 KiB, so earlier text has no effect.
    "gzip -9": (["gzip", "-9c"], True, False),
    "brotli -q 11, window 16 MiB": (["brotli", "-q", "11", "-w", "24", "-c"], True, False),
    "xz -9e, window 256 MiB": (["xz", "-c", "-T1", "--lzma2=preset=9e,dict=256MiB"], True, True),
    "PPMd of 7-Zip, order 16, 1.6 GB": (PPMD, False, True),
    "zpaq -m5": (["zpaq", "a"], False, False),
}


def load(folder):
    """The library's class with the stored weights, converted to F32."""
    kwargs = json.loads((Path(folder) / "config.json").read_text())["kwargs"]
    state = {name: tensor.float() for name, tensor in load_file(Path(folder) / "model.safetensors").items()}
    state["out.weight"] = state["token_emb.weight"]
    model = LinearAttentionTransformerLM(**kwargs)
    model.load_state_dict(state)
    return model.eval()


def windows(ids, length):
    """Pairs of a window, and the index of its first token that counts. Each token of the document except the first one
    counts in one window."""
    counted, context = 1, length // 4
    while counted < len(ids):
        start = 0 if counted == 1 else counted - context
        window = ids[start:start + length + 1]
        yield window, counted - start
        counted = start + len(window)


@torch.inference_mode()
def nats_of(model, ids, length):
    """The sum of -log of the probabilities of ids[1:], after ids[0]."""
    total = 0.0
    for window, first in windows(ids, length):
        inputs = torch.tensor(window[:-1])[None]
        padding = -inputs.shape[1] % train.CHUNK        # after all other tokens, so that no token sees it
        hidden = train.hidden_states(model, F.pad(inputs, (0, padding)))[0, first - 1:len(window) - 1]
        logits = model.out(model.norm(hidden))
        total += F.cross_entropy(logits, torch.tensor(window[first:]), reduction="sum").item()
    return total


def evaluate_model(folder, corpus, names, most):
    model, tokenizer = load(folder), Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    length = model.max_seq_len
    for name in names:
        texts, nats, size, tokens = documents(corpus, name), 0.0, 0, 0
        for i in np.random.default_rng(2024).permutation(len(texts)):
            if size >= most:
                break
            ids = [END] + tokenizer.encode(texts[i], add_special_tokens=False).ids + [END]
            nats += nats_of(model, ids, length)
            size += len(texts[i].encode())
            tokens += len(ids) - 1
        print(f"{name}: {nats / math.log(2) / size:.3f} bits a byte, {nats / tokens:.3f} nats a token, "
              f"{size} bytes, {size / tokens:.2f} bytes a token", flush=True)


def compressed_size(command, to_stdout, text, folder):
    """The size in bytes of a text that `command` compresses."""
    whole, archive = Path(folder) / "text", Path(folder) / f"archive.{command[0]}"
    whole.write_bytes(text)
    if to_stdout:
        return len(subprocess.run([*command, whole], check=True, capture_output=True).stdout)
    archive.unlink(missing_ok=True)
    extra = ["-m5", "-t1"] if command[0] == "zpaq" else []
    subprocess.run([*command, archive, whole, *extra], check=True, capture_output=True)
    return archive.stat().st_size


def evaluate_compressors(corpus):
    texts = {name: (corpus / f"{name}.bin").read_bytes() for name in ("train", *TEXTS)}
    starts = {name: np.load(corpus / f"{name}.npy") for name in TEXTS}
    found = {name: tool for name, tool in COMPRESSORS.items() if shutil.which(tool[0][0])}
    print("not installed:", [name for name in COMPRESSORS if name not in found])
    with tempfile.TemporaryDirectory() as folder:
        def bits(size, name):
            return f"{8 * size / len(texts[name]):.3f} bits a byte"

        for tool, (command, to_stdout, _) in found.items():
            for name in TEXTS:
                pieces = zip(starts[name], starts[name][1:])
                each = sum(compressed_size(command, to_stdout, texts[name][a:b], folder) for a, b in pieces)
                print(f"{name}: {tool}: {bits(each, name)}, each document alone", flush=True)
                size = compressed_size(command, to_stdout, texts[name], folder)
                print(f"{name}: {tool}: {bits(size, name)}, all documents together", flush=True)
        for tool, (command, to_stdout, primed) in found.items():
            before = compressed_size(command, to_stdout, texts["train"], folder) if primed else 0
            for name in TEXTS if primed else ():
                size = compressed_size(command, to_stdout, texts["train"] + texts[name], folder) - before
                print(f"{name}: {tool}: {bits(size, name)}, together after the training text", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--model", type=Path)
    options.add_argument("--compressors", action="store_true")
    options.add_argument("--texts", nargs="+", choices=TEXTS, default=TEXTS, help="texts for the model")
    options.add_argument("--most-bytes", type=int, default=10**12, help="bytes of each text for the model, at most")
    options.add_argument("--threads", type=int, default=1)
    options = options.parse_args()
    torch.set_num_threads(options.threads)
    if options.model:
        evaluate_model(options.model, options.corpus, options.texts, options.most_bytes)
    if options.compressors:
        evaluate_compressors(options.corpus)


if __name__ == "__main__":
    main()
