#!/usr/bin/env python3
"""Writes tests/tokenizers/reference/: small tokenizers, and the results of the Python package `tokenizers` for some
texts.

    make.py [--size 500] [--count 200]

texts.json is a list of texts. NAME.json is a tokenizer. NAME.results.json has a list for each text: the ids, the
offsets in one list, the decoded text, and the decoded text without special tokens. The lists of the first TOKENS texts
also contain the texts of the tokens. tests/unit/test_tokenizers.c reads these files."""
import argparse
import json
import pathlib

from tokenizers import Tokenizer

import cases
import compare
import peer
import texts

FOLDER = pathlib.Path(__file__).parent / "reference"
TOKENS = 50


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / name).write_text(text.replace("],[", "],\n[") + "\n", encoding="utf-8")


def result(tokenizer, text, tokens):
    found = peer.expected(tokenizer, text)
    if "error" in found:
        raise RuntimeError(f"{text!r}: {found['error']}")
    flat = [number for pair in found["offsets"] for number in pair]
    return [found["ids"], flat, found["decoded"], found["skipped"]] + ([found["tokens"]] if tokens else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=500, help="pieces of each vocabulary (%(default)s)")
    parser.add_argument("--count", type=int, default=200, help="number of texts (%(default)s)")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    lines = texts.corpus()
    inputs = [text[:160] for text in texts.texts(options.count * 2, 5, lines) if compare.assigned(text.encode())][:options.count]
    write("texts.json", inputs)
    for name, make in cases.CASES.items():
        if name in cases.LARGE:
            continue
        document = json.loads(make(lines, options.size).to_str())
        write(f"{name}.json", document)
        tokenizer = Tokenizer.from_str(json.dumps(document))
        write(f"{name}.results.json", [result(tokenizer, text, index < TOKENS) for index, text in enumerate(inputs)])
        print(name)


if __name__ == "__main__":
    main()
