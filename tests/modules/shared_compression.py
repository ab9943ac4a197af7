"""An encoder like the implementation by the authors of the Linformer paper. The first dimension is time. One matrix
compresses the keys and values of all layers. The matrix is cut to the length of the sequence. Batch and heads form one
dimension."""

import torch
import torch.nn.functional as F
from torch import nn

EXAMPLE, CALLS = (2, 14), [(2, 14), (1, 32), (3, 5)]


class CompressedAttention(nn.Module):
    def __init__(self, dim, heads, compress):
        super().__init__()
        self.heads, self.head_dim, self.scaling = heads, dim // heads, (dim // heads) ** -0.5
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))
        self.compress_k = compress

    def forward(self, query):
        n, batch, dim = query.size()
        q = self.q_proj(query)
        q *= self.scaling
        shorter = query.permute(1, 2, 0).contiguous()
        shorter = F.linear(shorter, self.compress_k.weight[:, 0:n]).permute(2, 0, 1).contiguous()
        k, v = self.k_proj(shorter), self.v_proj(shorter)
        q = q.contiguous().view(n, batch * self.heads, self.head_dim).transpose(0, 1)
        k, v = (one.contiguous().view(-1, batch * self.heads, self.head_dim).transpose(0, 1) for one in (k, v))
        weights = torch.bmm(q, k.transpose(1, 2))
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).type_as(weights)
        attention = torch.bmm(F.dropout(weights, p=0.1, training=self.training), v)
        return self.out_proj(attention.transpose(0, 1).contiguous().view(n, batch, dim))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, compress):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = CompressedAttention(dim, heads, compress), nn.LayerNorm(dim)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(dim, 28), nn.Linear(28, dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = self.self_attn_layer_norm(x + self.self_attn(x))
        return self.final_layer_norm(x + self.fc2(F.gelu(self.fc1(x).float()).type_as(x)))


class SharedCompression(nn.Module):
    def __init__(self, vocabulary=40, dim=16, heads=2, most=32):
        super().__init__()
        self.embed_tokens, self.embed_positions = nn.Embedding(vocabulary, dim, 1), nn.Embedding(most + 2, dim, 1)
        self.compress_layer = nn.Linear(most, most // 4, bias=False)
        self.layers = nn.ModuleList([EncoderLayer(dim, heads, self.compress_layer) for _ in range(2)])

    def forward(self, tokens):
        padding = tokens.eq(1)
        kept = tokens.ne(1).int()
        places = (torch.cumsum(kept, dim=1).type_as(kept) * kept).long() + 1
        x = self.embed_tokens(tokens) + self.embed_positions(places)
        x = (x * (1 - padding.unsqueeze(-1).type_as(x))).transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
        x = x.transpose(0, 1)
        return x, x[:, 0, :]


def module():
    return SharedCompression()


def inputs(batch, n):
    tokens = torch.randint(2, 40, (batch, n))
    tokens[0, n - n // 4 :] = 1
    return {"tokens": tokens}
