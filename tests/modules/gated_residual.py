"""A residual network with gates that completes time series, as in diffusion models. It contains 1x1 convolutions, and
an embedding of the diffusion step. One attention runs along time, and regards the features as items of the batch.
Another runs along the features, and regards the times as items of the batch."""

import math

import torch
import torch.nn.functional as F
from linear_attention_transformer import LinearAttentionTransformer
from linformer import Linformer
from torch import nn

EXAMPLE, CALLS = (2, 10), [(2, 10), (1, 16), (3, 3)]
FEATURES, CHANNELS = 5, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(16, CHANNELS)
        self.middle = nn.Conv1d(CHANNELS, 2 * CHANNELS, 1)
        self.out = nn.Conv1d(CHANNELS, 2 * CHANNELS, 1)
        self.along_time = LinearAttentionTransformer(dim=CHANNELS, depth=1, max_seq_len=64, heads=2)
        self.along_features = Linformer(dim=CHANNELS, seq_len=FEATURES, depth=1, k=3, heads=2)

    def time(self, y, shape):
        b, c, k, n = shape
        y = y.reshape(b, c, k, n).permute(0, 2, 1, 3).reshape(b * k, c, n)
        y = self.along_time(y.permute(0, 2, 1)).permute(0, 2, 1)
        return y.reshape(b, k, c, n).permute(0, 2, 1, 3).reshape(b, c, k * n)

    def features(self, y, shape):
        b, c, k, n = shape
        y = y.reshape(b, c, k, n).permute(0, 3, 1, 2).reshape(b * n, c, k)
        y = self.along_features(y.permute(0, 2, 1)).permute(0, 2, 1)
        return y.reshape(b, n, c, k).permute(0, 2, 3, 1).reshape(b, c, k * n)

    def forward(self, x, step):
        shape = x.shape
        b, c, k, n = shape
        x = x.reshape(b, c, k * n)
        y = x + self.step(step).unsqueeze(-1)
        y = self.middle(self.features(self.time(y, shape), shape))
        gate, filtered = torch.chunk(y, 2, dim=1)
        residual, skip = torch.chunk(self.out(torch.sigmoid(gate) * torch.tanh(filtered)), 2, dim=1)
        return ((x + residual) / math.sqrt(2.0)).reshape(shape), skip.reshape(shape)


class GatedResidual(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv1d(2, CHANNELS, 1)
        frequencies = 10.0 ** (torch.arange(4) / 3.0 * 4.0)
        table = torch.arange(50)[:, None] / frequencies
        self.register_buffer("steps", torch.cat([table.sin(), table.cos()], dim=1), persistent=False)
        self.embed = nn.Linear(8, 16)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.leave = nn.Sequential(nn.Conv1d(CHANNELS, CHANNELS, 1), nn.ReLU(), nn.Conv1d(CHANNELS, 1, 1))

    def forward(self, x, step):
        b, c, k, n = x.shape
        h = F.relu(self.enter(x.reshape(b, c, k * n))).reshape(b, CHANNELS, k, n)
        step = F.silu(self.embed(self.steps[step]))
        skips = []
        for block in self.blocks:
            h, skip = block(h, step)
            skips.append(skip)
        total = torch.sum(torch.stack(skips), dim=0) / math.sqrt(len(skips))
        return self.leave(total.reshape(b, CHANNELS, k * n)).reshape(b, k, n)


def module():
    return GatedResidual()


def inputs(batch, n):
    return {"x": torch.randn(batch, 2, FEATURES, n), "step": torch.randint(0, 50, (batch,))}
