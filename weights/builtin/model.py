"""The built-in model, and how its folder is written and read.

One table has a row for each token. A row has two parts:

- The first columns, the *vector columns*, say what a text is about. A text's vector is a weighted sum of its tokens'
  rows.
- The reader reads the last GUESS columns. For each mask, the reader computes a vector of GUESS numbers. The scalar
  product of this vector with the last columns of a token is the logit of the token.

The reader is a Linformer between two layers that see the neighbours of a token.
"""
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from linformer import Linformer

VOCABULARY = 8192
PAD, END, MASK, SPECIAL = 0, 1, 2, 3   # SPECIAL: the number of special ids
LONGEST = 512                       # maximum number of tokens of a text
GUESS = 128                         # columns that the reader reads
NEIGHBOURS = 2                      # neighbours on each side that a Neighbourhood sees
HIDDEN = 384


class Neighbourhood(nn.Module):
    """A feed-forward layer over each token and its neighbours, with a residual connection.  (b, n, GUESS)"""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(GUESS)
        self.into = nn.Linear((2 * NEIGHBOURS + 1) * GUESS, HIDDEN)
        self.out = nn.Linear(HIDDEN, GUESS)

    def forward(self, x):
        n = x.shape[1]
        padded = F.pad(self.norm(x), (0, 0, NEIGHBOURS, NEIGHBOURS))
        around = torch.cat([padded[:, i:i + n] for i in range(2 * NEIGHBOURS + 1)], dim=-1)
        return x + self.out(F.gelu(self.into(around)))


class Reader(nn.Module):
    """Computes the vectors that guess masked tokens, from the GUESS columns of a text's tokens. (b, n, GUESS)"""

    def __init__(self):
        super().__init__()
        self.near = Neighbourhood()
        self.linformer = Linformer(dim=GUESS, seq_len=LONGEST, depth=1, k=32, heads=4, dim_head=32)
        self.last = Neighbourhood()
        self.norm = nn.LayerNorm(GUESS)

    def forward(self, x):
        return self.norm(self.last(self.linformer(self.near(x * GUESS ** 0.5))))


class Repetitions(nn.Module):
    """How often each token occurs in its text. ids (b, n) -> (b, n, 1)

    This is an attention without trained weights. The bits of a token's id, as signs, are its key and its query. The
    product of a key with the query of the same token is larger than with any other query. One more key has this product
    with all queries. SHARPNESS is very large. So for a token that occurs c times, the softmax at the additional key is
    1 / (c + 1). A comparison of the ids would need a matrix of n x n numbers, which this attention does not need."""
    BITS, SHARPNESS = 13, 20.0

    def __init__(self):
        super().__init__()
        bits = torch.arange(VOCABULARY)[:, None] >> torch.arange(self.BITS) & 1
        # The last column makes the product with the additional key.
        self.register_buffer("queries", F.pad(bits * 2.0 - 1, (0, 1), value=self.BITS))

    def forward(self, ids):
        queries = F.embedding(ids, self.queries)
        is_other = F.pad(queries[:, :, self.BITS:] * 0, (0, 0, 0, 1), value=1)
        keys = torch.cat((F.pad(queries[:, :, :self.BITS], (0, 0, 0, 1)), is_other), dim=-1)
        part = F.scaled_dot_product_attention(queries[:, None], keys[:, None], is_other[:, None], scale=self.SHARPNESS)
        return 1 / part[:, 0] - 1


class Builtin(nn.Module):
    """x, the ids (b, n) -> logits (b, n, VOCABULARY). A text's vector is the mean of the rows that the last layer
    reads.

    The row of a token that occurs c times is multiplied by (1 + log c) / c. So the token counts 1 + log c times in the
    sum over the text. The reader's guess replaces the row of a mask."""

    def __init__(self, vector_columns):
        super().__init__()
        self.vector_columns = vector_columns
        self.table = nn.Embedding(VOCABULARY, vector_columns + GUESS)
        self.repetitions, self.reader = Repetitions(), Reader()
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def hidden(self, ids):
        """The input of the last layer. (b, n, vector_columns + GUESS)"""
        rows = self.table(ids)
        guesses = F.pad(self.reader(rows[:, :, self.vector_columns:]), (self.vector_columns, 0))
        repetitions = self.repetitions(ids)
        weighted = rows * ((1 + repetitions.log()) / repetitions)
        return torch.where((ids == MASK)[:, :, None], guesses, weighted)

    def logits(self, hidden):
        return F.linear(hidden, self.table.weight, self.bias)

    def forward(self, x):
        return self.logits(self.hidden(x))


def read(folder):
    """The model of a folder, in F32."""
    from safetensors.torch import load_file
    state = {name: tensor.float() for name, tensor in load_file(Path(folder) / "model.safetensors").items()}
    model = Builtin(state["table.weight"].shape[1] - GUESS)
    model.load_state_dict(state)
    return model.eval()
