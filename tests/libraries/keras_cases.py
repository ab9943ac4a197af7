"""dholland42's LinearMultiHeadAttention for Keras, alone and behind an Embedding as in its repository's entrypoint. The
class is not on PyPI. The environment variable KERAS_PY is the path of linformer/attention.py of
https://github.com/dholland42/linformer. The file imports Keras 2.9. tests/reference/generate_keras.py maps these
imports to tf_keras."""

import dataclasses
import importlib.util
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tf_keras
from safetensors.numpy import save_file

import case
from case import Call, Case, chance, export

ARCHITECTURE = "linformer.attention.LinearMultiHeadAttention"


def load_class():
    path = pathlib.Path(__file__).parents[1] / "reference" / "generate_keras.py"
    spec = importlib.util.spec_from_file_location("generate_keras", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load_class(os.environ["KERAS_PY"])


LinearMultiHeadAttention = load_class()


def tensors_of(layer, prefix_length):
    """Returns the weights by their names within the layer."""
    return {"/".join(weight.name.split(":")[0].split("/")[prefix_length:]): weight for weight in layer.weights}


def randomize(layer, rng):
    for weight in layer.weights:
        is_bias = "bias" in weight.name
        scale = 0.5 if is_bias else 1.5 / np.sqrt(weight.shape[0])
        weight.assign(scale * rng.standard_normal(weight.shape).astype(np.float32) + (0.2 if is_bias else 0))


@dataclasses.dataclass
class LayerCase(Case):
    seed: int = 0
    shapes: dict = None  # shapes of the inputs that the layer is built with

    def make(self, kwargs):
        layer = LinearMultiHeadAttention(**kwargs)
        layer(**{name: tf.zeros(shape) for name, shape in self.shapes.items()})
        randomize(layer, np.random.default_rng(self.seed))
        return layer

    def call(self, model, call):
        inputs = {name: tf.constant(value) for name, value in call.inputs.items()}
        output, scores = model(**inputs, return_attention_scores=True, training=False)
        outputs = {"attention_output": output.numpy()}
        return outputs | {"attention_scores": scores.numpy()} if call.attentions else outputs

    def tensors(self, model):
        return tensors_of(model, 1)

    def save(self, model, folder):
        export(model, self.kwargs, folder, **self.settings)

    def save_unchecked(self, model, folder):
        save_file({name: weight.numpy() for name, weight in self.tensors(model).items()},
                  pathlib.Path(folder, "model.safetensors"))
        self.write_config(folder)


@dataclasses.dataclass
class EmbeddingCase(LayerCase):
    """The model of the repository's entrypoint. `shapes` is (length, size of the vocabulary, number of features)."""

    def make(self, kwargs):
        length, vocabulary, features = self.shapes
        ids = tf_keras.Input(shape=(length,))
        embedding = tf_keras.layers.Embedding(vocabulary, features, name="embedding")(ids)
        layer = LinearMultiHeadAttention(**kwargs)
        model = tf_keras.Model(ids, layer(embedding, embedding))
        randomize(model, np.random.default_rng(self.seed))
        return model

    def call(self, model, call):
        return {"attention_output": model(call.inputs["query"], training=False).numpy()}

    def tensors(self, model):
        return tensors_of(model.layers[-1], 1) | tensors_of(model.get_layer("embedding"), 0)


def random_kwargs(rng):
    kwargs = {"num_heads": rng.choice([1, 2, 3, 4, 8]), "key_dim": rng.randint(1, 40)}
    if chance(rng, 0.4):
        kwargs["value_dim"] = rng.choice([None, 0, rng.randint(1, 40)])
    if chance(rng, 0.7):
        kwargs["projection_dim"] = rng.choice([None, 0, *(rng.randint(1, 50) for _ in range(4))])
    if chance(rng, 0.3):
        kwargs["use_bias"] = chance(rng, 0.3)
    if chance(rng, 0.3):
        kwargs["output_shape"] = rng.choice([None, rng.randint(1, 40), [rng.randint(1, 9), rng.randint(1, 9)]])
    if chance(rng, 0.2):
        kwargs["attention_axes"] = rng.choice([None, 1, [1]])
    if chance(rng, 0.2):
        kwargs["dropout"] = rng.choice([0.0, 0.3])
    if chance(rng, 0.1):
        kwargs |= {"kernel_initializer": "he_normal", "name": "attention"}
    return kwargs


SPOILERS = [
    lambda rng, kwargs: {"num_heads": rng.choice([-1, "2"])},
    lambda rng, kwargs: {"key_dim": rng.choice([-3, None])},
    lambda rng, kwargs: {"projection_dim": -2},
    lambda rng, kwargs: {"dropout": rng.choice([-0.1, 1.5])},
    lambda rng, kwargs: {"output_shape": rng.choice([-1, "wide"])},
    lambda rng, kwargs: {rng.choice(["dim", "heads", "k"]): 4},
]


def layer_calls(rng, kwargs, sizes):
    """Returns random calls. `sizes` contains the features of query, value and key, then the lengths of values and keys.
    A length of 0 allows any length."""
    queries, values, keys, value_length, key_length = sizes
    calls = []
    for _ in range(5):
        batch, n = case.batch_size(rng), rng.randint(1, rng.choice([60, 60, 300]))
        s = value_length or rng.randint(1, 60)
        inputs = {"query": case.floats(rng, batch, n, queries), "value": case.floats(rng, batch, s, values)}
        if keys != values or (key_length and key_length != value_length) or chance(rng, 0.3):
            inputs["key"] = case.floats(rng, batch, key_length or s, keys)
        if chance(rng, 0.4):
            rows = rng.choice([n, n, 1])  # one row for all queries, as in masks of padding
            inputs["attention_mask"] = case.mask(rng, batch, rows, kwargs.get("projection_dim") or s)
        calls.append(Call(inputs, attentions=chance(rng, 0.6)))
    return calls + strange_calls(rng, kwargs, sizes, calls[0].inputs)


def strange_calls(rng, kwargs, sizes, inputs):
    queries, values, keys, value_length, key_length = sizes
    kind, batch = rng.randrange(6), inputs["query"].shape[0]
    columns = kwargs.get("projection_dim") or inputs["value"].shape[1]
    if kind == 0:
        return [Call(inputs | {"query": case.floats(rng, batch, 3, queries + 1)}, note="queries of other features")]
    if kind == 1 and value_length > 1:
        return [Call(inputs | {"value": case.floats(rng, batch, value_length - 1, values)}, note="fewer values")]
    if kind == 2 and not value_length:
        more = case.floats(rng, batch, inputs["value"].shape[1] + 2, keys)
        return [Call(inputs | {"key": more}, note="more keys than values")]
    if kind == 3 and columns > 1:
        return [Call(inputs | {"attention_mask": case.mask(rng, batch, inputs["query"].shape[1], columns + 1)},
                     note="a mask of other columns")]
    if kind == 4 and value_length and keys == values and key_length == value_length:
        return [Call(case.without(inputs, "value", "key", "attention_mask"), note="without value")]
    return []


def layer(rng):
    kwargs, sound, spoiled = case.spoil(rng, random_kwargs(rng), SPOILERS, 0.2)
    features, length = rng.randint(1, 50), rng.randint(1, 70)
    sizes = [features, features, features, length, length]
    if chance(rng, 0.3):
        sizes[1:3] = [rng.randint(1, 50), rng.randint(1, 50)]
        sizes[4] = rng.randint(1, 70)
    if not sound.get("projection_dim"):
        sizes[3:5] = [0, 0]
    calls = layer_calls(rng, sound, sizes)
    shapes = {"query": (1, 3, sizes[0]), "value": (1, sizes[3] or 4, sizes[1]), "key": (1, sizes[4] or 4, sizes[2])}
    return LayerCase(ARCHITECTURE, kwargs, calls, sound, spoiled, {}, rng.getrandbits(32), shapes)


def embedding(rng):
    kwargs, sound, spoiled = case.spoil(rng, case.without(random_kwargs(rng), "output_shape"), SPOILERS, 0.2)
    shapes = length, vocabulary, _ = rng.randint(1, 60), rng.randint(1, 500), rng.randint(1, 40)
    calls = [Call({"query": case.ids(rng, vocabulary, case.batch_size(rng), length)}) for _ in range(4)]
    return EmbeddingCase(ARCHITECTURE, kwargs, calls, sound, spoiled, {}, rng.getrandbits(32), shapes)


GENERATORS = [layer, embedding, layer]
