#!/usr/bin/env python3
"""Compares linformerd's tokenizer with the Python package `tokenizers`: texts per second on one thread, measured in
turns.

    tokenizer_rates.py --program build/tests/bench/tokenizer --folder build/bench/tokenizers [--size 50000] [--rounds 3]

The texts have 100 words, and are taken from Debian's documentation. The tokenizers are trained on this documentation
once, and kept in the folder. The last table gives the times for a text of a hundred thousand letters and for a text of
a million letters. It shows whether the time grows in proportion to the length."""
import argparse
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tokenizers"))
import cases  # noqa: E402
import texts  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

MODELS = {"gpt2": "BPE", "llama2": "BPE, whole texts", "bert": "WordPiece", "t5": "Unigram"}
WORDS, TEXTS = 100, 1000


def trained(folder, name, size, lines):
    path = folder / f"{name}_{size}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"training {name}", file=sys.stderr, flush=True)
        tokenizer = cases.CASES[name](lines(), size)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.save(str(path))
    return path


def save_texts(path, inputs):
    data = [text.encode() for text in inputs]
    path.write_bytes(b"".join(struct.pack("<I", len(text)) + text for text in data))
    return path


def ours(program, path, inputs, seconds):
    """Runs the program. Returns its output as {name: value}."""
    words = subprocess.run([program, path, inputs, str(seconds)], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def theirs(tokenizer, inputs, seconds):
    """Texts per second of `tokenizers`: by encode_batch_fast, which computes no offsets, and by encode."""
    rates = []
    for run in (lambda: tokenizer.encode_batch_fast(inputs), lambda: [tokenizer.encode(text) for text in inputs]):
        began, count = time.monotonic(), 0
        while count == 0 or time.monotonic() - began < seconds:
            run()
            count += len(inputs)
        rates.append(count / (time.monotonic() - began))
    return rates


def rates(options, lines, folder):
    words = " ".join(texts.corpus()).split()
    chance = random.Random(1)
    inputs = [" ".join(words[begin:begin + WORDS]) for begin in (chance.randrange(len(words) - WORDS) for _ in range(TEXTS))]
    saved = save_texts(folder / "texts.bin", inputs)
    print(f"texts of {WORDS} words a second, one thread, median of {options.rounds} rounds; vocabularies of up to {options.size} pieces")
    print(f"{'':18}{'pieces':>8}{'ours':>9}{'fast':>9}{'encode':>9}{'ours : fast':>13}{'ours : encode':>15}{'open ms':>9}{'MB':>7}")
    for name in options.models:
        path = trained(folder, name, options.size, lines)
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.encode_batch(inputs)  # the first call is not measured
        found = []
        for _ in range(options.rounds):
            own = ours(options.program, path, saved, options.seconds)
            found.append((own["texts_per_s"], *theirs(tokenizer, inputs, options.seconds), own["open_ms"], own["bytes"]))
        own, fast, plain, open_ms, size = (statistics.median(values) for values in zip(*found))
        against_fast = statistics.median(one[0] / one[1] for one in found)
        against_plain = statistics.median(one[0] / one[2] for one in found)
        print(f"{MODELS[name]:18}{tokenizer.get_vocab_size():8}{own:9.0f}{fast:9.0f}{plain:9.0f}{against_fast:13.1f}"
              f"{against_plain:15.1f}{open_ms:9.1f}{size / 1e6:7.1f}", flush=True)


def lengths(options, lines, folder):
    print("\nms of one text of the letter a")
    print(f"{'':18}{'100 000':>10}{'1 000 000':>12}{'times':>8}")
    for name in options.models:
        path = trained(folder, name, options.size, lines)
        ms = []
        for length in (100_000, 1_000_000):
            saved = save_texts(folder / "letters.bin", ["a" * length])
            ms.append(1e3 / statistics.median(ours(options.program, path, saved, options.seconds)["texts_per_s"]
                                              for _ in range(options.rounds)))
        print(f"{MODELS[name]:18}{ms[0]:10.1f}{ms[1]:12.1f}{ms[1] / ms[0]:8.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--size", type=int, default=50000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    options.models = options.models or list(MODELS)
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = []

    def lines():
        if not kept:
            kept.extend(texts.corpus(20_000_000))
        return kept

    rates(options, lines, options.folder)
    lengths(options, lines, options.folder)


if __name__ == "__main__":
    main()
