#!/usr/bin/env python3
"""Trains the built-in writer. Reads the files of train_tokenizer.py.

    python3 train.py --corpus corpus --minutes 130 --out model

The model learns to predict the next token, in pieces of max_seq_len tokens. The pieces are used in a random order and
do not overlap. So the model sees no token twice before all tokens are used.

The matrices of the layers are trained with Muon, and the other weights with AdamW. The learning rate depends on the
part of --minutes that has passed. It rises, stays, and falls to a thousandth in the last part. A step counts as at most
LONGEST_STEP_S seconds, even if a signal stopped the process meanwhile. A snapshot of the whole state is written to
OUT/snapshot.pt every few minutes. If this file exists, the training continues from it.
"""
import argparse
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from linear_attention_transformer import LinearAttentionTransformerLM
from safetensors.torch import save_file

from train_tokenizer import END, VOCABULARY

KWARGS = dict(num_tokens=VOCABULARY, dim=256, depth=3, max_seq_len=1024, heads=6, dim_head=32, causal=True, emb_dim=128,
              n_local_attn_heads=4, local_attn_window_size=64, use_rotary_emb=True, shift_tokens=True)
CHUNK = 64                  # positions that causal linear attention computes at a time
# How the daemon chooses tokens if a request does not specify it. A text of only the likeliest tokens soon repeats
# itself.
GENERATION = {"do_sample": True, "temperature": 0.7, "top_p": 0.95, "repetition_penalty": 1.3}
WARM_UP = 0.02              # part of the time in which the learning rates rise
DECAY = 0.5                 # part of the time, at the end, in which the learning rates fall
LONGEST_STEP_S = 30         # a longer step was stopped by a signal. Its time counts as this time


# ---- the forward pass -------------------------------------------------------------------------

def local_attention(q, k, v, window):
    """Attention to the position itself, to the earlier positions of the same window, and to all positions of the window
    before it. (b, h, n, d)"""
    b, h, n, d = q.shape
    windows = [x.reshape(b * h, n // window, window, d) for x in (q, k, v)]
    k, v = (torch.cat((F.pad(x[:, :-1], (0, 0, 0, 0, 1, 0)), x), dim=2) for x in windows[1:])
    seen = torch.ones(window, 2 * window, dtype=torch.bool).tril(window).repeat(n // window, 1, 1)
    seen[0, :, :window] = False     # no window is before the first one
    return F.scaled_dot_product_attention(windows[0], k, v, attn_mask=seen[None]).reshape(b, h, n, d)


def linear_attention(q, k, v, eps=1e-3):
    """causal_linear_attn of the library with bucket_size 1, in chunks. (b, h, n, d)

    The library keeps a d x d sum for every position. Here, a sum is kept for every chunk. The positions of one chunk
    see each other through the products of their queries and keys."""
    b, h, n, d = q.shape
    q, k, v = (x.float().reshape(b, h, n // CHUNK, CHUNK, d) for x in (q, k, v))
    q, k = q.softmax(dim=-1) * d ** -0.5, k.exp()
    before = F.pad((k.transpose(-1, -2) @ v).cumsum(dim=2)[:, :, :-1], (0, 0, 0, 0, 1, 0))
    keys_before = F.pad(k.sum(dim=3).cumsum(dim=2)[:, :, :-1], (0, 0, 1, 0))
    scores = (q @ k.transpose(-1, -2)).tril()
    total = scores.sum(dim=-1, keepdim=True) + q @ keys_before[..., None]
    return ((scores @ v + q @ before) / total.clamp(min=eps)).reshape(b, h, n, d)


def shifted(x):
    """Replaces the first half of the columns by the first half of the previous position. (b, n, dim)"""
    half = x.shape[-1] // 2
    return torch.cat((F.pad(x[:, :-1, :half], (0, 0, 1, 0)), x[..., half:]), dim=-1)


def rotated(x, sin, cos):
    """Rotates x (b, h, n, d) by angles. Their sines and cosines have the shape (n, d / 2)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def attention(layer, x, sin, cos):
    b, n, _ = x.shape
    weight = torch.cat((layer.to_q.weight, layer.to_k.weight, layer.to_v.weight))
    q, k, v = F.linear(x, weight).reshape(b, n, 3, layer.heads, layer.d_heads).permute(2, 0, 3, 1, 4)
    q, k, local = rotated(q, sin, cos), rotated(k, sin, cos), layer.local_attn_heads
    with torch.autocast("cpu", enabled=False):
        globally = linear_attention(q[:, local:], k[:, local:], v[:, local:])
    locally = local_attention(q[:, :local].to(v.dtype), k[:, :local].to(v.dtype), v[:, :local],
                              layer.local_attn.window_size)
    out = torch.cat((locally, globally.to(locally.dtype)), dim=1).transpose(1, 2).reshape(b, n, -1)
    return layer.to_out(out)


def hidden_states(model, ids):
    """The input of the class's last norm, computed as the class does. ids (b, n), n a multiple of CHUNK and window"""
    n = ids.shape[1]
    x = model.token_emb(ids) + model.pos_emb.emb[:n]
    sin, cos = model.layer_pos_emb.emb[:n].chunk(2, dim=-1)
    around = model.transformer
    x = around.project_in(x)
    for before_attention, before_forward in around.fn.layers.layers:
        x = x + attention(before_attention.fn.fn, shifted(before_attention.norm(x)), sin, cos)
        feed = before_forward.fn.fn.fn
        x = x + feed.w2(F.gelu(feed.w1(shifted(before_forward.norm(x)))))
    return around.project_out(x)


def loss_of(model, ids):
    """The mean cross-entropy of the tokens 1 … n, each predicted from the tokens before it. ids (b, n + 1)"""
    logits = model.out(model.norm(hidden_states(model, ids[:, :-1])))
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


# ---- the model --------------------------------------------------------------------------------

def new_model(kwargs):
    """The library's class. Its output layer shares the matrix of the embedding.

    The tables of positions are rounded to F16, because they are stored in F16."""
    model = LinearAttentionTransformerLM(**kwargs)
    model.out.weight = model.token_emb.weight
    with torch.no_grad():
        model.token_emb.weight.normal_(std=kwargs.get("emb_dim", kwargs["dim"]) ** -0.5)
        model.out.bias.zero_()
        model.pos_emb.emb.mul_(POSITION_SCALE)
        for name, weight in model.named_parameters():
            if "to_out" in name or ".w2." in name or name.endswith("project_out.bias"):
                weight.zero_()      # a layer begins as the identity
        for table in (model.pos_emb.emb, model.layer_pos_emb.emb):
            table.copy_(table.half())
    return model


POSITION_SCALE = 0.02       # scale of the sinusoids that are added to the embeddings. The heads use rotated positions


def write(model, folder, kwargs):
    """Writes config.json and model.safetensors. Each file appears complete, or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architecture": "linear_attention_transformer.LinearAttentionTransformerLM", "name": "builtin-writer",
              "kwargs": kwargs, "eos_token": END, "generation": GENERATION}
    (folder / "config.json.new").write_text(json.dumps(config, indent=2) + "\n")
    state = {name: tensor.detach().half().contiguous() for name, tensor in model.state_dict().items()}
    del state["out.weight"]
    save_file(state, folder / "model.safetensors.new", metadata={"format": "pt", "out.weight": "token_emb.weight"})
    (folder / "model.safetensors.new").chmod(0o644)
    for name in ("config.json", "model.safetensors"):
        os.replace(folder / f"{name}.new", folder / name)


# ---- training ---------------------------------------------------------------------------------

def make_optimizers(model, rate):
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers" in name]
    names = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in names]
    return [torch.optim.Muon(matrices, lr=rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)]


def rate_at(passed):
    """The factor of the learning rates at a part of the time, from 0 to 1."""
    return max(0.0, min(1.0, passed / WARM_UP, (1 - passed) / DECAY))


class Pieces:
    """The pieces of the training text in a random order. Piece number i is the same in every run with the same seed."""

    def __init__(self, corpus, length, seed):
        self.ids = np.load(Path(corpus) / "train.ids.npy", mmap_mode="r")
        rng = np.random.default_rng(seed)
        self.first, self.length = rng.integers(length), length
        self.order = rng.permutation((len(self.ids) - self.first - 1) // length)

    def batch(self, number, count):
        at = self.first + self.order[np.arange(number, number + count) % len(self.order)] * self.length
        return torch.from_numpy(np.stack([self.ids[a:a + self.length + 1].astype(np.int64) for a in at]))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--minutes", type=float, required=True)
    options.add_argument("--rate", type=float, default=5e-3)
    options.add_argument("--batch", type=int, default=4, help="pieces in a step")
    options.add_argument("--at-once", type=int, default=2, help="pieces in a forward pass")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--snapshot-minutes", type=float, default=3)
    options.add_argument("--kwargs", type=json.loads, default={}, help="more arguments of the class, as JSON")
    options = options.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    kwargs = KWARGS | options.kwargs
    pieces = Pieces(options.corpus, kwargs["max_seq_len"], options.seed)
    model = new_model(kwargs)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(pieces.ids)} tokens", flush=True)
    optimizers = make_optimizers(model, options.rate)
    step, passed_s, total, count = 0, 0.0, 0.0, 0
    snapshot = options.out / "snapshot.pt"
    if snapshot.exists():
        state = torch.load(snapshot)
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        step, passed_s = state["step"], state["passed_s"]
    next_report_s = passed_s + 60 * options.snapshot_minutes
    while True:
        start = time.monotonic()
        factor = rate_at(passed_s / 60 / options.minutes)
        last = passed_s >= 60 * options.minutes
        if last or passed_s >= next_report_s:
            write(model, options.out, kwargs)
            torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step,
                        "passed_s": passed_s}, f"{snapshot}.new")
            os.replace(f"{snapshot}.new", snapshot)
            tokens = step * options.batch * kwargs["max_seq_len"]
            print(f"{passed_s / 60:5.1f} min  step {step}  {tokens / 1e6:.2f} M tokens  "
                  f"loss {total / max(1, count):.4f}  rate {factor:.3f}", flush=True)
            total, count, next_report_s = 0.0, 0, passed_s + 60 * options.snapshot_minutes
        if last:
            break
        for ids in pieces.batch(step * options.batch, options.batch).split(options.at_once):
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model, ids) * (len(ids) / options.batch)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = options.rate * max(factor, 1e-3)
            optimizer.step()
            optimizer.zero_grad()
        step, count = step + 1, count + 1
        passed_s += min(LONGEST_STEP_S, time.monotonic() - start)


if __name__ == "__main__":
    main()
