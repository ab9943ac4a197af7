#!/usr/bin/env python3
"""Tests the examples of docs/serve-your-own-module.md and docs/serve-with-a-tokenizer.md. The committed models must
agree with PyTorch, and must be about as good as the pages say. The scripts must export the committed config.json and
tokenizer.json. Without SHORT=1, the scripts also train new models to the end, which takes minutes.

Reports in TAP. LINFORMERD names the daemon."""
import io
import json
import os
import pathlib
import re
import sys
import tempfile
import textwrap
import unittest
import urllib.request
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "docs/examples"
PAGES = [ROOT / "docs/serve-your-own-module.md", ROOT / "docs/serve-with-a-tokenizer.md"]
sys.path[:0] = [str(HERE), str(ROOT / "weights"), str(ROOT / "tests/clients"), str(EXAMPLES)]

import torch
from linformer import LinformerLM
from tokenizers import Tokenizer

import animals
import pictures
import support
import texts
from test_modules import read_tensors

os.chdir(ROOT)
TESTS = []
TOLERANCE = 1e-4  # maximum error of a score. The pixels of a picture are rounded before they are sent
SMALL = {"pictures": {"count": 64, "epochs": 1}, "texts": {"steps": 2}, "animals": {"steps": 2}}
FOLDERS = {"pictures": "cats_and_dogs", "texts": "languages"}


def test(function):
    TESTS.append((function.__name__.replace("_", " "), function))
    return function


def committed(script):
    """Returns the committed model in the folder beside the script."""
    model = script.Classifier()
    model.load_state_dict(read_tensors(EXAMPLES / FOLDERS[script.__name__] / "model.safetensors"))
    return model.eval()


def post(address, path, body, kind="application/json"):
    request = urllib.request.Request(f"http://{address}{path}", body, {"Content-Type": kind})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def scores(address, body, kind):
    return {each["label"]: each["score"] for each in post(address, "/predict", body, kind)}


def agrees(found, expected, labels):
    for label, score in zip(labels, expected.softmax(0).tolist()):
        assert abs(found[label] - score) < TOLERANCE, (label, found, score)


def claimed(script):
    """Returns the number of right answers of 1000 that a page states for the script."""
    pages = "".join(page.read_text() for page in PAGES)
    return int(re.search(rf"<!-- {script.__name__} -->\s*(\d+) of 1000", pages)[1])


@test
def pictures_have_the_scores_of_pytorch():
    model = committed(pictures)
    with support.Daemon("--model", str(EXAMPLES / "cats_and_dogs")) as daemon:
        for number in range(20):
            picture, _ = pictures.pictures(pictures.NEW + number, 1)
            for one, label in zip(picture, pictures.LABELS):
                file = io.BytesIO()
                pictures.draw(label, pictures.NEW + number).save(file, "PNG")
                with torch.no_grad():
                    expected = model(pictures.as_input(one[None]))[0]
                agrees(scores(daemon.address, file.getvalue(), "image/png"), expected, pictures.LABELS)


@test
def texts_have_the_scores_of_pytorch():
    model = committed(texts)
    with support.Daemon("--model", str(EXAMPLES / "languages")) as daemon:
        for text in ("x", "if (size > limit)\n    return -1;", "é" * 100, "a b\n" * 64):
            with torch.no_grad():
                expected = model(torch.tensor([[byte + 3 for byte in text.encode()]]))[0]
            body = json.dumps({"inputs": text}).encode()
            agrees(scores(daemon.address, body, "application/json"), expected, texts.LABELS)


@test
def words_have_the_probabilities_of_pytorch():
    """PyTorch reads the ids that the package `tokenizers` makes. The texts contain one mask, several masks, only a
    mask, or other scripts."""
    tokenizer = Tokenizer.from_file(str(EXAMPLES / "animals/tokenizer.json"))
    model = LinformerLM(**animals.arguments(tokenizer))
    model.load_state_dict(read_tensors(EXAMPLES / "animals/model.safetensors"))
    mask = tokenizer.token_to_id("[MASK]")
    with support.Daemon("--model", str(EXAMPLES / "animals")) as daemon:
        for text in ("The [MASK] barks.", "[MASK]", "The [MASK] is a young [MASK].", "Café [MASK]\u0301 東京 🐕 [MASK]"):
            found = post(daemon.address, "/fill-mask", json.dumps({"inputs": text, "top_k": 7}).encode())
            encoding = tokenizer.encode(text)
            tokens = post(daemon.address, "/tokenize", json.dumps({"inputs": text}).encode())[0]
            assert [token["id"] for token in tokens] == encoding.ids
            places = [place for place, each in enumerate(encoding.ids) if each == mask]
            with torch.no_grad():
                logits = model.eval()(torch.tensor([encoding.ids]))[0]
            for place, fillings in zip(places, found if len(places) > 1 else [found], strict=True):
                best = logits[place].softmax(0).topk(7)
                for score, one, filling in zip(best.values.tolist(), best.indices.tolist(), fillings, strict=True):
                    filled = [one if at == place else each for at, each in enumerate(encoding.ids)]
                    assert filling["token"] == one and abs(filling["score"] - score) < TOLERANCE, (text, filling)
                    assert filling["token_str"] == tokenizer.decode([one], skip_special_tokens=False)
                    assert filling["sequence"] == tokenizer.decode(filled, skip_special_tokens=len(places) == 1)


@test
def masked_words_are_guessed_as_well_as_the_page_says():
    with support.Daemon("--model", str(EXAMPLES / "animals")) as daemon:
        assert animals.measure(f"http://{daemon.address}") >= claimed(animals)


@test
def pictures_are_classified_as_well_as_the_page_says():
    with support.Daemon("--model", str(EXAMPLES / "cats_and_dogs")) as daemon:
        assert pictures.measure(f"http://{daemon.address}") >= claimed(pictures) - 5


@test
def texts_are_classified_about_as_well_as_the_page_says():
    """The pieces of text are from the repository's files, so they change with these files."""
    with support.Daemon("--model", str(EXAMPLES / "languages")) as daemon:
        assert texts.measure(f"http://{daemon.address}") >= claimed(texts) - 30


@test
def the_scripts_export_the_committed_files():
    for script in (pictures, texts):
        with tempfile.TemporaryDirectory() as folder:
            script.export(script.train(**SMALL[script.__name__]), folder)
            made = json.loads(pathlib.Path(folder, "config.json").read_text())
        assert made == json.loads((EXAMPLES / FOLDERS[script.__name__] / "config.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = animals.train_tokenizer()
        animals.export(animals.train(tokenizer, **SMALL["animals"]), tokenizer, folder)
        for name in ("config.json", "tokenizer.json"):
            assert pathlib.Path(folder, name).read_text() == (EXAMPLES / "animals" / name).read_text(), name


@test
def the_scripts_train_models_that_are_right_900_of_1000_times():
    if os.environ.get("SHORT"):
        raise unittest.SkipTest("SHORT=1")
    for script in (pictures, texts):
        with tempfile.TemporaryDirectory() as folder:
            script.export(script.train(), folder)
            with support.Daemon("--model", folder) as daemon:
                assert script.measure(f"http://{daemon.address}") >= 900
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = animals.train_tokenizer()
        animals.export(animals.train(tokenizer), tokenizer, folder)
        with support.Daemon("--model", folder) as daemon:
            assert animals.measure(f"http://{daemon.address}") >= 900


@test
def the_pages_have_the_code_of_the_scripts():
    code = textwrap.dedent("\n".join(path.read_text() for path in sorted(EXAMPLES.glob("*.py"))))
    lines = "\n".join(line.strip() for line in code.splitlines())
    blocks = [re.findall(r"```python\n(.*?)```", page.read_text(), re.S) for page in PAGES]
    assert [len(each) for each in blocks] == [4, 3]
    for block in sum(blocks, []):
        assert "\n".join(line.strip() for line in block.splitlines()) in lines, block


def main():
    warnings.simplefilter("ignore")
    sys.exit(1 if support.run(TESTS) else 0)


if __name__ == "__main__":
    main()
