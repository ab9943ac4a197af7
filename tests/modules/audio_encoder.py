"""A module that encodes waveforms. Strided convolutions with batch norm are followed by local and global linear
attention in an Autopadder. The pooling computes the mean and the deviation of the frames, weighted by an attention. The
outputs are an embedding and the weights of the frames."""

import torch
import torch.nn.functional as F
from linear_attention_transformer import LinearAttentionTransformer
from linear_attention_transformer.autopadder import Autopadder
from torch import nn

EXAMPLE, CALLS = (2, 160), [(2, 160), (1, 203), (3, 64)]


def convolution(channels, wider, width, stride):
    return nn.Sequential(nn.Conv1d(channels, wider, width, stride, padding=width // 2), nn.BatchNorm1d(wider),
                         nn.LeakyReLU(0.2, inplace=True))


class AudioEncoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.convolutions = nn.Sequential(convolution(1, 8, 7, 4), convolution(8, dim, 3, 2))
        self.encoder = Autopadder(LinearAttentionTransformer(dim, 2, 64, heads=4, n_local_attn_heads=2,
                                                             local_attn_window_size=8))
        self.attention = nn.Sequential(nn.Linear(dim, 8), nn.Tanh(), nn.Linear(8, 1))
        self.out = nn.Linear(2 * dim, 6)

    def forward(self, wave):
        wave = F.pad(wave, (3, 3), mode="reflect").unsqueeze(1)
        x = self.encoder(self.convolutions(wave).transpose(1, 2))
        weights = torch.softmax(self.attention(x), dim=1)
        mean = torch.sum(weights * x, dim=1)
        deviation = torch.sqrt((torch.sum(weights * x.pow(2), dim=1) - mean**2).clamp(min=1e-6))
        embedding = F.normalize(self.out(torch.cat((mean, deviation), dim=1)), dim=-1)
        return {"embedding": embedding, "weights": weights.squeeze(-1)}


def module():
    return AudioEncoder()


def inputs(batch, n):
    return {"wave": torch.randn(batch, n)}
