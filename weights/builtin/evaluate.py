#!/usr/bin/env python3
"""Prints how well models do their two tasks on text that they were not trained on, beside baselines.

    python3 evaluate.py --corpus corpus --model . other             # several models, on the same text
    python3 evaluate.py --corpus corpus --daemon http://127.0.0.1:8080       # the answers of a daemon, in its dtype
    python3 evaluate.py --corpus corpus --daemon … --sample 32               # only fills in tokens, in 32 windows

Filling in words: 15 % of the lower-case words of a text are masked, each with the blank before it. A model receives one
mask for each token of the word, and fills in all words of the text at once. There are three figures:

- the share of words that are right
- the share of bytes that are right at their place
- bits for each byte, from the probabilities of the word's own tokens

The masks tell a model of bytes the length of the word. They tell a model of larger tokens only the number of tokens.

Filling in tokens: 15 % of the tokens are masked. The figure is the share of right tokens. It cannot compare models with
different tokens.

Finding: two crops that do not overlap are taken from each of 100 documents. For crop A of each document, the crop B
with the largest cosine is found. The figure is how often it is from the same document.

The weights are converted from F16 to F32. For a daemon, only numpy, torch and tokenizers are needed.
"""
import argparse
import base64
import copy
import json
import re
import urllib.request
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

SEED = 2024
MASKED_SHARE = 0.15
ROWS = 64                          # sequences of a batch

# ---- tokens -----------------------------------------------------------------------------------

class Bytes:
    """The byte tokenizer. Ids: 0 pad, 1 end, 2 mask, 3 + byte."""
    MASK, FIRST = 2, 3

    def encode(self, texts):
        """For each text its ids, and where each token begins in the text's UTF-8. The places have one entry more, the
        end of the text."""
        rows = [np.frombuffer(text.encode(), np.uint8).astype(np.int64) + self.FIRST for text in texts]
        return [(ids, np.arange(len(ids) + 1)) for ids in rows]

    def bytes_of(self, token):
        return bytes([token - self.FIRST]) if token >= self.FIRST else b""


class Pieces:
    """The tokens of a tokenizer.json of BPE over bytes."""

    def __init__(self, path):
        from tokenizers import Tokenizer, pre_tokenizers
        self.tokenizer = Tokenizer.from_file(str(path))
        self.MASK = self.tokenizer.token_to_id("[MASK]")
        # ByteLevel writes each byte as one printable character. This is the byte's own character, or the next free one
        # from 256 on.
        own = [b for b in range(256) if chr(b) in set(pre_tokenizers.ByteLevel.alphabet())]
        others = [b for b in range(256) if b not in own]
        self.byte = {chr(b): b for b in own} | {chr(256 + i): b for i, b in enumerate(others)}

    def encode(self, texts):
        rows = []
        for text, encoding in zip(texts, self.tokenizer.encode_batch(texts, add_special_tokens=False)):
            at = np.cumsum([0] + [len(c.encode()) for c in text])       # place of each character in UTF-8
            begins = [at[start] for start, _ in encoding.offsets] + [at[-1]]
            rows.append((np.array(encoding.ids, np.int64), np.array(begins)))
        return rows

    def bytes_of(self, token):
        text = self.tokenizer.id_to_token(token)
        return b"" if text in ("[PAD]", "[END]", "[MASK]") else bytes(self.byte[c] for c in text)


def tokens_of(folder):
    path = Path(folder) / "tokenizer.json"
    return Pieces(path) if path.exists() else Bytes()


# ---- model ------------------------------------------------------------------------------------

class ByteModel:
    """The model of bytes in tests/models/bytes: a LinearAttentionTransformerLM with settings of Linformer."""

    def __init__(self, folder, config):
        from linear_attention_transformer.linear_attention_transformer import (LinearAttentionTransformerLM,
                                                                               LinformerSettings)
        from safetensors.torch import load_file
        kwargs = dict(config["kwargs"])
        kwargs["linformer_settings"] = LinformerSettings(**kwargs["linformer_settings"])
        self.module = LinearAttentionTransformerLM(**kwargs)
        state = load_file(Path(folder) / "model.safetensors")
        self.module.load_state_dict({name: tensor.float() for name, tensor in state.items()})
        self.module.eval()
        self.max_seq_len = kwargs["max_seq_len"]

    def hidden(self, ids):
        """The input of the class's output layer.

        Position embeddings are computed for one row, because the class expands them to every row."""
        x = self.module.token_emb(ids)
        return self.module.norm(self.module.transformer(x + self.module.pos_emb(x[:1])))

    def logits(self, ids, mask):
        return self.module.out(self.hidden(ids)[mask])


class BuiltinModel:
    def __init__(self, module):
        import model
        self.module, self.max_seq_len = module, model.LONGEST

    def hidden(self, ids):
        return self.module.hidden(ids)

    def logits(self, ids, mask):
        return self.module.logits(self.hidden(ids)[mask])


def load(folder):
    config = json.loads((Path(folder) / "config.json").read_text())
    if config["architecture"] != "module":
        return Model(ByteModel(folder, config), tokens_of(folder))
    import model
    return Model(BuiltinModel(model.read(folder)), tokens_of(folder))


def guessed(logits, right):
    """The likeliest id of each row of logits, and the bits of the right id."""
    bits = -logits.log_softmax(-1).gather(1, right[:, None])[:, 0]
    return logits.argmax(-1).numpy(), bits.numpy() / np.log(2)


class Model:
    """A model and its tokens."""

    def __init__(self, model, tokens):
        self.model, self.tokens, self.max_seq_len = model, tokens, model.max_seq_len

    @torch.no_grad()
    def embed(self, ids):
        return torch.nn.functional.normalize(self.model.hidden(ids).mean(dim=1), dim=-1)

    @torch.no_grad()
    def fill(self, ids, mask):
        """For each masked place, row by row, the likeliest id and the bits of the right id."""
        return guessed(self.model.logits(ids.masked_fill(mask, self.tokens.MASK), mask).float(), ids[mask])


class Served:
    """The first model of a running daemon, with the functions of Model."""

    def __init__(self, url, tokens):
        self.url, self.tokens = url, tokens
        self.max_seq_len = self.get("/info")["max_input_length"]

    def get(self, path, body=None):
        request = urllib.request.Request(self.url + path, body and json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def embed(self, ids):
        answer = self.get("/embed", {"inputs": ids.tolist(), "encoding_format": "base64"})
        return torch.from_numpy(np.stack([np.frombuffer(base64.b64decode(row), "<f4") for row in answer]))

    def fill(self, ids, mask):
        """The likeliest ids. The bits are NaN, because the daemon would have to send the logits of the whole
        vocabulary."""
        best = []
        for row, places in zip(ids.masked_fill(mask, self.tokens.MASK), mask):
            positions = places.nonzero().flatten().tolist()
            if positions:
                answer = self.get("/logits", {"inputs": [row.tolist()], "positions": positions, "top_k": 1})
                best += [tokens[0] for tokens in answer[0]["tokens"]]
        return np.array(best, np.int64), np.full(len(best), np.nan)


def batches(rows):
    """Indices of at most ROWS rows at a time. All rows of a batch have the same length, so no padding is needed."""
    by_length = defaultdict(list)
    for i, row in enumerate(rows):
        by_length[len(row)].append(i)
    for same in by_length.values():
        for first in range(0, len(same), ROWS):
            yield same[first:first + ROWS]


def stacked(rows, which):
    return torch.from_numpy(np.stack([rows[i] for i in which]))


# ---- text -------------------------------------------------------------------------------------

def text_of(crop):
    """The text of some bytes, without characters that the crop cuts in two."""
    return bytes(crop).decode("utf-8", "ignore")


class Text:
    """Documents, one after another, as corpus.py writes them."""

    def __init__(self, folder, split):
        self.bytes = np.fromfile(Path(folder) / f"{split}.bin", dtype=np.uint8)
        self.starts = np.load(Path(folder) / f"{split}.npy")
        self.sizes = np.diff(self.starts)
        self.package = np.load(Path(folder) / f"{split}.package.npy")

    def only(self, documents):
        """The same text, restricted to these documents."""
        chosen = copy.copy(self)
        chosen.starts, chosen.sizes = self.starts[documents], self.sizes[documents]
        chosen.package = self.package[documents]
        return chosen

    def document(self, i):
        return text_of(self.bytes[self.starts[i]:self.starts[i + 1]])

    def crops(self, at, length):
        return self.bytes[np.asarray(at)[:, None] + np.arange(length)]

    def windows(self, rng, count, length):
        """Crops that are spread evenly over all text. Each is within one document."""
        room = np.maximum(self.sizes - length + 1, 0)
        document = rng.choice(len(room), count, p=room / room.sum())
        return self.crops(self.starts[document] + rng.integers(room[document]), length)

    def pairs(self, rng, documents, length):
        """Two crops of each document that do not overlap, in random order."""
        at = pair_starts(rng, self.starts[documents], self.sizes[documents], length)
        return self.crops(at[:, 0], length), self.crops(at[:, 1], length)


def pair_starts(rng, starts, sizes, length):
    """The starts of two crops in each document, from the starts and sizes of the documents."""
    cuts = np.sort(rng.integers(0, (sizes - 2 * length)[:, None] + 1, (len(sizes), 2)), axis=1)
    return rng.permuted(starts[:, None] + cuts + [0, length], axis=1)


# ---- filling in -------------------------------------------------------------------------------

WORD = re.compile(r" [a-z]+(?![^\W\d_])")      # a lower-case word and the blank before it. No letter follows


def masked_windows(text, length, count, seed):
    """Windows of bytes, and which of their bytes are masked."""
    rng = np.random.default_rng(seed)
    windows = text.windows(rng, count, length)
    return windows, rng.random(windows.shape) < MASKED_SHARE


def fill_tokens(model, windows, seed):
    """The share of masked tokens that are guessed, and the number of masked tokens, in windows of bytes."""
    rng = np.random.default_rng(seed)
    rows = [ids[:model.max_seq_len] for ids, _ in model.tokens.encode([text_of(w) for w in windows])]
    masks = [rng.random(len(ids)) < MASKED_SHARE for ids in rows]
    right = []
    for which in batches(rows):
        ids, mask = stacked(rows, which), stacked(masks, which)
        right.append(model.fill(ids, mask)[0] == ids[mask].numpy())
    right = np.concatenate(right)
    return right.mean(), len(right)


def masked_words(windows, seed):
    """For each window its text, and the begin and end in UTF-8 of the masked words."""
    rng = np.random.default_rng(seed)
    for window in windows:
        text = text_of(window)
        words = [m.span() for m in WORD.finditer(text) if m.end() < len(text) and rng.random() < MASKED_SHARE]
        yield text, [tuple(len(text[:i].encode()) for i in span) for span in words]


def fill_words(model, words):
    """Figures for masked words: the share of right words, the share of bytes that are right at their place, and the
    bits for each byte. The last result is the number of words."""
    texts, spans = zip(*words)
    encoded = model.tokens.encode(texts)
    rows = [ids[:model.max_seq_len] for ids, _ in encoded]
    masks = [np.zeros(len(ids), bool) for ids in rows]
    for (_, begins), mask, masked in zip(encoded, masks, spans):
        for begin, end in masked:
            first, last = np.searchsorted(begins, [begin, end])
            assert begins[first] == begin and begins[last] == end, "a word is not made of whole tokens"
            if last <= len(mask):
                mask[first:last] = True
    whole, right, length, bits = 0, 0, 0, 0.0
    count = 0
    for which in batches(rows):
        ids, mask = stacked(rows, which), stacked(masks, which)
        best, cost = model.fill(ids, mask)
        bits += cost.sum()
        guess = torch.zeros_like(ids)
        guess[mask] = torch.from_numpy(best)
        for at, i in enumerate(which):
            raw, begins = texts[i].encode(), encoded[i][1]
            for begin, end in spans[i]:
                first, last = np.searchsorted(begins, [begin, end])
                if last > mask.shape[1]:
                    continue
                word = b"".join(model.tokens.bytes_of(t) for t in guess[at, first:last].tolist())
                whole += word == raw[begin:end]
                right += sum(a == b for a, b in zip(word, raw[begin:end]))
                length += end - begin
                count += 1
    return whole / count, right / length, bits / length, count


class Neighbours:
    """The byte that is most frequent in the training text between the neighbours that are not masked. First two
    neighbours on either side are compared, then one, then the neighbours of one side, then none."""
    RADII = ((2, 2), (1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))

    def __init__(self, data):
        self.tables = {}
        for left, right in self.RADII:
            key = self.keys(data.astype(np.uint64), left, right)
            values, counts = np.unique(key << np.uint64(8) | data, return_counts=True)
            contexts = values >> np.uint64(8)
            order = np.lexsort((counts, contexts))        # the last entry of each context is its most frequent byte
            last = np.r_[contexts[order][1:] != contexts[order][:-1], True]
            self.tables[left, right] = contexts[order][last], values[order][last] & np.uint64(255)

    @staticmethod
    def keys(data, left, right):
        key = np.zeros_like(data)
        for offset in [*range(-left, 0), *range(1, right + 1)]:
            key = key * np.uint64(257) + np.roll(data, -offset, axis=-1)
        return key

    def accuracy(self, windows, masked):
        data = np.where(masked, 256, windows).astype(np.uint64)   # 256 is no byte, so no context contains a masked byte
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


def embed_crops(model, crops):
    rows = [ids[:model.max_seq_len] for ids, _ in model.tokens.encode([text_of(c) for c in crops])]
    vectors = [None] * len(rows)
    for which in batches(rows):
        for i, vector in zip(which, model.embed(stacked(rows, which))):
            vectors[i] = vector
    return torch.stack(vectors)


def find_accuracy(model, draws):
    found = []
    for a, b in draws:
        nearest = (embed_crops(model, a) @ embed_crops(model, b).T).argmax(dim=1).numpy()
        found.append((nearest == np.arange(len(a))).mean())
    return np.mean(found)


def trigrams(crops):
    crops = crops.astype(np.int64)
    return crops[:, :-2] << 16 | crops[:, 1:-1] << 8 | crops[:, 2:]


def trigram_accuracy(draws, weight=None):
    """The accuracy of a comparison of trigrams. Without `weight`, it is the cosine of their counts. With a weight for
    each trigram, it is the cosine of (1 + log count) * weight."""
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
    """The rarity of each trigram in the training text: log((crops + 1) / (crops with this trigram + 1))."""
    rng = np.random.default_rng(SEED)
    having = np.ones(1 << 24, np.float32)
    for row in trigrams(text.windows(rng, crops, length)):
        having[np.unique(row)] += 1
    return np.log((crops + 1) / having)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", nargs="+", type=Path, default=[Path(__file__).parent])
    options.add_argument("--daemon", help="URL of a daemon. It serves the model of the folder --model")
    options.add_argument("--corpus", required=True)
    options.add_argument("--splits", nargs="+", default=["heldout", "foreign"])
    options.add_argument("--windows-bytes", type=int, default=500_000, help="bytes of text in the windows of a figure")
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--sample", type=int, metavar="N",
                         help="only fills in N windows of 256 held-out bytes, for a slow daemon")
    options = options.parse_args()
    if options.daemon:
        models = {"daemon": Served(options.daemon, tokens_of(options.model[0]))}
    else:
        models = {folder.name: load(folder) for folder in map(Path.absolute, options.model)}
    if options.sample:
        windows, _ = masked_windows(Text(options.corpus, "heldout"), 256, options.sample, SEED)
        for name, model in models.items():
            share, count = fill_tokens(model, windows, SEED)
            print(f"seed {SEED}; {count} masked tokens of {options.sample} windows of 256 bytes: {share:.2%}")
        return
    train = Text(options.corpus, "train")
    neighbours = Neighbours(train.bytes[:40_000_000])
    print(f"seed {SEED}; {MASKED_SHARE:.0%} masked; {options.windows_bytes} bytes in windows per figure; "
          f"{options.draws} draws of {CANDIDATES} documents")
    for split in options.splits:
        text = Text(options.corpus, split)
        print(f"\n{split}: {len(text.sizes)} documents, {len(text.bytes)} bytes")
        for length in (256, 1024):
            windows, masked = masked_windows(text, length, options.windows_bytes // length, SEED)
            words = list(masked_words(windows, SEED))
            print(f"  bytes of {length} filled in one by one: two neighbours on either side "
                  f"{neighbours.accuracy(windows, masked):.1%}")
            for name, model in models.items():
                share, count = fill_tokens(model, windows, SEED)
                whole, right, bits, n_words = fill_words(model, words)
                print(f"  fill in, {length:4d} bytes, {name}: words {whole:.1%} of {n_words}, their bytes {right:.1%}, "
                      f"{bits:.3f} bits a byte; own tokens {share:.1%} of {count}", flush=True)
        for length in (256, 512):
            draws = list(pair_draws(text, length, options.draws, SEED))
            print(f"  find the other crop, {length:4d} bytes: byte trigrams {trigram_accuracy(draws):.1%}, "
                  f"weighted by rarity {trigram_accuracy(draws, rarity(train, length)):.1%}, chance 1.0%", flush=True)
            for name, model in models.items():
                print(f"  find the other crop, {length:4d} bytes, {name}: {find_accuracy(model, draws):.1%}", flush=True)


if __name__ == "__main__":
    main()
