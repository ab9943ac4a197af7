#!/usr/bin/env python3
"""Trains the part of the built-in model that guesses masked tokens. Reads the files of train_tokenizer.py.

    python3 train_guesses.py --corpus corpus --out model

It writes OUT/guesses.pt: the reader, its columns of the table, and the bias of the logits.

The first values of the columns follow from counts of the tokens that stand one or two places before and after each
token. The positive pointwise mutual information of these counts is a matrix, and its largest singular vectors are the
columns. Then all weights are trained to guess masked tokens. The matrices of the reader are trained with Muon, the
other weights with AdamW.

--minutes are minutes of processor time. They include everything except the figures for the development text.
"""
import argparse
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import evaluate as ev
from model import GUESS, LONGEST, MASK, SPECIAL, VOCABULARY, Reader

SHORTEST = 16               # minimum tokens of a text. The logarithms of the lengths are uniform from here to LONGEST
BATCH_TOKENS = 4096
MIN_MASKED, MAX_MASKED = 0.1, 0.35  # least and largest part of a text's tokens that is masked
CONTEXTS = 2048             # number of the most frequent tokens, which are counted as neighbours
WARM_UP = 0.02              # part of the time in which the learning rates rise


def first_columns(ids, rng):
    """The singular vectors of the counts of neighbours.  (VOCABULARY, GUESS), rows of length about 1"""
    count = np.bincount(ids, minlength=VOCABULARY)
    place = np.full(VOCABULARY, CONTEXTS)
    place[np.argsort(-count)[:CONTEXTS]] = np.arange(CONTEXTS)
    blocks = []
    for distance in (1, 2):
        for token, near in ((ids[distance:], ids[:-distance]), (ids[:-distance], ids[distance:])):
            near = place[near]
            kept = near < CONTEXTS
            pairs = np.bincount(token[kept].astype(np.int64) * CONTEXTS + near[kept], minlength=VOCABULARY * CONTEXTS)
            pairs = pairs.reshape(VOCABULARY, CONTEXTS).astype(np.float32)
            # A neighbour's probability is smoothed, so that rare neighbours do not dominate.
            smooth = pairs.sum(axis=0) ** 0.75
            expected = (pairs.sum(axis=1, keepdims=True) + 1) * (smooth / smooth.sum())
            blocks.append(np.log(np.maximum(pairs / expected, 1)))
    matrix = torch.from_numpy(np.concatenate(blocks, axis=1))
    basis = torch.from_numpy(rng.standard_normal((matrix.shape[1], GUESS + 32)).astype(np.float32))
    for _ in range(3):
        basis = torch.linalg.qr(matrix.T @ torch.linalg.qr(matrix @ basis)[0])[0]
    left, values, _ = torch.linalg.svd(matrix @ basis, full_matrices=False)
    columns = left[:, :GUESS] * values[:GUESS].sqrt()
    columns /= columns[SPECIAL:].norm(dim=1).mean()
    return columns - columns.mean(dim=0)


class Masker:
    """Random pieces of the training text, with masks."""

    def __init__(self, ids, rng):
        self.ids, self.rng = ids, rng

    def batch(self):
        """ids with masks (b, n), the masked tokens, and their places in the flattened ids"""
        length = int(round(math.exp(self.rng.uniform(math.log(SHORTEST), math.log(LONGEST)))))
        at = self.rng.integers(0, len(self.ids) - length, BATCH_TOKENS // length)
        ids = torch.from_numpy(self.ids[at[:, None] + np.arange(length)].astype(np.int64))
        part = self.rng.uniform(MIN_MASKED, MAX_MASKED, (len(ids), 1))
        places = torch.from_numpy(np.flatnonzero(self.rng.random(ids.shape) < part))
        masked = ids.flatten().index_fill(0, places, MASK).view_as(ids)
        return masked, ids.flatten()[places], places


class Guesser(torch.nn.Module):
    """The reader with its columns. It has the functions that evaluate.py calls on the whole model."""

    def __init__(self, columns, bias, tokens):
        super().__init__()
        self.max_seq_len, self.tokens = LONGEST, tokens
        self.columns, self.bias, self.reader = torch.nn.Parameter(columns), torch.nn.Parameter(bias), Reader()
        for layer in (self.reader.near.out, self.reader.last.out):
            torch.nn.init.zeros_(layer.weight)     # the layers begin as the identity

    def forward(self, ids, places):
        guesses = self.reader(F.embedding(ids, self.columns)).flatten(0, 1)[places]
        return F.linear(guesses, self.columns, self.bias)

    def fill(self, ids, mask):
        with torch.no_grad():
            return ev.guessed(self(ids.masked_fill(mask, MASK), mask.flatten().nonzero()[:, 0]).float(), ids[mask])


def make_optimizers(model, rate):
    matrices = [p for p in model.reader.parameters() if p.ndim == 2]
    names = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in names]
    return [torch.optim.Muon(matrices, lr=rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", required=True)
    options.add_argument("--out", type=Path, required=True, help="folder with the tokenizer.json of train_tokenizer.py")
    options.add_argument("--minutes", type=float, default=25)
    options.add_argument("--rate", type=float, default=4e-3)
    options.add_argument("--decay", type=float, default=0.6, help="part of the time in which the learning rates fall")
    options.add_argument("--resume", action="store_true", help="continue with the weights in OUT/guesses.pt")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--report-minutes", type=float, default=1)
    options = options.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    development = ev.Text(options.corpus, "development")
    words = list(ev.masked_words(ev.masked_windows(development, 256, 300, ev.SEED)[0], ev.SEED))
    tokens = ev.tokens_of(options.out)
    start = time.process_time()
    ids = np.load(Path(options.corpus) / "train.tokens.npy")
    count = np.bincount(ids, minlength=VOCABULARY)
    bias = torch.from_numpy(np.log((count + 1) / count.sum())).float()
    bias[:SPECIAL] = -20        # special tokens are never guessed
    if options.resume:
        model = Guesser(torch.zeros(VOCABULARY, GUESS), bias, tokens)
        model.load_state_dict(torch.load(options.out / "guesses.pt"))
    else:
        model = Guesser(first_columns(ids, rng), bias, tokens)
    masker = Masker(ids, rng)
    optimizers = make_optimizers(model, options.rate)
    total, steps, masks, since, next_report = 0.0, 0, 0, 0, 0.0
    while True:
        passed = (time.process_time() - start) / 60
        if passed >= min(next_report, options.minutes):
            torch.save(model.state_dict(), options.out / "guesses.pt.new")
            os.replace(options.out / "guesses.pt.new", options.out / "guesses.pt")
            before = time.process_time()
            whole, right, bits, n_words = ev.fill_words(model, words)
            print(f"{passed:5.1f} min  step {steps}  {masks / 1e6:.2f} M masks  loss {total / max(1, since):.3f}  "
                  f"development: words {whole:.2%} of {n_words}, their bytes {right:.2%}, {bits:.3f} bits a byte",
                  flush=True)
            start += time.process_time() - before
            total, since, next_report = 0.0, 0, next_report + options.report_minutes
        if passed >= options.minutes:
            break
        masked, wanted, places = masker.batch()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(masked, places)
        loss = F.cross_entropy(logits.float(), wanted)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        part = passed / options.minutes
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = options.rate * max(1e-3, min(1.0, part / WARM_UP, (1 - part) / options.decay))
            optimizer.step()
            optimizer.zero_grad()
        total, steps, since, masks = total + loss.item(), steps + 1, since + 1, masks + len(wanted)


if __name__ == "__main__":
    main()
