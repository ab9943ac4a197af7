"""A module that classifies sequences of ids: embedding, learned positions, Linformer, mean, linear layer."""

import torch
from linformer import Linformer
from torch import nn

EXAMPLE, CALLS = (2, 12), [(2, 12), (3, 32), (1, 5), (4, 1)]
CONFIG = {"labels": ["low", "middle", "high"]}


class TokenClassifier(nn.Module):
    def __init__(self, vocabulary=60, dim=16, seq_len=32, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.position = nn.Parameter(torch.zeros(1, seq_len, dim))
        self.linformer = Linformer(dim=dim, seq_len=seq_len, depth=2, k=8, heads=4)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Dropout(0.1), nn.Linear(dim, classes))

    def forward(self, ids):
        x = self.embedding(ids) + self.position[:, : ids.shape[1]]
        return self.head(self.linformer(x).mean(dim=1))


def module():
    return TokenClassifier()


def inputs(batch, n):
    return {"ids": torch.randint(0, 60, (batch, n))}
