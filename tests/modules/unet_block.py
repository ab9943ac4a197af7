"""A U-Net with one step down and one step up. It contains group norms, SiLU, and ImageLinearAttention at the lower
resolution. It upsamples with a transposed convolution and by nearest neighbours."""

import torch
import torch.nn.functional as F
from linear_attention_transformer.images import ImageLinearAttention
from torch import nn

EXAMPLE, CALLS = (2,), [(2,), (1,), (3,)]


class Residual(nn.Module):
    def __init__(self, channels, wider):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(2, channels), nn.SiLU(), nn.Conv2d(channels, wider, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(2, wider), nn.SiLU(), nn.Conv2d(wider, wider, 3, padding="same"))
        self.skip = nn.Conv2d(channels, wider, 1) if channels != wider else nn.Identity()
        self.time = nn.Linear(8, 2 * wider)

    def forward(self, x, time):
        scale, shift = self.time(F.gelu(time))[:, :, None, None].chunk(2, dim=1)
        return self.second(self.first(x) * (scale + 1) + shift) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.time = nn.Linear(4, 8)
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.down, self.pool = Residual(channels, channels), nn.Conv2d(channels, 2 * channels, 4, 2, 1)
        self.attention = ImageLinearAttention(chan=2 * channels, heads=2, key_dim=6, value_dim=5)
        self.middle = Residual(2 * channels, 2 * channels)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 4, 2, 1)
        self.last, self.leave = Residual(2 * channels, channels), nn.Conv2d(channels, 1, 1)

    def forward(self, image, time):
        angles = time[:, None] * torch.tensor([1.0, 0.1], device=time.device)
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        x = self.enter(image)
        skip = self.down(x, time)
        x = self.pool(skip)
        x = self.middle(x + self.attention(x), time)
        x = torch.cat([self.up(x) + F.interpolate(x, scale_factor=2, mode="nearest")[:, :8], skip], dim=1)
        return self.leave(self.last(x, time))


def module():
    return UNet()


def inputs(batch):
    return {"image": torch.randn(batch, 3, 8, 12), "time": torch.rand(batch) * 30}
