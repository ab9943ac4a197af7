#!/usr/bin/env python3
"""Tests weights/export.py. The exporter saves models of each class, the daemon serves them, and the answers must be
those of Python. The exporter must refuse models that the daemon cannot serve.

    test_export.py [--daemon build/linformerd] [--kuixu linear_multihead_attention.py] [--keras attention.py] [--seed 1]

Reports in TAP. Tests that need a missing package are skipped, and the package is named. requirements.txt lists the
packages for PyTorch, and generate_keras.py lists the packages for Keras. Two classes are in single files, not in
packages. Their tests are skipped unless the options, or the environment variables KUIXU_PY and KERAS_PY, name the
files: linear_multihead_attention.py of https://github.com/kuixu/Linear-Multihead-Attention and linformer/attention.py
of https://github.com/dholland42/linformer."""
import argparse
import ast
import contextlib
import importlib.util
import inspect
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import traceback
import types
import unittest.mock
import urllib.request

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "weights"), str(ROOT / "tests/clients"), str(ROOT / "tests/reference")]

import export as exporter
from export import export
from support import Daemon

TOLERANCE = 1e-5
TESTS = []
OPTIONS = argparse.Namespace()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def test(function):
    TESTS.append((function.__name__.replace("_", " "), function))
    return function


def module(name):
    """Returns the library. If the library is missing, skips the test, and names the library."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not installed") from None


def load_file(name, path, option):
    if not path:
        raise unittest.SkipTest(f"{option} names no file")
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def read_safetensors(path):
    """Returns the header, the data and the header's length of a file, read without the library safetensors."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :], length


def refused(pattern, function):
    try:
        function()
    except ValueError as error:
        assert re.search(pattern, str(error)), f"refused with {error}; expected {pattern}"
        return
    raise AssertionError(f"not refused; expected {pattern}")


# ---- The daemon's answers -------------------------------------------------------------------------------------------

DATATYPES = {"int64": "INT64", "float32": "FP32", "float64": "FP32", "bool": "BOOL"}


def infer(address, model, inputs):
    """Returns the outputs by name, requested through /v2 in JSON."""
    tensors = [{"name": name, "shape": value.shape, "datatype": DATATYPES[value.dtype.name],
                "data": value.reshape(-1).tolist()} for name, value in inputs.items()]
    request = urllib.request.Request(f"http://{address}/v2/models/{model}/infer",
                                     json.dumps({"inputs": tensors}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return {one["name"]: np.array(one["data"]).reshape(one["shape"]) for one in json.load(answer)["outputs"]}


def served(folder, inputs, expected, name="model", output="output"):
    """Compares the daemon's answers for the folder with the outputs of Python."""
    with Daemon("--model", f"{name}={folder}" if name else str(folder)) as daemon:
        found = infer(daemon.address, name or folder.name, inputs)[output]
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert found.shape == expected.shape and error <= TOLERANCE, f"relative L2 error {error}, {found.shape}"


# ---- PyTorch --------------------------------------------------------------------------------------------------------


def shaken(model):
    """Changes norms and biases from their initial values 0 and 1."""
    torch = module("torch")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.eval()


def agrees(model, kwargs, inputs, forward=None, config=None, reference=None, output="output"):
    """Exports and serves the model, and compares the answers. The keys of `inputs` are the names of forward()'s
    parameters. `reference` is the module that Python runs, by default the model."""
    torch = module("torch")
    reference = reference or model
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        folder = pathlib.Path(folder, "folder")
        export(model, kwargs, folder, daemon=OPTIONS.daemon, **(config or {}))
        # linformer-pytorch writes masked values into its input.
        copies = {name: value.clone() for name, value in inputs.items()}
        expected = forward(**copies) if forward else reference(**copies)
        expected = expected[0] if isinstance(expected, tuple) else expected
        inputs = {name: value.numpy() for name, value in inputs.items()}
        served(folder, inputs, expected.double().numpy(), output=output)
        return json.loads((folder / "config.json").read_text()), read_safetensors(folder / "model.safetensors")[0]


def ids(*shape, most=50):
    return module("torch").randint(0, most, shape)


def rows(*shape):
    return module("torch").randn(shape)


LINFORMER = dict(dim=24, seq_len=20, depth=2, k=8, heads=3)
LINEAR = dict(dim=24, depth=2, max_seq_len=32, heads=4)
PYTORCH = dict(input_size=32, channels=24, dim_k=8, dim_ff=40, nhead=3, depth=2)


@test
def classes_of_linformer_agree_with_the_daemon():
    lib = module("linformer")
    kwargs = dict(LINFORMER, num_tokens=50, one_kv_head=True, dim_head=7)
    config, _ = agrees(shaken(lib.LinformerLM(**kwargs)), kwargs, {"x": ids(2, 17)})
    assert config == {"architecture": "linformer.LinformerLM", "kwargs": kwargs}
    kwargs = dict(LINFORMER, reversible=True, share_kv=True)
    agrees(shaken(lib.Linformer(**kwargs)), kwargs, {"x": rows(2, 20, 24)})
    kwargs = dict(dim=24, seq_len=20, k=8, heads=3)
    agrees(shaken(lib.LinformerSelfAttention(**kwargs)), kwargs, {"x": rows(2, 9, 24), "context": rows(2, 13, 24)})


@test
def classes_of_linear_attention_transformer_agree_with_the_daemon():
    lib = module("linear_attention_transformer")
    settings = lib.LinformerSettings(k=8)
    kwargs = dict(LINEAR, num_tokens=50, linformer_settings=settings, pkm_layers=(1,), shift_tokens=True)
    config, _ = agrees(shaken(lib.LinearAttentionTransformerLM(**kwargs)), kwargs, {"x": ids(2, 13)})
    assert config["kwargs"]["linformer_settings"] == {"k": 8} and config["kwargs"]["pkm_layers"] == [1]
    kwargs = dict(LINEAR, n_local_attn_heads=(1, 4), local_attn_window_size=8, causal=True, blindspot_size=4)
    agrees(shaken(lib.LinearAttentionTransformer(**kwargs)), kwargs, {"x": rows(2, 16, 24)})
    settings = lib.LinformerContextSettings(seq_len=9, k=4)
    kwargs = dict(LINEAR, num_tokens=50, receives_context=True, context_linformer_settings=settings)
    kwargs["use_rotary_emb"] = True
    agrees(shaken(lib.LinearAttentionTransformerLM(**kwargs)), kwargs, {"x": ids(2, 13), "context": rows(2, 7, 24)})


@test
def autopadder_and_autoregressive_wrapper_set_the_padding():
    lib = module("linear_attention_transformer")
    autopadder = module("linear_attention_transformer.autopadder").Autopadder
    kwargs = dict(LINEAR, num_tokens=50, n_local_attn_heads=2, local_attn_window_size=8, causal=True, blindspot_size=4)
    for wrapper in (autopadder, lib.AutoregressiveWrapper):
        model = wrapper(shaken(lib.LinearAttentionTransformerLM(**kwargs)))
        config, _ = agrees(model, kwargs, {"x": ids(2, 13)})
        assert config["padding"] == "autopad"
    kwargs = dict(LINEAR, linformer_settings=lib.LinformerSettings(k=8))
    config, _ = agrees(autopadder(shaken(lib.LinearAttentionTransformer(**kwargs))), kwargs, {"x": rows(2, 13, 24)})
    assert config["padding"] == "autopad"
    left = autopadder(lib.LinearAttentionTransformer(**kwargs), pad_left=True)
    refused("pad_left", lambda: export(left, kwargs, "no"))


@test
def encoder_and_decoder_agree_with_the_daemon():
    lib = module("linear_attention_transformer")
    autopadder = module("linear_attention_transformer.autopadder").Autopadder
    enc = dict(LINEAR, num_tokens=50, n_local_attn_heads=2, local_attn_window_size=8, return_embeddings=True)
    dec = dict(LINEAR, num_tokens=40, causal=True, blindspot_size=4, receives_context=True, dim_head=5)
    encoder = autopadder(shaken(lib.LinearAttentionTransformerLM(**enc)))
    decoder = autopadder(shaken(lib.LinearAttentionTransformerLM(**dec)))
    config, _ = agrees((encoder, decoder), {"enc": enc, "dec": dec}, {"src": ids(2, 13), "tgt": ids(2, 11, most=40)},
                       lambda src, tgt: decoder(tgt, context=encoder(src)))
    assert config["architecture"] == "linear_attention_transformer.EncoderDecoder" and config["padding"] == "autopad"
    encoder, decoder = encoder.net, decoder.net
    refused("kwargs", lambda: export((encoder, decoder), enc, "no"))
    deep = {"enc": dict(enc, depth=3), "dec": dec}
    refused("the parts 0, 1, 2, but the model has 0, 1", lambda: export((encoder, decoder), deep, "no"))
    wide = {"enc": dict(enc, return_embeddings=False), "dec": dec}
    wider = lib.LinearAttentionTransformerLM(**wide["enc"])
    refused("returns 50 features; the decoder expects a context of dim 24", lambda: export((wider, decoder), wide, "no"))
    refused("enc has receives_context", lambda: export((decoder, decoder), {"enc": dec, "dec": dec}, "no"))


@test
def image_attention_agrees_with_the_daemon():
    lib = module("linear_attention_transformer")
    common = dict(chan=6, key_dim=4, value_dim=4, heads=3)
    for more in (dict(chan_out=5), dict(kernel_size=3, padding=1, norm_queries=False)):
        kwargs = common | more
        agrees(shaken(lib.ImageLinearAttention(**kwargs)), kwargs, {"x": rows(2, 6, 5, 7)})
    for more, part in ((dict(kernel_size=3), "no image keeps"), (dict(padding=1), "no image keeps"),
                       (dict(stride=(1, 1, 1)), "stride"), (dict(padding=()), "padding")):
        kwargs = common | more
        refused(part, lambda kwargs=kwargs: export(lib.ImageLinearAttention(**kwargs), kwargs, "no"))


@test
def classes_of_linformer_pytorch_agree_with_the_daemon():
    lib = module("linformer_pytorch")
    for sharing in ("none", "headwise", "kv", "layerwise"):
        for method in ("learnable", "convolution", "no_params"):
            kwargs = dict(PYTORCH, num_tokens=50, parameter_sharing=sharing, method=method, emb_dim=10)
            _, header = agrees(shaken(lib.LinformerLM(**kwargs)), kwargs, {"tensor": ids(2, 32)})
            stored = [name for name in header if re.search(r"\.[EF](\.weight)?$", name)]
            assert len(stored) == {"none": 12, "headwise": 4, "kv": 2, "layerwise": 1}[sharing], stored
    model = shaken(lib.LinformerLM(**kwargs))  # parameter_sharing is layerwise, and method is no_params
    for part in model.modules():
        if type(part).__name__ == "LinearAttentionHead":  # on a GPU, forward() replaces E and F by copies
            part.E, part.F = part.E.clone(), part.F.clone()
    _, header = agrees(model, kwargs, {"tensor": ids(2, 32)})
    assert [name for name in header if re.search(r"\.[EF]$", name)] == ["linformer.fn.seq.0.fn.heads.0.E"]
    kwargs = dict(PYTORCH, decoder_mode=True, causal=True)
    agrees(shaken(lib.Linformer(**kwargs)), kwargs, {"tensor": rows(2, 32, 24), "embeddings": rows(2, 32, 24)})
    sides = dict(num_tokens=50, input_size=32, channels=24, dim_k=8, dim_ff=40, nhead=3)
    kwargs = {prefix + name: value for prefix in ("enc_", "dec_") for name, value in sides.items()}
    kwargs = dict(kwargs, enc_method="no_params", dec_parameter_sharing="none")
    agrees(shaken(lib.LinformerEncDec(**kwargs)), kwargs, {"x": ids(2, 32), "y": ids(2, 32)})


@test
def padder_sets_the_padding_zero():
    lib = module("linformer_pytorch")
    config, _ = agrees(lib.Padder(shaken(lib.Linformer(**PYTORCH))), PYTORCH, {"tensor": rows(2, 13, 24)})
    assert config["padding"] == "zero"
    kwargs = dict(PYTORCH, decoder_mode=True)
    # Padder pads the tensor, but not the embeddings
    model, embeddings = shaken(lib.Linformer(**kwargs)), rows(2, 32, 24)
    config, _ = agrees(lib.Padder(model), kwargs, {"tensor": rows(2, 13, 24), "embeddings": embeddings})
    assert config["padding"] == "zero"


@test
def attention_of_linformer_pytorch_agrees_with_the_daemon():
    """The arguments E_proj, F_proj and causal_mask are modules and tensors."""
    lib = module("linformer_pytorch")
    library = module("linformer_pytorch.linformer_pytorch")
    kwargs = dict(input_size=32, dim=8, channels=24, dim_k=8, nhead=3, dropout=0.1, checkpoint_level="C0",
                  parameter_sharing="headwise", E_proj=None, F_proj=None, full_attention=False, causal_mask=None)
    inputs = {"tensor": rows(2, 32, 24)}
    agrees(shaken(lib.MHAttention(**kwargs)), kwargs, inputs)
    kwargs["causal_mask"] = library.gen_causal_mask(32, 8)
    config, _ = agrees(shaken(lib.MHAttention(**kwargs)), kwargs, inputs)
    assert config["kwargs"]["causal_mask"] is True and "E_proj" not in config["kwargs"]
    kwargs.update(parameter_sharing="layerwise", causal_mask=None)
    for method in ("learnable", "convolution", "no_params"):
        kwargs["E_proj"] = kwargs["F_proj"] = lib.get_EF(32, 8, method, 8)
        config, _ = agrees(shaken(lib.MHAttention(**kwargs)), kwargs, inputs)
        assert config["kwargs"]["method"] == method
        kwargs["F_proj"] = lib.get_EF(32, 8, method, 8)
        agrees(shaken(lib.MHAttention(**kwargs)), kwargs, inputs)
    kwargs["E_proj"] = kwargs["F_proj"] = lib.get_EF(32, 8, bias=False)
    refused("these kwargs result in .8., but the model has none", lambda: export(lib.MHAttention(**kwargs), kwargs, "no"))
    kwargs.update(parameter_sharing="none", causal_mask=~library.gen_causal_mask(32, 8))
    refused("causal_mask", lambda: export(lib.MHAttention(**kwargs), kwargs, "no"))
    kwargs.update(parameter_sharing="some", causal_mask=None)
    refused("parameter_sharing", lambda: export(lib.MHAttention(**kwargs), kwargs, "no"))


@test
def linear_multihead_attention_agrees_with_the_daemon():
    module("torch")
    lib = load_file("linear_multihead_attention", OPTIONS.kuixu, "--kuixu")
    common = dict(embed_dim=24, num_heads=4, seq_len=20, proj_k=8)
    for more in ({}, {"param_sharing": "layerwise"}, {"kdim": 10, "vdim": 12, "bias": False},
                 {"add_bias_kv": True, "add_zero_attn": True}):
        kwargs = common | more
        length = 20 - bool(more.get("add_bias_kv"))
        inputs = {"query": rows(7, 2, 24), "key": rows(length, 2, more.get("kdim", 24)),
                  "value": rows(length, 2, more.get("vdim", 24))}
        _, header = agrees(shaken(lib.LinearMultiheadAttention(**kwargs)), kwargs, inputs, output="attn_output")
        assert ("f_proj_weight" in header) == ("param_sharing" not in more)
    model = lib.LinearMultiheadAttention(**common)
    refused("these kwargs result in", lambda: export(model, dict(common, num_heads=3), "no"))
    kwargs = dict(common, seq_len=1, add_bias_kv=True)
    refused("seq_len must be at least 2", lambda: export(lib.LinearMultiheadAttention(**kwargs), kwargs, "no"))


@test
def wrappers_of_pytorch_are_removed():
    torch, lib = module("torch"), module("linformer")
    kwargs = dict(LINFORMER, num_tokens=50)
    model, inputs = shaken(lib.LinformerLM(**kwargs)), {"x": ids(2, 17)}
    agrees(torch.nn.DataParallel(model), kwargs, inputs, reference=model)
    agrees(torch.compile(torch.optim.swa_utils.AveragedModel(model)), kwargs, inputs, reference=model)
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            agrees(torch.nn.parallel.DistributedDataParallel(model), kwargs, inputs, reference=model)
        finally:
            torch.distributed.destroy_process_group()


@test
def the_file_keeps_the_dtypes_of_the_tensors():
    """The file keeps the dtypes of the tensors. The daemon converts their values to float32 for its computation."""
    torch = module("torch")
    lib, pytorch = module("linformer"), module("linformer_pytorch")
    kwargs = dict(LINFORMER, num_tokens=50)
    for dtype, name in ((torch.float16, "F16"), (torch.bfloat16, "BF16"), (torch.float64, "F64")):
        model = shaken(lib.LinformerLM(**kwargs)).to(dtype)
        reference = lib.LinformerLM(**kwargs).double().eval()
        reference.load_state_dict(model.state_dict())
        _, header = agrees(model, kwargs, {"x": ids(2, 17)}, reference=reference)
        assert {one["dtype"] for one in header.values()} == {name}
    kwargs = dict(PYTORCH, method="no_params", parameter_sharing="none")
    model = shaken(pytorch.Linformer(**kwargs))
    model = model.to(torch.bfloat16)  # to() does not convert E and F
    reference = pytorch.Linformer(**kwargs).eval()
    reference.load_state_dict({name: tensor.float() for name, tensor in model.state_dict().items()})
    for one, other in zip(reference.modules(), model.modules()):
        if type(one).__name__ == "LinearAttentionHead":
            one.E, one.F = other.E, other.F
    _, header = agrees(model, kwargs, {"tensor": rows(2, 32, 24)}, reference=reference)
    assert {one["dtype"] for one in header.values()} == {"F32", "BF16"}
    integers = lib.LinformerLM(**LINFORMER, num_tokens=50)
    integers.to_logits.bias = torch.nn.Parameter(torch.zeros(50, dtype=torch.int32), requires_grad=False)
    refused("to_logits.bias.*int32", lambda: export(integers, dict(LINFORMER, num_tokens=50), "no"))


@test
def shared_tensors_are_stored_once():
    torch, lib = module("torch"), module("linformer")
    kwargs = dict(LINFORMER, num_tokens=50)
    model = shaken(lib.LinformerLM(**kwargs))
    model.to_logits.weight = model.token_emb.weight
    _, header = agrees(model, kwargs, {"x": ids(2, 17)})
    assert header["__metadata__"] == {"to_logits.weight": "token_emb.weight"}
    both = torch.nn.Parameter(torch.randn(8, 20) * 0.3)  # two tensors in one storage
    block = model.linformer.net.layers[0][0].fn
    block.proj_k, block.proj_v = torch.nn.Parameter(both.T), torch.nn.Parameter(both.flip(0).T)
    block.proj_v.data = both.data.view(20, 8)
    _, header = agrees(model, kwargs, {"x": ids(2, 17)})
    assert {"linformer.net.layers.0.0.fn.proj_k", "linformer.net.layers.0.0.fn.proj_v"} < set(header)


@test
def arguments_and_keys_become_plain_json():
    torch, lib = module("torch"), module("linformer")
    kwargs = dict(num_tokens=np.int64(300), dim=24, seq_len=torch.tensor(20), depth=2, k=np.array([8])[0], heads=3.0,
                  reversible=1, dropout=torch.tensor(0.5), dim_head=None)
    model = shaken(lib.LinformerLM(**dict(LINFORMER, num_tokens=300, reversible=True)))
    keys = dict(name="mine", pooling="cls", normalize=False, padding="exact", tokenizer={"type": "byte"})
    with tempfile.TemporaryDirectory() as folder:
        export(model, kwargs, f"{folder}/a/b", daemon=OPTIONS.daemon, **keys)
        config = json.loads(pathlib.Path(folder, "a/b/config.json").read_text())
        assert config["kwargs"] == dict(LINFORMER, num_tokens=300, reversible=True, dropout=0.5, dim_head=None)
        assert {key: config[key] for key in keys} == keys
        x = ids(1, 20)
        with torch.no_grad():
            with Daemon("--model", f"{folder}/a/b") as daemon:
                found = infer(daemon.address, "mine", {"x": x.numpy()})["output"]
            assert np.linalg.norm(found - model(x).numpy()) <= TOLERANCE * np.linalg.norm(found)


# ---- What is refused ------------------------------------------------------------------------------------------------


@test
def kwargs_that_differ_from_the_model_are_refused():
    torch, lib = module("torch"), module("linformer")
    linear, pytorch = module("linear_attention_transformer"), module("linformer_pytorch")
    kwargs = dict(LINFORMER, num_tokens=50)
    model = lib.LinformerLM(**kwargs)
    for pattern, wrong in (
        ('unknown argument "deepth"; the class has num_tokens, dim', dict(kwargs, deepth=2)),
        ("argument dim is missing", {name: value for name, value in kwargs.items() if name != "dim"}),
        ("net.layers: these kwargs result in the parts 0, 1, 2, but the model has 0, 1", dict(kwargs, depth=3)),
        ("net.layers: these kwargs result in the parts 0, but the model has 0, 1", dict(kwargs, depth=1)),
        ("heads: these kwargs result in 4, but the model has 3", dict(kwargs, heads=4)),
        ("k: these kwargs result in 9", dict(kwargs, k=9)),
        ("num_embeddings: these kwargs result in 51", dict(kwargs, num_tokens=51)),
        ("SequentialSequence", dict(kwargs, reversible=True)),
        ("must be divisible", dict(kwargs, heads=5)),
        ("argument dim: expected an integer from 1", dict(kwargs, dim=0)),
        ("argument dim: expected an integer from 1", dict(kwargs, dim=24.5)),
        ("argument share_kv: expected true or false, found 'yes'", dict(kwargs, share_kv="yes")),
        ("argument dropout: expected a number from 0 to 1, found 2", dict(kwargs, dropout=2)),
        ("argument dim: .* cannot be written", dict(kwargs, dim=object())),
        ("kwargs: expected a dict", None),
    ):
        refused(pattern, lambda: export(model, wrong, "no", daemon=False))
    model.to_logits = torch.nn.Linear(24, 50, bias=False)
    refused("to_logits.bias.*these kwargs result in \\[50\\]", lambda: export(model, kwargs, "no"))
    model.to_logits = torch.nn.Identity()
    refused("to_logits: .* Linear, but the model has Identity", lambda: export(model, kwargs, "no"))
    model = lib.LinformerLM(**kwargs)
    model.linformer.net.layers[0][0].norm.eps = 1e-3
    refused("norm.eps: .* 1e-05, but the model has 0.001", lambda: export(model, kwargs, "no"))
    causal = dict(LINEAR, causal=True)
    refused("global_attn_fn", lambda: export(linear.LinearAttentionTransformer(**causal), LINEAR, "no"))
    refused("pad_to_multiple: these kwargs result in 4, but the model has 1",
            lambda: export(linear.LinearAttentionTransformer(**causal), dict(causal, blindspot_size=4), "no"))
    windowless = dict(LINEAR, local_attn_window_size=None)
    refused("local_attn_window_size: expected a value, found None",
            lambda: export(linear.LinearAttentionTransformer(**windowless), windowless, "no"))
    relu = dict(PYTORCH, activation="relu")
    refused("activation: these kwargs result in 'gelu'", lambda: export(pytorch.Linformer(**relu), PYTORCH, "no"))
    refused("causal_mask", lambda: export(pytorch.Linformer(**PYTORCH), dict(PYTORCH, causal=True), "no"))
    unshared = pytorch.Linformer(**PYTORCH)
    unshared.seq[0].fn.heads[1].E = pytorch.get_EF(32, 8)
    refused('"seq.0.fn.heads.1.E.weight" differs', lambda: export(unshared, PYTORCH, "no"))
    refused("torch.nn.modules.linear.Linear is not supported", lambda: export(torch.nn.Linear(2, 3), {}, "no"))


@test
def wrong_keys_of_config_json_are_refused():
    lib = module("linformer")
    kwargs = dict(LINFORMER, num_tokens=258)
    model = lib.LinformerLM(**kwargs)
    for pattern, keys in (
        ("name: expected a name without a slash", {"name": "a/b"}),
        ("name: expected a name without a slash", {"name": ""}),
        ("pooling: expected mean, cls", {"pooling": "mid"}),
        ("normalize: expected true", {"normalize": 1}),
        ("padding: expected slice or exact for linformer.LinformerLM", {"padding": "zero"}),
        ("tokenizer: expected a model that accepts 259 ids .*a model that accepts 258", {"tokenizer": {"type": "byte"}}),
        ("tokenizer: expected {", {"tokenizer": {"type": "byte", "offset": 1}}),
        ("auto_truncate: expected true", {"auto_truncate": "yes"}),
        ("prompts: expected a dict of texts", {"prompts": ["query: "]}),
        ("prompts: expected a dict of texts", {"prompts": {"": "query: "}}),
        ("prompts: expected a dict of texts", {"prompts": {"query": 1}}),
        ("default_prompt: expected a name from prompts, found 'query'", {"default_prompt": "query"}),
        ("default_prompt: expected a name", {"default_prompt": "q", "prompts": {"query": "query: "}}),
        ("ignore: expected a list", {"ignore": "ema_*"}),
        ('unknown key "poling"; expected one of name, pooling, .*, auto_truncate', {"poling": "mean"}),
    ):
        refused(pattern, lambda: export(model, kwargs, "no", daemon=False, **keys))
    with tempfile.TemporaryDirectory() as folder:
        keys = dict(tokenizer={"type": "byte", "offset": 0}, auto_truncate=True, ignore=["ema_*"],
                    prompts={"query": "query: "}, default_prompt="query")
        export(model, kwargs, f"{folder}/mine", daemon=OPTIONS.daemon, **keys)
        config = json.loads(pathlib.Path(folder, "mine/config.json").read_text())
        assert {key: config[key] for key in keys} == keys


def word_level(count=50):
    """Returns a tokenizers.Tokenizer with `count` ids for the words w0, w1 … The last id is the special token [SEP],
    which follows every text."""
    tokenizers = module("tokenizers")
    vocabulary = {f"w{i}": i for i in range(count - 1)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[SEP]"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [SEP]", pair=None, special_tokens=[("[SEP]", count - 1)])
    return tokenizer


def unigram(count=50):
    tokenizers = module("tokenizers")
    return tokenizers.Tokenizer(tokenizers.models.Unigram([(f"w{i}", -1.0) for i in range(count)], 0))


@test
def tokenizers_are_written_as_tokenizer_json():
    lib = module("linformer")
    kwargs = dict(LINFORMER, num_tokens=50)
    model, tokenizer = lib.LinformerLM(**kwargs), word_level()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "elsewhere.json")
        path.write_text(tokenizer.to_str(pretty=False))
        for each in (tokenizer, unigram(), path, str(path)):
            mine = pathlib.Path(tempfile.mkdtemp(dir=folder), "mine")
            export(model, kwargs, mine, daemon=OPTIONS.daemon, tokenizer=each, auto_truncate=True)
            written = (mine / "tokenizer.json").read_bytes()
            expected = path.read_bytes() if each in (path, str(path)) else each.to_str(pretty=True).encode()
            assert written == expected
            config = json.loads((mine / "config.json").read_text())
            assert "tokenizer" not in config and config["auto_truncate"] is True, config


@test
def fast_tokenizers_of_transformers_are_written_as_a_file():
    lib, transformers, tokenizers = module("linformer"), module("transformers"), module("tokenizers")
    kwargs = dict(LINFORMER, num_tokens=51)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=word_level(), mask_token="[MASK]")
    with tempfile.TemporaryDirectory() as folder:
        export(lib.LinformerLM(**kwargs), kwargs, f"{folder}/mine", daemon=OPTIONS.daemon, tokenizer=fast)
        read = tokenizers.Tokenizer.from_file(f"{folder}/mine/tokenizer.json")
        assert read.encode("w3 [MASK]").ids == fast("w3 [MASK]")["input_ids"] == [3, 50, 49]
        with Daemon("--model", f"{folder}/mine") as daemon:
            request = urllib.request.Request(f"http://{daemon.address}/tokenize", b'{"inputs": "w3 [MASK]"}',
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                assert [token["id"] for token in json.load(answer)[0]] == [3, 50, 49]
        kwargs = dict(LINFORMER, num_tokens=50)
        refused("expected a model that accepts 51 ids .*up to 50; found a model that accepts 50",
                lambda: export(lib.LinformerLM(**kwargs), kwargs, "no", daemon=False, tokenizer=fast))


@test
def unsupported_tokenizers_are_refused():
    lib, tokenizers = module("linformer"), module("tokenizers")
    kwargs = dict(LINFORMER, num_tokens=50)
    own = word_level()
    own.pre_tokenizer = tokenizers.pre_tokenizers.PreTokenizer.custom(types.SimpleNamespace(pre_tokenize=None))
    slow = type("ByT5Tokenizer", (), {"is_fast": False})()  # slow tokenizers of transformers have this attribute
    refusals = [
        ("51 ids .*up to 50; found a model that accepts 50", word_level(51)),
        ("51 ids", unigram(51)),
        ("tokenizers.Tokenizer cannot be written as tokenizer.json: Custom PreTokenizer", own),
        (r"ByT5Tokenizer is a slow tokenizer of transformers: .*Use a fast one", slow),
        ("expected a tokenizers.Tokenizer.*found builtins.list", ["w0"]),
        ("or the path of a tokenizer.json. The file cannot be read: .*No such file.*'byte'", "byte"),
        ("The file cannot be read: .*Is a directory", "/"),
    ]
    model = lib.LinformerLM(**kwargs)
    with tempfile.TemporaryDirectory() as folder:
        for number, content in enumerate((b"{", b"[]", b"{}", b"\xff", b'{"model": {"vocab": {"a": "b"}}}')):
            pathlib.Path(folder, str(number)).write_bytes(content)
            refusals.append(("tokenizer: the file is not a valid tokenizer.json", f"{folder}/{number}"))
        for pattern, tokenizer in refusals:
            refused(pattern, lambda: export(model, kwargs, f"{folder}/no", daemon=False, tokenizer=tokenizer))
        assert not pathlib.Path(folder, "no").exists()
    kwargs = dict(LINFORMER)
    refused("the model accepts no ids",
            lambda: export(lib.Linformer(**kwargs), kwargs, "no", daemon=False, tokenizer=word_level()))


@test
def slow_tokenizers_of_transformers_are_refused():
    lib = module("linformer")
    slow = module("transformers").ByT5Tokenizer()
    kwargs = dict(LINFORMER, num_tokens=400)
    refused("transformers.*ByT5Tokenizer is a slow tokenizer of transformers",
            lambda: export(lib.LinformerLM(**kwargs), kwargs, "no", daemon=False, tokenizer=slow))


@test
def state_dicts_and_quantised_models_are_refused():
    """Each refusal has a message that tells the user what to do."""
    torch, lib, pytorch = module("torch"), module("linformer"), module("linformer_pytorch")
    kwargs = dict(LINFORMER, num_tokens=50)
    model = lib.LinformerLM(**kwargs)
    refused("a state_dict contains tensors, but no class", lambda: export(model.state_dict(), kwargs, "no"))
    refused("a state_dict contains tensors", lambda: export({"state_dict": model.state_dict(), "epoch": 3}, kwargs, "no"))
    quantised = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
    refused(r"linformer.LinformerLM: linformer.net.*to_q is quantised \(torch.ao.nn.quantized.*before it is quantised",
            lambda: export(quantised, kwargs, "no"))
    sides = dict(PYTORCH, num_tokens=50)
    pair = pytorch.LinformerLM(**sides, return_emb=True), pytorch.LinformerLM(**sides, decoder_mode=True, causal=True)
    refused("enc: expected a .*, found linformer_pytorch.LinformerLM.*export a LinformerEncDec",
            lambda: export(pair, {"enc": sides, "dec": sides}, "no"))


@test
def older_libraries_are_refused():
    """An older version is refused. A copy of older files without a version, whose class lacks an argument, is also
    refused."""
    lib, linear = module("linformer"), module("linear_attention_transformer")
    kwargs = dict(LINFORMER, num_tokens=50)
    with unittest.mock.patch.object(exporter.importlib.metadata, "version", return_value="0.1.10"):
        refused("linformer 0.1.10 is installed, but linformerd supports models of 0.2.3 and later",
                lambda: export(lib.LinformerLM(**kwargs), kwargs, "no"))
    signature = inspect.signature

    def older(cls):
        """Returns the signature of the class without the argument that version 0.19.0 introduced."""
        parameters = signature(cls).parameters.values()
        return signature(cls).replace(parameters=[one for one in parameters if one.name != "shift_tokens"])

    missing = exporter.importlib.metadata.PackageNotFoundError
    with unittest.mock.patch.object(exporter.importlib.metadata, "version", side_effect=missing):
        export(lib.LinformerLM(**kwargs), kwargs, "mine", daemon=False)
        with unittest.mock.patch.object(exporter.inspect, "signature", older):
            refused("LinearAttentionTransformer: the class has no argument shift_tokens: .* is older",
                    lambda: export(linear.LinearAttentionTransformer(**LINEAR), LINEAR, "no"))


@test
def python_3_8_can_read_the_exporter():
    """weights/export.py must use the grammar of Python 3.8, and no later functions such as | of dicts, math.lcm or
    str.removeprefix."""
    tree = ast.parse(pathlib.Path(exporter.__file__).read_text(), feature_version=(3, 8))
    later = {"removeprefix", "removesuffix", "is_relative_to", "with_stem", "cache", "pairwise", "bit_count"}
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', 0)}"
        assert not (isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.BitOr)), where
        of_math = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math"
        assert not (of_math and node.attr in ("lcm", "nextafter")), where
        assert not (isinstance(node, ast.Attribute) and node.attr in later), where
        assert not (isinstance(node, ast.keyword) and node.arg in ("strict", "slots", "root_dir")), where
        generic = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        assert not (generic and node.value.id in ("dict", "list", "tuple", "set", "type")), where


def combinations():
    """Models that can be made, but that neither the library runs nor the daemon serves."""
    linear, pytorch = module("linear_attention_transformer"), module("linformer_pytorch")
    lm = dict(LINEAR, num_tokens=50)
    sides = dict(num_tokens=50, input_size=32, channels=24, dim_k=8, dim_ff=40, nhead=3)
    pair = {prefix + name: value for prefix in ("enc_", "dec_") for name, value in sides.items()}
    return [
        ("even dim_head", linear.LinearAttentionTransformerLM, dict(lm, use_rotary_emb=True, dim_head=5)),
        ("even emb_dim", linear.LinearAttentionTransformerLM, dict(lm, use_rotary_emb=True, emb_dim=7)),
        ("attend_axially: expected local_attn_window_size 1", linear.LinearAttentionTransformerLM,
         dict(lm, use_rotary_emb=True, attend_axially=True, local_attn_window_size=4)),
        ("return_embeddings", linear.LinearAttentionTransformerLM, dict(lm, return_embeddings=True, emb_dim=7)),
        ("shift_tokens", linear.LinearAttentionTransformer, dict(LINEAR, dim=2, heads=2, shift_tokens=True)),
        ("multiples of 64", linear.LinearAttentionTransformerLM,
         dict(lm, causal=True, blindspot_size=64, use_axial_pos_emb=False)),
        ("n_local_attn_heads", linear.LinearAttentionTransformer, dict(LINEAR, n_local_attn_heads=-1)),
        ("dim_k 40; expected at most input_size 32", pytorch.Linformer,
         dict(PYTORCH, method="convolution", dim_k=40, full_attention=True)),
        ("mask is for 8 rows", pytorch.Linformer,
         dict(PYTORCH, parameter_sharing="kv", k_reduce_by_layer=1, causal=True)),
        ("mask is for 12 rows", pytorch.Linformer, dict(PYTORCH, method="convolution", dim_k=12, causal=True)),
        ("sinusoids", pytorch.LinformerLM, dict(PYTORCH, num_tokens=50, emb_dim=7)),
        ("ff_intermediate", pytorch.Linformer,
         dict(PYTORCH, parameter_sharing="kv", ff_intermediate=30, include_ff=False)),
        ("checkpoint_level", pytorch.Linformer, dict(PYTORCH, decoder_mode=True, checkpoint_level="C1")),
        ("checkpoint_level", pytorch.LinformerEncDec, dict(pair, checkpoint_level="C2")),
        ("must equal dec_channels", pytorch.LinformerEncDec, dict(pair, enc_emb_dim=10)),
    ]


@test
def arguments_with_which_no_model_runs_are_refused():
    """The exporter refuses these models without asking the daemon, and the daemon refuses them, too."""
    module("torch")
    for pattern, cls, kwargs in combinations():
        model = cls(**kwargs)
        refused(pattern, lambda: export(model, kwargs, "no", daemon=False))
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder, "mine")
            config = {"architecture": exporter.find_architecture(model), "kwargs": kwargs}
            exporter.write_folder(folder, json.dumps(config), exporter.torch_tensors(model), False)
            result = subprocess.run([OPTIONS.daemon, "--explain", folder], capture_output=True, text=True)
            assert result.returncode == 1, f"{pattern}: the daemon takes it: {result.stderr}"


# ---- Keras ----------------------------------------------------------------------------------------------------------


@test
def layers_of_keras_agree_with_the_daemon():
    module("tensorflow")
    tf_keras = module("tf_keras")
    if not OPTIONS.keras:
        raise unittest.SkipTest("--keras names no file")
    cls = module("generate_keras").load_class(OPTIONS.keras)
    rng = np.random.default_rng(OPTIONS.seed)
    floats = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    common = dict(num_heads=3, key_dim=7, projection_dim=8)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder, "mine")
        odd = dict(value_dim=5, output_shape=(3, 5), use_bias=False, name="mine", attention_axes=1,
                   kernel_initializer=tf_keras.initializers.GlorotNormal())
        for kwargs in (common, common | odd, dict(num_heads=3, key_dim=7)):
            layer = cls(**kwargs)
            refused("call it once", lambda: export(layer, kwargs, folder))
            inputs = {"query": floats(2, 6, 20), "value": floats(2, 14, 20), "key": floats(2, 14, 20)}
            layer(**inputs)
            for weight in layer.weights:
                weight.assign(weight + 0.2 * floats(*weight.shape))
            export(layer, kwargs, folder, daemon=OPTIONS.daemon)
            served(folder, inputs, layer(**inputs).numpy(), output="attention_output")
        refused("these kwargs result in 4", lambda: export(layer, dict(num_heads=4, key_dim=7), folder))
        refused('unknown argument "heads"', lambda: export(layer, dict(heads=4, key_dim=7), folder))
        source = tf_keras.Input(shape=(14,))
        rows = tf_keras.layers.Embedding(50, 16)(source)
        model = tf_keras.Model(source, cls(**common)(rows, rows))
        export(model, common, folder, daemon=OPTIONS.daemon)
        query = rng.integers(0, 50, (2, 14))
        served(folder, {"query": query}, model(query).numpy(), output="attention_output")
        headed = tf_keras.Model(source, tf_keras.layers.Dense(3)(cls(**common)(rows, rows)))
        refused("expected the layer alone.*, Dense", lambda: export(headed, common, folder))
        kwargs = dict(num_heads=2, key_dim=4, attention_axes=(2, 3))
        layer = cls(**kwargs)
        layer(floats(1, 3, 4, 5, 16), floats(1, 3, 4, 5, 16))
        refused("axis 1", lambda: export(layer, kwargs, folder))
        tf_keras.backend.set_floatx("float64")
        inputs = {"query": rng.standard_normal((2, 6, 20)), "value": rng.standard_normal((2, 14, 20))}
        layer = cls(**common)
        expected = layer(**inputs).numpy()
        export(layer, dict(common, dtype="float64"), folder, daemon=OPTIONS.daemon)
        assert {one["dtype"] for one in read_safetensors(folder / "model.safetensors")[0].values()} == {"F64"}
        served(folder, inputs, expected, output="attention_output")


# ---- Keys of config.json: numpy alone ------------------------------------------------------------------------------


@test
def the_daemon_accepts_each_key_of_the_exporter():
    values = {"name": "mine", "pooling": "cls", "normalize": False, "padding": "exact", "tokenizer": None,
              "auto_truncate": True, "eos_token": 2, "bos_token": 1, "pad_token": 0,
              "generation": {"do_sample": True, "top_p": 0.9, "top_k": 5},
              "ignore": ["ema_*", "step"],
              "prompts": {"query": "query: "}, "default_prompt": "query"}
    exporter.check_config(exporter.KUIXU, {}, values, {})
    exporter.check_ignore(values["ignore"])
    with tempfile.TemporaryDirectory() as folder:
        config = {"architecture": exporter.KUIXU, **values}
        pathlib.Path(folder, "config.json").write_text(json.dumps(dict(config, poling="mean")))
        explain = [OPTIONS.daemon, "--explain", folder]
        said = subprocess.run(explain, capture_output=True, text=True).stderr
        known = re.search('unknown key "poling"; the known ones are (.*)', said).group(1).strip().split(", ")
        of_modules = {"graph", "labels", "image", "causal"}
        assert {"architecture", "kwargs", *values} == set(known) - of_modules, known
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        said = subprocess.run(explain, capture_output=True, text=True).stderr
        assert "model.safetensors" in said and "config.json" not in said, said


@test
def patterns_of_ignore_match_whole_names():
    refused("ignore: expected a list", lambda: export(None, {}, "no", ignore="ema_*"))
    refused("ignore: expected a list", lambda: export(None, {}, "no", ignore=[""]))
    refused("ignore: expected a list", lambda: export(None, {}, "no", ignore=[1]))
    for name, pattern, expected in (("ema_a.b", "ema_*", True), ("ema_", "ema_*", True), ("my.ema_", "ema_*", False),
                                    ("a.b", "a?b", False), ("a.b", "[a].b", False), ("a.b", "a.b", True),
                                    ("axb", "a.b", False), ("net.a.step", "*.a.*", True), ("a", "b*", False)):
        assert exporter.ignored(name, ["none", pattern]) == expected, (name, pattern)
    assert not exporter.ignored("a", [])


class LinearMultiheadAttention:
    """A class without torch that looks to the exporter like the library's class with the same name. `_own` are tensors
    that a user adds to a model."""

    def __init__(self, embed_dim):
        self._modules, self._own = {}, {}
        self._tensors = {"weight": np.zeros(embed_dim, np.float32)}

    def named_modules(self):
        return [("", self)]

    def state_dict(self, **_):
        return {**self._tensors, **self._own}


@test
def surplus_tensors_are_left_out_if_ignored():
    stand_in = types.SimpleNamespace(device=object, Tensor=np.ndarray)
    with unittest.mock.patch.dict(sys.modules, torch=stand_in), tempfile.TemporaryDirectory() as folder:
        model, kwargs = LinearMultiheadAttention(4), {"embed_dim": 4}
        model._own = {"ema_step": np.array(3), "ema_weight": np.zeros(2, np.float32)}
        refused('tensor "ema_step": these kwargs result in none', lambda: export(model, kwargs, f"{folder}/mine", daemon=False))
        refused('tensor "ema_weight"',
                lambda: export(model, kwargs, f"{folder}/mine", daemon=False, ignore=["ema_s*"]))
        export(model, kwargs, f"{folder}/mine", daemon=False, ignore=("ema_*", "weight"))
        header, _, _ = read_safetensors(pathlib.Path(folder, "mine/model.safetensors"))
        assert list(header) == ["weight"], header  # the class needs this tensor, so `ignore` has no effect on it
        assert json.loads(pathlib.Path(folder, "mine/config.json").read_text())["ignore"] == ["ema_*", "weight"]


# ---- Files: numpy alone ---------------------------------------------------------------------------------------------


def arrays():
    rng = np.random.default_rng(OPTIONS.seed)
    shared = rng.standard_normal((3, 5)).astype(np.float32)
    return {"odd": np.float16([1, 2, 3]), "scalar": np.array(7.0), "a": shared, "b": shared, "a.T": shared.T,
            "none": np.zeros((0, 4), np.float32), "double": rng.standard_normal(4)}


@test
def the_file_has_the_safetensors_format():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder, "mine")
        exporter.write_folder(folder, "{}", arrays(), False)
        header, data, length = read_safetensors(folder / "model.safetensors")
    assert length % 8 == 0 and header.pop("__metadata__") == {"b": "a"}
    assert set(header) == set(arrays()) - {"b"}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, next_end = entry["data_offsets"]
        dtype = np.dtype({"F16": "<f2", "F32": "<f4", "F64": "<f8"}[entry["dtype"]])
        assert begin == end and begin % dtype.itemsize == 0
        found = np.frombuffer(data[begin:next_end], dtype).reshape(entry["shape"])
        assert np.array_equal(found, arrays()[name]) and dtype == arrays()[name].dtype
        end = next_end
    assert end == len(data)


@test
def a_failed_export_leaves_no_partial_folder():
    with tempfile.TemporaryDirectory() as parent:
        parent = pathlib.Path(parent)
        broken = dict(arrays(), wrong=np.zeros(3, np.int32))
        refused('tensor "wrong": expected dtype .*, found int32',
                lambda: exporter.write_folder(parent / "mine", "{}", broken, False))
        assert list(parent.iterdir()) == []
        exporter.write_folder(parent / "mine", "old", arrays(), False)
        (parent / "mine/notes").write_text("kept")
        before = (parent / "mine/model.safetensors").read_bytes()
        refused("wrong", lambda: exporter.write_folder(parent / "mine", "new", broken, False))
        assert (parent / "mine/model.safetensors").read_bytes() == before
        assert (parent / "mine/config.json").read_text() == "old"
        # As if the process were killed at this point.
        with unittest.mock.patch.object(pathlib.Path, "replace", side_effect=InterruptedError):
            with contextlib.suppress(InterruptedError):
                exporter.write_folder(parent / "mine", "new", {"a": np.zeros(3)}, False)
        assert not (parent / "mine/config.json").exists()
        exporter.write_folder(parent / "mine", "new", {"a": np.zeros(3)}, False)
        assert (parent / "mine/config.json").read_text() == "new"
        assert list(read_safetensors(parent / "mine/model.safetensors")[0]) == ["a"]
        assert {path.name for path in (parent / "mine").iterdir()} == {"config.json", "model.safetensors", "notes"}
        (parent / "file").write_text("")
        (parent / "folder").mkdir()
        mode = lambda name: (parent / name).stat().st_mode
        assert mode("mine") == mode("folder")
        assert mode("mine/config.json") == mode("mine/model.safetensors") == mode("file")


@test
def a_new_export_keeps_the_tokenizer_of_the_folder():
    """The tokenizer in the folder stays if no other tokenizer is given. A reader of the folder never finds a model with
    the tokenizer of another model."""
    with tempfile.TemporaryDirectory() as parent:
        mine = pathlib.Path(parent, "mine")
        exporter.write_folder(mine, "config", arrays(), False, tokenizer=b"old")
        exporter.write_folder(mine, "config", arrays(), False)
        assert (mine / "tokenizer.json").read_bytes() == b"old" and (mine / "config.json").exists()
        # As if the process were killed at this point.
        with unittest.mock.patch.object(pathlib.Path, "replace", side_effect=InterruptedError):
            with contextlib.suppress(InterruptedError):
                exporter.write_folder(mine, "config", arrays(), False, tokenizer=b"new")
        assert not (mine / "config.json").exists()
        exporter.write_folder(mine, "config", arrays(), False, tokenizer=b"new")
        assert (mine / "tokenizer.json").read_bytes() == b"new"
        assert sorted(path.name for path in mine.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]


@test
def a_folder_that_the_daemon_refuses_is_not_kept():
    """A folder that the daemon refuses is not renamed to its final name."""
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent, "mine")
        config = json.dumps({"architecture": "linformer.Nothing"})
        refused("refuses the model: .*Nothing", lambda: exporter.write_folder(folder, config, arrays(), OPTIONS.daemon))
        assert list(pathlib.Path(parent).iterdir()) == []


@test
def the_example_in_the_help_of_the_exporter_runs():
    module("torch")
    module("linformer")
    lines = [line[4:] for line in exporter.__doc__.partition("`kwargs`")[0].splitlines() if line.startswith("    ")]
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            exec("\n".join(lines), {})
            found = sorted(os.listdir("mine"))
        finally:
            os.chdir(before)
        assert found == ["config.json", "model.safetensors"]


def passes(number, name, function):
    try:
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(OPTIONS.seed)
        function()
    except unittest.SkipTest as skip:
        print(f"ok {number} - {name} # SKIP {skip}", flush=True)
    except Exception:
        print(f"not ok {number} - {name}\n# " + "\n# ".join(traceback.format_exc().splitlines()), flush=True)
        return False
    else:
        print(f"ok {number} - {name}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=os.environ.get("LINFORMERD", "build/linformerd"))
    parser.add_argument("--kuixu", default=os.environ.get("KUIXU_PY"))
    parser.add_argument("--keras", default=os.environ.get("KERAS_PY"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.parse_args(namespace=OPTIONS)
    for name in ("daemon", "kuixu", "keras"):
        path = getattr(OPTIONS, name)
        setattr(OPTIONS, name, path and os.path.abspath(path))
    os.environ["LINFORMERD"] = OPTIONS.daemon
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"  # no proxy, because the daemon is on this machine
    tests = [(name, function) for name, function in TESTS if OPTIONS.only in name]
    print(f"# seed {OPTIONS.seed}\n1..{len(tests)}")
    with tempfile.TemporaryDirectory() as folder:  # current folder, for models that should be refused
        os.chdir(folder)
        failed = sum(not passes(number, *one) for number, one in enumerate(tests, 1))
        os.chdir("/")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
