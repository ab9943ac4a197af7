"""lucidrains' linformer: LinformerLM, Linformer, LinformerSelfAttention."""

import dataclasses

import linformer
import numpy as np

import case
from case import Call, chance
from torch_case import TorchCase, Watched


@dataclasses.dataclass
class LinformerCase(TorchCase):
    def build(self, kwargs):
        return getattr(linformer, self.architecture.split(".")[-1])(**kwargs)

    def forward(self, model, inputs, attentions):
        softmaxes = [m.dropout for m in model.modules() if isinstance(m, linformer.LinformerSelfAttention)]
        with Watched(softmaxes, attentions.append):
            return model(**inputs)


def attention_kwargs(rng):
    heads = rng.choice([1, 2, 3, 4, 8])
    kwargs = {"dim": heads * rng.randint(1, 40), "seq_len": rng.randint(1, 300)}
    if heads != 8 or chance(rng, 0.5):
        kwargs["heads"] = heads
    if chance(rng, 0.9):
        kwargs["k"] = rng.randint(1, 130)
    for name in ("one_kv_head", "share_kv"):
        if chance(rng, 0.6):
            kwargs[name] = chance(rng, 0.7)
    if chance(rng, 0.5):
        kwargs["dim_head"] = rng.choice([None, rng.randint(1, 70)])
    if chance(rng, 0.2):
        kwargs["dropout"] = rng.choice([0, 0.1, 1, 0.5])
    return kwargs


def stack_kwargs(rng):
    kwargs = attention_kwargs(rng) | {"depth": rng.choice([0, 1, 1, 2, 2, 3, 4])}
    if chance(rng, 0.6):
        kwargs["reversible"] = chance(rng, 0.7)
    return kwargs


SPOILERS = [
    lambda rng, kwargs: {"heads": kwargs["dim"] + 1},
    lambda rng, kwargs: {"heads": rng.choice([0, -1, kwargs["dim"] * 2])},
    lambda rng, kwargs: {"dim": kwargs["dim"] * kwargs.get("heads", 8) + 1, "heads": kwargs.get("heads", 8) + 1},
    lambda rng, kwargs: {"k": rng.choice([0, -3])},
    lambda rng, kwargs: {"dim_head": rng.choice([0, -2])},
    lambda rng, kwargs: {"seq_len": rng.choice([-1, 0])},
    lambda rng, kwargs: {"dim": rng.choice([0, -8, str(kwargs["dim"]), None])},
    lambda rng, kwargs: {"dropout": rng.choice([-0.1, 1.5])},
    lambda rng, kwargs: {rng.choice(["max_seq_len", "causal", "dim_k", "sharekv"]): 4},
]
STACK_SPOILERS = SPOILERS + [lambda rng, kwargs: {"depth": rng.choice(["2", None, 1.5, -1])}]


def length_calls(rng, most, make_input):
    calls = [Call({"x": make_input(case.batch_size(rng), n)}, attentions=chance(rng, 0.5))
             for n in case.lengths(rng, most, 4)]
    if chance(rng, 0.3):
        calls.append(Call({"x": make_input(1, most + rng.randint(1, 9))}, note="longer than seq_len"))
    return calls


def self_attention(rng):
    kwargs, sound, spoiled = case.spoil(rng, attention_kwargs(rng), SPOILERS)
    dim, most = sound["dim"], sound["seq_len"]
    calls = length_calls(rng, most, lambda b, n: case.floats(rng, b, n, dim))
    for n in case.lengths(rng, most, 3):
        b = case.batch_size(rng)
        x, context = case.floats(rng, b, rng.randint(1, 2 * most), dim), case.floats(rng, b, n, dim)
        calls.append(Call({"x": x, "context": context}, attentions=chance(rng, 0.5)))
    if chance(rng, 0.3):
        calls.append(Call({"x": case.floats(rng, 1, 3, dim), "context": case.floats(rng, 1, most + 1, dim)},
                          note="context longer than seq_len"))
    if chance(rng, 0.2):
        calls.append(Call({"x": case.floats(rng, 1, 1, dim + 1)}, note="other features than dim"))
    return LinformerCase("linformer.LinformerSelfAttention", kwargs, calls, sound, spoiled, seed=rng.getrandbits(32))


def stack(rng):
    kwargs, sound, spoiled = case.spoil(rng, stack_kwargs(rng), STACK_SPOILERS)
    calls = length_calls(rng, sound["seq_len"], lambda b, n: case.floats(rng, b, n, sound["dim"]))
    return LinformerCase("linformer.Linformer", kwargs, calls, sound, spoiled, seed=rng.getrandbits(32))


def language_model(rng):
    kwargs = stack_kwargs(rng) | {"num_tokens": rng.randint(1, 1500)}
    kwargs, sound, spoiled = case.spoil(rng, kwargs, STACK_SPOILERS)
    vocabulary = sound["num_tokens"]
    calls = length_calls(rng, sound["seq_len"], lambda b, n: case.ids(rng, vocabulary, b, n))
    if chance(rng, 0.3):
        calls.append(Call({"x": np.array([[0, vocabulary]])}, note="an id beyond the vocabulary"))
    return LinformerCase("linformer.LinformerLM", kwargs, calls, sound, spoiled, seed=rng.getrandbits(32))


GENERATORS = [self_attention, stack, language_model]
