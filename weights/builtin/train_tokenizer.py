#!/usr/bin/env python3
"""Trains the built-in model's tokenizer on the training text of corpus.py, and encodes this text.

    python3 train_tokenizer.py --corpus corpus --out model

It writes tokenizer.json: BPE over bytes, so every text has tokens, and no token is unknown. Words are split as in
GPT-2, so a word includes the blank before it. Each digit is a token, so that numbers share tokens. Text is made
lower-case, because a word at the start of a sentence has the same meaning as elsewhere.

It also writes train.tokens.npy into the folder of the training text: the ids of all documents, one after another.
train.tokens.starts.npy has the start of each document, with one entry more than documents.
"""
import argparse
import time
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import evaluate as ev

SAMPLE_BYTES = 30_000_000       # characters of training text, from documents in random order
DOCUMENT_CAP = 20_000           # limit for the characters of one document, so that no document dominates the vocabulary
LONGEST_TOKEN_BYTES = 24        # limit for the bytes of a token


def sample(text, rng):
    used = 0
    for document in rng.permutation(len(text.sizes)):
        part = text.document(document)[:DOCUMENT_CAP]
        yield part
        used += len(part)
        if used > SAMPLE_BYTES:
            return


def encode(tokenizer, text, documents=200):
    rows = []
    for first in range(0, len(text.sizes), documents):
        some = [text.document(i) for i in range(first, min(first + documents, len(text.sizes)))]
        rows += [np.array(e.ids, np.uint16) for e in tokenizer.encode_batch_fast(some, add_special_tokens=False)]
    return rows


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--size", type=int, default=8192)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=options.size, special_tokens=["[PAD]", "[END]", AddedToken("[MASK]", lstrip=True)],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  max_token_length=LONGEST_TOKEN_BYTES, show_progress=False)
    text, rng = ev.Text(options.corpus, "train"), np.random.default_rng(options.seed)
    tokenizer.train_from_iterator(sample(text, rng), trainer)
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.out / "tokenizer.json"), pretty=False)
    rows = encode(tokenizer, text)
    np.save(options.corpus / "train.tokens.npy", np.concatenate(rows))
    np.save(options.corpus / "train.tokens.starts.npy", np.cumsum([0] + [len(row) for row in rows]))
    print(f"{tokenizer.get_vocab_size()} kinds of tokens; {len(text.bytes) / sum(map(len, rows)):.2f} bytes a token; "
          f"{time.process_time() / 60:.1f} minutes of processor time")


if __name__ == "__main__":
    main()
