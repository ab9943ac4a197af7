"""A module that compares a query with a document. One encoder is called twice, with different lengths. The outputs are
scores and both vectors."""

import torch
import torch.nn.functional as F
from linformer import Linformer
from torch import nn

EXAMPLE, CALLS = (2, 6, 15), [(2, 6, 15), (1, 1, 24), (3, 24, 7)]


class TwoTowers(nn.Module):
    def __init__(self, dim=16, seq_len=24):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(50, dim), nn.Embedding(seq_len, dim)
        self.encoder = Linformer(dim, seq_len, 1, k=6, heads=2)
        self.project = nn.Linear(dim, 8, bias=False)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def encode(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        x = self.encoder(self.embedding(ids) + self.positions(places).unsqueeze(0))
        return F.normalize(self.project(x[:, 0]), p=2, dim=-1)

    def forward(self, query, document):
        one, other = self.encode(query), self.encode(document)
        return (one * other).sum(-1, keepdim=True) * self.scale.exp(), one, other


def module():
    return TwoTowers()


def inputs(batch, n, m):
    return {"query": torch.randint(0, 50, (batch, n)), "document": torch.randint(0, 50, (batch, m))}
