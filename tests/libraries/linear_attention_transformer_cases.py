"""lucidrains' linear-attention-transformer: LinearAttentionTransformerLM, LinearAttentionTransformer, the
encoder/decoder pair of its README, and ImageLinearAttention. If config.json's padding is autopad, models are called
through the library's Autopadder."""

import dataclasses

import linformer
import numpy as np
import torch
from linear_attention_transformer import ImageLinearAttention, LinearAttentionTransformer, LinearAttentionTransformerLM
from linear_attention_transformer.autopadder import Autopadder
from linear_attention_transformer.linear_attention_transformer import LinformerContextSettings, LinformerSettings

import case
from case import Call, chance
from torch_case import TorchCase, Watched

LONG_MASK = "a mask longer than x"
PACKAGE = "linear_attention_transformer"
CLASSES = {"LinearAttentionTransformer": LinearAttentionTransformer,
           "LinearAttentionTransformerLM": LinearAttentionTransformerLM}


def in_python(kwargs):
    """Converts config.json's lists and objects to tuples and named tuples."""
    kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in kwargs.items()}
    for name, settings in (("linformer_settings", LinformerSettings),
                           ("context_linformer_settings", LinformerContextSettings)):
        if isinstance(kwargs.get(name), dict):
            kwargs[name] = settings(**kwargs[name])
    return kwargs


def linformer_softmaxes(model):
    return [m.dropout for m in model.modules() if isinstance(m, linformer.LinformerSelfAttention)]


@dataclasses.dataclass
class TransformerCase(TorchCase):
    autopad: bool = True

    def build(self, kwargs):
        return CLASSES[self.architecture.split(".")[-1]](**in_python(kwargs))

    def forward(self, model, inputs, attentions):
        rows = inputs["x"].shape[1]
        with Watched(linformer_softmaxes(model), lambda p: attentions.append(p[:, :, :rows])):
            return (Autopadder(model) if self.autopad else model)(**inputs)

    def variants(self, model, call):
        """Returns variants for models with a product-key memory. The memory uses the 32 best keys. If other keys are
        nearly as good as the 32nd key, a rounding error may choose another key."""
        return super().variants(model, call) if self.kwargs.get("pkm_layers") else ()

    def exported(self, model):
        if self.autopad and "padding" not in self.settings:
            model = Autopadder(model)
        return model, in_python(self.kwargs)

    def deviation(self, call):
        if self.kwargs.get("local_attn_window_size", 1) < 1:
            return "a window size below 1, where no layer has windows"
        if call.note == LONG_MASK and self.kwargs.get("linformer_settings"):
            return "a mask of another length than its sequence, where no layer reads it"
        if "context" not in call.inputs and self.kwargs.get("context_linformer_settings"):
            return "no context for layers with context_linformer_settings, which then read x"
        return super().deviation(call)


class Pair(torch.nn.Module):
    def __init__(self, enc, dec):
        super().__init__()
        self.enc = LinearAttentionTransformerLM(**in_python(enc))
        self.dec = LinearAttentionTransformerLM(**in_python(dec))


@dataclasses.dataclass
class PairCase(TorchCase):
    autopad: bool = True

    def build(self, kwargs):
        return Pair(**kwargs)

    def variants(self, model, call):
        """Returns variants for models with a product-key memory, as in TransformerCase."""
        has_memory = any(kwargs.get("pkm_layers") for kwargs in self.kwargs.values())
        return super().variants(model, call) if has_memory else ()

    def exported(self, model):
        return (model.enc, model.dec), {side: in_python(kwargs) for side, kwargs in self.kwargs.items()}

    def forward(self, model, inputs, attentions):
        enc, dec = (Autopadder(model.enc), Autopadder(model.dec)) if self.autopad else (model.enc, model.dec)
        src_mask, tgt_mask = inputs.get("src_mask"), inputs.get("tgt_mask")
        with Watched(linformer_softmaxes(model.enc), lambda p: attentions.append(p[:, :, :inputs["src"].shape[1]])):
            context = enc(inputs["src"], **({} if src_mask is None else {"input_mask": src_mask}))
        routed = {} if tgt_mask is None else {"input_mask": tgt_mask}
        if self.kwargs["dec"].get("receives_context"):
            routed |= {"context": context} | ({} if src_mask is None else {"context_mask": src_mask})
        with Watched(linformer_softmaxes(model.dec), lambda p: attentions.append(p[:, :, :inputs["tgt"].shape[1]])):
            return dec(inputs["tgt"], **routed)

    def sides(self):
        return [kwargs for kwargs in self.kwargs.values() if isinstance(kwargs, dict)]


# ---- Arguments


def sizes(rng):
    """Returns random values of the arguments that depend on each other."""
    heads, window = rng.choice([1, 2, 3, 4, 6]), rng.randint(1, 24)
    kwargs = {"dim": heads * rng.randint(3, 20), "depth": rng.choice([0, 1, 1, 1, 2, 2, 3]), "heads": heads,
              "local_attn_window_size": window, "max_seq_len": window * rng.randint(1, 8)}
    if chance(rng, 0.4):
        kwargs["dim_head"] = rng.choice([None, 2 * rng.randint(1, 20), rng.randint(1, 40)])
    if kwargs.get("dim_head") and chance(rng, 0.3):
        kwargs["dim"] += 1  # with dim_head, dim need not be a multiple of heads
    if chance(rng, 0.5):
        layers = [rng.randint(0, heads) for _ in range(kwargs["depth"])]
        kwargs["n_local_attn_heads"] = layers if chance(rng, 0.5) else rng.randint(0, heads)
    elif chance(rng, 0.5):
        kwargs["max_seq_len"] = rng.randint(1, 200)
    return kwargs


def attention(rng, kwargs):
    if chance(rng, 0.3):
        kwargs["linformer_settings"] = {"k": rng.randint(1, 70)}
        kwargs["dim"] -= kwargs["dim"] % kwargs["heads"]
    elif chance(rng, 0.5):
        kwargs["causal"] = True
    if chance(rng, 0.4):
        kwargs["blindspot_size"] = rng.choice([0, 1, 2, 3, 4, 8, kwargs["local_attn_window_size"]])
    if chance(rng, 0.25):
        kwargs["attend_axially"] = True
        kwargs["dim"] -= kwargs["dim"] % kwargs["heads"]


def rest(rng, kwargs):
    for name, probability in (("reversible", 0.3), ("ff_glu", 0.4), ("shift_tokens", 0.3)):
        if chance(rng, probability + 0.2):
            kwargs[name] = chance(rng, 0.7)
    if chance(rng, 0.2):
        kwargs["ff_chunks"] = rng.randint(1, 4)
    if chance(rng, 0.12):
        kwargs["pkm_layers"] = rng.choice([[1], 1, [kwargs["depth"]], [], [9]])
        kwargs["pkm_num_keys"] = rng.choice([64, 128])
    for name in ("ff_dropout", "attn_layer_dropout", "attn_dropout"):
        if chance(rng, 0.1):
            kwargs[name] = rng.choice([0.0, 0.1, 1])


def context(rng, kwargs):
    kwargs["receives_context"] = True
    if chance(rng, 0.5):
        kwargs["context_linformer_settings"] = {"seq_len": rng.randint(1, 90), "k": rng.randint(1, 50)}
        kwargs["dim"] -= kwargs["dim"] % kwargs["heads"]


def transformer_kwargs(rng):
    kwargs = sizes(rng)
    attention(rng, kwargs)
    rest(rng, kwargs)
    if chance(rng, 0.35):
        context(rng, kwargs)
    if chance(rng, 0.1):
        kwargs["bucket_size"] = 32
    return kwargs


def language_model_kwargs(rng, with_context=0.3):
    kwargs = sizes(rng)
    attention(rng, kwargs)
    rest(rng, kwargs)
    if chance(rng, with_context):
        context(rng, kwargs)
    if chance(rng, 0.6):
        kwargs["use_axial_pos_emb"] = chance(rng, 0.5)
    if chance(rng, 0.3) and not kwargs.get("attend_axially"):
        kwargs["use_rotary_emb"] = True
        kwargs["dim"] += kwargs["dim"] % 2 * kwargs["heads"]
        kwargs["dim"] += kwargs["dim"] % 2 * kwargs["heads"]
        kwargs["dim_head"] = 2 * rng.randint(1, 20)
    if chance(rng, 0.3):
        kwargs["emb_dim"] = 2 * rng.randint(1, 40)
    elif chance(rng, 0.3):
        kwargs["return_embeddings"] = True
    return kwargs | {"num_tokens": rng.randint(1, 1200)}


def other_tuple(rng, kwargs):
    return {"n_local_attn_heads": [0] * (kwargs["depth"] + 1)}


SPOILERS = [
    lambda rng, kwargs: {"heads": kwargs["dim"] + 1, "dim_head": None},
    lambda rng, kwargs: {"heads": rng.choice([0, -2])},
    lambda rng, kwargs: {"dim": kwargs["dim"] * kwargs["heads"] + 1, "heads": kwargs["heads"] + 1},
    lambda rng, kwargs: {"n_local_attn_heads": kwargs["heads"] + 1},
    lambda rng, kwargs: {"n_local_attn_heads": [kwargs["heads"] + 1] * kwargs["depth"]},
    other_tuple,
    lambda rng, kwargs: {"causal": True, "linformer_settings": {"k": 8}},
    lambda rng, kwargs: {"linformer_settings": rng.choice([{"k": 0}, {"K": 3}, {"seq_len": 9, "k": 3}, {}])},
    lambda rng, kwargs: {"receives_context": True,
                         "context_linformer_settings": rng.choice([{"k": 4}, {"seq_len": 0, "k": 3}])},
    lambda rng, kwargs: {"attend_axially": True, "dim": kwargs["dim"] * kwargs["heads"] + 1},
    lambda rng, kwargs: {"shift_tokens": True, "dim": rng.choice([1, 2]), "heads": 1},
    lambda rng, kwargs: {"ff_chunks": rng.choice([0, -1])},
    lambda rng, kwargs: {"attn_dropout": rng.choice([-0.5, 1.01])},
    lambda rng, kwargs: {"blindspot_size": rng.choice([7, 11]), "causal": True},
    lambda rng, kwargs: {"local_attn_window_size": rng.choice([0, -4])},
    lambda rng, kwargs: {rng.choice(["one_kv_head", "k", "n_local_heads", "causual"]): 1},
]
LM_SPOILERS = SPOILERS + [
    lambda rng, kwargs: {"n_local_attn_heads": 1, "max_seq_len": kwargs["local_attn_window_size"] * 2 + 1,
                         "local_attn_window_size": kwargs["local_attn_window_size"] + 1},
    lambda rng, kwargs: {"use_rotary_emb": True, "dim_head": rng.choice([None, 7])},
    lambda rng, kwargs: {"use_rotary_emb": True, "emb_dim": 15},
    lambda rng, kwargs: {"use_rotary_emb": True, "attend_axially": True},
    lambda rng, kwargs: {"return_embeddings": True, "emb_dim": kwargs["dim"] + 2},
    lambda rng, kwargs: {"num_tokens": rng.choice([0, -1])},
]


def padding_of(rng, linformer_only):
    """Returns a setting of padding for config.json, and whether Autopadder pads the sequence with this setting."""
    if linformer_only:
        padding = rng.choice([None, "slice", "autopad"])
        return ({"padding": padding} if padding else {}), padding == "autopad"
    return rng.choice([{}, {"padding": "autopad"}]), True


# ---- Calls


def context_inputs(rng, kwargs, batch):
    if not kwargs.get("receives_context"):
        return {}
    settings = kwargs.get("context_linformer_settings")
    if settings and chance(rng, 0.2):
        return {}  # without a context, the layers read x instead
    length = rng.randint(1, settings["seq_len"] if settings else 90)
    inputs = {"context": case.floats(rng, batch, length, kwargs["dim"])}
    if chance(rng, 0.5):
        inputs["context_mask"] = case.mask(rng, batch, length)
    return inputs


def random_calls(rng, kwargs, make_x):
    most, calls = kwargs["max_seq_len"], []
    window = kwargs["local_attn_window_size"]
    whole_windows = window * rng.randint(1, max(1, most // window))
    for length in [most, 1, rng.randint(1, most), rng.randint(1, most), whole_windows]:
        batch = case.batch_size(rng)
        inputs = {"x": make_x(batch, length)}
        if chance(rng, 0.5):
            inputs["input_mask"] = case.mask(rng, batch, length)
        calls.append(Call(inputs | context_inputs(rng, kwargs, batch), attentions=chance(rng, 0.5)))
    return calls + strange_calls(rng, kwargs, make_x)


def strange_calls(rng, kwargs, make_x):
    most, calls = kwargs["max_seq_len"], []
    settings = kwargs.get("context_linformer_settings")
    if chance(rng, 0.3):
        calls.append(Call({"x": make_x(1, most + rng.randint(1, 30))} | context_inputs(rng, kwargs, 1),
                          note="longer than max_seq_len"))
    if kwargs.get("receives_context") and not settings:
        calls.append(Call({"x": make_x(1, most)}, note="without context"))
    if kwargs.get("receives_context") and settings and chance(rng, 0.5):
        longer = case.floats(rng, 2, settings["seq_len"] + 1, kwargs["dim"])
        calls.append(Call({"x": make_x(2, most), "context": longer},
                          note="context longer than its seq_len"))
    if kwargs.get("receives_context") and chance(rng, 0.3):
        calls.append(Call({"x": make_x(1, most), "context": case.floats(rng, 1, 1, kwargs["dim"] + 1)},
                          note="context of other features"))
    if most > 1 and chance(rng, 0.2):
        calls.append(Call({"x": make_x(2, most), "input_mask": case.mask(rng, 2, most + 1)} |
                          context_inputs(rng, kwargs, 2), note=LONG_MASK))
    return calls


def transformer(rng):
    kwargs, sound, spoiled = case.spoil(rng, transformer_kwargs(rng), SPOILERS)
    settings, autopad = padding_of(rng, bool(kwargs.get("linformer_settings")))
    calls = random_calls(rng, sound, lambda b, n: case.floats(rng, b, n, kwargs["dim"]))
    return TransformerCase(f"{PACKAGE}.LinearAttentionTransformer", kwargs, calls, sound, spoiled, settings,
                           rng.getrandbits(32), autopad)


def language_model(rng):
    kwargs, sound, spoiled = case.spoil(rng, language_model_kwargs(rng), LM_SPOILERS)
    settings, autopad = padding_of(rng, bool(kwargs.get("linformer_settings")))
    vocabulary = sound["num_tokens"]
    calls = random_calls(rng, sound, lambda b, n: case.ids(rng, vocabulary, b, n))
    if chance(rng, 0.2):
        calls.append(Call({"x": np.array([[vocabulary, 0]])} | context_inputs(rng, kwargs, 1),
                          note="an id beyond the vocabulary"))
    return TransformerCase(f"{PACKAGE}.LinearAttentionTransformerLM", kwargs, calls, sound, spoiled, settings,
                           rng.getrandbits(32), autopad)


def pair_kwargs(rng):
    enc = case.without(language_model_kwargs(rng, 0), "emb_dim")
    if not chance(rng, 0.2):
        enc["return_embeddings"] = True
    width = enc["dim"] if enc.get("return_embeddings") else enc["num_tokens"]
    dec = case.without(language_model_kwargs(rng, 0.9), "dim_head")
    dec |= {"dim": width, "heads": rng.choice([h for h in (1, 2, 3, 5) if width % h == 0])}
    dec["dim_head"] = 2 * rng.randint(1, 20)
    if isinstance(dec.get("n_local_attn_heads"), list):
        dec["n_local_attn_heads"] = [min(n, dec["heads"]) for n in dec["n_local_attn_heads"]]
    elif "n_local_attn_heads" in dec:
        dec["n_local_attn_heads"] = min(dec["n_local_attn_heads"], dec["heads"])
    return {"enc": enc, "dec": dec}


PAIR_SPOILERS = [
    lambda rng, kwargs: {"enc": kwargs["enc"] | {"dim": kwargs["enc"]["dim"] + kwargs["enc"]["heads"]}},
    lambda rng, kwargs: {"enc": kwargs["enc"] | {"receives_context": True}},
    lambda rng, kwargs: {"dec": kwargs["dec"] | {"n_local_attn_heads": 9}},
    lambda rng, kwargs: {"dec": kwargs["dec"] | {"unknown": True}},
    lambda rng, kwargs: {"dec": rng.choice([None, 7])},
]


def pair(rng):
    kwargs, sound, spoiled = case.spoil(rng, pair_kwargs(rng), PAIR_SPOILERS, 0.15)
    both = all(sound[side].get("linformer_settings") for side in ("enc", "dec"))
    settings, autopad = ({}, False) if both else ({}, True)
    enc, dec, calls = sound["enc"], sound["dec"], []
    most = enc["max_seq_len"]
    if dec.get("receives_context") and dec.get("context_linformer_settings"):
        most = min(most, dec["context_linformer_settings"]["seq_len"])
    for n, m in zip(case.lengths(rng, most, 4), case.lengths(rng, dec["max_seq_len"], 4)):
        batch = case.batch_size(rng)
        inputs = {"src": case.ids(rng, enc["num_tokens"], batch, n), "tgt": case.ids(rng, dec["num_tokens"], batch, m)}
        if chance(rng, 0.5):
            inputs["src_mask"] = case.mask(rng, batch, n)
        if chance(rng, 0.5):
            inputs["tgt_mask"] = case.mask(rng, batch, m)
        calls.append(Call(inputs, attentions=chance(rng, 0.5)))
    return PairCase(f"{PACKAGE}.EncoderDecoder", kwargs, calls, sound, spoiled, settings, rng.getrandbits(32), autopad)


# ---- Images

MAX_SIDE = 12


@dataclasses.dataclass
class ImageCase(TorchCase):
    def build(self, kwargs):
        return ImageLinearAttention(**in_python(kwargs))

    def forward(self, model, inputs, attentions):
        return model(**inputs)

    def exported(self, model):
        return model, in_python(self.kwargs)


def one_or_two(rng, number):
    return number() if chance(rng, 0.5) else [number(), number()]


def image_kwargs(rng):
    key_dim = rng.randint(1, 40)
    kwargs = {"chan": rng.randint(1, 40), "heads": rng.randint(1, 5), "key_dim": key_dim,
              "value_dim": key_dim if chance(rng, 0.6) else rng.randint(1, 40)}
    if chance(rng, 0.5):
        kwargs["chan_out"] = rng.choice([None, rng.randint(1, 40)])
    if chance(rng, 0.6):
        kwargs["norm_queries"] = chance(rng, 0.4)
    kind = rng.random()
    if kind < 0.4:  # odd kernels that keep an image's size
        kwargs["kernel_size"] = one_or_two(rng, lambda: rng.choice([1, 3, 5]))
        half = np.array(kwargs["kernel_size"]) // 2
        kwargs["padding"] = half.tolist()
    elif kind < 0.6:
        kwargs |= {"kernel_size": one_or_two(rng, lambda: rng.randint(1, 6)), "padding": "same"}
    elif kind < 0.7:  # (n + 2, n) pixels become (n, n + 2) pixels, so their number stays the same
        kwargs |= {"kernel_size": [3, 1], "padding": [0, 1]}
    elif kind < 0.85:  # images of some small sizes keep their number of pixels
        kwargs |= {"padding": 1, "stride": 2}
    return kwargs


IMAGE_SPOILERS = [
    lambda rng, kwargs: {"kernel_size": 3, "padding": rng.choice([0, 2, "valid"]), "stride": 1},
    lambda rng, kwargs: {"kernel_size": rng.choice([0, -1, [3]])},
    lambda rng, kwargs: {"padding": rng.choice([-1, "full", [1, 1, 1], []])},
    lambda rng, kwargs: {"stride": rng.choice([0, -1, [], [1, 1, 1]])},
    lambda rng, kwargs: {"padding": "same", "stride": 2},
    lambda rng, kwargs: {rng.choice(["dim", "channels", "dilation"]): 1},
]


def image(rng):
    """Returns a case with images of sizes that fit the strides and paddings above, and images that may not fit."""
    kwargs, sound, spoiled = case.spoil(rng, image_kwargs(rng), IMAGE_SPOILERS)
    channels, calls, n = sound["chan"], [], rng.randint(1, 9)
    for height, width in [(n + 2, n), (3, 2), (rng.randint(1, MAX_SIDE), rng.randint(1, MAX_SIDE)), (5, 3)]:
        batch = case.batch_size(rng)
        inputs = {"x": case.floats(rng, batch, channels, height, width)}
        if chance(rng, 0.5):
            trailing = [rng.randint(1, 5) for _ in range(rng.randint(0, 3))]
            inputs["context"] = case.floats(rng, batch, channels, *trailing)
        calls.append(Call(inputs))
    if chance(rng, 0.3):
        calls.append(Call({"x": case.floats(rng, 1, channels + 1, 3, 3)}, note="an image of other channels"))
    return ImageCase(f"{PACKAGE}.ImageLinearAttention", kwargs, calls, sound, spoiled, {}, rng.getrandbits(32))


GENERATORS = [transformer, language_model, image, language_model, transformer, pair]
