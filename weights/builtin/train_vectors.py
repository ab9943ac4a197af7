#!/usr/bin/env python3
"""Makes the vector columns of the built-in model's table. Reads the files of train_tokenizer.py.

    python3 train_vectors.py --corpus corpus --out model

It writes OUT/vectors.pt.

A text's vector is the sum of its tokens' rows. A token that occurs c times counts 1 + log c times. The vector columns
have two parts:

- The LEARNT columns are trained to find another crop of the same document (InfoNCE, both ways). A batch has
  crops of few Debian packages, so that many of its crops are alike. At the start, a token's columns are a sum of random
  vectors, one for each trigram of its bytes. The vector of a rare trigram is longer. The training takes --minutes of
  processor time.
- The RANDOM columns are a random projection (Johnson-Lindenstrauss). Each token has a random vector, whose length is
  the token's rarity. So the scalar product of two texts is nearly that of their counts, weighted by rarity. These
  columns depend on the training documents only through the rarity, so they suit all texts equally.

With --without, the given packages are left out of the training of the LEARNT columns. Then figures for them are
printed.
"""
import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import corpus
import evaluate as ev
import model as builtin

LEARNT, RANDOM = 512, 384
RANDOM_SHARE = 0.5          # factor of the RANDOM columns in a scalar product of texts. That of the LEARNT columns is 1
SHORTEST, LONGEST = 16, 160 # minimum and maximum number of tokens of a crop
CROPS = 1024                # documents of a batch
GROUPS = 8                  # number of Debian packages that a batch takes documents from
DOCUMENT_CAP = 20_000       # a document's share of the crops grows with its number of tokens, up to this number
PACKAGE_CAP = 2_000_000     # a package's share of the crops grows with its number of tokens, up to this number
OWN_SHARE = 0.5             # factor of a token's own random vector. That of the vectors of its trigrams is 1
GAIN = 0.1                  # initial gain of the layer norm that makes the LEARNT columns
FEW_DOCUMENTS = 300         # a token in this number of documents moves half as far in a step as a frequent token
WARM_UP_STEPS = 20
# Mean length of a token's row. It is large, so a guess in the place of a row adds little to a text's vector.
LENGTH = 100.0
DRAWS, SEED = 20, 777       # number of draws, and seed, of the figures for the development text


class Training:
    """The training text as tokens, and the choice of its crops for a batch."""

    def __init__(self, folder, without):
        text = ev.Text(folder, "train")
        self.tokens = np.load(Path(folder) / "train.tokens.npy")
        self.starts = np.load(Path(folder) / "train.tokens.starts.npy")
        self.sizes = np.diff(self.starts)
        having = np.zeros(builtin.VOCABULARY)
        for start, end in zip(self.starts, self.starts[1:]):
            having[np.unique(self.tokens[start:end])] += 1
        having[:builtin.SPECIAL] = len(self.sizes)
        self.pace = torch.from_numpy(having / (having + FEW_DOCUMENTS)).float()[:, None]
        kept = [p for p in np.unique(text.package) if corpus.PACKAGES[p] not in without]
        self.packages = [np.flatnonzero(text.package == p) for p in kept]

    def rarity(self, length=80):
        """The rarity of each token: log((crops + 1) / (crops with this token + 1)), over the whole text, cut into
        crops. The rarity of special tokens is 0."""
        count = len(self.tokens) // length
        crops = np.sort(self.tokens[:count * length].reshape(count, length), axis=1)
        first = np.ones(crops.shape, bool)
        first[:, 1:] = crops[:, 1:] != crops[:, :-1]
        rarity = np.log((count + 1) / (np.bincount(crops[first], minlength=builtin.VOCABULARY) + 1))
        rarity[:builtin.SPECIAL] = 0
        return rarity

    def documents(self, rng, count, length):
        """Documents of GROUPS packages. So a batch contains many documents that are similar to one another.

        A document is chosen in proportion to its size, but a long document only counts DOCUMENT_CAP tokens."""
        weight = np.where(self.sizes >= 2 * length, np.minimum(self.sizes, DOCUMENT_CAP), 0).astype(float)
        share = np.minimum([weight[documents].sum() for documents in self.packages], PACKAGE_CAP)
        chosen = []
        for package in rng.choice(len(self.packages), GROUPS, replace=False, p=share / share.sum()):
            documents = self.packages[package]
            p = weight[documents] / weight[documents].sum()
            chosen.append(rng.choice(documents, min(count // GROUPS, np.count_nonzero(p)), replace=False, p=p))
        return np.concatenate(chosen)

    def pairs(self, rng):
        """The ids of two crops of each document: first all crops A, then all crops B."""
        length = int(round(math.exp(rng.uniform(math.log(SHORTEST), math.log(LONGEST)))))
        documents = self.documents(rng, CROPS, length)
        at = ev.pair_starts(rng, self.starts[documents], self.sizes[documents], length)
        return torch.from_numpy(self.tokens[at.T.reshape(-1)[:, None] + np.arange(length)].astype(np.int64))


def weights(ids):
    """(1 + log c) / c for each token that occurs c times in its row. (b, n)"""
    ordered, order = ids.sort(dim=1)
    _, run, counts = torch.unique_consecutive(ordered + torch.arange(len(ids))[:, None] * builtin.VOCABULARY,
                                              return_inverse=True, return_counts=True)
    repetitions = counts[run].float()
    return torch.empty_like(repetitions).scatter_(1, order, (1 + repetitions.log()) / repetitions)


def trigram_vectors(tokens, rarity, own_rarity, dim, rng):
    """For each token, the sum of its trigrams' vectors and of OWN_SHARE times a separate random vector.

    If a token does not end with a blank or a control character, a blank is appended. Most such tokens end a word."""
    vectors, sums = {}, np.zeros((len(own_rarity), dim))
    for token in range(len(sums)):
        data = tokens.bytes_of(token)
        data += b" " if data[-1:] > b" " else b""
        for a, b, c in zip(data, data[1:], data[2:]):
            key = a << 16 | b << 8 | c
            if key not in vectors:
                vectors[key] = rng.standard_normal(dim) * rarity[key] / math.sqrt(dim)
            sums[token] += vectors[key]
    return sums + OWN_SHARE * own_rarity[:, None] * rng.standard_normal(sums.shape) / math.sqrt(dim)


def first_rows(tokens, rarity, own_rarity, rng):
    """Rows that all have the same length. The first column adds the missing length of a row. train()
    normalises it with the others, and then drops it."""
    vectors = trigram_vectors(tokens, rarity, own_rarity, LEARNT + 1, rng)
    vectors[:builtin.SPECIAL] = 0
    vectors[:, 0] = 0
    vectors[builtin.SPECIAL:, 1:] -= vectors[builtin.SPECIAL:, 1:].mean(axis=1, keepdims=True)
    length = np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    vectors /= np.maximum(length, np.quantile(length, 0.98)) * 1.02
    vectors[:, 0] = np.sqrt(1 - (vectors ** 2).sum(axis=1))
    return torch.from_numpy(vectors * math.sqrt(LEARNT + 1)).float()


def pair_loss(pooled, centre, log_scale):
    """The InfoNCE loss between crops A, the first half of the rows, and crops B, the second half."""
    a, b = F.normalize(pooled - centre, dim=-1).chunk(2)
    cosines = a @ b.T * log_scale.exp().clamp(max=50)
    same = torch.arange(len(a))
    return (F.cross_entropy(cosines, same) + F.cross_entropy(cosines.T, same)) / 2


def train(training, rows, rng, options, report):
    """Trains the LEARNT columns, and subtracts the mean of the texts' vectors from each token's columns."""
    rows, gain = torch.nn.Parameter(rows), torch.nn.Parameter(torch.full((LEARNT + 1,), GAIN))
    log_scale, centre = torch.nn.Parameter(torch.tensor(math.log(15.0))), torch.zeros(LEARNT)
    optimizer = torch.optim.Adam([dict(params=[rows], share=1), dict(params=[gain, log_scale], share=GAIN)],
                                 betas=(0.9, 0.98))
    columns = lambda: F.layer_norm(rows, (LEARNT + 1,), gain)[:, 1:]
    start, step, next_report = time.process_time(), 0, 0.5
    while True:
        passed = (time.process_time() - start) / 60
        if passed >= min(options.minutes, next_report):
            before = time.process_time()
            report(f"{passed:.1f} min, {step} steps", columns().detach() - centre)
            start, next_report = start + time.process_time() - before, next_report + 1
        if passed >= options.minutes:
            return columns().detach() - centre
        ids = training.pairs(rng)
        weight = weights(ids)
        weight /= weight.sum(dim=1, keepdim=True)
        pooled = F.embedding_bag(ids, columns(), mode="sum", per_sample_weights=weight)
        mean = pooled.mean(dim=0)
        centre.lerp_(mean.detach(), max(0.02, 1 / (step + 1)))
        pair_loss(pooled, mean, log_scale).backward()
        step += 1
        for group in optimizer.param_groups:
            group["lr"] = options.rate * group["share"] * min(1, step / WARM_UP_STEPS) * \
                          max(0.02, 1 - passed / options.minutes)
        # Adam moves all tokens by similar amounts. So a rare token would soon stand for the few documents that contain
        # it. Its trigrams' vectors say more about new documents. So its row moves more slowly.
        old = rows.detach().clone()
        optimizer.step()
        with torch.no_grad():
            rows.copy_(torch.lerp(old, rows, training.pace))
        optimizer.zero_grad()


def of_length_one(columns, training, rng):
    """Scales the columns, so that crops of the training text have vectors of mean length 1."""
    at = rng.integers(0, len(training.tokens) - 80, 2000)
    ids = torch.from_numpy(training.tokens[at[:, None] + np.arange(80)].astype(np.int64))
    sums = F.embedding_bag(ids, columns, mode="sum", per_sample_weights=weights(ids))
    return columns / sums.norm(dim=1).mean()


class Bag:
    """The vector columns alone. evaluate.py calls it to compute a text's vector."""
    max_seq_len = builtin.LONGEST

    def __init__(self, columns, tokens):
        self.columns, self.tokens = columns, tokens

    def embed(self, ids):
        return F.normalize(F.embedding_bag(ids, self.columns, mode="sum", per_sample_weights=weights(ids)), dim=-1)


def draws(text, chosen):
    """Pairs of crops of 256 bytes, from at most 120 documents of each package."""
    rng = np.random.default_rng(1)
    kept = [rng.permutation(np.flatnonzero(text.package == p))[:120] for p in np.unique(text.package[chosen])]
    return list(ev.pair_draws(text.only(np.sort(np.concatenate(kept))), 256, DRAWS, SEED))


def development_draws(options):
    sets = {}
    text = ev.Text(options.corpus, "development")
    sets["development"] = draws(text, np.arange(len(text.sizes)))
    if options.without:
        text = ev.Text(options.corpus, "train")
        packages = [corpus.PACKAGES.index(p) for p in options.without]
        sets["left out"] = draws(text, np.flatnonzero(np.isin(text.package, packages)))
    return sets


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--minutes", type=float, default=2)
    options.add_argument("--rate", type=float, default=1e-2)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--without", nargs="+", default=[], metavar="PACKAGE")
    options = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rng, start = np.random.default_rng(options.seed), time.process_time()
    tokens, training = ev.tokens_of(options.out), Training(options.corpus, options.without)
    own_rarity, sets = training.rarity(), development_draws(options)
    random = rng.standard_normal((builtin.VOCABULARY, RANDOM)) * own_rarity[:, None] / math.sqrt(RANDOM)
    random = of_length_one(torch.from_numpy(random).float(), training, rng) * math.sqrt(RANDOM_SHARE)

    def joined(learnt):
        return torch.cat((of_length_one(learnt, training, rng), random), dim=1)

    def report(where, learnt):
        bags = {"all": joined(learnt), "learnt": learnt, "random": random}
        for part, columns in bags.items():
            found = {name: ev.find_accuracy(Bag(columns, tokens), pairs) for name, pairs in sets.items()}
            print(where, f"{part} columns:", ", ".join(f"{name} {share:.2%}" for name, share in found.items()), flush=True)

    trigram_rarity = ev.rarity(ev.Text(options.corpus, "train"), 256)
    for name, pairs in sets.items():
        print(f"rule of rare trigrams, {name}: {ev.trigram_accuracy(pairs, trigram_rarity):.2%}", flush=True)
    vectors = joined(train(training, first_rows(tokens, trigram_rarity, own_rarity, rng), rng, options, report))
    vectors[:builtin.SPECIAL] = 0
    vectors *= LENGTH / vectors.norm(dim=1).mean()
    torch.save(vectors, options.out / "vectors.pt")
    print(f"{(time.process_time() - start) / 60:.1f} minutes of processor time in all")


if __name__ == "__main__":
    main()
