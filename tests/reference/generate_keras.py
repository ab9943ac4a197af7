#!/usr/bin/env python3
# requirements: tensorflow-cpu==2.21.0 tf_keras==2.21.0 numpy safetensors
"""Writes the cases keras_*: dholland42's LinearMultiHeadAttention for Keras, run under TensorFlow.

    generate_keras.py ATTENTION_PY [--folder tests/reference]

ATTENTION_PY is linformer/attention.py of https://github.com/dholland42/linformer, commit fd7e176. It imports modules of
Keras 2.9 by their paths in that version. tf_keras is the successor of Keras 2, and contains all of these modules, some
of them under other paths. The cases "embedding" and "embedding_unprojected" are small forms of the model of
linformer/entrypoint.py in the same repository."""
import argparse
import importlib.util
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tf_keras
import tf_keras.src
from safetensors.numpy import save_file
from tf_keras.src import layers
from tf_keras.src.engine import base_layer
from tf_keras.src.layers.core import einsum_dense
from tf_keras.src.utils import tf_utils

BATCH = 3
DIM = 20
LENGTH = 14  # number of keys, if they are projected
HEADS = 3


def load_class(path):
    layers.einsum_dense = einsum_dense
    sys.modules["keras"] = tf_keras.src
    sys.modules["keras.engine"] = tf_keras.src.engine
    sys.modules["keras.engine.base_layer"] = base_layer
    sys.modules["keras.layers"] = layers
    sys.modules["keras.utils"] = tf_keras.src.utils
    sys.modules["keras.utils"].tf_utils = tf_utils
    spec = importlib.util.spec_from_file_location("linformer.attention", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LinearMultiHeadAttention


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def randomize(rng, layer, prefix_length):
    """Sets all weights to random numbers, also those that are initially 0 or 1. Returns the tensors by their names
    within the layer."""
    tensors = {}
    for weight in layer.weights:
        name = "/".join(weight.name.split(":")[0].split("/")[prefix_length:])
        scale = 0.5 if name.endswith("bias") else 1.5 / np.sqrt(weight.shape[0])
        weight.assign(scale * floats(rng, *weight.shape) + (0.2 if name.endswith("bias") else 0))
        tensors[name] = weight.numpy()
    return tensors


def layer_case(cls, rng, kwargs, inputs_of_calls):
    layer = cls(**kwargs)
    tensors, calls = None, {}
    for index, inputs in enumerate(inputs_of_calls):
        arguments = {name: tf.constant(value) for name, value in inputs.items()}
        if tensors is None:
            layer(**arguments)
            tensors = randomize(rng, layer, 1)
        output, scores = layer(**arguments, return_attention_scores=True, training=False)
        for name, value in inputs.items():
            calls[f"{index}/in/{name}"] = value
        calls[f"{index}/out/attention_output"] = output.numpy()
        calls[f"{index}/out/attention_scores"] = scores.numpy()
    return tensors, calls


def embedding_case(cls, rng, kwargs, length, vocabulary, dim):
    """The model of entrypoint.py with fewer layers and smaller sizes. Its output is the output of the layer."""
    ids = tf_keras.Input(shape=(length,))
    embedding = tf_keras.layers.Embedding(vocabulary, dim, name="embedding")(ids)
    layer = cls(**kwargs)
    model = tf_keras.Model(ids, layer(embedding, embedding))
    tensors = randomize(rng, layer, 1)
    tensors |= randomize(rng, model.get_layer("embedding"), 0)
    calls = {}
    for index, batch in enumerate((BATCH, 1)):
        query = rng.integers(0, vocabulary, (batch, length))
        calls[f"{index}/in/query"] = query
        calls[f"{index}/out/attention_output"] = model.predict(query, verbose=0)
    return tensors, calls


def self_and_cross(rng):
    """Calls with self-attention, with fewer queries than keys, and with one item of more queries than keys."""
    x = floats(rng, BATCH, LENGTH, DIM)
    return [
        {"query": x, "value": x},
        {"query": floats(rng, BATCH, 5, DIM), "value": floats(rng, BATCH, LENGTH, DIM)},
        {"query": floats(rng, 1, 33, DIM), "value": floats(rng, 1, LENGTH, DIM)},
    ]


def unprojected(rng):
    """Calls with different numbers of keys, and with a mask over the keys."""
    mask = rng.random((BATCH, 6, 9)) < 0.6
    mask[0, 2] = False
    return self_and_cross(rng) + [
        {"query": floats(rng, 2, 7, DIM), "value": floats(rng, 2, 31, DIM)},
        {"query": floats(rng, BATCH, 6, DIM), "value": floats(rng, BATCH, 9, DIM), "attention_mask": mask},
        {"query": floats(rng, 2, 4, DIM), "value": floats(rng, 2, 8, DIM), "key": floats(rng, 2, 8, DIM)},
    ]


def masked(rng):
    """Calls with random masks, with a mask in which some rows are false throughout, and without a mask."""
    calls = []
    for batch, queries in ((BATCH, LENGTH), (BATCH, 6), (1, 150)):
        mask = rng.random((batch, queries, 8)) < 0.5
        mask[:, queries // 2] = queries != 6
        calls.append({"query": floats(rng, batch, queries, DIM), "value": floats(rng, batch, LENGTH, DIM),
                      "attention_mask": mask})
    return calls + [{"query": floats(rng, 1, 6, DIM), "value": floats(rng, 1, LENGTH, DIM)}]


def separate(rng, query_dim=DIM, key_dim=DIM, value_dim=DIM, key_length=LENGTH):
    return [{"query": floats(rng, batch, queries, query_dim), "value": floats(rng, batch, LENGTH, value_dim),
             "key": floats(rng, batch, key_length, key_dim)} for batch, queries in ((BATCH, 7), (1, LENGTH))]


def cases(cls, rng):
    default = {"num_heads": HEADS, "key_dim": 7, "projection_dim": 8}
    yield "default", default, layer_case(cls, rng, default, self_and_cross(rng))
    kwargs = {"num_heads": HEADS, "key_dim": 7}
    yield "unprojected", kwargs, layer_case(cls, rng, kwargs, unprojected(rng))
    for name, more in (("no_bias", {"use_bias": False}), ("value_dim", {"value_dim": 19}),
                       ("output_shape", {"output_shape": 11}), ("output_shapes", {"output_shape": [3, 5]})):
        kwargs = default | more
        yield name, kwargs, layer_case(cls, rng, kwargs, self_and_cross(rng))
    yield "attention_mask", default, layer_case(cls, rng, default, masked(rng))
    yield "separate_key", default, layer_case(cls, rng, default, separate(rng) + self_and_cross(rng))
    kwargs = default | {"value_dim": 5}
    yield "separate_sizes", kwargs, layer_case(cls, rng, kwargs, separate(rng, 12, 9, 16, 10))
    kwargs = {"num_heads": 4, "key_dim": 6, "projection_dim": 8}
    yield "embedding", kwargs, embedding_case(cls, rng, kwargs, 24, 50, 16)
    kwargs = {"num_heads": 2, "key_dim": 6}
    yield "embedding_unprojected", kwargs, embedding_case(cls, rng, kwargs, 10, 50, 16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attention_py", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("tests/reference"))
    options = parser.parse_args()
    cls = load_class(options.attention_py)
    for name, kwargs, (tensors, calls) in cases(cls, np.random.default_rng(20261120)):
        folder = options.folder / f"keras_{name}"
        folder.mkdir(parents=True, exist_ok=True)
        config = {"architecture": "linformer.attention.LinearMultiHeadAttention", "kwargs": kwargs}
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_file(tensors, folder / "model.safetensors")
        save_file({key: np.ascontiguousarray(value) for key, value in calls.items()}, folder / "calls.safetensors")
        print(name, {key: value.shape for key, value in tensors.items()})


if __name__ == "__main__":
    main()
