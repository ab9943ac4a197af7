"""The five libraries' classes inside a module: which parts are such a class, and the arguments that they were made with.

export_module() of export.py uses this file. A *leaf* is an instance of a class that linformerd serves. The daemon
computes it whole, from its kwargs and its tensors. `infer` reads the kwargs from the instance."""

import collections
import inspect
import sys

import export as exporter
from export import ATTENTION, KUIXU, LINEAR_LM, PADDINGS, refuse

LINEAR = "linear_attention_transformer.LinearAttentionTransformer"
IMAGE = "linear_attention_transformer.ImageLinearAttention"
ENC_DEC = "linformer_pytorch.LinformerEncDec"

# The tensor inputs of each class, by the names of forward()'s parameters.
MASKED = ["x", "input_mask", "context", "context_mask"]
EMBEDDED = ["tensor", "input_mask", "embeddings", "embeddings_mask"]
INPUTS = {
    "linformer.LinformerLM": ["x"],
    "linformer.Linformer": ["x"],
    "linformer.LinformerSelfAttention": ["x", "context"],
    LINEAR_LM: MASKED,
    LINEAR: MASKED,
    IMAGE: ["x", "context"],
    "linformer_pytorch.LinformerLM": EMBEDDED,
    "linformer_pytorch.Linformer": EMBEDDED,
    ATTENTION: EMBEDDED,
    ENC_DEC: ["x", "y", "input_mask", "embeddings_mask"],
    KUIXU: ["query", "key", "value", "attn_mask", "key_padding_mask"],
}


# ---- Which parts are leaves -----------------------------------------------------------------------------------------


def architecture_of(part):
    """config.json's name of the class of a part of a module, or None. A subclass with a forward() of its own is none."""
    for cls in type(part).__mro__:
        name = cls.__name__
        if name == KUIXU.rpartition(".")[2]:
            architecture = KUIXU
        else:
            architecture = f"{cls.__module__.partition('.')[0]}.{name}"
        if architecture in INPUTS:
            return architecture if type(part).forward is cls.forward else None
    return None


def library_class(part):
    """The library's class of which a leaf is an instance."""
    names = {name.rpartition(".")[2] for name in INPUTS}
    return next(cls for cls in type(part).__mro__ if cls.__name__ in names)


# ---- Arguments, read from the instance ------------------------------------------------------------------------------


def infer_attention(part):
    """linformer.LinformerSelfAttention"""
    return dict(dim=part.to_q.in_features, seq_len=part.seq_len, k=part.k, heads=part.heads, dim_head=part.dim_head,
                one_kv_head=part.to_k.out_features != part.to_q.out_features, share_kv=part.share_kv)


def infer_linformer(part):
    """linformer.Linformer"""
    layers, reversible = layers_of(part.net)
    if not layers:
        raise LookupError("dim")
    kwargs = infer_attention(layers[0][0].fn)
    return dict(dim=kwargs.pop("dim"), seq_len=kwargs.pop("seq_len"), depth=len(layers), **kwargs, reversible=reversible)


def infer_linformer_lm(part):
    return dict(num_tokens=part.token_emb.num_embeddings, **infer_linformer(part.linformer))


def layers_of(sequence):
    """The pairs (f, g) of a library's sequence of layers, and whether it is reversible."""
    blocks = getattr(sequence, "blocks", None)
    if blocks is not None:
        return [(block.f.net, block.g.net) for block in blocks], True
    return [tuple(layer) for layer in sequence.layers], False


def infer_linear(part):
    """linear_attention_transformer.LinearAttentionTransformer"""
    layers, reversible = layers_of(part.layers)
    if not layers:
        raise LookupError("dim")
    dim = layers[0][0].norm.normalized_shape[0]
    kwargs = dict(dim=dim, depth=0, max_seq_len=None)
    local, pkm = [], []
    for attention, feed_forward in layers:
        attention, feed_forward = attention.fn, feed_forward.fn
        if type(attention).__name__ == "PreShiftTokens":
            kwargs["shift_tokens"] = True
            attention, feed_forward = attention.fn, feed_forward.fn
        if type(feed_forward).__name__ == "Chunk":
            if feed_forward.fn.glu:
                kwargs["ff_glu"] = True
        if type(attention).__name__ == "FoldAxially":
            kwargs.update(attend_axially=True, local_attn_window_size=attention.axial_dim)
            continue
        if kwargs["depth"] and getattr(attention, "receives_context", False):
            kwargs["receives_context"] = True
            continue
        linformer = type(attention).__name__ == "LinformerSelfAttention"
        if linformer and kwargs["depth"] and kwargs.get("linformer_settings") is None:
            kwargs.update(receives_context=True, context_linformer_settings=dict(seq_len=attention.seq_len, k=attention.k))
            continue
        kwargs["depth"] += 1
        if type(feed_forward).__name__ == "PKM":
            pkm.append(kwargs["depth"])
        if linformer:
            kwargs.update(heads=attention.heads, dim_head=attention.dim_head, max_seq_len=attention.seq_len,
                          linformer_settings=dict(k=attention.k))
            continue
        kwargs.update(heads=attention.heads, dim_head=attention.d_heads)
        local.append(attention.local_attn_heads)
        if attention.local_attn_heads:
            kwargs.setdefault("local_attn_window_size", attention.local_attn.window_size)
        if hasattr(attention.global_attn_fn, "keywords"):
            kwargs.update(causal=True, blindspot_size=attention.global_attn_fn.keywords["bucket_size"])
    if any(local):
        kwargs["n_local_attn_heads"] = local[0] if len(set(local)) == 1 else local
    if pkm:
        kwargs["pkm_layers"] = pkm
    if reversible:
        kwargs["reversible"] = True
    return kwargs


INFER = {
    "linformer.LinformerSelfAttention": infer_attention,
    "linformer.Linformer": infer_linformer,
    "linformer.LinformerLM": infer_linformer_lm,
    LINEAR: infer_linear,
}


# ---- Shapes of the outputs ------------------------------------------------------------------------------------------


def output_shapes(architecture, part, inputs):
    """One shape for each output. Tells torch.export which sizes the class asks for."""
    import torch

    x = next(iter(inputs.values()))
    if architecture.startswith("linformer."):
        length = (inputs.get("context", x)).shape[1]
        attention = part if "Attention" in architecture else None
        seq_len = attention.seq_len if attention else infer_attention(layers_of((part.linformer if "LM" in architecture else part).net)[0][0][0].fn)["seq_len"]
        torch._check(length <= seq_len)
    return [tuple(x.shape)]
