"""tatp22's linformer-pytorch: LinformerLM, Linformer, MHAttention, LinformerEncDec. If the padding in config.json is
"zero" or "masked", models are called through the library's Padder. With "masked", the rows that Padder appends are
masked."""

import dataclasses

import linformer_pytorch
import numpy as np
import torch
from linformer_pytorch import Padder
from linformer_pytorch.linformer_pytorch import LinearAttentionHead, MHAttention, gen_causal_mask, get_EF

import case
from case import Call, chance
from torch_case import TorchCase, Watched

PACKAGE = "linformer_pytorch"
SIDES = ("enc_", "dec_")  # prefixes of LinformerEncDec's arguments
LATE_MASKS = ("input_mask", "embeddings_mask")


class Softmaxes:
    """Collects the attention P-bar (batch, heads, n, k) of each MHAttention within a with block, in the order of
    execution."""

    def __init__(self, model, rows, attentions):
        heads = []

        def finish(_):
            attentions.append(torch.stack(heads, 1)[:, :, :rows])
            heads.clear()

        modules = list(model.modules())
        self.watched = [Watched([m.dropout for m in modules if isinstance(m, LinearAttentionHead)], heads.append),
                        Watched([m for m in modules if isinstance(m, MHAttention)], finish)]

    def __enter__(self):
        for watched in self.watched:
            watched.__enter__()

    def __exit__(self, *_):
        for watched in self.watched:
            watched.__exit__()


@dataclasses.dataclass
class PytorchCase(TorchCase):
    padding: str = "exact"

    def build(self, kwargs):
        return getattr(linformer_pytorch, self.architecture.split(".")[-1])(**kwargs)

    def exported(self, model):
        return (Padder(model) if self.padding == "zero" and "padding" not in self.settings else model), self.kwargs

    def forward(self, model, inputs, attentions):
        inputs = dict(inputs)
        first = next(iter(inputs))
        tensor = inputs.pop(first)
        rows = tensor.shape[1]
        with Softmaxes(model, rows, attentions):
            if self.padding == "exact":
                return model(tensor, **inputs)
            missing = model.input_size - rows
            if missing > 0:
                if self.padding == "masked":
                    inputs.setdefault("input_mask", torch.ones(tensor.shape[:2], dtype=torch.bool))
                for name in LATE_MASKS:
                    if name in inputs:
                        kept = name == "embeddings_mask" or self.padding == "zero"
                        inputs[name] = torch.nn.functional.pad(inputs[name], (0, missing), value=kept)
            return Padder(model)(tensor, **inputs)

    def names(self, argument, message):
        side, inner = argument[:4], argument[4:]
        return argument in message or (side in SIDES and f"{side}*" in message and inner in message)

    def sides(self):
        if not self.architecture.endswith("EncDec"):
            return [self.kwargs]
        return [{name[4:]: value for name, value in self.kwargs.items() if name.startswith(side)} for side in SIDES]

    def deviation(self, call):
        for kwargs in self.sides():
            if kwargs.get("full_attention") and kwargs.get("method") == "convolution":
                return "a convolution of width 0, which full_attention does not run"
        return super().deviation(call)


@dataclasses.dataclass
class AttentionCase(PytorchCase):
    """MHAttention. Its arguments E_proj, F_proj and causal_mask are modules and tensors, not JSON."""

    def build(self, kwargs):
        size, dim_k, method = kwargs["input_size"], kwargs["dim_k"], kwargs.get("method", "learnable")
        e = f = causal = None
        if kwargs.get("parameter_sharing") == "layerwise":
            e = get_EF(size, dim_k, method, kwargs["dim"])
            f = e if self.seed % 2 else get_EF(size, dim_k, method, kwargs["dim"])
        if kwargs.get("causal_mask"):
            causal = gen_causal_mask(size, dim_k, kwargs["full_attention"])
        self.objects = {"causal_mask": causal, "E_proj": e, "F_proj": f}
        return MHAttention(**kwargs | self.objects)

    def exported(self, model):
        return model, self.kwargs | self.objects


# ---- Arguments


def layer_kwargs(rng, size):
    """Returns arguments that Linformer, LinformerLM and both sides of LinformerEncDec have in common, without the sizes
    of the whole model."""
    heads = rng.choice([1, 2, 3, 4])
    kwargs = {"channels": heads * rng.choice([2, 4]) * rng.randint(1, 12), "dim_k": rng.randint(1, size + 2),
              "dim_ff": rng.randint(1, 100), "nhead": heads, "depth": rng.choice([0, 1, 1, 1, 2, 2, 3])}
    if chance(rng, 0.7):
        kwargs["parameter_sharing"] = rng.choice(["none", "headwise", "kv", "layerwise"])
    layerwise = kwargs.get("parameter_sharing", "layerwise") == "layerwise"
    if chance(rng, 0.4):
        kwargs["dim_d"] = rng.choice([None, rng.randint(1, 40)])
    if kwargs.get("dim_d") and chance(rng, 0.3):
        kwargs["channels"] += 2
    if chance(rng, 0.3):
        kwargs["w_o_intermediate_dim"] = rng.choice([None, rng.randint(1, 50)])
    if chance(rng, 0.3):
        kwargs["include_ff"] = chance(rng, 0.4)
    if chance(rng, 0.3):
        kwargs["full_attention"] = chance(rng, 0.8)
    if not layerwise and chance(rng, 0.3):
        kwargs["ff_intermediate"] = rng.choice([None, kwargs["channels"], rng.randint(1, 60)])
    if chance(rng, 0.2):
        kwargs["k_reduce_by_layer"] = rng.choice([0, rng.randint(1, 10), -rng.randint(1, 5)])
    kind = rng.random()
    if kind < 0.3:
        kwargs["method"] = "convolution"
        kwargs["dim_k"] = min(kwargs["dim_k"], size)
    elif kind < 0.5:
        kwargs["method"] = rng.choice(["learnable", "no_params"])
    return kwargs


def activation(rng):
    return {"activation": rng.choice(["gelu", "relu"])} if chance(rng, 0.5) else {}


def linformer_kwargs(rng):
    size = rng.randint(1, 160)
    kwargs = {"input_size": size} | layer_kwargs(rng, size) | activation(rng)
    if chance(rng, 0.3) and not kwargs.get("ff_intermediate"):
        kwargs["decoder_mode"] = True
    elif chance(rng, 0.2):
        kwargs["checkpoint_level"] = rng.choice(["C0", "C1", "C2"])
    if chance(rng, 0.35):
        kwargs["causal"] = True
    for name in ("dropout_ff", "dropout"):
        if chance(rng, 0.1):
            kwargs[name] = rng.choice([0.0, 0.3])
    return kwargs


SPOILERS = [
    lambda rng, kwargs: {"channels": kwargs["channels"] * kwargs["nhead"] + 1, "nhead": kwargs["nhead"] + 1,
                         "dim_d": None},
    lambda rng, kwargs: {"nhead": rng.choice([0, -1])},
    lambda rng, kwargs: {"activation": rng.choice(["tanh", None])},
    lambda rng, kwargs: {"checkpoint_level": rng.choice(["C3", None])},
    lambda rng, kwargs: {"parameter_sharing": rng.choice(["all", "Layerwise"])},
    lambda rng, kwargs: {"method": rng.choice(["conv", "none"])},
    lambda rng, kwargs: {"ff_intermediate": 24, "parameter_sharing": "layerwise"},
    lambda rng, kwargs: {"ff_intermediate": 24, "decoder_mode": True, "parameter_sharing": "kv"},
    lambda rng, kwargs: {"ff_intermediate": 24, "include_ff": False, "depth": 2, "parameter_sharing": "kv"},
    lambda rng, kwargs: {"decoder_mode": True, "checkpoint_level": "C1", "ff_intermediate": None},
    lambda rng, kwargs: {"k_reduce_by_layer": 2, "causal": True, "depth": 3, "parameter_sharing": "none"},
    lambda rng, kwargs: {"method": "convolution", "dim_k": kwargs["input_size"] + 3},
    lambda rng, kwargs: {"method": "convolution", "causal": True, "dim_k": kwargs["input_size"] // 2 + 1},
    lambda rng, kwargs: {"dim_k": rng.choice([0, -1])},
    lambda rng, kwargs: {"dim_d": rng.choice([0, -4])},
    lambda rng, kwargs: {"input_size": rng.choice([0, -4])},
    lambda rng, kwargs: {"dropout": 1.2},
    lambda rng, kwargs: {"depth": rng.choice(["1", -1])},
    lambda rng, kwargs: {rng.choice(["seq_len", "heads", "share_kv", "dim"]): 4},
]
LM_SPOILERS = SPOILERS + [
    lambda rng, kwargs: {"emb_dim": 2 * rng.randint(0, 9) + 1},
    lambda rng, kwargs: {"channels": 9, "nhead": 3, "emb_dim": None, "dim_d": None},
    lambda rng, kwargs: {"num_tokens": 0},
]
ATTENTION_SPOILERS = [
    lambda rng, kwargs: {"nhead": rng.choice([0, -1])},
    lambda rng, kwargs: {"method": "conv"},
    lambda rng, kwargs: {"dim": rng.choice([0, -1])},
    lambda rng, kwargs: {"dropout": -0.2},
    lambda rng, kwargs: {"causal_mask": True, "method": "convolution", "dim_k": kwargs["input_size"] // 2 + 1},
    lambda rng, kwargs: {"decoder_mode": True, "checkpoint_level": "C2"},
    lambda rng, kwargs: {"head": 3},
]


# ---- Calls


def mask_inputs(rng, batch, length, probability=0.4):
    return {name: case.mask(rng, batch, length) for name in LATE_MASKS if chance(rng, probability)}


def calls_of(rng, kwargs, padding, make_x, embeddings_width):
    """Returns random calls of Linformer or LinformerLM."""
    size, calls = kwargs["input_size"], []
    decodes, checkpointed = kwargs.get("decoder_mode"), kwargs.get("checkpoint_level", "C0") != "C0"
    lengths = [size] * 3 if padding == "exact" else case.lengths(rng, size, 4)
    for length in lengths:
        batch = case.batch_size(rng)
        inputs = {"tensor": make_x(batch, length)}
        if decodes:
            inputs["embeddings"] = case.floats(rng, batch, length, embeddings_width)
        if not checkpointed:
            inputs |= mask_inputs(rng, batch, length)
        calls.append(Call(inputs, attentions=chance(rng, 0.5)))
    embeddings = {"embeddings": case.floats(rng, 1, size, embeddings_width)}
    if chance(rng, 0.3):
        calls.append(Call({"tensor": make_x(1, size + 1)} | (embeddings if decodes else {}),
                          note="longer than input_size"))
    if chance(rng, 0.3):
        calls.append(Call({"tensor": make_x(1, size)} | ({} if decodes else embeddings),
                          note="without embeddings" if decodes else "with embeddings"))
    if checkpointed:
        calls.append(Call({"tensor": make_x(1, size), "input_mask": case.mask(rng, 1, size)}, note="a mask"))
    if decodes and chance(rng, 0.3):
        calls.append(Call({"tensor": make_x(1, size), "embeddings": case.floats(rng, 1, size, embeddings_width + 1)},
                          note="embeddings of other features"))
    return calls


def padding_of(rng, kwargs):
    """Returns the other keys of config.json, and the kind of padding that results from them."""
    if kwargs.get("decoder_mode"):
        return rng.choice([({}, "exact"), ({"padding": "exact"}, "exact")])
    padding = rng.choice(["zero", "zero", "masked", "exact"])
    if padding == "masked" and kwargs.get("checkpoint_level", "C0") != "C0":
        padding = "zero"
    return ({} if padding == "zero" and chance(rng, 0.7) else {"padding": padding}), padding


def linformer(rng):
    kwargs, sound, spoiled = case.spoil(rng, linformer_kwargs(rng), SPOILERS)
    settings, padding = padding_of(rng, kwargs)
    calls = calls_of(rng, sound | {"decoder_mode": kwargs.get("decoder_mode")}, padding,
                     lambda b, n: case.floats(rng, b, n, kwargs["channels"]), kwargs["channels"])
    return PytorchCase(f"{PACKAGE}.Linformer", kwargs, calls, sound, spoiled, settings, rng.getrandbits(32), padding)


def language_model(rng):
    kwargs = linformer_kwargs(rng) | {"num_tokens": rng.randint(1, 1200)}
    kwargs["channels"] += kwargs["channels"] % 2 * kwargs["nhead"]
    kwargs["channels"] += kwargs["channels"] % 2
    if not kwargs.get("dim_d"):
        kwargs["channels"] = 2 * kwargs["nhead"] * rng.randint(1, 20)
    for name, probability in (("depth", 0.1), ("dim_ff", 0.1)):
        if chance(rng, probability):
            del kwargs[name]
    if chance(rng, 0.4):
        kwargs["emb_dim"] = rng.choice([None, 2 * rng.randint(1, 40)])
    if chance(rng, 0.3):
        kwargs["return_emb"] = chance(rng, 0.8)
    if chance(rng, 0.1):
        kwargs["dropout_tokens"] = 0.2
    kwargs, sound, spoiled = case.spoil(rng, kwargs, LM_SPOILERS)
    settings, padding = padding_of(rng, kwargs)
    calls = calls_of(rng, sound | {"decoder_mode": kwargs.get("decoder_mode")}, padding,
                     lambda b, n: case.ids(rng, sound["num_tokens"], b, n), kwargs["channels"])
    if chance(rng, 0.2):
        beyond = np.full((1, sound["input_size"]), sound["num_tokens"])
        calls.append(Call({"tensor": beyond}, note="ids beyond the vocabulary"))
    return PytorchCase(f"{PACKAGE}.LinformerLM", kwargs, calls, sound, spoiled, settings, rng.getrandbits(32), padding)


def attention(rng):
    size = rng.randint(1, 120)
    layer = layer_kwargs(rng, size)
    kwargs = {"input_size": size, "dim": rng.randint(1, 40), "channels": layer["channels"], "dim_k": layer["dim_k"],
              "nhead": layer["nhead"], "dropout": rng.choice([0.0, 0.1]),
              "checkpoint_level": rng.choice(["C0", "C0", "C1", "C2"]),
              "parameter_sharing": layer.get("parameter_sharing", "layerwise"), "full_attention": chance(rng, 0.2),
              "causal_mask": rng.choice([None, None, True])}
    kwargs |= {name: layer[name] for name in ("w_o_intermediate_dim", "method") if name in layer}
    if chance(rng, 0.4):
        kwargs["decoder_mode"] = True
    kwargs, sound, spoiled = case.spoil(rng, kwargs, ATTENTION_SPOILERS)
    calls = []
    for _ in range(4):
        batch = case.batch_size(rng)
        inputs = {"tensor": case.floats(rng, batch, size, kwargs["channels"])} | mask_inputs(rng, batch, size)
        if kwargs.get("decoder_mode") or chance(rng, 0.1):
            inputs["embeddings"] = case.floats(rng, batch, size, kwargs["channels"])
        calls.append(Call(inputs, attentions=chance(rng, 0.5)))
    if chance(rng, 0.3):
        calls.append(Call({"tensor": case.floats(rng, 1, size, kwargs["channels"])}, note="without embeddings"))
    return AttentionCase(f"{PACKAGE}.MHAttention", kwargs, calls, sound, spoiled, {}, rng.getrandbits(32))


def side_kwargs(rng, size):
    kwargs = {"input_size": size, "num_tokens": rng.randint(1, 700)} | layer_kwargs(rng, size)
    kwargs["depth"] = max(1, kwargs["depth"])
    if not kwargs.get("dim_d"):
        kwargs["channels"] = 2 * kwargs["nhead"] * rng.randint(1, 12)
    kwargs["channels"] += kwargs["channels"] % 2
    if chance(rng, 0.3):
        kwargs["emb_dim"] = 2 * rng.randint(1, 30)
    return kwargs


ENC_DEC_SPOILERS = [
    lambda rng, kwargs: {"dec_channels": kwargs["dec_channels"] + 2 * kwargs.get("dec_nhead", 4)},
    lambda rng, kwargs: {"dec_input_size": kwargs["dec_input_size"] + 1},
    lambda rng, kwargs: {"enc_nhead": 0},
    lambda rng, kwargs: {"dec_ff_intermediate": 8, "dec_parameter_sharing": "kv"},
    lambda rng, kwargs: {"checkpoint_level": rng.choice(["C1", "C2", "C9"])},
    lambda rng, kwargs: {"activation": "silu"},
    lambda rng, kwargs: {"dec_k_reduce_by_layer": 1, "dec_depth": 2, "dec_parameter_sharing": "kv"},
    lambda rng, kwargs: {rng.choice(["causal", "enc_causal", "num_tokens", "dec_return_emb"]): True},
]


def encoder_decoder(rng):
    size = rng.randint(1, 100)
    enc = side_kwargs(rng, size)
    dec = case.without(side_kwargs(rng, size), "ff_intermediate", "k_reduce_by_layer")
    enc["emb_dim"] = dec["channels"]
    kwargs = {f"enc_{name}": value for name, value in enc.items()}
    kwargs |= {f"dec_{name}": value for name, value in dec.items()}
    kwargs, sound, spoiled = case.spoil(rng, kwargs | activation(rng), ENC_DEC_SPOILERS)
    calls = []
    for _ in range(4):
        batch = case.batch_size(rng)
        inputs = {"x": case.ids(rng, min(enc["num_tokens"], dec["num_tokens"]), batch, size)}
        if chance(rng, 0.7):
            inputs["y"] = case.ids(rng, dec["num_tokens"], batch, size)
        calls.append(Call(inputs | mask_inputs(rng, batch, size), attentions=chance(rng, 0.5)))
    if chance(rng, 0.3):
        calls.append(Call({"x": case.ids(rng, enc["num_tokens"], 1, size + 1)}, note="longer than enc_input_size"))
    return PytorchCase(f"{PACKAGE}.LinformerEncDec", kwargs, calls, sound, spoiled, {}, rng.getrandbits(32))


GENERATORS = [linformer, language_model, attention, linformer, language_model, encoder_decoder]
