"""Trains a small vision transformer around a Linformer to tell drawn cats from dogs, and exports it.

    pip install torch linformer numpy pillow
    PYTHONPATH=../../weights python3 pictures.py             # trains, writes cats_and_dogs/
    python3 pictures.py measure http://localhost:8080        # asks a daemon about 1000 pictures that were not trained on

Training draws the pictures 0 to 2999 of each kind. Measuring draws pictures from 1000000 on."""

import io
import json
import sys
import time
import urllib.request

import numpy
import torch
from linformer import Linformer
from torch import nn

from drawings import LABELS, SIDE, draw

NEW = 1_000_000  # pictures from this number on are not trained on


class Classifier(nn.Module):
    def __init__(self, dim=48, patch=8):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.position = nn.Parameter(torch.randn((SIDE // patch) ** 2, dim) * 0.1)
        self.linformer = Linformer(dim=dim, seq_len=(SIDE // patch) ** 2, depth=2, heads=4, k=16, share_kv=True)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, len(LABELS)))

    def forward(self, picture):  # (batch, 3, 64, 64)
        x = self.patches(picture).flatten(2).transpose(1, 2) + self.position
        return self.head(self.linformer(x).mean(dim=1))


def pictures(first, count):
    """Bytes (2 * count, 3, height, width) and classes of new drawings, a cat and a dog for each number."""
    drawn = [numpy.asarray(draw(label, first + i)) for i in range(count) for label in LABELS]
    return torch.from_numpy(numpy.stack(drawn)).permute(0, 3, 1, 2), torch.arange(2 * count) % 2


def as_input(picture):
    """Scales bytes as the daemon does with the "mean" and "std" below: -1 is black, 1 is white."""
    return (picture.float() / 255 - 0.5) / 0.5


def accuracy(model, picture, label):
    model.eval()
    with torch.no_grad():
        return (model(as_input(picture)).argmax(dim=1) == label).float().mean().item()


def train(count=3000, epochs=12):
    torch.manual_seed(1)
    model, (picture, label) = Classifier(), pictures(0, count)
    steps = epochs * (2 * count // 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps)
    for epoch in range(epochs):
        model.train()
        for chosen in torch.randperm(len(label)).split(64)[: 2 * count // 64]:
            batch = picture[chosen]
            if torch.rand(()) < 0.5:
                batch = batch.flip(3)
            loss = nn.functional.cross_entropy(model(as_input(batch)), label[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    return model


def export(model, folder):
    from export import export_module

    example = {"picture": torch.zeros(2, 3, SIDE, SIDE)}
    image = {"size": [SIDE, SIDE], "crop": "none", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    export_module(model, example, folder, labels=LABELS, image=image)


def measure(address, count=500):
    """Sends new pictures as PNG files to a daemon. Returns how many answers are right."""
    right = 0
    for i in range(count):
        for label in LABELS:
            file = io.BytesIO()
            draw(label, NEW + i).save(file, "PNG")
            request = urllib.request.Request(address + "/predict", file.getvalue(), {"Content-Type": "image/png"})
            with urllib.request.urlopen(request) as answer:
                right += json.load(answer)[0]["label"] == label
    print(f"{right} of {2 * count} right")
    return right


def main():
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2])
        return
    start = time.time()
    model = train()
    print(f"accuracy {accuracy(model, *pictures(NEW, 500)):.3f} after {time.time() - start:.0f} s")
    export(model, "cats_and_dogs")


if __name__ == "__main__":
    main()
