#!/usr/bin/env python3
"""Writes the models that are measured, random weights from a fixed seed, as folders that linformerd serves.

    models.py NAME FOLDER

For the model of dholland42's entrypoint.py KERAS_LINFORMER names a checkout of
https://github.com/dholland42/linformer, which is not on PyPI."""
import importlib.util
import json
import os
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
SEED = 20261120

LARGE = dict(dim=512, seq_len=4096, depth=12, k=256, heads=8)
SHARED = dict(one_kv_head=True, share_kv=True)
ENTRYPOINT = dict(sequence_length=2000, batch_size=25, embedding_dim=256, projection_dim=64, num_heads=8, hidden_dim=128)
VOCABULARY = 100  # of the entrypoint's Embedding

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


def write_linformer(name, folder):
    import linformer
    import torch
    class_name, kwargs = MODELS[name]
    torch.manual_seed(SEED)
    model = getattr(linformer, class_name)(**kwargs)
    load("export", TESTS.parent / "weights" / "export.py").export(model, kwargs, folder)


# ---- The entrypoint's model: Input, Embedding, LinearMultiHeadAttention over (embedding, embedding).


def keras_model():
    import tf_keras
    path = pathlib.Path(os.environ["KERAS_LINFORMER"], "linformer", "attention.py")
    layer_class = load("generate_keras", TESTS / "reference" / "generate_keras.py").load_class(path)
    ids = tf_keras.Input(shape=(ENTRYPOINT["sequence_length"],))
    embedding = tf_keras.layers.Embedding(VOCABULARY, ENTRYPOINT["embedding_dim"], name="embedding")(ids)
    layer = layer_class(ENTRYPOINT["num_heads"], ENTRYPOINT["hidden_dim"], projection_dim=ENTRYPOINT["projection_dim"])
    return tf_keras.Model(ids, layer(embedding, embedding)), layer


def keras_weights(model, layer):
    """By the names that linformerd knows: those within the layer, and the Embedding's."""
    weights = {"/".join(weight.name.split(":")[0].split("/")[1:]): weight for weight in layer.weights}
    return weights | {"embedding/embeddings": model.get_layer("embedding").weights[0]}


def write_keras(folder):
    import tf_keras
    from safetensors.numpy import save_file
    tf_keras.utils.set_random_seed(SEED)
    weights = keras_weights(*keras_model())
    kwargs = dict(num_heads=ENTRYPOINT["num_heads"], key_dim=ENTRYPOINT["hidden_dim"],
                  projection_dim=ENTRYPOINT["projection_dim"])
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: weight.numpy() for name, weight in weights.items()}, folder / "model.safetensors")
    config = {"architecture": "linformer.attention.LinearMultiHeadAttention", "kwargs": kwargs}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def keras_load(folder):
    from safetensors.numpy import load_file
    model, layer = keras_model()
    tensors = load_file(folder / "model.safetensors")
    for name, weight in keras_weights(model, layer).items():
        weight.assign(tensors[name])
    return model


if __name__ == "__main__":
    if sys.argv[1] == "keras":
        write_keras(pathlib.Path(sys.argv[2]))
    else:
        write_linformer(sys.argv[1], pathlib.Path(sys.argv[2]))
