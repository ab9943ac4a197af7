"""The models of the benchmarks, as plain PyTorch modules. The tensors in their state_dict have the libraries' names.

The modules are written from the papers' equations, so that the benchmarks need no library. test_plain.py compares them
with the libraries' outputs in tests/reference. The modules lack everything that the measured models do not use: masks,
reversible layers, decoders, and other ways of sharing E and F.

The argument of hidden() is ids (batch, n) or rows (batch, n, features). hidden() returns the last hidden state, with
the shape (batch, n, features), which is the input of the class's output layer. If `fused`, attention is PyTorch's
scaled_dot_product_attention. Otherwise attention is written out, as in the libraries."""
import json
import math

import torch
from torch import nn
from torch.nn import functional


def attend(queries, keys, values, fused):
    """Returns the attention of queries (batch, heads, n, d) over keys and values (batch, heads, k, d). The result has
    the shape of the queries."""
    if fused:
        return functional.scaled_dot_product_attention(queries, keys, values)
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return scores.softmax(-1) @ values


def split_heads(x, heads):
    """Converts x (batch, n, heads * d) to (batch, heads, n, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x):
    """Converts x (batch, heads, n, d) to (batch, n, heads * d)."""
    return x.transpose(1, 2).flatten(-2)


# ---- linformer: norms come before attention and feed-forward (pre-norm). E and F are parameters (seq_len, k), cut to n
# rows. Source: Wang et al. 2020, equation 7

class SelfAttention(nn.Module):
    def __init__(self, dim, seq_len, k=256, heads=8, dim_head=None, one_kv_head=False, share_kv=False, fused=False):
        super().__init__()
        width = dim_head or dim // heads
        kv_width = width if one_kv_head else width * heads
        self.heads, self.kv_heads, self.fused = heads, 1 if one_kv_head else heads, fused
        self.to_q = nn.Linear(dim, width * heads, bias=False)
        self.to_k = nn.Linear(dim, kv_width, bias=False)
        self.proj_k = nn.Parameter(torch.empty(seq_len, k))
        self.shared = share_kv
        if not share_kv:
            self.to_v = nn.Linear(dim, kv_width, bias=False)
            self.proj_v = nn.Parameter(torch.empty(seq_len, k))
        self.to_out = nn.Linear(width * heads, dim)

    def forward(self, x):
        n = x.shape[1]
        keys = self.proj_k[:n].T @ self.to_k(x)
        values = keys if self.shared else self.proj_v[:n].T @ self.to_v(x)
        queries = split_heads(self.to_q(x), self.heads)
        keys, values = split_heads(keys, self.kv_heads), split_heads(values, self.kv_heads)
        if self.kv_heads < self.heads:
            keys, values = (t.expand(-1, self.heads, -1, -1) for t in (keys, values))
        return self.to_out(join_heads(attend(queries, keys, values, self.fused)))


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.w2(functional.gelu(self.w1(x)))


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(dim), fn

    def forward(self, x):
        return x + self.fn(self.norm(x))


class Layers(nn.Module):
    def __init__(self, depth, dim, attention):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList([PreNorm(dim, SelfAttention(dim, **attention)), PreNorm(dim, FeedForward(dim))])
            for _ in range(depth))

    def forward(self, x):
        for attention, feed_forward in self.layers:
            x = feed_forward(attention(x))
        return x


class Linformer(nn.Module):
    def __init__(self, dim, depth, fused=False, **attention):
        super().__init__()
        self.net = Layers(depth, dim, attention | {"fused": fused})

    def hidden(self, x):
        return self.net(x)

    def forward(self, x):
        return self.net(x)


class LinformerLM(nn.Module):
    def __init__(self, num_tokens, dim, seq_len, depth, fused=False, **attention):
        super().__init__()
        self.token_emb, self.pos_emb = nn.Embedding(num_tokens, dim), nn.Embedding(seq_len, dim)
        self.linformer = Linformer(dim, depth, fused, seq_len=seq_len, **attention)
        self.to_logits = nn.Linear(dim, num_tokens)

    def hidden(self, ids):
        return self.linformer(self.token_emb(ids) + self.pos_emb.weight[:ids.shape[1]])

    def forward(self, ids):
        return self.to_logits(self.hidden(ids))


# ---- linformer_pytorch: norms come after attention and feed-forward (post-norm). One Linear with a bias projects keys
# and values of all layers along the sequence. With full attention, nothing is projected

class SharedProjection(nn.Module):
    """The projection E. This class exists only so that E has the name heads.0.E in the state_dict."""

    def __init__(self, input_size, dim_k):
        super().__init__()
        self.E = nn.Linear(input_size, dim_k)


class HeadsAttention(nn.Module):
    def __init__(self, channels, nhead, projection, full, fused):
        super().__init__()
        width = channels // nhead
        for name in ("to_q", "to_k", "to_v"):
            setattr(self, name, nn.ModuleList(nn.Linear(channels, width, bias=False) for _ in range(nhead)))
        self.heads = nn.ModuleList([projection] if projection else [])
        self.w_o = nn.Linear(channels, channels)
        self.nhead, self.full, self.fused, self.joined = nhead, full, fused, None

    def join(self):
        """Joins the weights of all heads. Afterwards there is one product for the queries, one for the keys and one for
        the values. A user who measures speed would write the module like this."""
        self.joined = [torch.cat([linear.weight for linear in getattr(self, name)]).detach()
                       for name in ("to_q", "to_k", "to_v")]

    def forward(self, x, project):
        queries, keys, values = (functional.linear(x, weight) for weight in self.joined)
        if not self.full:
            keys, values = (project(t.transpose(1, 2)).transpose(1, 2) for t in (keys, values))
        queries, keys, values = (split_heads(t, self.nhead) for t in (queries, keys, values))
        return self.w_o(join_heads(attend(queries, keys, values, self.fused)))


class TwoLinears(nn.Module):
    def __init__(self, channels, dim_ff):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(channels, dim_ff), nn.Linear(dim_ff, channels)

    def forward(self, x):
        return self.w_2(functional.gelu(self.w_1(x)))


class PostNorm(nn.Module):
    def __init__(self, channels, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(channels), fn

    def forward(self, x, *more):
        return self.norm(x + self.fn(x, *more))


class Tatp22Linformer(nn.Module):
    def __init__(self, input_size, channels, dim_k, dim_ff, nhead, depth, full_attention=False, fused=False,
                 parameter_sharing="layerwise"):
        super().__init__()
        assert parameter_sharing == "layerwise"
        self.seq = nn.ModuleList()
        for i in range(depth):
            projection = SharedProjection(input_size, dim_k) if i == 0 else None
            self.seq.append(PostNorm(channels, HeadsAttention(channels, nhead, projection, full_attention, fused)))
            self.seq.append(PostNorm(channels, TwoLinears(channels, dim_ff)))

    def hidden(self, x):
        project = self.seq[0].fn.heads[0].E
        for attention, feed_forward in zip(self.seq[::2], self.seq[1::2]):
            x = feed_forward(attention(x, project))
        return x

    forward = hidden


class Sinusoids(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.register_buffer("inv_freq", torch.empty(channels // 2))

    def forward(self, x):
        angles = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[:, None] * self.inv_freq.float()
        return x + torch.cat([angles.sin(), angles.cos()], -1).to(x.dtype)


class Tatp22LinformerLM(nn.Module):
    def __init__(self, num_tokens, channels, **more):
        super().__init__()
        self.to_token_emb, self.pos_emb = nn.Embedding(num_tokens, channels), Sinusoids(channels)
        self.linformer = Tatp22Linformer(channels=channels, **more)
        self.to_logits = nn.Linear(channels, num_tokens)

    def hidden(self, ids):
        return self.linformer(self.pos_emb(self.to_token_emb(ids)))

    def forward(self, ids):
        return self.to_logits(self.hidden(ids))


CLASSES = {"linformer.Linformer": Linformer, "linformer.LinformerLM": LinformerLM,
           "linformer_pytorch.Linformer": Tatp22Linformer, "linformer_pytorch.LinformerLM": Tatp22LinformerLM}


def join(model):
    """Joins the weights of heads in the whole model (HeadsAttention.join). The caller must first load the weights, and
    move them to their dtype and device."""
    for module in model.modules():
        if isinstance(module, HeadsAttention):
            module.join()


# ---- safetensors. A file contains the length of a JSON header in eight bytes, the header, and the bytes of the tensors

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}


def read_tensors(path, device="cpu"):
    """Returns {name: tensor} of a safetensors file."""
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data[start + begin:start + end], dtype=TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).to(device)
    return tensors


def write_tensors(tensors, path, metadata):
    """Writes a safetensors file. All tensors must be float32. `metadata` is {name: text}."""
    header, at = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        end = at + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # aligns the tensors
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().numpy().data)


def load(folder, fused=False, device="cpu", dtype=torch.float32):
    """Returns the model of a folder with config.json and model.safetensors, in eval mode."""
    config = json.loads((folder / "config.json").read_text())
    with torch.device("meta"):
        model = CLASSES[config["architecture"]](fused=fused, **config["kwargs"])
    model.load_state_dict(read_tensors(folder / "model.safetensors", device), assign=True)
    model.to(dtype).eval().requires_grad_(False)
    join(model)
    return model


def shared_names(architecture, kwargs):
    """Maps each name of a shared tensor to the name under which the tensor is stored. With layerwise sharing,
    linformer_pytorch uses one E for keys and values of all heads and layers, but its state_dict contains many names for
    E."""
    if not architecture.startswith("linformer_pytorch."):
        return {}
    prefix = "linformer.seq." if architecture.endswith("LM") else "seq."
    return {f"{prefix}{2 * layer}.fn.heads.{head}.{which}.{part}": f"{prefix}0.fn.heads.0.E.{part}"
            for layer in range(kwargs["depth"]) for head in range(kwargs["nhead"]) for which in "EF"
            for part in ("weight", "bias") if (layer, head, which) != (0, 0, "E")}


def write(architecture, kwargs, folder, seed):
    """Writes a model folder with random weights, which are about as large as in a new model of the library."""
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        state = CLASSES[architecture](**kwargs).state_dict()
    for name, tensor in state.items():
        if name.endswith("norm.weight"):
            state[name] = torch.ones(tensor.shape)
        elif name.endswith("inv_freq"):
            state[name] = 100000 ** -(torch.arange(tensor.shape[0]) / tensor.shape[0])
        else:
            columns = tensor.shape[-1] if tensor.dim() > 1 else 512
            state[name] = (torch.rand(tensor.shape, generator=generator) * 2 - 1) / math.sqrt(columns)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(state, folder / "model.safetensors", shared_names(architecture, kwargs))
    (folder / "config.json").write_text(json.dumps({"architecture": architecture, "kwargs": kwargs}))
