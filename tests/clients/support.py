"""Functions that the client scripts share: the daemon under test, small models, and the reference cases."""

import json
import os

import numpy as np

from served import Daemon  # noqa: F401 (scripts import these from here)
from tap import expect, run  # noqa: F401

CASES = "tests/reference"
TOLERANCE = 1e-5
LABELS = ["cat", "dog", "fish"]


def write_model(folder, config, tensors):
    """Writes the folder of a model: config.json, and model.safetensors with arrays of float32."""
    header, data = {}, b""
    for name, array in tensors.items():
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        data += array.astype("<f4").tobytes()
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def generating_model(folder, **config):
    """Writes a causal model of bytes with random weights, which can generate."""
    random = np.random.default_rng(5)
    dim, heads, ids, length = 16, 2, 259, 256
    shapes = {
        "token_emb.weight": (ids, dim),
        "pos_emb.weights.0": (1, dim, 1, dim),
        "pos_emb.weights.1": (1, 1, dim, dim),
        "norm.weight": (dim,),
        "norm.bias": (dim,),
        "out.weight": (ids, dim),
        "out.bias": (ids,),
    }
    layer = "transformer.layers.layers.0."
    for name in ("to_q", "to_k", "to_v", "to_out"):
        shapes[f"{layer}0.fn.fn.{name}.weight"] = (dim, dim)
    shapes[f"{layer}0.fn.fn.to_out.bias"] = (dim,)
    for part in ("0", "1"):
        shapes[f"{layer}{part}.norm.weight"] = shapes[f"{layer}{part}.norm.bias"] = (dim,)
    shapes[f"{layer}1.fn.fn.fn.w1.weight"], shapes[f"{layer}1.fn.fn.fn.w1.bias"] = (4 * dim, dim), (4 * dim,)
    shapes[f"{layer}1.fn.fn.fn.w2.weight"], shapes[f"{layer}1.fn.fn.fn.w2.bias"] = (dim, 4 * dim), (dim,)
    kwargs = dict(num_tokens=ids, dim=dim, heads=heads, depth=1, max_seq_len=length, dim_head=8)
    kwargs |= dict(causal=True, local_attn_window_size=16, shift_tokens=True)
    architecture = "linear_attention_transformer.LinearAttentionTransformerLM"
    config = {"architecture": architecture, "kwargs": kwargs, "tokenizer": {"type": "byte"}, **config}
    write_model(folder, config, {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()})


def labelled_graph(inputs, sizes, nodes, **config):
    graph = {"inputs": [inputs], "sizes": sizes, "nodes": nodes, "outputs": {"output": "y"}}
    return {"architecture": "module", "labels": LABELS, **config, "graph": graph}


def text_model(folder):
    """Writes a model that classifies texts: the mean of the embeddings of a text, and a linear layer. Returns a
    function that computes the scores of a text with numpy."""
    random = np.random.default_rng(1)
    table, weight, bias = (random.normal(size=s).astype(np.float32) for s in ((259, 8), (3, 8), (3,)))
    nodes = [
        {"op": "embedding", "to": "e", "weight": "@table", "indices": "ids"},
        {"op": "mean", "to": "m", "self": "e", "dim": [1]},
        {"op": "linear", "to": "y", "input": "m", "weight": "@weight", "bias": "@bias"},
    ]
    inputs = {"name": "ids", "dtype": "int64", "shape": ["batch", "n"]}
    config = labelled_graph(inputs, {"n": {"least": 1, "most": 64}}, nodes, tokenizer={"type": "byte"})
    write_model(folder, config, {"table": table, "weight": weight, "bias": bias})

    def logits(text):
        ids = np.frombuffer(text.encode(), np.uint8).astype(int) + 3
        return weight.astype(float) @ table[ids].astype(float).mean(0) + bias

    return logits


def cases():
    """Names of the reference cases."""
    return sorted(entry.name for entry in os.scandir(CASES) if entry.is_dir())


def calls(case):
    """The stored calls of a case's forward(): a list of (inputs, outputs). Each is a dict of arrays by name."""
    dtypes = {"F32": np.float32, "I64": np.int64, "BOOL": np.bool_}
    with open(f"{CASES}/{case}/calls.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    found = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        array = np.frombuffer(data[begin:end], dtypes[tensor["dtype"]]).reshape(tensor["shape"])
        index, direction, name = name.split("/", 2)
        found.setdefault(int(index), ({}, {}))[direction == "out"][name] = array
    return [found[index] for index in sorted(found)]


def relative_error(found, expected):
    assert found.shape == expected.shape, f"shape {found.shape}, expected {expected.shape}"
    return np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected.astype(np.float64))
