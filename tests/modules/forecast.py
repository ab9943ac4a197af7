"""A module that forecasts time series. Each series is normalised by its own mean and deviation, and cut into
overlapping patches. Each channel becomes an item of the batch. linformer-pytorch's Linformer reads the patches. Finally
the normalisation is reversed."""

import torch
from linformer_pytorch import Linformer
from torch import nn

EXAMPLE, CALLS = (2,), [(2,), (1,), (3,)]
LENGTH, PATCH, STRIDE, AHEAD = 32, 8, 4, 6


class Forecast(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        patches = (LENGTH - PATCH) // STRIDE + 1
        self.enter, self.positions = nn.Linear(PATCH, dim), nn.Parameter(torch.randn(1, patches, dim) * 0.02)
        self.body = Linformer(input_size=patches, channels=dim, dim_k=4, dim_ff=20, nhead=3, depth=2, activation="relu",
                              parameter_sharing="headwise", k_reduce_by_layer=1)
        self.leave = nn.Linear(patches * dim, AHEAD)
        self.gain, self.shift = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, series):
        mean = series.mean(1, keepdim=True).detach()
        deviation = torch.sqrt(torch.var(series, dim=1, keepdim=True, unbiased=False) + 1e-5)
        x = (series - mean) / deviation * self.gain + self.shift
        b, n, channels = x.shape
        x = x.permute(0, 2, 1).reshape(b * channels, n).unfold(-1, PATCH, STRIDE)
        x = self.body(self.enter(x) + self.positions)
        x = self.leave(x.flatten(1)).reshape(b, channels, AHEAD).permute(0, 2, 1)
        return (x - self.shift) / (self.gain + 1e-10) * deviation + mean


def module():
    return Forecast()


def inputs(batch):
    return {"series": torch.randn(batch, LENGTH, 3) * 2 + 1}
