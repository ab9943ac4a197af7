"""A language model with tied weights: PyTorch's own encoder layer, then a Linformer."""

import torch
import torch.nn.functional as F
from linformer import Linformer
from torch import nn

EXAMPLE, CALLS = (2, 11), [(2, 11), (1, 20), (3, 2)]


class TiedModel(nn.Module):
    def __init__(self, vocabulary=33, dim=16, seq_len=20):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.position = nn.Parameter(torch.randn(seq_len, dim) * 0.1)
        self.first = nn.TransformerEncoderLayer(dim, 4, 24, activation="gelu", batch_first=True, norm_first=True)
        self.rest = Linformer(dim, seq_len, 1, k=5, heads=4, dim_head=3)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, vocabulary, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids) + self.position[: ids.shape[1]]
        x = self.rest(self.first(x, src_key_padding_mask=ids == 0))
        return F.log_softmax(self.out(self.norm(x)), dim=-1)


def module():
    return TiedModel()


def inputs(batch, n):
    ids = torch.randint(1, 33, (batch, n))
    ids[0, n - n // 3 :] = 0
    return {"ids": ids}
