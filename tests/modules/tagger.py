"""A module that tags every token. The inputs are ids, their types, and a mask for the attention. A
LinearAttentionTransformer reads the embedded ids."""

import torch
from linear_attention_transformer import LinearAttentionTransformer
from torch import nn

EXAMPLE, CALLS = (2, 9), [(2, 9), (1, 1), (3, 30)]


class Tagger(nn.Module):
    def __init__(self, dim=16, tags=7, most=30):
        super().__init__()
        self.words, self.kinds, self.places = nn.Embedding(40, dim), nn.Embedding(3, dim), nn.Embedding(most, dim)
        self.register_buffer("ids", torch.arange(most).expand((1, -1)))
        self.norm, self.drop = nn.LayerNorm(dim, eps=1e-12), nn.Dropout(0.3)
        self.encoder = LinearAttentionTransformer(dim=dim, depth=2, max_seq_len=most, heads=4, shift_tokens=True)
        self.tags = nn.Linear(dim, tags)

    def forward(self, ids, kinds, mask):
        x = self.words(ids) + self.kinds(kinds) + self.places(self.ids[:, : ids.shape[1]])
        x = self.encoder(self.drop(self.norm(x)), input_mask=mask.bool())
        return self.tags(x) * mask.unsqueeze(-1).to(x.dtype)


def module():
    return Tagger()


def inputs(batch, n):
    mask = (torch.arange(n) < torch.arange(n, n - batch, -1)[:, None]).long()
    mask[:, 0] = 1
    return {"ids": torch.randint(0, 40, (batch, n)), "kinds": torch.randint(0, 3, (batch, n)), "mask": mask}
