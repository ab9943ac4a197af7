"""vit-pytorch's efficient ViT around a Linformer, as in the README of vit-pytorch."""

import torch
from linformer import Linformer
from packages import efficient_vit

EXAMPLE, CALLS = (2,), [(2,), (1,), (3,)]
CONFIG = {"labels": ["cat", "dog", "fish", "bird", "frog"], "image": {"size": [16, 16]}}


def module():
    transformer = Linformer(dim=32, seq_len=17, depth=2, heads=4, k=8)
    return efficient_vit().ViT(dim=32, image_size=16, patch_size=4, num_classes=5, transformer=transformer)


def inputs(batch):
    return {"img": torch.randn(batch, 3, 16, 16)}
