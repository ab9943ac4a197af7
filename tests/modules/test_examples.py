#!/usr/bin/env python3
"""The examples of docs/serve-your-own-module.md: the committed models agree with PyTorch, are as good as the page says,
and are what the scripts export. Without SHORT=1 the scripts train anew, which takes minutes.

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
PAGE = ROOT / "docs/serve-your-own-module.md"
sys.path[:0] = [str(HERE), str(ROOT / "weights"), str(ROOT / "tests/clients"), str(EXAMPLES)]

import torch

import pictures
import support
import texts
from test_modules import read_tensors

os.chdir(ROOT)
TESTS = []
TOLERANCE = 1e-4  # of scores: a picture's numbers are rounded on the way
SMALL = {"pictures": {"count": 64, "epochs": 1}, "texts": {"steps": 2}}
FOLDERS = {"pictures": "cats_and_dogs", "texts": "languages"}


def test(function):
    TESTS.append((function.__name__.replace("_", " "), function))
    return function


def committed(script):
    """The model of the folder beside the script."""
    model = script.Classifier()
    model.load_state_dict(read_tensors(EXAMPLES / FOLDERS[script.__name__] / "model.safetensors"))
    return model.eval()


def scores(address, body, kind):
    request = urllib.request.Request(f"http://{address}/predict", body, {"Content-Type": kind})
    with urllib.request.urlopen(request) as answer:
        return {each["label"]: each["score"] for each in json.load(answer)}


def agrees(found, expected, labels):
    for label, score in zip(labels, expected.softmax(0).tolist()):
        assert abs(found[label] - score) < TOLERANCE, (label, found, score)


def claimed(script):
    """The right answers of 1000 that the page states."""
    return int(re.search(rf"<!-- {script.__name__} -->\s*(\d+) of 1000", PAGE.read_text())[1])


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
def pictures_are_as_good_as_the_page_says():
    with support.Daemon("--model", str(EXAMPLES / "cats_and_dogs")) as daemon:
        assert pictures.measure(f"http://{daemon.address}") >= claimed(pictures) - 5


@test
def texts_are_about_as_good_as_the_page_says():
    """The files change, and so do the pieces."""
    with support.Daemon("--model", str(EXAMPLES / "languages")) as daemon:
        assert texts.measure(f"http://{daemon.address}") >= claimed(texts) - 30


@test
def the_scripts_export_what_is_committed():
    for script in (pictures, texts):
        with tempfile.TemporaryDirectory() as folder:
            script.export(script.train(**SMALL[script.__name__]), folder)
            made = json.loads(pathlib.Path(folder, "config.json").read_text())
        assert made == json.loads((EXAMPLES / FOLDERS[script.__name__] / "config.json").read_text())


@test
def the_scripts_train_good_models():
    if os.environ.get("SHORT"):
        raise unittest.SkipTest("SHORT=1")
    for script in (pictures, texts):
        with tempfile.TemporaryDirectory() as folder:
            script.export(script.train(), folder)
            with support.Daemon("--model", folder) as daemon:
                assert script.measure(f"http://{daemon.address}") >= 900


@test
def the_page_has_the_code_of_the_scripts():
    code = textwrap.dedent("\n".join(path.read_text() for path in sorted(EXAMPLES.glob("*.py"))))
    lines = "\n".join(line.strip() for line in code.splitlines())
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) >= 4
    for block in blocks:
        assert "\n".join(line.strip() for line in block.splitlines()) in lines, block


def main():
    warnings.simplefilter("ignore")
    sys.exit(1 if support.run(TESTS) else 0)


if __name__ == "__main__":
    main()
