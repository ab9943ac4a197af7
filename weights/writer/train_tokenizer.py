#!/usr/bin/env python3
"""Makes tokenizer.json from the training text, and the ids of all texts.

    python3 train_tokenizer.py --corpus corpus --out model

--corpus is the folder that ../builtin/corpus.py wrote. The script writes tokenizer.json to --out, and the ids of the
training text to CORPUS/train.ids.npy. Each document ends with the end token, id 0.
"""
import argparse
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END, END_TOKEN = 0, "</s>"
VOCABULARY = 3072
SAMPLE_BYTES = 30_000_000   # characters of text in which the merges are counted
DOCUMENT_BYTES = 20_000     # limit for the characters of one document in this sample


def documents(corpus, name):
    """The texts of train, heldout or foreign."""
    text, starts = (corpus / f"{name}.bin").read_bytes(), np.load(corpus / f"{name}.npy")
    return [text[a:b].decode("utf-8", "replace") for a, b in zip(starts, starts[1:])]


def train(texts, rng):
    """BPE over bytes. Each digit is a token. A blank becomes a part of the word after it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    sample, size = [], 0
    for i in rng.permutation(len(texts)):
        sample.append(texts[i][:DOCUMENT_BYTES])
        size += len(sample[-1])
        if size > SAMPLE_BYTES:
            break
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END_TOKEN], max_token_length=24,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(sample, trainer)
    return tokenizer


def encode(tokenizer, texts):
    """The ids of all texts, one after another, with END after each text."""
    parts = []
    for i in range(0, len(texts), 500):
        for encoding in tokenizer.encode_batch_fast(texts[i:i + 500], add_special_tokens=False):
            parts.append(np.array(encoding.ids + [END], np.uint16))
    return np.concatenate(parts)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options = options.parse_args()
    texts = documents(options.corpus, "train")
    tokenizer = train(texts, np.random.default_rng(1))
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.out / "tokenizer.json"), pretty=False)
    ids = encode(tokenizer, texts)
    np.save(options.corpus / "train.ids.npy", ids)
    size = (options.corpus / "train.bin").stat().st_size
    print(f"{tokenizer.get_vocab_size()} tokens in the vocabulary, {len(ids)} in the training text, "
          f"{size / len(ids):.2f} bytes each")


if __name__ == "__main__":
    main()
