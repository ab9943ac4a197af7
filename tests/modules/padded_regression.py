"""A module that scores texts of any length up to a limit. linformer-pytorch's LinformerLM runs in its Padder, and the
output is cut to the rows of the text."""

import torch
from linformer_pytorch import LinformerLM, Padder
from torch import nn

EXAMPLE, CALLS = (2, 9), [(2, 9), (1, 16), (3, 4)]


class PaddedRegression(nn.Module):
    def __init__(self):
        super().__init__()
        model = LinformerLM(num_tokens=30, input_size=16, channels=12, dim_k=4, dim_ff=18, nhead=2, depth=2, emb_dim=10,
                            parameter_sharing="kv", return_emb=True, include_ff=True)
        self.model = Padder(model)
        self.mix = nn.Parameter(torch.randn(3))
        self.out = nn.Linear(10, 1)

    def forward(self, tensor):
        rows = self.model(tensor)
        pooled = torch.stack([rows.mean(1), rows.amax(1), rows[:, -1]], dim=-1) @ self.mix.softmax(0)
        return torch.sigmoid(self.out(pooled)).squeeze(-1)


def module():
    return PaddedRegression()


def inputs(batch, n):
    return {"tensor": torch.randint(0, 30, (batch, n))}
