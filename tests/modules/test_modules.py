#!/usr/bin/env python3
"""Tests export_module() of weights/export.py: the results of its graphs, the arguments that it reads from instances,
and what it refuses.

    test_modules.py [--daemon build/linformerd] [--only WORDS]

Reports in TAP. The test computes each graph from the files that export_module() wrote. For each leaf, it creates an
instance of the class from the kwargs, and sets the tensors by their names. The module itself computes the expected
result. Tests that need a missing package are skipped."""
import collections
import argparse
import functools
import importlib
import json
import os
import pathlib
import re
import struct
import sys
import tempfile
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "weights"), str(ROOT / "tests/clients"), str(ROOT / "tests/libraries")]

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import export as exporter
import generate
import support
from daemon import Daemon
from export import export_module
from export_parts import check, leaves
from export_parts.graph import OPERATIONS

TESTS, OPTIONS = [], argparse.Namespace()
TOLERANCE = 1e-6
SERVED_TOLERANCE = 1e-5  # of the daemon's answers


def test(function):
    TESTS.append((function.__name__.replace("_", " "), function))
    return function


# ---- A folder, computed ---------------------------------------------------------------------------------------------

NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "BOOL": "?"}


def read_tensors(path):
    """Returns the tensors of a file by all of their names. bfloat16 becomes float32."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    names = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(data[begin:end], "<u2").astype("<u4") << 16
            array = wide.view("<f4")
        else:
            array = np.frombuffer(data[begin:end], NUMPY[entry["dtype"]])
        tensors[name] = torch.from_numpy(array.copy()).reshape(entry["shape"])
    return {**tensors, **{name: tensors[stored] for name, stored in names.items() if stored in tensors}}


class Rebuilt:
    """An instance of a leaf's class, created from the kwargs in config.json, with the tensors of the file."""

    def __init__(self, node, tensors):
        part = build(node["class"], node["kwargs"])
        prefix = f"{node['path']}." if node["path"] else ""
        own = {name[len(prefix) :]: tensor.float() for name, tensor in tensors.items() if name.startswith(prefix)}
        part.load_state_dict(own)
        if node.get("padding") == "zero":
            part = importlib.import_module("linformer_pytorch").Padder(part)
        elif node.get("padding") == "autopad":
            part = importlib.import_module("linear_attention_transformer.autopadder").Autopadder(part)
        self.original = part.eval()


def build(architecture, kwargs):
    module, _, name = architecture.rpartition(".")
    if architecture == leaves.IMAGE:
        module += ".images"
    cls = getattr(importlib.import_module(module), name)
    return cls(**exporter.python_arguments(cls, kwargs))


class Folder:
    """A folder that export_module() wrote. A call computes its graph."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.graph, self.tensors = self.config["graph"], read_tensors(folder / "model.safetensors")
        self.nodes = self.graph["nodes"]
        self.operations = {node["op"] for node in self.nodes}
        self.leaves = {node["path"]: Rebuilt(node, self.tensors) for node in self.nodes if node["op"] == "leaf"}

    def __call__(self, inputs):
        return check.compute(self.graph, self.tensors, self.leaves, inputs)

    def agrees(self, module, inputs, tolerance=TOLERANCE):
        expected = generate.outputs_of(module, inputs)
        found = self(inputs)
        assert list(found) == list(expected), f"outputs {list(found)}, expected {list(expected)}"
        error = check.difference(found, expected)
        assert error <= tolerance, f"relative L2 error {error:.1e} at {[list(one.shape) for one in inputs.values()]}"


def exported(module, example, **config):
    with tempfile.TemporaryDirectory() as folder:
        export_module(module, example, pathlib.Path(folder, "m"), daemon=False, **config)
        return Folder(pathlib.Path(folder, "m"))


def refused(pattern, module, example, **config):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder, "m")
        try:
            export_module(module, example, folder, daemon=False, **config)
        except ValueError as error:
            assert re.search(pattern, str(error)), f"refused with {error}; expected {pattern}"
            assert not folder.exists(), "refused, but the folder is there"
            return str(error)
    raise AssertionError(f"not refused; expected {pattern}")


def served(module, *calls):
    """Exports the module with the first call as the example, and compares the daemon's answers with the module. Returns
    the folder."""
    module.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m")
        export_module(module, calls[0], path, daemon=OPTIONS.daemon)
        found = Folder(path)
        with Daemon(OPTIONS.daemon, str(path)) as daemon:
            for inputs in calls:
                found.agrees(module, inputs)
                expected = generate.outputs_of(module, inputs)
                answer = daemon.infer("m", {name: value.numpy() for name, value in inputs.items()}, list(expected))
                error = check.difference({name: torch.from_numpy(one.copy()) for name, one in answer.items()}, expected)
                assert error <= SERVED_TOLERANCE, f"relative L2 error {error:.1e} of the daemon"
    return found


class Function(nn.Module):
    """A module whose forward(x) calls the given function. The function may use the `parts` of the module."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


def rows(*shape):
    return torch.randn(*shape)


# ---- Modules of the kinds that people write --------------------------------------------------------------------------


def same_as_module(name):
    """Expects that export_module() writes the config.json of the reference, and that the graph computes what the module
    computes for all sizes in CALLS."""
    case, module = generate.load(name)
    example = case.inputs(*case.EXAMPLE)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder, name)
        export_module(module, example, folder, daemon=False, **getattr(case, "CONFIG", {}))
        text = (folder / "config.json").read_text()
        found = Folder(folder)
    for size in case.CALLS:
        found.agrees(module, case.inputs(*size))
    committed = HERE / "reference" / name / "config.json"
    assert committed.read_text() == text, f"{committed} is not what export_module() writes: run generate.py {name}"


TESTS += [(f"module {name}: config.json is as committed, and the graph agrees with PyTorch", functools.partial(same_as_module, name)) for name in generate.NAMES]


# ---- Arguments, read from instances ----------------------------------------------------------------------------------


def projections(architecture, kwargs):
    """Returns an MHAttention. The library's functions make the projections and the mask that the constructor
    expects."""
    library = importlib.import_module("linformer_pytorch.linformer_pytorch")
    sizes = kwargs["input_size"], kwargs["dim_k"]
    shared = kwargs["parameter_sharing"] == "layerwise"
    e = library.get_EF(*sizes, kwargs.get("method", "learnable"), kwargs["dim"]) if shared else None
    mask = library.gen_causal_mask(*sizes, kwargs["full_attention"]) if kwargs.get("causal_mask") else None
    return library.MHAttention(**{**kwargs, "E_proj": e, "F_proj": e, "causal_mask": mask})


def made(architecture, kwargs):
    return (projections if architecture == exporter.ATTENTION else build)(
        *((architecture, kwargs)))


def reads_arguments(folder):
    config = json.loads((folder / "config.json").read_text())
    architecture = config["architecture"]
    one = made(architecture, config["kwargs"]).eval()
    leaf = leaves.Leaf("", one)
    kwargs = {name: value if value is not None else 64 for name, value in leaf.kwargs.items()}
    other = made(architecture, kwargs).eval()
    tensors = exporter.torch_tensors(one)
    other.load_state_dict({name: tensors[name] for name in other.state_dict()})
    for path, part in other.named_modules():
        if type(part).__name__ == "LinearAttentionHead" and part.is_proj_tensor:
            part.E, part.F = tensors[f"{path}.E"], tensors[f"{path}.F"]
    calls = read_tensors(folder / "calls.safetensors")
    inputs = {name.split("/")[2]: value for name, value in calls.items() if name.startswith("0/in/")}
    if config.get("padding") == "zero":
        one, other = (importlib.import_module("linformer_pytorch").Padder(part) for part in (one, other))
    if "autopadder" in folder.name:
        one, other = (importlib.import_module("linear_attention_transformer.autopadder").Autopadder(part)
                      for part in (one, other))
    expected, found = (generate.outputs_of(part, inputs) for part in (one, other))
    assert all(torch.equal(found[name], expected[name]) for name in expected), "the outputs differ"


@test
def arguments_read_from_every_class_rebuild_it():
    """Creates an instance for each reference case whose class can be a leaf, and reads its arguments. A second instance
    with these arguments must give the same bits."""
    count = 0
    for folder in sorted((ROOT / "tests/reference").iterdir()):
        if not (folder / "config.json").exists():
            continue
        architecture = json.loads((folder / "config.json").read_text())["architecture"]
        if architecture not in leaves.INPUTS:
            continue
        try:
            reads_arguments(folder)
        except unittest.SkipTest:
            continue
        except Exception as error:
            raise AssertionError(f"{folder.name}: {error}") from error
        count += 1
    assert count >= 60, f"{count} cases"


@test
def given_arguments_override_those_read_from_the_module():
    from linear_attention_transformer import LinearAttentionTransformer

    module = nn.Sequential(nn.Linear(4, 8), LinearAttentionTransformer(8, 1, 40, heads=2))
    example = {"input": rows(2, 6, 4)}
    (kwargs,) = [node["kwargs"] for node in exported(module, example).nodes if node["op"] == "leaf"]
    assert kwargs == {"dim": 8, "depth": 1, "max_seq_len": 16384, "heads": 2, "dim_head": 4}, kwargs
    (kwargs,) = [node["kwargs"] for node in exported(module, example, arguments={"1": {"max_seq_len": 40}}).nodes
                 if node["op"] == "leaf"]
    assert kwargs["max_seq_len"] == 40, kwargs
    refused('the module has no part "2" of a supported class; its parts of such classes: 1', module, example,
            arguments={"2": {}})
    refused(r'arguments: part "1" \(LinearAttentionTransformer\): .* these kwargs result in 1, but the model has 2',
            module, example, arguments={"1": {"heads": 1, "dim_head": 8}})


@test
def an_instance_with_a_changed_part_is_exported_by_operations():
    from linformer import Linformer

    module = nn.Sequential(Linformer(8, 12, 1, k=4, heads=2), nn.Linear(8, 2))
    module[0].net.layers[0][1].fn.act = nn.SiLU()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = exported(module, {"input": rows(2, 12, 8)})
    assert any("exported operation by operation" in str(one.message) for one in said), said
    assert "silu" in found.operations and {one["class"] for one in found.nodes if "class" in one} == {
        "linformer.LinformerSelfAttention"}
    found.agrees(module, {"input": rows(3, 12, 8)})


@test
def a_subclass_with_its_own_forward_is_exported_by_operations():
    from linformer import Linformer, LinformerLM

    class Doubled(Linformer):
        def forward(self, x):
            return super().forward(x) * 2

    class Named(LinformerLM):
        pass

    found = exported(Doubled(8, 12, 1, k=4, heads=2), {"x": rows(2, 12, 8)})
    assert {one["class"] for one in found.nodes if "class" in one} == {"linformer.LinformerSelfAttention"}
    found = exported(Named(20, 8, 12, 1, k=4, heads=2), {"x": torch.randint(0, 20, (2, 9))})
    assert found.operations == {"leaf"} and found.nodes[0]["path"] == ""
    assert found.nodes[0]["class"] == "linformer.LinformerLM"


# ---- Sizes ----------------------------------------------------------------------------------------------------------


def sizes_of(function, *shape, **parts):
    return exported(Function(function, **parts), {"x": rows(*shape)}).graph["sizes"]


@test
def free_lengths_have_the_limits_of_the_module():
    from linformer import Linformer

    table = nn.Embedding(23, 4)
    places = lambda self, x: x + self.table(torch.arange(x.shape[1]))
    assert sizes_of(places, 2, 5, 4, table=table) == {"n": {"least": 1, "most": 23}}
    body = Linformer(4, 17, 1, k=3, heads=2)
    assert sizes_of(lambda self, x: self.body(x), 2, 5, 4, body=body) == {"n": {"least": 1, "most": 17}}
    assert sizes_of(lambda self, x: self.body(x), 2, 17, 4, body=body) == {"n": {"least": 1, "most": 17}}
    convolution = nn.Conv1d(3, 2, 5, stride=2)
    assert sizes_of(lambda self, x: self.convolution(x), 2, 3, 30, convolution=convolution) == {
        "n": {"least": 5, "most": None}}


@test
def a_length_is_fixed_if_the_module_runs_only_some_lengths():
    from linear_attention_transformer import LinearAttentionTransformer

    body = LinearAttentionTransformer(8, 1, 64, heads=2, n_local_attn_heads=1, local_attn_window_size=4)
    assert sizes_of(lambda self, x: self.body(x), 2, 8, 8, body=body) == {}
    patches, place = nn.Conv2d(3, 4, 4, 4), nn.Parameter(rows(1, 16, 4))
    cut = lambda self, x: self.patches(x).flatten(2).mT + self.place  # images with edges of 16 to 19 have 16 patches
    assert sizes_of(cut, 2, 3, 16, 16, patches=patches, place=place) == {}
    flat = nn.Linear(12, 2)
    assert sizes_of(lambda self, x: self.flat(x.flatten(1)), 2, 3, 4, flat=flat) == {}


@test
def sizes_that_must_be_equal_have_one_name():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x, y, mask):
            return self.inner(x, y, y, key_padding_mask=mask, need_weights=False)[0]

    x, y, mask = rows(2, 6, 8), rows(2, 6, 8), torch.arange(6) > torch.tensor([[3], [4]])
    found = exported(Two(), {"x": x, "y": y, "mask": mask})
    shapes = [one["shape"][1] for one in found.graph["inputs"]]
    assert shapes[0] != shapes[1] == shapes[2], shapes
    found.agrees(Two().eval(), {"x": rows(1, 3, 8), "y": rows(1, 4, 8), "mask": torch.zeros(1, 4, dtype=torch.bool)},
                 tolerance=float("inf"))


@test
def a_batch_size_that_becomes_an_integer_stays_free():
    function = lambda self, x: torch.cat([self.first.expand(len(x), 1, 3), x], dim=1).reshape(int(x.shape[0]) * 3, -1).reshape(
        x.shape[0], -1)
    module = Function(function, first=nn.Parameter(rows(1, 1, 3)))
    found = exported(module, {"x": rows(2, 5, 3)})
    for batch in (1, 4, 7):
        found.agrees(module, {"x": rows(batch, 5, 3)})
    refused("depend on the other items", Function(lambda self, x: x * torch.arange(len(x))[:, None]), {"x": rows(2, 3)})
    refused(r"a constant that depends on the batch's size \(.*test_modules.py, line \d+, in .*such as x.shape\[0\]",
            Function(lambda self, x: x + torch.zeros(2 * len(x), 3).reshape(len(x), 2, 3)[:, 0]), {"x": rows(2, 3)})


# ---- Operations -----------------------------------------------------------------------------------------------------


def computes(function, *shape, **parts):
    """Exports a function, and compares the results for two sizes of the batch. Returns the folder."""
    module = Function(function, **parts).eval()
    found = exported(module, {"x": rows(*shape)})
    unknown = found.operations - OPERATIONS - {"leaf"}
    assert not unknown, unknown
    for batch in (2, 5):
        found.agrees(module, {"x": rows(batch, *shape[1:])})
    return found


@test
def elementwise_operations_agree_with_pytorch():
    computes(lambda self, x: (x + 2, x - x.abs(), 3 - x, x * x, x / 2, x // 0.7, x % 0.3, x**2, 2.0**x, x.neg(),
                              torch.maximum(x, -x), torch.max(x, x * 2), torch.where(x > 0, x, 0.0), x.masked_fill(x < 0, -1)),
             2, 3, 4)
    computes(lambda self, x: (x.abs().sqrt(), (x.abs() + 1).rsqrt(), x.square(), x.exp(), x.expm1(), (x.abs() + 1).log(),
                              x.abs().log1p(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.erf(), x.floor(), x.ceil(),
                              x.round(), x.sign(), x.clamp(-1, 0.5), x.clamp(min=0), (x.abs() + 1).reciprocal()), 2, 3, 4)
    computes(lambda self, x: (F.relu6(x), F.leaky_relu(x), F.elu(x, 0.5), F.selu(x), F.gelu(x), F.gelu(x, approximate="tanh"),
                              F.silu(x), F.mish(x), F.softplus(x), F.hardtanh(x), F.hardswish(x), F.hardsigmoid(x),
                              F.logsigmoid(x), F.glu(x, 1), self.prelu(x)), 2, 4, 4, prelu=nn.PReLU())
    computes(lambda self, x: ((x > 0) & (x < 1), (x > 0) | (x < -1), ~(x > 0), torch.logical_xor(x > 0, x < 1),
                              x.isnan().float(), x.ne(0), (x > 0).sum(1), (x > 0).any(1), (x > 0).all(1)), 2, 3, 4)


@test
def operations_on_shapes_and_selections_agree_with_pytorch():
    computes(lambda self, x: (x.flatten(1), x.unflatten(2, (2, 2)), x.movedim(1, 2), x.transpose(1, -1), x.permute(0, 2, 1),
                              x[:, 1], x[:, -1], x[:, 1:3], x[:, ::2], x[:, :, None], x[..., 0], x.repeat(1, 2, 1),
                              x.repeat_interleave(2, dim=1), x.flip(1), x.roll(1, 2), x.narrow(1, 1, 2), x.mT), 2, 3, 4)
    computes(lambda self, x: (*x.chunk(2, 2), *x.split([1, 3], 2), *x.unbind(1), torch.stack([x, -x], 1).flatten(1),
                              torch.cat([x, x], -1), x[:, [2, 0]], x[:, :, torch.tensor([[0, 1], [3, 2]])],
                              x[:, [0, 1], [2, 3]], x.index_select(1, torch.tensor([0, 0, 2])), x.unfold(2, 2, 1)), 2, 3, 4)
    computes(lambda self, x: (F.pad(x, (1, 2)), F.pad(x, (1, 1), mode="reflect"), F.pad(x, (0, 2), mode="replicate"),
                              F.pad(x, (0, 0, 1, 0), value=2.0), x.tril(), x.triu(1), x.new_zeros(x.shape[0], 2),
                              torch.zeros_like(x), torch.ones(len(x), 2), x.expand(x.shape[0], 3, 4)), 2, 3, 4)


@test
def reductions_and_products_agree_with_pytorch():
    computes(lambda self, x: (x.mean(1), x.sum((1, 2)), x.std(1), x.var(1, unbiased=False), x.amax(1), x.max(1)[0], x.min(2).values,
                              x.prod(1), x.norm(dim=1), x.norm(p=1, dim=2), F.normalize(x, dim=2), x.argmax(1), x.max(1)[1],
                              x.cumsum(1), x.softmax(-1), F.log_softmax(x, 1), x.logsumexp(1)), 2, 3, 4)
    computes(lambda self, x: (x @ x.mT, x @ self.w, x @ self.v, torch.einsum("bnd,de->bne", x, self.w), torch.bmm(x, x.mT),
                              torch.einsum("bid,bjd->bij", x, x), torch.baddbmm(self.b, x, x.mT), F.linear(x, self.w),
                              torch.addcmul(x, x, x), torch.lerp(x, -x, 0.3), F.cosine_similarity(x, -x * 2 + 1, dim=2),
                              (x[:, None] @ x[:, None].mT).flatten(1)), 2, 3, 4,
             w=nn.Parameter(rows(4, 4)), v=nn.Parameter(rows(4)), b=nn.Parameter(rows(1, 3, 3)))


@test
def layers_agree_with_pytorch():
    image = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU6(inplace=True), nn.Conv2d(4, 6, 3, groups=2,
                          dilation=2, padding="same"), nn.InstanceNorm2d(6, affine=True), nn.MaxPool2d(2), nn.PixelShuffle(1),
                          nn.ConvTranspose2d(6, 4, 2, 2), nn.AvgPool2d(2), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d((1, 2)),
                          nn.Flatten(), nn.Linear(8, 2))
    computes(lambda self, x: self.body(x), 2, 3, 16, 16, body=image)
    computes(lambda self, x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7), mode="bilinear"),
                              F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True),
                              F.interpolate(x, scale_factor=1.5)), 2, 3, 4, 6)
    sequence = nn.Sequential(nn.Conv1d(3, 4, 4, padding="same"), nn.InstanceNorm1d(4, track_running_stats=True),
                             nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(3), nn.ConvTranspose1d(4, 2, 3), nn.RMSNorm(5))
    computes(lambda self, x: self.body(x), 2, 3, 16, body=sequence)
    computes(lambda self, x: F.interpolate(x, scale_factor=3, mode="linear"), 2, 3, 5)
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2)
    computes(lambda self, x: self.body(x), 2, 5, 8, body=layer)
    computes(lambda self, x: self.body(x, x, x)[0], 2, 5, 8, body=nn.MultiheadAttention(8, 2, batch_first=True))


@test
def pooling_and_shuffles_agree_with_pytorch():
    def pools(size, stride, padding):
        options = {"kernel_size": size, "stride": stride, "padding": padding, "ceil_mode": True}
        return lambda self, x: (F.max_pool1d(x, **options), F.avg_pool1d(x, **options),
                                F.avg_pool1d(x, **options, count_include_pad=False))

    for size, stride, padding in ((2, 2, 0), (3, 2, 1), (2, 3, 1), (4, 3, 2)):
        for length in (7, 8, 9):
            computes(pools(size, stride, padding), 2, 3, length)
    computes(lambda self, x: (F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5), F.adaptive_avg_pool2d(x, (3, 5)),
                              F.max_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True, dilation=(2, 1)),
                              F.adaptive_max_pool2d(x, (4, 1)), F.adaptive_avg_pool2d(x, (None, 1))), 2, 3, 8, 7)
    computes(lambda self, x: (F.pixel_unshuffle(x, 2), F.pixel_shuffle(x.unflatten(1, (2, 4)), 2),
                              F.pixel_unshuffle(x.unflatten(1, (2, 4)), 2)), 2, 8, 4, 6)
    computes(lambda self, x: self.body(x), 2, 6, 5, 7, body=nn.ConvTranspose2d(6, 9, (3, 2), (2, 1), (1, 0), groups=3))
    computes(lambda self, x: self.body(x), 2, 6, 9, body=nn.ConvTranspose1d(6, 6, 4, 3, 1, 2, groups=6, bias=False))


@test
def rolls_beyond_the_length_agree_with_pytorch():
    module = Function(lambda self, x: (x.roll(5, 1), x.roll((-7, 1), (1, 2)), x.roll(2, 1)))
    found = exported(module, {"x": rows(2, 9, 3)})
    for length in (1, 2, 5, 7, 12):
        found.agrees(module, {"x": rows(3, length, 3)})


@test
def named_tuples_are_exported_as_tuples():
    Pair = collections.namedtuple("Pair", "first second")
    found = computes(lambda self, x: Pair(x * 2, {"sum": x + 1, "pair": Pair(x, -x)}), 2, 3, 4)
    assert list(found.graph["outputs"]) == ["output.0", "output.1.sum", "output.1.pair.0", "output.1.pair.1"]


@test
def spectrograms_agree_with_pytorch():
    computes(lambda self, x: torch.stft(x, 16, 4, window=self.window, return_complex=True).abs(), 2, 64,
             window=nn.Parameter(torch.hann_window(16)))
    found = computes(lambda self, x: torch.view_as_real(torch.stft(x, 8, return_complex=True, center=False)).transpose(1, 2),
                     2, 40)
    assert "stft" in found.operations
    computes(lambda self, x: torch.stft(x, 8, return_complex=True).real[:, 1:], 2, 40)


@test
def writes_in_place_agree_with_pytorch():
    def function(self, x):
        y = x.clone()
        y[:, 0] = 1.0
        y[:, 1:] *= 2
        y += x
        z = y.relu_()
        z[..., -1].add_(1)
        return y, z.mean(1)

    computes(function, 2, 3, 4)


@test
def blocks_without_gradients_or_autocast_agree_with_pytorch():
    def function(self, x):
        with torch.no_grad():
            y = self.linear(x)
        with torch.autocast("cpu", enabled=False):
            y = y.float().relu()
        return y

    computes(function, 2, 4, linear=nn.Linear(4, 4))


@test
def numbers_computed_from_sizes_leave_the_length_free():
    found = computes(lambda self, x: x.sum(1) * x.shape[1] ** -0.5 / x.shape[1] + x.shape[1], 2, 6, 3)
    assert found.graph["sizes"], "the length is fixed"
    module = Function(lambda self, x: x.sum(1) * x.shape[1] ** -0.5)
    exported(module, {"x": rows(2, 6, 3)}).agrees(module, {"x": rows(3, 11, 3)})


# ---- Files ----------------------------------------------------------------------------------------------------------


@test
def bounds_of_clamp_are_exported_as_numbers():
    class Similarity(nn.Module):
        def forward(self, x, y):
            return F.cosine_similarity(x.mean(1), y.mean(1), dim=-1)

    found = served(Similarity(), {"x": rows(2, 6, 8), "y": rows(2, 6, 8)}, {"x": rows(3, 4, 8), "y": rows(3, 9, 8)})
    bounds = [node["min"] for node in found.nodes if node["op"] == "clamp_min"]
    assert bounds and all(isinstance(one, float) for one in bounds), bounds
    bounds = Function(lambda self, x: (x.clamp(min=torch.tensor(-0.1), max=torch.tensor([0.5])), torch.clip(x, -0.3, 0.3),
                                       x.clamp(torch.tensor(0.5), x[:, :1]), x.clamp_max(self.top),
                                       (x * self.places[: x.shape[1]]).clamp(max=x.shape[1]),
                                       (x * 4).clamp(min=x.shape[1] / 4), torch.full((len(x), 2), x.shape[1])),
                      top=nn.Parameter(rows(1, 1)), places=nn.Parameter(rows(16, 1) * 4))
    served(bounds, {"x": rows(2, 6, 8)}, {"x": rows(3, 3, 8)})


class Standardised(nn.Conv2d):
    """A convolution that normalises its kernel to mean 0 and variance 1 for each output channel."""

    def forward(self, x):
        mean, variance = self.weight.mean((1, 2, 3), keepdim=True), self.weight.var((1, 2, 3), keepdim=True, unbiased=False)
        return F.conv2d(x, (self.weight - mean) * (variance + 1e-5).rsqrt(), self.bias, self.stride, self.padding)


@test
def kernels_computed_from_parameters_become_constants():
    from torch.nn.utils import parametrizations

    for make in (parametrizations.weight_norm, parametrizations.spectral_norm):
        body = make(nn.Conv1d(8, 6, 3, padding=1))
        found = served(Function(lambda self, x: self.body(x.mT).mT, body=body), {"x": rows(2, 6, 8)}, {"x": rows(3, 11, 8)})
        assert [node["op"] for node in found.nodes] == ["transpose", "conv1d", "transpose"], found.nodes
        assert [name for name in found.tensors if not name.startswith("constant.")] == ["body.bias"], list(found.tensors)
        body = make(nn.Linear(8, 6))
        found = served(Function(lambda self, x: self.body(x), body=body), {"x": rows(2, 6, 8)})
        assert [node["op"] for node in found.nodes] == ["linear"], found.nodes
    standardised = Function(lambda self, x: self.body(x), body=Standardised(3, 5, 3, padding=1))
    served(standardised, {"x": rows(2, 3, 6, 6)}, {"x": rows(1, 3, 5, 9)})
    found = served(Function(lambda self, x: F.conv1d(x, self.kernel.mT, self.shift[1:]), kernel=nn.Parameter(rows(4, 3, 8)),
                            shift=nn.Parameter(rows(5))), {"x": rows(2, 8, 9)})
    assert set(found.tensors) == {"kernel", "shift"}, list(found.tensors)

    def written(self, x):
        kernel = self.kernel * 2
        kernel.add_(1).mul_(self.kernel)
        return F.conv1d(x, kernel)

    served(Function(written, kernel=nn.Parameter(rows(4, 8, 3))), {"x": rows(2, 8, 9)})


@test
def sizes_in_integer_arguments_become_fixed():
    padded = Function(lambda self, x: F.pad(x, (0, 0, 0, -x.shape[1] % 8)).cumsum(1)[:, : x.shape[1]])
    found = served(padded, {"x": rows(2, 9, 4)}, {"x": rows(3, 9, 4)})
    assert found.graph["inputs"][0]["shape"] == ["batch", 9, "n"], found.graph["inputs"]
    rolled = Function(lambda self, x: x.roll(x.shape[1] // 2, 1))
    assert served(rolled, {"x": rows(2, 9, 4)}).graph["inputs"][0]["shape"][1] == 9


@test
def weights_computed_from_inputs_are_refused():
    line = "test_modules.py, line [0-9]+, in [a-z<>]+"
    refused(f'conv1d: "weight" is computed from an input.*{line}',
            Function(lambda self, x: F.conv1d(x, self.kernel * x.mean()), kernel=nn.Parameter(rows(4, 8, 3))), {"x": rows(2, 8, 9)})
    refused(f'layer_norm: "weight" is computed from an input.*{line}',
            Function(lambda self, x: F.layer_norm(x, (8,), x[0, 0])), {"x": rows(2, 3, 8)})
    refused(f'pad: "pad" must be fixed, but is batch.*{line}',
            Function(lambda self, x: F.pad(x, (0, x.shape[0]))[:, :, :2]), {"x": rows(2, 3, 8)})


@test
def exported_tensors_are_those_of_the_state_dict():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(9, 9)
            self.other.weight = self.one.weight
            self.register_buffer("kept", rows(4))
            self.register_buffer("left", rows(4), persistent=False)

        def forward(self, x):
            return self.other(self.one(x)) + self.kept * self.left + torch.tensor([1.0, 2.0, 3.0, 4.0])

    module = Tied()
    found = exported(module, {"x": rows(2, 4)})
    constants = [name for name in found.tensors if name not in dict(module.named_buffers()) | module.state_dict()]
    assert set(found.tensors) - set(constants) == {"one.weight", "one.bias", "other.weight", "other.bias", "kept", "left"}
    assert len(constants) == 1, constants
    assert found.tensors["one.weight"] is found.tensors["other.weight"], "tied weights are stored twice"
    found.agrees(module, {"x": rows(3, 4)})


@test
def half_precision_stays_in_the_file():
    from linformer import Linformer

    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        module = nn.Sequential(nn.Embedding(9, 8), Linformer(8, 12, 1, k=4, heads=2), nn.Linear(8, 2)).to(dtype)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder, "m")
            export_module(module, {"input": torch.randint(0, 9, (2, 7))}, folder, daemon=False)
            raw = (folder / "model.safetensors").read_bytes()
            header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
            assert {one["dtype"] for one in header.values()} == {exporter.DTYPES[str(dtype)[6:]]}, header
            assert next(module.parameters()).dtype == dtype, "the module itself was changed"
            Folder(folder).agrees(module.float(), {"input": torch.randint(0, 9, (1, 12))})


@test
def the_export_does_not_change_the_module():
    from linformer import Linformer

    module = nn.Sequential(Linformer(8, 12, 1, k=4, heads=2, dropout=0.5), nn.Dropout(0.5))
    module[1].eval()
    exported(nn.DataParallel(module), {"input": rows(2, 7, 8)})
    assert module.training and module[0].training and not module[1].training
    assert "forward" not in vars(module[0])
    assert module[0].net.layers[0][0].fn.dropout.training


@test
def keys_of_config_json_are_written_and_wrong_ones_refused():
    module, example = Function(lambda self, x: self.body(x), body=nn.Linear(4, 2)), {"x": rows(2, 4)}
    config = exported(module, example, labels=["a", "b"], name="mine", image={"size": (4, 4), "mean": [0.5]}).config
    assert list(config) == ["architecture", "labels", "name", "image", "graph"], list(config)
    assert config["labels"] == ["a", "b"] and config["image"] == {"size": [4, 4], "mean": [0.5]}
    refused("labels: expected 2 strings", module, example, labels=["a", "b", "c"])
    refused("labels: expected a list of strings", module, example, labels="cat")
    refused('"kwargs" is not accepted', module, example, kwargs={})
    ids = {"x": torch.arange(14).reshape(2, 7) % 9}
    model = Function(lambda self, x: self.head(self.table(x)), table=nn.Embedding(9, 4), head=nn.Linear(4, 9))
    assert exported(model, ids, causal=True).config["causal"] is True
    mixing = Function(lambda self, x: self.head(self.table(x).mean(1, keepdim=True) + self.table(x)),
                      table=nn.Embedding(9, 4), head=nn.Linear(4, 9))
    refused("causal: a row of the output changes with a later id", mixing, ids, causal=True)
    refused("causal: expected a first input of at least 2 ids", module, example, causal=True)
    refused("causal: expected true or false, found 1", model, ids, causal=1)
    assert exported(Function(lambda self, x: {"a": x, "b": (x, x + 1)}), example).graph["outputs"].keys() == {"a", "b.0", "b.1"}


class Embedded(nn.Module):
    """A module that reads ids, and returns the mean of the rows that `table` returns for them."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, ids):
        return self.table(ids).mean(dim=1)


@test
def tokenizers_must_fit_the_vocabulary():
    """export_module() compares the tokenizer's number of ids with the embeddings and classes that read the ids."""
    from linformer import LinformerLM

    ids = {"ids": torch.zeros(2, 7, dtype=torch.int64)}
    language_model = LinformerLM(num_tokens=50, dim=8, seq_len=16, depth=1, heads=2, k=4)
    for module in (Embedded(nn.Embedding(50, 8)), Embedded(language_model)):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "elsewhere.json")
            vocabulary = {f"w{i}": i for i in range(50)}
            path.write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": None}))
            export_module(module, ids, f"{folder}/m", daemon=False, tokenizer=path)
            assert pathlib.Path(folder, "m/tokenizer.json").read_bytes() == path.read_bytes()
            assert "tokenizer" not in json.loads(pathlib.Path(folder, "m/config.json").read_text())
            path.write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": [{"id": 50}]}))
            refused("expected a model that accepts 51 ids .*found a model that accepts 50", module, ids, tokenizer=path)
        refused("expected a model that accepts 259 ids", module, ids, tokenizer={"type": "byte"})
    refused("the model accepts no ids", Function(lambda self, x: x), {"x": rows(2, 4)},
            tokenizer={"type": "byte"})
    refused("tokenizer: expected a tokenizers.Tokenizer", module, ids, tokenizer=[1])
    refused('tokenizer: expected {"type": "byte"}', module, ids, tokenizer={"type": "byte", "offset": 1})


# ---- What is refused ------------------------------------------------------------------------------------------------


@test
def branches_on_values_of_inputs_are_refused():
    line = "test_modules.py, line [0-9]+, in branch: if x.sum"

    def branch(self, x):
        if x.sum() > 0:
            return x
        return -x

    refused(f"depends on the values of its inputs.*{line}", Function(branch), {"x": rows(2, 4)})
    refused("depends on the values|selects by a mask", Function(lambda self, x: x[x > 0].sum() + x), {"x": rows(2, 4)})


@test
def unknown_operations_are_refused_by_name():
    said = refused("the operation .*topk.*is not supported.*test_modules.py, line", Function(lambda self, x: x.topk(2)[0]),
                   {"x": rows(2, 4)})
    assert "scaled_dot_product_attention" in said and "upsample_bilinear2d" in said, said
    refused("the operation .* is not supported", Function(lambda self, x: torch.fft.fft(x).abs()), {"x": rows(2, 4)})

    @torch.library.custom_op("linformerd_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    refused("the operation linformerd_test::twice is not supported", Function(lambda self, x: twice(x)), {"x": rows(2, 4)})


@test
def training_modes_and_random_operations_are_refused():
    refused("dropout drops values although .* in eval mode.*test_modules.py", Function(lambda self, x: F.dropout(x, 0.5)),
            {"x": rows(2, 4)})
    refused("batch_norm normalises by its own batch", Function(lambda self, x: self.body(x), body=nn.BatchNorm1d(4,
            track_running_stats=False)), {"x": rows(2, 4)})
    refused("is random", Function(lambda self, x: x + torch.randn_like(x)), {"x": rows(2, 4)})

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    refused('writes the buffer "calls"', Counting(), {"x": rows(2, 4)})


@test
def wrong_outputs_and_inputs_are_refused():
    refused("output has shape .*first dimension of an output must be the batch", Function(lambda self, x: x.sum(0)),
            {"x": rows(2, 4)})
    refused("is complex", Function(lambda self, x: torch.stft(x, 8, return_complex=True)), {"x": rows(2, 40)})
    refused("depend on the other items of its batch", Function(lambda self, x: x - x.mean(0, keepdim=True)),
            {"x": rows(2, 4)})
    refused("batch of at least 2", Function(lambda self, x: x), {"x": rows(1, 4)})
    refused('forward\\(\\) has no parameter "y"', Function(lambda self, x: x), {"y": rows(2, 4)})
    refused("fails with the example: .*AssertionError|RuntimeError", Function(lambda self, x: x @ x), {"x": rows(2, 3)})
    refused("expected a dict of tensors", Function(lambda self, x: x), {})
    refused("the batches differ", importlib.import_module("two_towers").module(),
            {"query": torch.zeros(2, 4).long(), "document": torch.zeros(3, 4).long()})


@test
def a_model_that_the_daemon_refuses_leaves_no_folder():
    """If the daemon refuses the exported model, no folder is left, and the error contains the daemon's message."""
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder, "linformerd")
        fake.write_text('#!/bin/sh\necho "config.json: graph: node 3: no such thing" >&2\nexit 1\n')
        fake.chmod(0o755)
        try:
            export_module(Function(lambda self, x: x + 1), {"x": rows(2, 4)}, pathlib.Path(folder, "m"), daemon=fake)
        except ValueError as error:
            assert "refuses the model: config.json: graph: node 3: no such thing" in str(error), error
        else:
            raise AssertionError("not refused")
        assert not pathlib.Path(folder, "m").exists()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.environ.get("LINFORMERD", "build/linformerd"))
    parser.add_argument("--only", default="")
    parser.parse_args(namespace=OPTIONS)
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    sys.exit(1 if support.run([one for one in TESTS if OPTIONS.only in one[0]]) else 0)


if __name__ == "__main__":
    main()
