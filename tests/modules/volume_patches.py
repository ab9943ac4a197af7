"""A module that classifies volumes. A Linformer reads patches of three dimensions. The mean leaves out the first token.
The scores are divided by a temperature."""

import torch
from einops import rearrange, reduce, repeat
from linformer import Linformer
from torch import nn

EXAMPLE, CALLS = (2,), [(2,), (1,), (4,)]


class VolumePatches(nn.Module):
    def __init__(self, dim=16, frames=4, size=8, patch=(2, 4, 4), classes=3):
        super().__init__()
        self.patch, count = patch, (frames // patch[0]) * (size // patch[1]) * (size // patch[2])
        self.to_tokens = nn.Linear(2 * patch[0] * patch[1] * patch[2], dim)
        self.positions = nn.Parameter(torch.randn(count + 1, dim))
        self.first = nn.Parameter(torch.randn(dim))
        self.body = Linformer(dim, count + 1, 1, k=4, heads=2, reversible=True, share_kv=True)
        self.head = nn.Linear(dim, classes)
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, volume):
        f, p, q = self.patch
        x = rearrange(volume, "b c (f pf) (h p) (w q) -> b (f h w) (pf p q c)", pf=f, p=p, q=q)
        x = self.to_tokens(x)
        x = torch.cat([repeat(self.first, "d -> b 1 d", b=len(x)), x], dim=1)
        x = self.body(x + self.positions)
        return torch.softmax(self.head(reduce(x[:, 1:], "b n d -> b d", "mean")) / self.temperature.exp(), dim=-1)


def module():
    return VolumePatches()


def inputs(batch):
    return {"volume": torch.randn(batch, 2, 4, 8, 8)}
