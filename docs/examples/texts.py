"""Trains a small classifier of texts around a Linformer, and exports it: is a text C, Python, shell or Markdown?

    pip install torch linformer numpy
    PYTHONPATH=../../weights python3 texts.py             # trains, writes languages/
    python3 texts.py measure http://localhost:8080        # asks a daemon about lines that were not trained on

The texts are pieces of this repository's own files: one to six lines, at most 256 bytes. One file in five is not
trained on. An id is a byte of the text plus 3, as the daemon's byte tokenizer gives it."""

import json
import pathlib
import random
import subprocess
import sys
import time
import urllib.request
import zlib

import torch
from linformer import Linformer
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {"C": (".c", ".h"), "Python": (".py",), "shell": (".sh",), "Markdown": (".md",)}
LABELS = list(SUFFIXES)
LENGTH = 256  # bytes


class Classifier(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embedding = nn.Embedding(259, dim)
        self.position = nn.Parameter(torch.randn(LENGTH, dim) * 0.1)
        self.local = nn.Conv1d(dim, dim, 5, padding=2)
        self.linformer = Linformer(dim=dim, seq_len=LENGTH, depth=2, heads=4, k=32, share_kv=True)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, len(LABELS)))

    def forward(self, ids):  # (batch, n), n from 1 to 256
        x = self.embedding(ids) + self.position[: ids.shape[1]]
        x = x + nn.functional.gelu(self.local(x.transpose(1, 2))).transpose(1, 2)
        return self.head(self.linformer(x).mean(dim=1))


def files(trained_on):
    """The lines of the files, by label. A hash of the name chooses one file in five that is not trained on."""
    names, lines = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split(), {}
    for label, suffixes in SUFFIXES.items():
        chosen = [name for name in names if name.endswith(suffixes) and (zlib.crc32(name.encode()) % 5 > 0) == trained_on]
        lines[label] = [(ROOT / name).read_text().splitlines() for name in chosen]
    return lines


def piece(chance, files):
    """One to six lines of a file, at most 256 bytes, not all blank."""
    while True:
        lines = chance.choice(files)
        first = chance.randrange(max(1, len(lines)))
        text = "\n".join(lines[first : first + chance.randint(1, 6)])
        text = text.encode()[:LENGTH].decode(errors="ignore")
        if len(text.strip()) >= 10:
            return text


def batches(chance, lines, count, size):
    """Ids (size, n) and labels. The pieces of a batch have about the same length. They are cut to the shortest, so no
    padding is needed."""
    pieces = [(piece(chance, lines[label]).encode(), label) for label in LABELS for _ in range(count // len(LABELS))]
    pieces.sort(key=lambda each: len(each[0]))
    groups = [pieces[i : i + size] for i in range(0, len(pieces), size)]
    chance.shuffle(groups)
    for group in groups:
        shortest = min(len(text) for text, _ in group)
        yield (
            torch.tensor([[byte + 3 for byte in text[:shortest]] for text, _ in group]),
            torch.tensor([LABELS.index(label) for _, label in group]),
        )


def train(steps=1000):
    torch.manual_seed(1)
    chance, lines, model = random.Random(1), files(True), Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps)
    step = 0
    while step < steps:
        for ids, label in batches(chance, lines, 6400, 64):
            loss = nn.functional.cross_entropy(model(ids), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == steps:
                break
            schedule.step()
        print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return model


def export(model, folder):
    from export import export_module

    example = {"ids": torch.zeros(2, 100, dtype=torch.int64)}
    export_module(model, example, folder, labels=LABELS, tokenizer={"type": "byte"})


def measure(address, count=250):
    """Sends pieces of files that were not trained on to a daemon. Returns how many answers are right."""
    chance, lines, right = random.Random(2), files(False), 0
    for i in range(count):
        for label in LABELS:
            body = json.dumps({"inputs": piece(chance, lines[label])}).encode()
            request = urllib.request.Request(address + "/predict", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                right += json.load(answer)[0]["label"] == label
    print(f"{right} of {count * len(LABELS)} right")
    return right


def main():
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2])
        return
    start = time.time()
    model = train()
    print(f"trained in {time.time() - start:.0f} s")
    export(model, "languages")


if __name__ == "__main__":
    main()
