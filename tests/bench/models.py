#!/usr/bin/env python3
"""Writes the measured models as folders for linformerd. Weights are random, with a fixed seed.

    models.py NAME FOLDER

For the model of dholland42's entrypoint.py, the environment variable KERAS_PY is the path of linformer/attention.py of
https://github.com/dholland42/linformer, which is not on PyPI."""
import importlib.util
import os
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
SEED = 20261120

LARGE = dict(dim=512, seq_len=4096, depth=12, k=256, heads=8)
SHARED = dict(one_kv_head=True, share_kv=True)
ENTRYPOINT = dict(sequence_length=2000, embedding_dim=256, projection_dim=64, num_heads=8, hidden_dim=128)
VOCABULARY = 100  # vocabulary of the entrypoint's Embedding

MODELS = {
    "shared": ("Linformer", LARGE | SHARED),
    "full": ("Linformer", LARGE),
    "server": ("LinformerLM", LARGE | SHARED | dict(num_tokens=20000, depth=2)),
    "long": ("Linformer", dict(dim=128, seq_len=1 << 20, depth=2, k=128, heads=4) | SHARED),
}


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def export(model, kwargs, folder):
    load("export", TESTS.parent / "weights" / "export.py").export(model, kwargs, folder)


def write_linformer(name, folder):
    import linformer
    import torch
    class_name, kwargs = MODELS[name]
    torch.manual_seed(SEED)
    export(getattr(linformer, class_name)(**kwargs), kwargs, folder)


# ---- Causal models of linear-attention-transformer, with the library's initial weights

GENERATION = dict(num_tokens=20000, dim=512, depth=8, heads=8, max_seq_len=8192, causal=True)
CAUSAL = {
    "generation": GENERATION,
    "generation_long": GENERATION | dict(num_tokens=256, depth=2, max_seq_len=1 << 17, local_attn_window_size=512),
}


def write_causal(name, folder):
    import torch
    from linear_attention_transformer import LinearAttentionTransformerLM
    torch.manual_seed(SEED)
    export(LinearAttentionTransformerLM(**CAUSAL[name]), CAUSAL[name], folder)


# ---- Modules that export_module() writes. rows: rows of the Linformer. tokens: the largest number of rows of any
# value. The daemon counts these rows as tokens.

MODULES = {
    "vit_224": dict(label="ViT, 224² pixels", image=224, patch=32, shape=(3, 224, 224), rows=50, tokens=3 * 224 * 224),
    "vit_1024": dict(label="ViT, 1024² pixels", image=1024, patch=16, shape=(3, 1024, 1024), rows=4097,
                     tokens=3 * 1024 * 1024),
    "classifier": dict(label="token classifier", shape=(512,), rows=512, tokens=512, vocabulary=20000),
}


def token_classifier(vocabulary, length):
    """Embedding, positions, Linformer, mean, linear layer."""
    from torch import nn
    reference = load("token_classifier", TESTS / "modules" / "token_classifier.py")
    module = reference.TokenClassifier(vocabulary=vocabulary, dim=512, seq_len=length, classes=10)
    module.linformer = linformer_of(length)
    nn.init.normal_(module.position, std=0.02)
    return module


def linformer_of(length):
    from linformer import Linformer
    return Linformer(dim=512, seq_len=length, depth=12, heads=8, k=64)


def make_module(name):
    module = MODULES[name]
    if "vocabulary" in module:
        return token_classifier(module["vocabulary"], module["rows"])
    vit = load("packages", TESTS / "modules" / "packages.py").efficient_vit()
    return vit.ViT(dim=512, image_size=module["image"], patch_size=module["patch"], num_classes=1000,
                   transformer=linformer_of(module["rows"]))


def write_module(name, folder):
    import torch
    torch.manual_seed(SEED)
    module = MODULES[name]
    if "vocabulary" in module:
        example = {"ids": torch.randint(0, module["vocabulary"], (2, *module["shape"]))}
    else:
        example = {"img": torch.randn(2, *module["shape"])}
    exporter = load("export", TESTS.parent / "weights" / "export.py")
    exporter.export_module(make_module(name).eval(), example, folder, daemon=False)


# ---- The model of entrypoint.py: Input, Embedding, LinearMultiHeadAttention over (embedding, embedding).

KERAS_KWARGS = dict(num_heads=ENTRYPOINT["num_heads"], key_dim=ENTRYPOINT["hidden_dim"],
                    projection_dim=ENTRYPOINT["projection_dim"])


def keras_model():
    import tf_keras
    reference = load("generate_keras", TESTS / "reference" / "generate_keras.py")
    layer_class = reference.load_class(os.environ["KERAS_PY"])
    ids = tf_keras.Input(shape=(ENTRYPOINT["sequence_length"],))
    embedding = tf_keras.layers.Embedding(VOCABULARY, ENTRYPOINT["embedding_dim"])(ids)
    return tf_keras.Model(ids, layer_class(**KERAS_KWARGS)(embedding, embedding))


def write_keras(folder):
    import tf_keras
    tf_keras.utils.set_random_seed(SEED)
    export(keras_model(), KERAS_KWARGS, folder)


def keras_load(folder):
    """The names in the file are the names of the weights within their layers."""
    from safetensors.numpy import load_file
    model, tensors = keras_model(), load_file(folder / "model.safetensors")
    for layer in model.layers[1:]:
        for weight in layer.weights:
            path = weight.name.partition(":")[0].split("/")
            weight.assign(tensors["embedding/embeddings" if path[-1] == "embeddings" else "/".join(path[-2:])])
    return model


if __name__ == "__main__":
    if sys.argv[1] == "keras":
        write_keras(pathlib.Path(sys.argv[2]))
    elif sys.argv[1] in CAUSAL:
        write_causal(sys.argv[1], pathlib.Path(sys.argv[2]))
    elif sys.argv[1] in MODULES:
        write_module(sys.argv[1], pathlib.Path(sys.argv[2]))
    else:
        write_linformer(sys.argv[1], pathlib.Path(sys.argv[2]))
