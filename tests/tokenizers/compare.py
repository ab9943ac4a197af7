#!/usr/bin/env python3
"""Compares the project's tokenizer with the Python package `tokenizers`, with newly trained tokenizers and new texts.

    compare.py --program build/tests/tokenizers/encode [--count 10000] [--seed 1] [--size 2000] [CASE…]

The tokenizers are those of cases.py, trained again. Additional tokenizers, whose number is --random, have random parts
around the trained models. Ids, offsets, special mask, tokens' texts and decoded texts must be equal for all texts. The
texts for the tokenizers of cases.py include bytes that are not UTF-8, and a letter that is repeated a million times."""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

import cases
import peer
import random_parts
import texts


def invalid_bytes(seed):
    """Truncated UTF-8, surrogates as bytes, and other invalid bytes."""
    chance = random.Random(seed)
    whole = "é中😀a b".encode()
    fixed = [b"\xed\xa0\x80a\xed\xb0\x80", b"a\xff\xfeb", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe4\xb8", b"\xf0\x9f\x98 x"]
    return fixed + [bytes(chance.choice(whole) for _ in range(chance.randrange(1, 30))) for _ in range(200)]


def assigned(data):
    """True if all characters are assigned in the Unicode version of Python's tables. Debian's Oniguruma has about this
    version."""
    return all(unicodedata.category(character) != "Cn" for character in data.decode("utf-8", "replace"))


def compare(name, tokenizer, program, inputs, quiet=False):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        tokenizer.save(str(path))
        tokenizer = Tokenizer.from_file(str(path))  # loading changes the last bit of some scores of Unigram
        other = peer.Peer(program, str(path))
        wrong = 0
        for data in inputs:
            text = data.decode("utf-8", "replace")
            try:
                wanted = peer.expected(tokenizer, text)
            except BaseException as fault:  # a panic of Rust is not an Exception
                if isinstance(fault, KeyboardInterrupt):
                    raise
                continue
            found = other.encode(data)
            keys = peer.differences(found, wanted)
            if keys and wrong < 3:
                print(f"{name}: {text[:200]!r} differs in {keys}")
                for key in keys:
                    print(f"    expected {str(wanted.get(key))[:600]}\n    found    {str(found.get(key, found))[:600]}")
            wrong += bool(keys)
        status = other.close()
    if wrong or status or not quiet:
        print(f"{name}: {len(inputs)} texts, {wrong} differ{f', status {status}' if status else ''}", flush=True)
    return wrong + (status != 0)


def random_tokenizers(count, seed, trained, lines, program):
    """Compares tokenizers of random parts. Parts that `tokenizers` refuses, or on which it panics, have no reference
    and are left out. Parts that the project refuses with a message are counted, and are not a failure."""
    models = [document["model"] for document in trained]
    charsmaps = [part["precompiled_charsmap"] for document in trained
                 for part in (document["normalizer"] or {}).get("normalizers", []) if part["type"] == "Precompiled"]
    wrong = refused = 0
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        document = random_parts.document(chance, models, charsmaps or ["BAAAAAAEAABhAA=="])
        try:
            tokenizer = Tokenizer.from_str(json.dumps(document))
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of Rust is not an Exception
            continue
        inputs = [text.encode() for text in texts.texts(60, f"{seed} {number}", lines)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(document))
            file.flush()
            opened = subprocess.run([program, file.name], input=b"", capture_output=True)
        if opened.returncode == 1:
            refused += 1
            print(f"random {number}: refused: {opened.stderr.decode().strip()}")
        else:
            found = compare(f"random {number}", tokenizer, program, list(filter(assigned, inputs)), quiet=True)
            if found:
                parts = {key: value for key, value in document.items() if key != "model"}
                print(f"    {json.dumps(parts, ensure_ascii=False)[:3000]}")
            wrong += found
    print(f"{count} random tokenizers, {refused} refused")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--letters", type=int, default=1_000_000)
    parser.add_argument("--random", type=int, default=300)
    parser.add_argument("--save", help="folder that keeps the trained tokenizers for the next run")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    lines = texts.corpus()
    inputs = [text.encode("utf-8", "surrogatepass") for text in texts.texts(options.count, options.seed, lines)]
    inputs += invalid_bytes(options.seed)
    wrong, trained = 0, []
    for name in options.cases or cases.CASES:
        kept = pathlib.Path(options.save or "/nonexistent") / f"{name}.json"
        tokenizer = Tokenizer.from_file(str(kept)) if kept.exists() else cases.CASES[name](lines, options.size)
        if options.save and not kept.exists():
            tokenizer.save(str(kept))
        trained.append(json.loads(tokenizer.to_str()))
        wrong += compare(name, tokenizer, options.program,
                         [*filter(assigned if name in cases.EXPRESSIONS else None, inputs), b"a" * options.letters])
    wrong += random_tokenizers(options.random, options.seed, trained, lines, options.program)
    print("all are equal" if wrong == 0 else f"{wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
