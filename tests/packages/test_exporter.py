"""Tests serve() and the exporter of the wheel, in an environment with torch and the Python libraries. Run the script
with the Python of this environment."""

import os
import pathlib
import subprocess
import sys
import types
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "clients"), str(ROOT / "docs" / "examples")]

import linear_attention_transformer
import linformer
import numpy as np
import torch
from tap import expect, run
from torch import nn

import linformerd

TOLERANCE = 1e-5
TESTS = []


def test(function):
    TESTS.append((function.__name__.replace("_", " "), function))
    return function


def near(found, expected):
    found, expected = np.asarray(found), expected.detach().double().numpy()
    assert found.shape == expected.shape, (found.shape, expected.shape)
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error <= TOLERANCE, error


KWARGS = dict(num_tokens=100, dim=32, seq_len=64, depth=2, heads=4, k=16)


def language_model():
    torch.manual_seed(1)
    return linformer.LinformerLM(**KWARGS).eval()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.inner = linformer.Linformer(dim=32, seq_len=64, depth=1, heads=4, k=16)
        self.head = nn.Linear(32, 2)

    def forward(self, ids):
        return self.head(self.inner(self.embed(ids)).mean(dim=1))


@test
def a_model_is_served_from_memory():
    model, ids = language_model(), torch.randint(0, 100, (2, 40))
    folders = set(pathlib.Path("/tmp").glob("linformerd-*"))
    with linformerd.serve(model, KWARGS, config={"name": "mine", "normalize": False}, threads=1) as server:
        assert [one["name"] for one in server.info()["models"]] == ["mine"]
        found = server.logits(ids)
        near([one["logits"] for one in found], model(ids))
        near(server.infer({"x": ids}, model="mine")["output"], model(ids))
        near(server.infer({"x": ids.numpy()}, model="mine", outputs=["output"])["output"], model(ids))
        assert server.embed(ids) == server.embed(ids.numpy()) == server.embed(ids.tolist())
        expect(TypeError, lambda: server.infer({"x": ["text"]}, model="mine"), "'x'")
    assert set(pathlib.Path("/tmp").glob("linformerd-*")) <= folders


@test
def masks_and_floats_sent_with_infer_agree_with_pytorch():
    torch.manual_seed(2)
    kwargs = dict(dim=16, heads=2, depth=1, max_seq_len=32)
    model = linear_attention_transformer.LinearAttentionTransformer(**kwargs).eval()
    x, mask = torch.randn(2, 32, 16), torch.arange(32)[None] < torch.tensor([[32], [20]])
    with linformerd.serve(model, kwargs, config={"name": "floats"}) as server:
        near(server.infer({"x": x, "input_mask": mask}, model="floats")["output"], model(x, input_mask=mask))
        near(server.embed_all(embeddings=x), model(x))


@test
def a_module_is_served_from_memory():
    torch.manual_seed(3)
    model, ids = Classifier().eval(), torch.randint(0, 100, (3, 20))
    # A module with the name export, such as a user's own script, must not replace the exporter.
    sys.modules["export"] = types.ModuleType("export")
    try:
        with linformerd.serve(model, example={"ids": ids[:2]}, config={"labels": ["bad", "good"]}) as server:
            found = server.predict([one.tolist() for one in ids])
    finally:
        del sys.modules["export"]
    scores = [[next(one["score"] for one in each if one["label"] == label) for label in ("bad", "good")] for each in found]
    near(scores, model(ids).softmax(-1))


@test
def export_checks_the_folder_with_the_daemon_of_the_wheel():
    os.environ["PATH"] = "/usr/bin:/bin"  # the wheel's command is not in this PATH
    folder = pathlib.Path(os.environ["FOLDER"], "exported")
    with unittest.mock.patch("subprocess.run", wraps=subprocess.run) as called:
        linformerd.export(language_model(), KWARGS, folder, name="kept", pooling="cls")
    program = pathlib.Path(called.call_args.args[0][0])
    assert program == pathlib.Path(linformerd.__file__).parent / "bin" / "linformerd", program
    with linformerd.serve(folder) as server:
        assert server.info()["models"][0]["name"] == "kept"
        assert server.embed([[5]]) == server.embed([[5]], pooling="cls")
    expect(ValueError, lambda: linformerd.export(language_model(), {**KWARGS, "dim": 16}, folder), "dim")
    linformerd.export_module(Classifier().eval(), {"ids": torch.zeros(2, 8, dtype=torch.long)}, folder / "module")
    assert (folder / "module" / "config.json").exists()


if __name__ == "__main__":
    sys.exit(1 if run(TESTS) else 0)
