"""A module that resizes pictures, and computes the mean of a sequence of any length as the sum divided by the
length."""

import torch
from linformer import Linformer
from torch import nn
from torch.nn import functional

EXAMPLE, CALLS = (2, 6), [(2, 6), (1, 1), (3, 11)]


class Upsampling(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.enter, self.linformer = nn.Linear(5, dim), Linformer(dim=dim, seq_len=12, depth=1, k=4, heads=2)
        self.picture, self.out = nn.Conv2d(2, dim, 3, padding=1), nn.Linear(dim, 3)
        self.place = nn.Parameter(torch.randn(dim, 4, 6))  # fixes the size of the pictures

    def forward(self, x, picture):
        x = self.linformer(self.enter(x))
        mean = x.sum(1) / x.shape[1]
        large = functional.interpolate(self.picture(picture) + self.place, size=(7, 9), mode="bilinear")
        small = functional.interpolate(large, scale_factor=0.6, mode="bilinear")
        corners = functional.interpolate(small, size=(5, 8), mode="bilinear", align_corners=True)
        return self.out(mean), corners * mean[:, :, None, None]


def module():
    return Upsampling()


def inputs(batch, n):
    return {"x": torch.randn(batch, n, 5), "picture": torch.randn(batch, 2, 4, 6)}
