#!/usr/bin/env python3
"""Prints how well a model does its two tasks on text it was not trained on, beside baselines.

    python3 evaluate.py --model . --corpus corpus
    python3 evaluate.py --daemon http://127.0.0.1:8080 --corpus corpus       # what a daemon answers, in its dtype
    python3 evaluate.py --daemon … --corpus corpus --sample 32               # 32 windows filled in, and no more

Filling in: 15 % of the bytes of a text are replaced by the mask (id 2); the figure is the share
of them whose most likely byte is the right one.
Finding: of 100 documents two crops each that do not overlap; the figure is how often, for crop A
of a document, the crop B nearest by cosine is that of the same document.

The weights are used as stored: F16 made F32. To ask a daemon takes numpy and torch alone.
"""
import argparse
import base64
import json
import urllib.request
from pathlib import Path

import numpy as np
import torch

MASK, FIRST_BYTE = 2, 3            # ids of the byte tokenizer: 0 pad, 1 end, 2 mask, 3 + byte
SEED = 2024
MASKED_SHARE = 0.15


# ---- model ------------------------------------------------------------------------------------

def build(kwargs):
    from linear_attention_transformer.linear_attention_transformer import (LinearAttentionTransformerLM,
                                                                           LinformerSettings)
    kwargs = dict(kwargs)
    kwargs["linformer_settings"] = LinformerSettings(**kwargs["linformer_settings"])
    return LinearAttentionTransformerLM(**kwargs)


def load(folder):
    from safetensors.torch import load_file
    config = json.loads((Path(folder) / "config.json").read_text())
    model = build(config["kwargs"])
    state = load_file(Path(folder) / "model.safetensors")
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return model.eval()


def hidden_states(model, ids):
    """What the class's own output layer reads: model(ids) == model.out(hidden_states(model, ids)).

    Position embeddings are taken for one row, since the class expands them to every row."""
    x = model.token_emb(ids)
    x = x + model.pos_emb(x[:1])
    return model.norm(model.transformer(x))


def embed(model, ids):
    if isinstance(model, Served):
        return model.embed(ids)
    return torch.nn.functional.normalize(hidden_states(model, ids).mean(dim=1), dim=-1)


class Served:
    """The same of a running daemon's first model."""

    def __init__(self, url):
        self.url = url
        self.max_seq_len = self.get("/info")["max_input_length"]

    def get(self, path, body=None):
        request = urllib.request.Request(self.url + path, body and json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def guesses(self, ids, mask):
        """The likeliest id at each masked place, row by row."""
        best = []
        for row, places in zip(ids.masked_fill(mask, MASK), mask):
            positions = places.nonzero().flatten().tolist()
            if positions:
                answer = self.get("/logits", {"inputs": [row.tolist()], "positions": positions, "top_k": 1})
                best += [tokens[0] for tokens in answer[0]["tokens"]]
        return torch.tensor(best)

    def embed(self, ids):
        answer = self.get("/embed", {"inputs": ids.tolist(), "encoding_format": "base64"})
        return torch.from_numpy(np.stack([np.frombuffer(base64.b64decode(row), "<f4") for row in answer]))


def guesses(model, ids, mask):
    if isinstance(model, Served):
        return model.guesses(ids, mask)
    return model.out(hidden_states(model, ids.masked_fill(mask, MASK))[mask]).argmax(-1)


# ---- text -------------------------------------------------------------------------------------

class Text:
    """Documents one after the other, as corpus.py writes them."""

    def __init__(self, folder, split):
        self.bytes = np.fromfile(Path(folder) / f"{split}.bin", dtype=np.uint8)
        self.starts = np.load(Path(folder) / f"{split}.npy")
        self.sizes = np.diff(self.starts)

    def crops(self, at, length):
        return self.bytes[np.asarray(at)[:, None] + np.arange(length)]

    def windows(self, rng, count, length):
        """Crops spread evenly over all text, each within one document."""
        room = np.maximum(self.sizes - length + 1, 0)
        document = rng.choice(len(room), count, p=room / room.sum())
        return self.crops(self.starts[document] + rng.integers(room[document]), length)

    def pairs(self, rng, documents, length):
        """Two crops of each document that do not overlap; either may be the earlier."""
        spare = self.sizes[documents] - 2 * length
        cuts = np.sort(rng.integers(0, spare[:, None] + 1, (len(documents), 2)), axis=1)
        at = self.starts[documents][:, None] + cuts + [0, length]
        at = rng.permuted(at, axis=1)
        return self.crops(at[:, 0], length), self.crops(at[:, 1], length)


def ids_of(crops):
    return torch.from_numpy(crops.astype(np.int64)) + FIRST_BYTE


# ---- filling in masked bytes ------------------------------------------------------------------

def masked_windows(text, length, count, seed):
    rng = np.random.default_rng(seed)
    windows = text.windows(rng, count, length)
    return windows, rng.random(windows.shape) < MASKED_SHARE


@torch.no_grad()
def fill_accuracy(model, windows, masked, rows=64):
    """Shares of the masked bytes, and of those that are not white space, that are guessed."""
    right = []
    for first in range(0, len(windows), rows):
        ids, mask = ids_of(windows[first:first + rows]), torch.from_numpy(masked[first:first + rows])
        right.append(guesses(model, ids, mask) == ids[mask])
    right = torch.cat(right).numpy()
    visible = ~np.isin(windows[masked], [9, 10, 32])
    return right.mean(), right[visible].mean()


class Neighbours:
    """The byte seen most often in training text between the neighbours that are not masked:
    two on either side, else one, else whatever is known."""
    RADII = ((2, 2), (1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))

    def __init__(self, data):
        self.tables = {}
        for left, right in self.RADII:
            key = self.keys(data.astype(np.uint64), left, right)
            values, counts = np.unique(key << np.uint64(8) | data, return_counts=True)
            contexts = values >> np.uint64(8)
            order = np.lexsort((counts, contexts))        # the last of each context is its commonest
            last = np.r_[contexts[order][1:] != contexts[order][:-1], True]
            self.tables[left, right] = contexts[order][last], values[order][last] & np.uint64(255)

    @staticmethod
    def keys(data, left, right):
        key = np.zeros_like(data)
        for offset in [*range(-left, 0), *range(1, right + 1)]:
            key = key * np.uint64(257) + np.roll(data, -offset, axis=-1)
        return key

    def accuracy(self, windows, masked):
        data = np.where(masked, 256, windows).astype(np.uint64)   # no context has a 256
        guess = np.zeros(windows.shape, np.uint64)
        open_ = masked.copy()
        for (left, right), (contexts, best) in self.tables.items():
            key = self.keys(data, left, right)
            at = np.minimum(np.searchsorted(contexts, key), len(contexts) - 1)
            hit = open_ & (contexts[at] == key)
            guess[hit] = best[at][hit]
            open_ &= ~hit
        return (guess == windows)[masked].mean()


# ---- finding the other crop -------------------------------------------------------------------

CANDIDATES = 100


def pair_draws(text, length, draws, seed):
    rng = np.random.default_rng(seed)
    eligible = np.flatnonzero(text.sizes >= 2 * length)
    for _ in range(draws):
        yield text.pairs(rng, rng.choice(eligible, CANDIDATES, replace=False), length)


@torch.no_grad()
def find_accuracy(model, draws):
    found = []
    for a, b in draws:
        nearest = (embed(model, ids_of(a)) @ embed(model, ids_of(b)).T).argmax(dim=1).numpy()
        found.append((nearest == np.arange(len(a))).mean())
    return np.mean(found)


def trigrams(crops):
    crops = crops.astype(np.int64)
    return crops[:, :-2] << 16 | crops[:, 1:-1] << 8 | crops[:, 2:]


def trigram_accuracy(draws, weight=None):
    """Cosine of trigram counts; with weight (of each trigram), of (1 + log count) * weight."""
    found = []
    for a, b in draws:
        values, index = np.unique(trigrams(np.concatenate([a, b])), return_inverse=True)
        index = index.reshape(len(a) + len(b), -1)
        counts = np.zeros((len(index), len(values)), np.float32)
        np.add.at(counts, (np.arange(len(index))[:, None], index), 1)
        if weight is not None:
            counts = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * weight[values]
        counts /= np.linalg.norm(counts, axis=1, keepdims=True)
        found.append(((counts[:len(a)] @ counts[len(a):].T).argmax(1) == np.arange(len(a))).mean())
    return np.mean(found)


def rarity(text, length, crops=20_000):
    """log(crops / crops with it) of each trigram, over training text."""
    rng = np.random.default_rng(SEED)
    having = np.ones(1 << 24, np.float32)
    for row in trigrams(text.windows(rng, crops, length)):
        having[np.unique(row)] += 1
    return np.log((crops + 1) / having)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default=Path(__file__).parent)
    options.add_argument("--daemon", help="the URL of a daemon that serves the model, in place of --model")
    options.add_argument("--corpus", required=True)
    options.add_argument("--windows-bytes", type=int, default=500_000, help="held-out bytes per figure")
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--sample", type=int, metavar="N", help="fill in N windows of 256 held-out bytes, for a slow daemon")
    options = options.parse_args()
    model = Served(options.daemon) if options.daemon else load(options.model)
    if options.sample:
        windows, masked = masked_windows(Text(options.corpus, "heldout"), 256, options.sample, SEED)
        all_bytes, visible = fill_accuracy(model, windows, masked)
        print(f"seed {SEED}; {masked.sum()} masked bytes of {options.sample} windows of 256: {all_bytes:.2%} "
              f"(not white space: {visible:.2%})")
        return
    train = Text(options.corpus, "train")
    neighbours = Neighbours(train.bytes[:40_000_000])
    commonest = np.bincount(train.bytes, minlength=256).argmax()
    print(f"seed {SEED}; {MASKED_SHARE:.0%} masked; {options.windows_bytes} bytes in windows per figure; "
          f"{options.draws} draws of {CANDIDATES} documents")
    for split in ("heldout", "foreign"):
        text = Text(options.corpus, split)
        print(f"\n{split}: {len(text.sizes)} documents, {len(text.bytes)} bytes")
        for length in (256, model.max_seq_len):
            windows, masked = masked_windows(text, length, options.windows_bytes // length, SEED)
            all_bytes, visible = fill_accuracy(model, windows, masked)
            print(f"  fill in, {length:4d} bytes: model {all_bytes:.1%} (not white space: {visible:.1%}); baselines: "
                  f"most frequent byte {(windows[masked] == commonest).mean():.1%}, "
                  f"two neighbours on either side {neighbours.accuracy(windows, masked):.1%}", flush=True)
        for length in (256, 512):
            draws = list(pair_draws(text, length, options.draws, SEED))
            print(f"  find the other crop, {length:4d} bytes: model {find_accuracy(model, draws):.1%}; baselines: "
                  f"byte trigrams {trigram_accuracy(draws):.1%}, "
                  f"weighted by rarity {trigram_accuracy(draws, rarity(train, length)):.1%}, chance 1.0%", flush=True)


if __name__ == "__main__":
    main()
