"""The class BIOT of braindecode. It computes spectrograms of all channels, and tokens from the spectrograms. A
LinearAttentionTransformer reads the tokens of all channels."""

import torch
from packages import biot

EXAMPLE, CALLS = (2, 400), [(2, 400), (1, 555), (2, 200), (1, 1000)]


def module():
    return biot()(embed_dim=16, num_heads=4, num_layers=2, sfreq=200, n_outputs=4, n_chans=3, n_times=400)


def inputs(batch, n):
    return {"x": torch.randn(batch, 3, n)}
