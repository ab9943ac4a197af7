"""A module that classifies proteins. The positions are sinusoids in a buffer that is not saved. Two kinds of pooling
leave out the padding."""

import math

import torch
from linformer import LinformerSelfAttention
from torch import nn

EXAMPLE, CALLS = (2, 20), [(2, 20), (3, 40), (1, 7)]


def sinusoids(n, dim):
    angles = torch.arange(n)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


class Layer(nn.Module):
    """A pre-norm layer around LinformerSelfAttention, as a user would write it."""

    def __init__(self, dim, seq_len):
        super().__init__()
        self.norm, self.norm_inner = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = LinformerSelfAttention(dim, seq_len, k=6, heads=2, one_kv_head=True)
        self.inner = nn.Sequential(nn.Linear(dim, 3 * dim), nn.ReLU(inplace=True), nn.Linear(3 * dim, dim))
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x + self.attention(self.norm(x)) * self.scale
        return x + self.inner(self.norm_inner(x))


class ProteinClassifier(nn.Module):
    def __init__(self, dim=24, seq_len=40, classes=5):
        super().__init__()
        self.residues = nn.Embedding(26, dim, padding_idx=0)
        self.register_buffer("table", sinusoids(seq_len, dim), persistent=False)
        self.layers = nn.ModuleList([Layer(dim, seq_len) for _ in range(2)])
        self.out = nn.Linear(2 * dim, classes)

    def forward(self, residues):
        mask = residues.ne(0)
        x = self.residues(residues) * math.sqrt(24) + self.table[: residues.size(1)]
        for layer in self.layers:
            x = layer(x)
        kept = mask.unsqueeze(-1).float()
        mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        largest = x.masked_fill(~mask.unsqueeze(-1), -1e9).max(dim=1).values
        return self.out(torch.cat([mean, largest], dim=-1))


def module():
    return ProteinClassifier()


def inputs(batch, n):
    residues = torch.randint(1, 26, (batch, n))
    for i in range(batch):
        residues[i, n - (i * n) // (2 * batch) :] = 0
    return {"residues": residues}
