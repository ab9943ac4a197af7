"""kuixu's LinearMultiheadAttention. The class is not on PyPI. The environment variable KUIXU_PY is the path of
linear_multihead_attention.py of https://github.com/kuixu/Linear-Multihead-Attention."""

import dataclasses
import importlib.util
import os
import sys

import numpy as np

import case
from case import Call, chance
from torch_case import TorchCase


def load_class():
    spec = importlib.util.spec_from_file_location("linear_multihead_attention", os.environ["KUIXU_PY"])
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LinearMultiheadAttention


LinearMultiheadAttention = load_class()


@dataclasses.dataclass
class MultiheadCase(TorchCase):
    def build(self, kwargs):
        return LinearMultiheadAttention(**kwargs)

    def forward(self, model, inputs, attentions):
        return dict(zip(("attn_output", "attn_output_weights"), model(**inputs)))

    def call(self, model, call):
        outputs = super().call(model, call)
        return outputs if call.attentions else {"attn_output": outputs["attn_output"]}

    def leniency(self, call):
        length, batch, _ = call.inputs["key"].shape
        if length == 1 or (self.kwargs["embed_dim"] == 1 and batch == 1):
            return "keys of one row, or one feature in a batch of one: linear() does not take the class's biases"
        return None

    def deviation(self, call):
        if call.note == BATCHES:
            return "queries of another batch than the keys, which only the layout of the memory makes possible"
        return super().deviation(call)


BATCHES = "another batch of queries than of keys"


def random_kwargs(rng):
    heads = rng.choice([1, 2, 3, 4, 8])
    kwargs = {"embed_dim": heads * rng.randint(1, 16), "num_heads": heads, "seq_len": rng.randint(1, 120)}
    if chance(rng, 0.4):
        kwargs["proj_k"] = kwargs["seq_len"]  # masks are possible only with this value
    elif chance(rng, 0.8):
        kwargs["proj_k"] = rng.randint(1, 130)
    for name in ("kdim", "vdim"):
        if chance(rng, 0.25):
            kwargs[name] = rng.choice([None, rng.randint(1, 70), kwargs["embed_dim"]])
    if chance(rng, 0.3):
        kwargs["bias"] = chance(rng, 0.3)
    for name in ("add_bias_kv", "add_zero_attn"):
        if chance(rng, 0.25):
            kwargs[name] = chance(rng, 0.8)
    if kwargs.get("add_bias_kv"):
        kwargs["seq_len"] = max(2, kwargs["seq_len"])
    if chance(rng, 0.4):
        kwargs["param_sharing"] = rng.choice(["none", "layerwise", "headwise"])
    if chance(rng, 0.2):
        kwargs["dropout"] = rng.choice([0.0, 0.5])
    return kwargs


SPOILERS = [
    lambda rng, kwargs: {"num_heads": kwargs["embed_dim"] + 1},
    lambda rng, kwargs: {"num_heads": rng.choice([0, -1])},
    lambda rng, kwargs: {"embed_dim": kwargs["embed_dim"] * kwargs["num_heads"] + 1,
                         "num_heads": kwargs["num_heads"] + 1},
    lambda rng, kwargs: {"seq_len": rng.choice([0, -1])},
    lambda rng, kwargs: {"proj_k": rng.choice([0, -1])},
    lambda rng, kwargs: {"kdim": rng.choice([0, -2])},
    lambda rng, kwargs: {"dropout": rng.choice([-0.1, 1.1])},
    lambda rng, kwargs: {"seq_len": 1, "add_bias_kv": True},
    lambda rng, kwargs: {rng.choice(["head_dim", "dim_k", "batch_first"]): 1},
]


def inputs_of(rng, kwargs):
    """Returns inputs for self-attention, for attention whose keys are its values, or for attention with three different
    tensors."""
    queries, batch = rng.randint(1, rng.choice([60, 60, 300])), case.batch_size(rng)
    keys = kwargs["seq_len"] - bool(kwargs.get("add_bias_kv"))
    dim = kwargs["embed_dim"]
    kdim, vdim = kwargs.get("kdim") or dim, kwargs.get("vdim") or dim
    key = case.floats(rng, keys, batch, kdim)
    value = key if kdim == vdim and chance(rng, 0.5) else case.floats(rng, keys, batch, vdim)
    query = key if kdim == dim and value is key and chance(rng, 0.5) else case.floats(rng, queries, batch, dim)
    return {"query": query, "key": key, "value": value}


def attn_mask(rng, kwargs, inputs):
    queries, batch, _ = inputs["query"].shape
    shape = (queries, inputs["key"].shape[0])
    if chance(rng, 0.5):
        shape = (batch * kwargs["num_heads"], *shape)
    if chance(rng, 0.5):
        return case.floats(rng, *shape) * np.float32(rng.choice([1, 10]))
    mask = case.mask(rng, *shape)
    if chance(rng, 0.8):
        mask[..., rng.randrange(shape[-1])] = False  # the softmax of a completely masked row is not defined
    return mask


def multihead_attention(rng):
    kwargs, sound, spoiled = case.spoil(rng, random_kwargs(rng), SPOILERS)
    calls = []
    masks = 0.7 if sound.get("proj_k", 128) == sound["seq_len"] else 0.1
    for _ in range(5):
        inputs = inputs_of(rng, sound)
        if chance(rng, masks):
            inputs["attn_mask"] = attn_mask(rng, sound, inputs)
        if chance(rng, 0.2):
            inputs["key_padding_mask"] = case.mask(rng, inputs["key"].shape[1], inputs["key"].shape[0])
        calls.append(Call(inputs, attentions=chance(rng, 0.6)))
    calls += strange_calls(rng, sound)
    return MultiheadCase("linear_multihead_attention.LinearMultiheadAttention", kwargs, calls, sound, spoiled,
                         seed=rng.getrandbits(32))


def strange_calls(rng, kwargs):
    inputs, kind = inputs_of(rng, kwargs), rng.randrange(8)
    keys, batch, _ = inputs["key"].shape
    if kind == 0:
        longer = {name: np.concatenate([inputs[name], inputs[name][:1]]) for name in ("key", "value")}
        return [Call(inputs | longer, note="keys longer than seq_len")]
    if kind == 1 and keys > 1:
        return [Call(inputs | {"value": inputs["value"][1:]}, note="fewer values than keys")]
    if kind == 2:
        wider = case.floats(rng, 2, batch, kwargs["embed_dim"] + 1)
        return [Call(inputs | {"query": wider}, note="queries of other features")]
    if kind == 3:
        wider = case.mask(rng, inputs["query"].shape[0], keys + 1)
        return [Call(inputs | {"attn_mask": wider}, note="a mask of other columns")]
    if kind == 4:
        return [Call(inputs | {"query": case.floats(rng, 3, 2 * batch, kwargs["embed_dim"])}, note=BATCHES)]
    return []


GENERATORS = [multihead_attention, multihead_attention]
