"""vit-pytorch's efficient ViT with mean pooling, around a LinearAttentionTransformer. An instance of
LinearAttentionTransformer does not store its argument max_seq_len."""

import torch
from linear_attention_transformer import LinearAttentionTransformer
from packages import efficient_vit

EXAMPLE, CALLS = (2,), [(2,), (1,), (3,)]
CONFIG = {"labels": ["a", "b", "c", "d"]}


def module():
    transformer = LinearAttentionTransformer(dim=24, depth=2, max_seq_len=25, heads=4, dim_head=5)
    return efficient_vit().ViT(dim=24, image_size=(16, 24), patch_size=4, num_classes=4, transformer=transformer,
                               pool="mean", channels=2)


def inputs(batch):
    return {"img": torch.randn(batch, 2, 16, 24)}
