"""kuixu's LinearMultiheadAttention in an encoder layer: length first, and the attention's weights as an output."""

import torch
from packages import kuixu
from torch import nn

EXAMPLE, CALLS = (2,), [(2,), (1,), (3,)]


class KuixuEncoder(nn.Module):
    def __init__(self, dim=12, n=10):
        super().__init__()
        attention = kuixu().LinearMultiheadAttention
        self.enter = nn.Linear(5, dim)
        self.first = attention(dim, 3, seq_len=n, proj_k=4)
        self.second = attention(dim, 2, seq_len=n, proj_k=6, add_zero_attn=True, param_sharing="layerwise")
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, 2)

    def forward(self, x):
        x = self.enter(x).transpose(0, 1)
        x = self.norm(x + self.first(x, x, x, need_weights=False)[0])
        more, weights = self.second(x, x, x)
        return self.out((x + more).transpose(0, 1).mean(1)), weights


def module():
    return KuixuEncoder()


def inputs(batch):
    return {"x": torch.randn(batch, 10, 5)}
