#!/usr/bin/env python3
"""Random models of the Python libraries against the daemon: same arguments, weights and inputs, outputs compared.

    random_models.py [--count 40] [--seed 1] [--daemon build/linformerd]

Each model gets a daemon of its own on a free port. Prints one line a model; exits 1 when a relative L2 error is above
1e-5. Needs requirements.txt."""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import urllib.request

import torch
from linear_attention_transformer import LinearAttentionTransformer, LinearAttentionTransformerLM
from linear_attention_transformer.autopadder import Autopadder
from linear_attention_transformer.linear_attention_transformer import LinformerSettings
from linformer import Linformer, LinformerLM
from linformer_pytorch import Linformer as PytorchLinformer
from linformer_pytorch import LinformerLM as PytorchLinformerLM
from linformer_pytorch import Padder
from safetensors.torch import save_model

TOLERANCE = 1e-5


def linformer_kwargs(rng):
    heads = rng.choice([1, 2, 3, 4, 8])
    kwargs = dict(dim=heads * rng.randint(1, 40), seq_len=rng.randint(1, 300), depth=rng.randint(1, 4),
                  k=rng.randint(1, 130), heads=heads, one_kv_head=rng.random() < 0.4, share_kv=rng.random() < 0.4,
                  reversible=rng.random() < 0.4)
    if rng.random() < 0.4:
        kwargs["dim_head"] = rng.randint(1, 70)
    return kwargs


def random_linformer(rng):
    kwargs = linformer_kwargs(rng)
    return Linformer(**kwargs), "linformer.Linformer", kwargs, kwargs["seq_len"]


def random_linformer_lm(rng):
    kwargs = dict(linformer_kwargs(rng), num_tokens=rng.randint(2, 1500))
    return LinformerLM(**kwargs), "linformer.LinformerLM", kwargs, kwargs["seq_len"]


def random_linear_attention_lm(rng):
    heads = rng.choice([1, 2, 4, 6])
    kwargs = dict(num_tokens=rng.randint(2, 1500), dim=heads * rng.randint(3, 30), depth=rng.randint(1, 4),
                  max_seq_len=rng.randint(1, 300), heads=heads, dim_head=rng.choice([None, rng.randint(1, 70)]),
                  local_attn_window_size=rng.randint(1, 200), reversible=rng.random() < 0.4,
                  shift_tokens=rng.random() < 0.6, ff_glu=rng.random() < 0.5,
                  use_axial_pos_emb=rng.random() < 0.5)
    if rng.random() < 0.3:
        kwargs["emb_dim"] = rng.randint(1, 90)
    k = rng.randint(1, 100)
    model = LinearAttentionTransformerLM(**kwargs, linformer_settings=LinformerSettings(k=k))
    return (model, "linear_attention_transformer.LinearAttentionTransformerLM",
            dict(kwargs, linformer_settings={"k": k}), kwargs["max_seq_len"])


def linear_attention_kwargs(rng):
    heads, window = rng.choice([1, 2, 4, 6]), rng.randint(1, 40)
    kwargs = dict(dim=heads * rng.randint(3, 30), depth=rng.randint(1, 3), max_seq_len=window * rng.randint(1, 8),
                  heads=heads, dim_head=2 * rng.randint(1, 35) if rng.random() < 0.5 else None,
                  local_attn_window_size=window, reversible=rng.random() < 0.4, shift_tokens=rng.random() < 0.4,
                  ff_glu=rng.random() < 0.5, causal=rng.random() < 0.5)
    if rng.random() < 0.6:
        layers = [rng.randint(0, heads) for _ in range(kwargs["depth"])]
        kwargs["n_local_attn_heads"] = layers if rng.random() < 0.5 else layers[0]
    if kwargs["causal"] and rng.random() < 0.7:
        kwargs["blindspot_size"] = rng.choice([size for size in range(1, window + 1) if window % size == 0])
    if kwargs.get("n_local_attn_heads") and rng.random() < 0.4:
        kwargs["attend_axially"] = any(layers if isinstance(kwargs["n_local_attn_heads"], list) else layers[:1])
    if rng.random() < 0.2:
        kwargs["pkm_layers"] = [rng.randint(1, kwargs["depth"])]
    return kwargs


def in_python(kwargs):
    """Lists of config.json are tuples in Python."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in kwargs.items()}


def random_linear_attention(rng):
    kwargs = linear_attention_kwargs(rng)
    return (Autopadder(LinearAttentionTransformer(**in_python(kwargs))),
            "linear_attention_transformer.LinearAttentionTransformer", kwargs, kwargs["max_seq_len"])


def random_linear_attention_language_model(rng):
    kwargs = dict(linear_attention_kwargs(rng), num_tokens=rng.randint(2, 1500))
    kwargs["use_axial_pos_emb"] = rng.random() < 0.5
    kwargs["use_rotary_emb"] = (kwargs["dim_head"] is not None and kwargs["dim"] % 2 == 0 and rng.random() < 0.4
                                and not kwargs.get("attend_axially"))
    if rng.random() < 0.3:
        kwargs["emb_dim"] = 2 * rng.randint(1, 45)
    return (Autopadder(LinearAttentionTransformerLM(**in_python(kwargs))),
            "linear_attention_transformer.LinearAttentionTransformerLM", kwargs, kwargs["max_seq_len"])


def linformer_pytorch_kwargs(rng):
    heads = rng.choice([1, 2, 3, 4])
    size = rng.randint(1, 200)
    kwargs = dict(input_size=size, channels=2 * heads * rng.randint(1, 20), dim_k=rng.randint(1, size),
                  dim_ff=rng.randint(1, 100), nhead=heads, depth=rng.randint(1, 3),
                  activation=rng.choice(["gelu", "relu"]), include_ff=rng.random() < 0.8,
                  parameter_sharing=rng.choice(["none", "headwise", "kv", "layerwise"]),
                  full_attention=rng.random() < 0.2, causal=rng.random() < 0.4)
    if rng.random() < 0.4:
        kwargs["dim_d"] = rng.randint(1, 50)
    if rng.random() < 0.3:
        kwargs["w_o_intermediate_dim"] = rng.randint(1, 50)
    if kwargs["parameter_sharing"] != "layerwise" and kwargs["include_ff"] and rng.random() < 0.4:
        kwargs["ff_intermediate"] = rng.randint(1, 60)
    if rng.random() < 0.3 and not kwargs["causal"]:  # its causal mask does not fit reduced layers
        kwargs["k_reduce_by_layer"] = rng.randint(1, 10)
    if size % kwargs["dim_k"] == 0 and rng.random() < 0.7 and not kwargs.get("k_reduce_by_layer"):
        kwargs["method"] = "convolution"
    return kwargs


def random_linformer_pytorch(rng):
    kwargs = linformer_pytorch_kwargs(rng)
    return Padder(PytorchLinformer(**kwargs)), "linformer_pytorch.Linformer", kwargs, kwargs["input_size"]


def random_linformer_pytorch_lm(rng):
    kwargs = dict(linformer_pytorch_kwargs(rng), num_tokens=rng.randint(2, 1500), return_emb=rng.random() < 0.2)
    if rng.random() < 0.4:
        kwargs["emb_dim"] = 2 * rng.randint(1, 40)
    return Padder(PytorchLinformerLM(**kwargs)), "linformer_pytorch.LinformerLM", kwargs, kwargs["input_size"]


FAMILIES = [random_linformer, random_linformer_lm, random_linear_attention_lm, random_linformer_pytorch,
            random_linformer_pytorch_lm, random_linear_attention, random_linear_attention_language_model]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


class Daemon:
    def __init__(self, binary, folder):
        self.process = subprocess.Popen([binary, "--model", folder, "--port", "0"], stderr=subprocess.PIPE, text=True)
        log = ""
        for line in self.process.stderr:
            log += line
            if found := re.search(r"listening on (http://\S+)", line):
                self.url = found[1]
                return
        raise SystemExit(f"the daemon did not start:\n{log}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        if self.process.wait() != 0:
            raise SystemExit(f"the daemon ended with {self.process.returncode}")


def found_outputs(url, kwargs, inputs):
    if "num_tokens" not in kwargs:
        return post(url + "/embed_all", {"embeddings": [x.tolist() for x in inputs]})
    if kwargs.get("return_emb"):
        return post(url + "/embed_all", {"inputs": [x.tolist() for x in inputs]})
    return [item["logits"] for item in post(url + "/logits", {"inputs": [x.tolist() for x in inputs]})]


def compare(rng, binary, make):
    model, architecture, kwargs, most = make(rng)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases off 0 and 1
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.eval()
    lengths = [most, 1] + [rng.randint(1, most) for _ in range(4)]
    if "num_tokens" in kwargs:
        inputs = [torch.randint(0, kwargs["num_tokens"], (n,)) for n in lengths]
    else:
        inputs = [torch.randn(n, kwargs.get("dim") or kwargs["channels"]) for n in lengths]
    with tempfile.TemporaryDirectory() as folder:
        save_model(model.net if isinstance(model, (Padder, Autopadder)) else model, f"{folder}/model.safetensors")
        pathlib.Path(folder, "config.json").write_text(json.dumps({"architecture": architecture, "kwargs": kwargs}))
        with Daemon(binary, folder) as daemon, torch.no_grad():
            found = found_outputs(daemon.url, kwargs, inputs)
            expected = [model(x[None])[0] for x in inputs]
    worst = max(float((torch.tensor(f) - e).norm() / e.norm()) for f, e in zip(found, expected))
    print(f"{'ok' if worst <= TOLERANCE else 'FAILED'} {worst:.1e} {architecture} {json.dumps(kwargs)}", flush=True)
    return worst <= TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--daemon", default="build/linformerd")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for i in range(arguments.count):
        rng = random.Random(arguments.seed * 1000003 + i)
        torch.manual_seed(arguments.seed * 1000003 + i)
        failed += not compare(rng, arguments.daemon, FAMILIES[i % len(FAMILIES)])
    print(f"seed {arguments.seed}: {arguments.count - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
