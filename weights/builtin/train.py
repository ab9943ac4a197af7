#!/usr/bin/env python3
"""Trains the built-in model on what corpus.py built.

    python3 train.py --corpus corpus --minutes 60 --out model

The README beside it has the commands that made the built-in model.

One forward pass serves both tasks.  A batch is two crops each of some documents, all of one
random length; part of their bytes is masked.
  - The masked bytes are to be told from the rest (cross-entropy).
  - The mean of the last hidden states of a crop is to be nearer to that of the other crop of its
    document than to those of the other documents (InfoNCE, both ways).
Lengths are random so that every slice of Linformer's E and F is trained, not only the whole.

The learning rate falls to nothing over --minutes of wall-clock time, whatever the machine does
meanwhile; the model is written to --out every few minutes, F16 as the daemon loads it.
"""
import argparse
import copy
import json
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import evaluate as ev

KWARGS = dict(num_tokens=259, dim=192, depth=4, max_seq_len=1024, heads=4, dim_head=32,
              local_attn_window_size=128, linformer_settings=dict(k=32), shift_tokens=True)
SHORTEST = 32                   # lengths are log-uniform from here to max_seq_len
MOST_MASKED = 0.3               # a row's share of masked bytes is uniform from 0 to this
CHUNKS = 4                      # of a batch, shared out among the threads
WARMUP_BYTES = 1_840_000


def batch(text, rng, size, unmasked):
    """ids of 2 * pairs crops (first all A, then all B), and where to mask them."""
    length = int(round(math.exp(rng.uniform(math.log(SHORTEST), math.log(KWARGS["max_seq_len"])))))
    pairs = min(256, size // (2 * length))
    # Documents by size, so that text counts evenly, but long ones no more than a few pages do.
    weight = np.where(text.sizes >= 2 * length, np.minimum(text.sizes, 20_000), 0)
    total = np.cumsum(weight)
    documents = np.unique(np.searchsorted(total, rng.random(pairs) * total[-1], side="right"))
    ids = ev.ids_of(np.concatenate(text.pairs(rng, documents, length)))
    share = rng.uniform(0, MOST_MASKED, (len(ids), 1))
    share[np.tile(rng.random(len(documents)) < unmasked, 2)] = 0
    share[0] = MOST_MASKED      # so that something is masked in every batch
    return ids, torch.from_numpy(rng.random(ids.shape) < share)


def forward(model, ids, mask, masked_in_batch):
    """A chunk's share of the cross-entropy over all masked bytes, and its mean hidden states.

    A batch goes through in chunks on threads of one core each, so that a thread that another process
    holds up leaves chunks to the others; were the cores to share each product, all would wait for it
    at every product."""
    with torch.autocast("cpu", torch.bfloat16):
        hidden = ev.hidden_states(model, ids.masked_fill(mask, ev.MASK))
        logits = model.out(hidden[mask])
    return F.cross_entropy(logits.float(), ids[mask], reduction="sum") / masked_in_batch, hidden.float().mean(dim=1)


def start_well(model):
    """Initial values other than the class's own, so that the mean hidden state says something of the
    text from the first step on.

    Positions start quiet, and layers that write to the residual stream silent.  Linformer's E and F
    start as near-averages over the positions: with the class's random signs attention adds the same
    random vector to all tokens of a text, which their mean does not cancel."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.startswith("pos_emb"):
                p.normal_(std=0.02)
            elif "proj_" in name:
                p.normal_(1, 0.5).div_(256)
            elif "to_out." in name or ".w2." in name:
                p.zero_()


def centred(model, centre):
    """The model with its mean hidden state moved to the origin, rounded as it will be stored.

    Training takes the mean of a batch away before it compares texts; else all texts begin with
    nearly the same embedding, and InfoNCE finds nothing to push against.  Here the running mean of
    that goes into the weights: what the last norm's bias loses, the output layer's bias gains, so
    that logits stay as they were."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        model.out.bias += model.out.weight @ centre
        model.norm.bias -= centre
    return model.half().float()


def write(model, folder):
    """The model directory; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architecture": "linear_attention_transformer.LinearAttentionTransformerLM", "name": "builtin",
              "kwargs": KWARGS, "pooling": "mean", "normalize": True, "tokenizer": {"type": "byte"}}
    (folder / "config.json.new").write_text(json.dumps(config, indent=2) + "\n")
    state = {name: tensor.detach().half().contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors.new", metadata={"format": "pt"})
    (folder / "model.safetensors.new").chmod(0o644)
    for name in ("config.json", "model.safetensors"):
        os.replace(folder / f"{name}.new", folder / name)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--minutes", type=float, required=True)
    options.add_argument("--stop-after", type=float, default=math.inf, help="minutes; short of --minutes")
    options.add_argument("--start-from", type=Path, help="a model directory to train further")
    options.add_argument("--peak-rate", type=float, default=2e-3)
    options.add_argument("--batch-bytes", type=int, default=12288)
    options.add_argument("--pair-weight", type=float, default=0.1)
    options.add_argument("--unmasked", type=float, default=0.0, help="share of pairs whose crops are not masked")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--evaluate-minutes", type=float, default=4)
    options = options.parse_args()
    torch.set_num_threads(1)       # threads share out chunks instead: see forward()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    text, heldout = ev.Text(options.corpus, "train"), ev.Text(options.corpus, "heldout")
    fill_sample = ev.masked_windows(heldout, 256, 400, ev.SEED)
    find_sample = list(ev.pair_draws(heldout, 256, 5, ev.SEED))

    model = ev.load(options.start_from).train() if options.start_from else ev.build(KWARGS)
    if not options.start_from:
        start_well(model)
    running_centre = torch.zeros(KWARGS["dim"])
    log_scale = torch.nn.Parameter(torch.tensor(math.log(10.0)))      # inverse temperature of InfoNCE
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(text.bytes)} bytes of text", flush=True)
    parameters = list(model.parameters()) + [log_scale]
    optimizer = torch.optim.AdamW([dict(params=[p for p in parameters if p.ndim == 2], weight_decay=0.01),
                                   dict(params=[p for p in parameters if p.ndim != 2], weight_decay=0.0)],
                                  betas=(0.9, 0.98))
    pool = ThreadPoolExecutor(options.threads)
    start, step, seen, next_report = time.monotonic(), 0, 0, options.evaluate_minutes
    sums = np.zeros(3)
    while True:
        minutes = (time.monotonic() - start) / 60
        left = 1 - minutes / options.minutes
        last = left <= 0 or minutes >= options.stop_after
        if last or minutes >= next_report:
            stored = centred(model, running_centre)
            write(stored, options.out)
            with torch.autocast("cpu", torch.bfloat16):
                fill, find = ev.fill_accuracy(stored, *fill_sample)[0], ev.find_accuracy(stored, find_sample)
            fill_loss, pair_loss, batches = sums
            print(f"{minutes:5.1f} min  step {step}  {seen / 1e6:.1f} MB  losses {fill_loss / batches:.3f} "
                  f"{pair_loss / batches:.3f}  held out: fill in {fill:.1%}, find {find:.1%}", flush=True)
            sums[:] = 0
            next_report += options.evaluate_minutes
        if last:
            break
        ids, mask = batch(text, rng, options.batch_bytes, options.unmasked)
        rows = torch.arange(len(ids)).chunk(CHUNKS)
        done = list(pool.map(lambda r: forward(model, ids[r], mask[r], mask.sum()), rows))
        pooled = torch.cat([d[1].detach() for d in done]).requires_grad_()
        centre = pooled.mean(dim=0)
        running_centre.lerp_(centre.detach(), max(0.02, 1 / (step + 1)))
        a, b = F.normalize(pooled - centre, dim=-1).chunk(2)
        cosines = a @ b.T * log_scale.exp().clamp(max=50)
        same = torch.arange(len(a))
        pair_loss = (F.cross_entropy(cosines, same) + F.cross_entropy(cosines.T, same)) / 2
        (options.pair_weight * pair_loss).backward()
        list(pool.map(lambda r, d: torch.autograd.backward(d, (None, pooled.grad[r])), rows, done))
        fill_loss = sum(d[0].detach() for d in done)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = options.peak_rate * min(1, (seen + options.batch_bytes) / WARMUP_BYTES) * left
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        seen += ids.numel()
        sums += fill_loss.item(), pair_loss.item(), 1


if __name__ == "__main__":
    main()
