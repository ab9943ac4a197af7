"""The grammar of random_modules.py: inputs and steps.

Each function in STEPS draws a step. Its arguments are a random generator, and the present tensors of three probes with
different batches and lengths. It returns a function of the list of tensors, and the parts with weights that this
function uses. It returns None if no tensor fits."""
import torch
import torch.nn.functional as F
from linear_attention_transformer import LinearAttentionTransformer
from linformer import Linformer, LinformerSelfAttention
from torch import nn

STEPS = []
MAX_ROWS = 16  # maximum length of a sequence for the libraries' classes. Tables of positions have 4 times as many rows
WIDTHS = (4, 6, 8, 12)
IDS = 13


def step(weight=1):
    def add(function):
        STEPS.extend([function] * weight)
        return function
    return add


class Source:
    """The inputs of a module: a tensor of one of several kinds. A second input may be a mask, or one label, vector or
    flag for each item."""

    def __init__(self, rng):
        self.kind = rng.choice(["ids", "ids", "rows", "rows", "image", "wave", "grid", "volume"])
        self.more = rng.choice(["", "", "mask", "labels", "condition", "flags"])
        self.width, self.channels = rng.choice(WIDTHS), rng.choice([2, 3, 4])
        self.height = rng.choice([4, 6, 8])

    def inputs(self, batch, n):
        first = {
            "ids": lambda: torch.randint(0, IDS, (batch, n)),
            "rows": lambda: torch.randn(batch, n, self.width),
            "image": lambda: torch.randn(batch, self.channels, self.height, 8),
            "grid": lambda: torch.randn(batch, self.channels, self.height, n),
            "wave": lambda: torch.randn(batch, 3 * n),
            "volume": lambda: torch.randn(batch, 2, 4, n, self.width),
        }[self.kind]()
        given = {"x": first}
        if self.more == "mask" and self.kind in ("ids", "rows"):
            given["mask"] = torch.arange(n)[None, :] < torch.randint(1, n + 1, (batch, 1))
        elif self.more == "labels":
            given["labels"] = torch.randint(0, IDS, (batch,))
        elif self.more == "condition":
            given["condition"] = torch.randn(batch, self.width)
        elif self.more == "flags":
            given["flags"] = torch.rand(batch) > 0.5
        return given


# ---- What a tensor is -------------------------------------------------------------------------------------------------


def shapes(probes, i):
    """Returns the sizes of a tensor without the batch. A size is None if it differs between the probes. Returns None if
    the number of dimensions differs."""
    each = [values[i].shape[1:] for values in probes]
    return [size[0] if len(set(size)) == 1 else None for size in zip(*each)] if len({len(s) for s in each}) == 1 else None


def pick(rng, probes, test=lambda tensor, shape: tensor.is_floating_point()):
    """Returns the index of a random tensor that passes the test. The last of these tensors is the most likely."""
    count = len(probes[0])
    fits = [i for i in range(count) if test(probes[0][i], shapes(probes, i))]
    if not fits:
        return None
    return fits[-1] if rng.random() < 0.6 else rng.choice(fits)


def floats(rank=None, last=False, second=False):
    """Returns a test for tensors of floats with `rank` dimensions, including the batch. With `last` or `second`, the
    size of this dimension must be the same in all probes."""
    def test(tensor, shape):
        return (tensor.is_floating_point() and (rank is None or tensor.dim() == rank) and tensor.dim() > 1
                and (not last or shape[-1] is not None) and (not second or shape[0] is not None))
    return test


def named(name, function):
    function.__name__ = name
    return function


# ---- Layers -----------------------------------------------------------------------------------------------------------


@step(3)
def embed(rng, probes):
    i = pick(rng, probes, lambda t, s: t.dtype == torch.int64 and t.dim() < 4)
    if i is None:
        return None
    table = nn.Embedding(IDS, rng.choice(WIDTHS))
    return named("embed", lambda v: table(v[i])), [table]


@step(2)
def positions(rng, probes):
    i = pick(rng, probes, floats(3, last=True))
    if i is None:
        return None
    dim, kind = probes[0][i].shape[-1], rng.choice(["table", "parameter", "sine"])
    part = nn.Embedding(MAX_ROWS * 4, dim)
    def apply(v):
        n = v[i].shape[1]
        if kind == "parameter":
            return v[i] + part.weight[None, :n]
        if kind == "table":
            return v[i] + part(torch.arange(n))
        angles = torch.arange(n, dtype=v[i].dtype)[:, None] * part.weight[0][None]
        return v[i] + angles.sin()
    return named(f"positions_{kind}", apply), [part]


@step(4)
def linear(rng, probes):
    i = pick(rng, probes, floats(last=True))
    if i is None:
        return None
    part = nn.Linear(probes[0][i].shape[-1], rng.choice(WIDTHS), bias=rng.random() < 0.7)
    return named("linear", lambda v: part(v[i])), [part]


@step(3)
def norm(rng, probes):
    kind = rng.choice(["layer", "layer2", "rms", "batch", "group", "instance", "normalize"])
    i = pick(rng, probes, floats(last=kind in ("layer", "layer2", "rms"), second=kind in ("batch", "group", "instance")))
    if i is None:
        return None
    x = probes[0][i]
    if kind == "layer":
        part = nn.LayerNorm(x.shape[-1], eps=rng.choice([1e-5, 1e-3]), elementwise_affine=rng.random() < 0.8)
    elif kind == "layer2":
        part = nn.LayerNorm(tuple(x.shape[-2:]))
    elif kind == "rms":
        part = nn.RMSNorm(x.shape[-1], eps=1e-6)
    elif kind == "batch":
        part = (nn.BatchNorm1d if x.dim() < 4 else nn.BatchNorm2d if x.dim() == 4 else nn.BatchNorm3d)(x.shape[1])
        part.running_mean.normal_()
        part.running_var.uniform_(0.5, 2)
    elif kind == "group":
        part = nn.GroupNorm(rng.choice([g for g in (1, 2, 3, 4) if x.shape[1] % g == 0]), x.shape[1])
    elif kind == "instance":
        if x.dim() not in (3, 4):
            return None
        part = (nn.InstanceNorm1d if x.dim() == 3 else nn.InstanceNorm2d)(x.shape[1], affine=rng.random() < 0.5)
    else:
        return named("normalize", lambda v: F.normalize(v[i], dim=-1)), []
    for parameter in part.parameters():
        parameter.data += torch.randn_like(parameter) * 0.2
    part.eval()
    return named(f"norm_{kind}", lambda v: part(v[i])), [part]


@step(3)
def convolve(rng, probes):
    rank = rng.choice([3, 3, 4])
    turned = rank == 3 and rng.random() < 0.6  # true: the tensor is (batch, rows, channels), and is transposed before and after
    i = pick(rng, probes, floats(rank, last=turned, second=not turned))
    if i is None:
        return None
    channels = probes[0][i].shape[2 if turned else 1]
    groups = rng.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    out = groups * rng.choice([1, 2, 3])
    size, stride, dilation = rng.choice([1, 2, 3, 5]), rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])
    padding = rng.choice([0, 1, 2, "same"]) if stride == 1 else rng.choice([0, 1])
    kind = (nn.Conv1d, nn.Conv2d)[rank - 3]
    if rng.random() < 0.2:
        transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d)[rank - 3]
        part = transposed(channels, out, size, stride=stride, dilation=dilation)
    else:
        part = kind(channels, out, size, stride=stride, padding=padding, groups=groups, dilation=dilation,
                    bias=rng.random() < 0.7, padding_mode=rng.choice(["zeros", "zeros", "reflect", "replicate"]))
    turn = (lambda x: x.transpose(1, 2)) if turned else (lambda x: x)
    return named("convolve", lambda v: turn(part(turn(v[i])))), [part]


@step(2)
def pool(rng, probes):
    rank = rng.choice([3, 4])
    i = pick(rng, probes, floats(rank))
    if i is None:
        return None
    size, stride, kind = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice(["max", "average", "adaptive"])
    two, fixed = rank == 4, all(shapes(probes, i)[1:])
    if kind == "adaptive":
        size = rng.choice([1, 2, 3, 5]) if fixed else 1
        most = rng.random() < 0.3 and (size == 1 or not any(length % size for length in shapes(probes, i)[1:]))
        function = getattr(F, f"adaptive_{'max' if most else 'avg'}_pool{rank - 2}d")
        return named(f"{function.__name__}_{size}", lambda v: function(v[i], size)), []
    ceiling = fixed and rng.random() < 0.4
    if kind == "max":
        function = F.max_pool2d if two else F.max_pool1d
        return named("pool_max", lambda v: function(v[i], size, stride, size // 2, ceil_mode=ceiling)), []
    padding, counts = size // 2 if rng.random() < 0.5 else 0, rng.random() < 0.6
    function = F.avg_pool2d if two else F.avg_pool1d
    return named("pool_average", lambda v: function(v[i], size, stride, padding, ceiling, counts)), []


@step(2)
def convolve_transposed(rng, probes):
    i = pick(rng, probes, lambda t, s: t.is_floating_point() and t.dim() in (3, 4) and s[0] is not None)
    if i is None:
        return None
    channels, size, stride = probes[0][i].shape[1], rng.choice([1, 2, 3]), rng.choice([1, 2])
    groups = rng.choice([g for g in (1, 2, 3, channels) if channels % g == 0])
    kind = nn.ConvTranspose2d if probes[0][i].dim() == 4 else nn.ConvTranspose1d
    part = kind(channels, groups * rng.choice([1, 2]), size, stride, rng.choice([0, size // 2]), groups=groups,
                output_padding=rng.choice([0, stride - 1]), bias=rng.random() < 0.7)
    return named(f"transposed_{groups}", lambda v: part(v[i])), [part]


@step(1)
def upsample(rng, probes):
    i = pick(rng, probes, lambda t, s: t.is_floating_point() and t.dim() in (3, 4))
    if i is None:
        return None
    factor, mode = rng.choice([2, 3]), "nearest" if probes[0][i].dim() == 3 else rng.choice(["nearest", "bilinear"])
    return named(f"upsample_{mode}", lambda v: F.interpolate(v[i], scale_factor=factor, mode=mode)), []


# ---- Classes of the libraries -----------------------------------------------------------------------------------------


@step(4)
def leaf(rng, probes):
    i = pick(rng, probes, floats(3, last=True))
    if i is None or probes[0][i].shape[-1] % 2 != 0:
        return None
    dim, kind = probes[0][i].shape[-1], rng.choice(["linformer", "attention", "linear"])
    if kind == "linear":
        if max(values[i].shape[1] for values in probes) > MAX_ROWS:
            return None
        part = LinearAttentionTransformer(dim=dim, heads=2, depth=1, max_seq_len=MAX_ROWS, causal=rng.random() < 0.3)
    elif kind == "attention":
        part = LinformerSelfAttention(dim, MAX_ROWS, k=rng.choice([2, 4]), heads=2, one_kv_head=rng.random() < 0.3,
                                      share_kv=rng.random() < 0.3)
    else:
        part = Linformer(dim, MAX_ROWS, 1, k=4, heads=2, reversible=rng.random() < 0.2)
    return named(f"leaf_{kind}", lambda v: part(v[i])), [part]


@step(2)
def folded_leaf(rng, probes):
    """Attention along one axis of a grid. The other axis becomes part of the batch."""
    i = pick(rng, probes, floats(4, last=True))
    if i is None or probes[0][i].shape[-1] % 2 != 0:
        return None
    dim, across = probes[0][i].shape[-1], rng.random() < 0.5
    part = LinformerSelfAttention(dim, MAX_ROWS, k=2, heads=2)
    def apply(v):
        x = v[i].transpose(1, 2) if across else v[i]
        b, a, n, d = x.shape
        y = part(x.reshape(b * a, n, d)).reshape(b, a, n, d)
        return y.transpose(1, 2) if across else y
    return named("folded_leaf", apply), [part]


# ---- Attention by hand ------------------------------------------------------------------------------------------------


@step(3)
def attend(rng, probes):
    i = pick(rng, probes, floats(3, last=True))
    if i is None or probes[0][i].shape[-1] % 2 != 0:
        return None
    dim, kind = probes[0][i].shape[-1], rng.choice(["einsum", "matmul", "sdpa", "causal", "module", "bmm", "masked"])
    masks = [j for j, t in enumerate(probes[0]) if t.dtype == torch.bool and t.shape == probes[0][i].shape[:2]]
    mask = masks[0] if masks and kind == "masked" else None
    if kind == "masked" and mask is None:
        kind = "sdpa"
    if kind == "module":
        part = nn.MultiheadAttention(dim, 2, batch_first=rng.random() < 0.7)
        def apply_module(v):
            x = v[i] if part.batch_first else v[i].transpose(0, 1)
            y = part(x, x, x, need_weights=False)[0]
            return y if part.batch_first else y.transpose(0, 1)
        return named("attend_module", apply_module), [part]
    part, heads = nn.Linear(dim, 3 * dim, bias=False), 2
    def apply(v):
        x = v[i]
        b, n, d = x.shape
        q, k, w = (t.reshape(b, n, heads, d // heads).transpose(1, 2) for t in part(x).chunk(3, dim=-1))
        if kind in ("sdpa", "causal"):
            y = F.scaled_dot_product_attention(q, k, w, is_causal=kind == "causal")
        elif kind == "masked":
            y = F.scaled_dot_product_attention(q, k, w, attn_mask=v[mask][:, None, None, :])
        elif kind == "einsum":
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * (d // heads) ** -0.5
            y = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), w)
        elif kind == "matmul":
            y = ((q @ k.transpose(-1, -2)) / (d // heads) ** 0.5).softmax(dim=-1) @ w
        else:
            q, k, w = (t.reshape(b * heads, n, d // heads) for t in (q, k, w))
            y = torch.bmm(torch.softmax(torch.bmm(q, k.mT), -1), w).view(b, heads, n, d // heads)
        return y.transpose(1, 2).reshape(b, n, d)
    return named(f"attend_{kind}", apply), [part]


@step(2)
def contract(rng, probes):
    i = pick(rng, probes, floats(3, last=True))
    if i is None:
        return None
    equation = rng.choice(["bnd,bmd->bnm", "bnd,bne->bde", "bnd,de->bne", "bnd,bnd->bn", "bnd,d->bn", "bnd,ed->ben",
                           "bnd,bmd->bdnm", "bnd->bdn", "bnd,hde->bhne", "bnd,bnd->b"])
    dim = probes[0][i].shape[-1]
    second = equation.split(",")[1].split("->")[0] if "," in equation else ""
    if second.startswith("b"):
        return named(f"einsum {equation}", lambda v: torch.einsum(equation, v[i], v[i]) / 4), []
    if not second:
        return named(f"einsum {equation}", lambda v: torch.einsum(equation, v[i])), []
    holder = nn.ParameterList([torch.randn([{"d": dim, "e": 6, "h": 3}[c] for c in second]) * 0.3])
    return named(f"einsum {equation}", lambda v: torch.einsum(equation, v[i], holder[0])), [holder]


@step(1)
def time_first(rng, probes):
    i = pick(rng, probes, floats(3, last=True))
    if i is None:
        return None
    part, flat = nn.Linear(probes[0][i].shape[-1], rng.choice(WIDTHS)), rng.random() < 0.5
    def apply(v):
        x = v[i].transpose(0, 1)
        n, b, d = x.shape
        y = part(x.reshape(n * b, d)).reshape(n, b, -1) if flat else part(x)
        return y.transpose(0, 1)
    return named("time_first", apply), [part]


# ---- Elements ---------------------------------------------------------------------------------------------------------

UNARY = {
    "neg": torch.neg, "abs": torch.abs, "square": torch.square, "sqrt": lambda x: torch.sqrt(x.abs() + 0.1),
    "rsqrt": lambda x: torch.rsqrt(x * x + 0.5), "reciprocal": lambda x: torch.reciprocal(x.abs() + 0.5),
    "exp": lambda x: torch.exp(-x.abs()), "expm1": lambda x: torch.expm1(-x.abs()), "log1p": lambda x: torch.log1p(x.abs()),
    "log": lambda x: torch.log(x.abs() + 0.5), "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": F.relu, "relu6": F.relu6, "leaky": F.leaky_relu, "elu": F.elu, "selu": F.selu,
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "softplus": F.softplus, "hardtanh": F.hardtanh, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "logsigmoid": F.logsigmoid, "erf": torch.erf, "clamp": lambda x: x.clamp(-0.7, 0.9), "clamp_min": lambda x: x.clamp(min=0.1),
    "clamp_max": lambda x: x.clamp(max=0.4), "pow": lambda x: x.abs() ** 1.5, "cube": lambda x: x ** 3,
    "scaled": lambda x: 2.5 * x - 1, "rsub": lambda x: 1 - x, "over": lambda x: 2 / (x * x + 1), "floor": lambda x: x + torch.floor(x),
    "floor_div": lambda x: x + x // 0.7, "sign": lambda x: x * torch.sign(x), "two": lambda x: 2 ** x.clamp(-3, 3),
    "where": lambda x: torch.where(x > 0.1, x, -0.3 * x), "fill": lambda x: x.masked_fill(x < -0.2, 0.25),
    "compare": lambda x: (x >= 0.3).float() + 0.5 * (x != 0).float(), "logic": lambda x: ((x > 0) & ~(x > 1)).to(x.dtype) * x,
    "clip_other": lambda x: torch.maximum(x, -x), "least": lambda x: torch.minimum(x, x * x), "ceil": lambda x: x - torch.ceil(x),
    "round": lambda x: x - torch.round(x), "threshold": lambda x: x * (x.abs() > 0.2),
}


@step(7)
def unary(rng, probes):
    i = pick(rng, probes)
    if i is None:
        return None
    name = rng.choice(sorted(UNARY))
    return named(name, lambda v: UNARY[name](v[i])), []


@step(5)
def binary(rng, probes):
    i, j = pick(rng, probes), pick(rng, probes)
    if i is None:
        return None
    same = [k for k, t in enumerate(probes[0]) if t.is_floating_point() and t.shape == probes[0][i].shape and k != i]
    j = rng.choice(same) if same and rng.random() < 0.6 else j
    name = rng.choice(["add", "sub", "mul", "div", "max", "less", "blend"])
    function = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": lambda x, z: x / (z.abs() + 0.5),
                "max": torch.maximum, "less": lambda x, z: torch.where(x < z, x, z * 0.5),
                "blend": lambda x, z: torch.sigmoid(x) * z + 0.1 * x}[name]
    return named(name, lambda v: function(v[i], v[j])), []


@step(3)
def parameter(rng, probes):
    """Adds weights to a tensor, or multiplies the tensor by them. The weights are broadcast over some dimensions."""
    i = pick(rng, probes, floats())
    if i is None:
        return None
    shape = shapes(probes, i)
    kept = [size if size is not None and rng.random() < 0.6 else 1 for size in shape]
    if rng.random() < 0.4:
        kept = kept[-1:]
    holder = nn.ParameterList([torch.randn([1] * (rng.random() < 0.5 and len(kept) == len(shape)) + kept) * 0.5])
    multiply = rng.random() < 0.5
    return named("parameter", lambda v: v[i] * holder[0] if multiply else v[i] + holder[0]), [holder]


@step(2)
def gate(rng, probes):
    """Multiplies all rows of an item by the sigmoid of one vector, or fills masked rows with a number."""
    i = pick(rng, probes, floats(3))
    masks = [j for j, t in enumerate(probes[0]) if t.dtype == torch.bool and t.dim() <= 2]
    vectors = [j for j, t in enumerate(probes[0]) if t.is_floating_point() and t.dim() == 2 and i is not None
               and t.shape[1] == probes[0][i].shape[2]]
    if i is None or not masks + vectors:
        return None
    j = rng.choice(masks + vectors)
    fill, kind = rng.choice([0.0, -1.0]), probes[0][j].dtype
    def apply(v):
        z = v[j]
        if kind != torch.bool:
            return v[i] * torch.sigmoid(z[:, None, :])
        z = z[:, None, None] if z.dim() == 1 else z[..., None]
        return v[i].masked_fill(~z, fill)
    return named("gate", apply), []


@step(2)
def gated(rng, probes):
    i = pick(rng, probes, floats(last=True))
    if i is None or probes[0][i].shape[-1] % 2 != 0:
        return None
    part, kind = nn.PReLU(1), rng.choice(["glu", "swiglu", "prelu"])
    def apply(v):
        if kind == "glu":
            return F.glu(v[i], dim=-1)
        if kind == "prelu":
            return part(v[i])
        a, b = v[i].chunk(2, dim=-1)
        return F.silu(a) * b
    return named(kind, apply), [part] if kind == "prelu" else []


# ---- Reductions -------------------------------------------------------------------------------------------------------


@step(4)
def reduce(rng, probes):
    i = pick(rng, probes, floats())
    if i is None:
        return None
    rank = probes[0][i].dim()
    dims = sorted(rng.sample(range(1, rank), rng.randint(1, rank - 1)))
    keep, name = rng.random() < 0.4, rng.choice(["mean", "sum", "amax", "amin", "std", "var", "norm", "logsum", "max", "first"])
    dims = [d - rank for d in dims] if rng.random() < 0.3 else dims
    function = {
        "mean": lambda x: x.mean(dims, keepdim=keep), "sum": lambda x: x.sum(dims, keepdim=keep) / 8,
        "amax": lambda x: x.amax(dims, keepdim=keep), "amin": lambda x: x.amin(dims, keepdim=keep),
        "std": lambda x: x.std(dims, keepdim=keep), "var": lambda x: x.var(dims, unbiased=False, keepdim=keep),
        "norm": lambda x: torch.linalg.vector_norm(x, dim=dims, keepdim=keep),
        "logsum": lambda x: torch.log_softmax(x, dims[0]), "max": lambda x: x.max(dims[0], keepdim=keep)[0],
        "first": lambda x: x - x.mean(dims, keepdim=True)}[name]
    return named(f"reduce_{name}", lambda v: function(v[i])), []


@step(2)
def along(rng, probes):
    i = pick(rng, probes, floats())
    if i is None:
        return None
    d, name = rng.randint(1, probes[0][i].dim() - 1), rng.choice(["softmax", "log_softmax", "cumsum", "argmax", "any", "prod"])
    function = {"softmax": lambda x: x.softmax(d), "log_softmax": lambda x: x.log_softmax(d), "cumsum": lambda x: x.cumsum(d) / 4,
                "argmax": lambda x: x.argmax(d).float(), "any": lambda x: (x > 1).any(d).float(),
                "prod": lambda x: x.sigmoid().prod(d)}[name]
    return named(name, lambda v: function(v[i])), []


@step(1)
def masked_mean(rng, probes):
    i = pick(rng, probes, floats(3))
    masks = [j for j, t in enumerate(probes[0]) if t.dtype == torch.bool and i is not None and t.shape == probes[0][i].shape[:2]]
    if i is None or not masks:
        return None
    j = masks[0]
    def apply(v):
        kept = v[j][..., None].to(v[i].dtype)
        return (v[i] * kept).sum(1) / kept.sum(1).clamp(min=1)
    return named("masked_mean", apply), []


# ---- Shapes -----------------------------------------------------------------------------------------------------------


@step(3)
def permute(rng, probes):
    i = pick(rng, probes, lambda t, s: t.dim() > 2)
    if i is None:
        return None
    order = list(range(1, probes[0][i].dim()))
    rng.shuffle(order)
    return named("permute", lambda v: v[i].permute(0, *order)), []


@step(3)
def regroup(rng, probes):
    """Splits a dimension, joins two dimensions, or rearranges windows."""
    i = pick(rng, probes, floats())
    if i is None:
        return None
    shape, rank, kind = shapes(probes, i), probes[0][i].dim(), rng.choice(["split", "join", "flatten", "patches", "joined"])
    fixed = [d for d, size in enumerate(shape) if size is not None and size % 2 == 0 and size > 2]
    if kind in ("split", "patches") and fixed:
        d = rng.choice(fixed) + 1
        parts = rng.choice([p for p in (2, 3, 4) if probes[0][i].shape[d] % p == 0])
        turned = kind == "patches"
        def split(v):
            y = v[i].unflatten(d, (parts, v[i].shape[d] // parts))
            return y.transpose(d, d + 1) if turned else y
        return named("split", split), []
    if kind == "flatten":
        return named("flatten", lambda v: v[i].flatten(1)), []
    if rank < 3:
        return None
    d = rng.randint(1, rank - 2)
    turn = kind == "joined"
    def join(v):
        x = v[i].transpose(d, d + 1) if turn else v[i]
        return x.flatten(d, d + 1)
    return named("join", join), []


@step(3)
def cut(rng, probes):
    i = pick(rng, probes, floats())
    if i is None:
        return None
    d, kind = rng.randint(1, probes[0][i].dim() - 1), rng.choice(["front", "back", "strided", "half", "select", "narrow", "last", "middle"])
    function = {
        "front": lambda x: x.narrow(d, 0, 3), "back": lambda x: x.transpose(0, d)[-3:].transpose(0, d),
        "strided": lambda x: x.transpose(1, d)[:, ::2].transpose(1, d), "half": lambda x: x.transpose(1, d)[:, : x.shape[d] // 2].transpose(1, d),
        "select": lambda x: x.select(d, 1), "narrow": lambda x: x.transpose(1, d)[:, 1:-1].transpose(1, d),
        "last": lambda x: x.select(d, -1), "middle": lambda x: x.transpose(1, d)[:, x.shape[d] // 3 :].transpose(1, d)}[kind]
    return named(f"cut_{kind}", lambda v: function(v[i])), []


@step(3)
def join_two(rng, probes):
    i = pick(rng, probes, floats())
    if i is None:
        return None
    rank = probes[0][i].dim()
    d, kind = rng.randint(1, rank - 1), rng.choice(["cat", "cat_other", "stack", "token", "halves", "differences"])
    x = probes[0][i]
    others = [j for j, t in enumerate(probes[0]) if t.is_floating_point() and t.dim() == rank
              and all(a == b for k, (a, b) in enumerate(zip(t.shape, x.shape)) if k != d)]
    j = rng.choice(others)
    if kind == "token":
        if rank != 3 or shapes(probes, i)[1] is None:
            return None
        holder = nn.ParameterList([torch.randn(1, 1, x.shape[2])])
        return named("token", lambda v: torch.cat((holder[0].expand(v[i].shape[0], -1, -1), v[i]), 1)), [holder]
    function = {
        "cat": lambda x, z: torch.cat((x, -x), d), "cat_other": lambda x, z: torch.cat((x, z), d),
        "stack": lambda x, z: torch.stack((x, x * 0.5, -x), d), "halves": lambda x, z: torch.cat(x.chunk(2, d)[::-1], d),
        "differences": lambda x, z: x.transpose(1, d)[:, 1:] - x.transpose(1, d)[:, :-1]}[kind]
    return named(f"join_{kind}", lambda v: function(v[i], v[j])), []


@step(3)
def rearrange(rng, probes):
    i = pick(rng, probes, floats())
    if i is None:
        return None
    rank = probes[0][i].dim()
    d, kind = rng.randint(1, rank - 1), rng.choice(["flip", "roll", "pad", "reflect", "replicate", "repeat", "expand", "unsqueeze",
                                                    "squeeze", "shuffle", "unshuffle", "unbind", "interleave", "shift"])
    times, shift = rng.choice([2, 3]), rng.choice([1, -2, 3, 12])
    def pad(x, mode):
        y = x.flatten(0, d - 1).flatten(1) if False else x.transpose(d, -1)
        return F.pad(y, (1, 2), mode=mode).transpose(d, -1)
    def shuffle(x):
        return F.pixel_shuffle(x, 2)
    function = {
        "flip": lambda x: x.flip(d), "roll": lambda x: x.roll(shift, d), "pad": lambda x: pad(x, "constant"),
        "reflect": lambda x: pad(x, "reflect"), "replicate": lambda x: pad(x, "replicate"),
        "repeat": lambda x: x.repeat(*[times if k == d else 1 for k in range(rank)]),
        "expand": lambda x: x.unsqueeze(d).expand(*x.shape[:d], times, *x.shape[d:]),
        "unsqueeze": lambda x: x.unsqueeze(d), "squeeze": lambda x: x.squeeze(d), "shuffle": shuffle,
        "unshuffle": lambda x: F.pixel_unshuffle(x, 2),
        "unbind": lambda x: x.unbind(d)[1] + x.unbind(d)[0], "interleave": lambda x: x.repeat_interleave(times, d),
        "shift": lambda x: F.pad(x.transpose(d, -1), (1, -1)).transpose(d, -1)}[kind]
    if "shuffle" in kind and (rank < 4 or kind == "unshuffle" and None in shapes(probes, i)[-2:]):
        return None
    if kind == "unbind" and shapes(probes, i)[d - 1] is None:
        return None
    return named(kind, lambda v: function(v[i])), []


@step(1)
def folded(rng, probes):
    """Joins all dimensions but the last two to the batch, computes a function, and restores the dimensions."""
    i = pick(rng, probes, floats(4))
    if i is None:
        return None
    kind = rng.choice(["softmax", "mean", "norm", "pool"])
    def apply(v):
        b, a, n, d = v[i].shape
        x = v[i].reshape(b * a, n, d)
        if kind == "softmax":
            x = x.softmax(1)
        elif kind == "mean":
            x = x - x.mean(1, keepdim=True)
        elif kind == "norm":
            x = F.layer_norm(x, (d,))
        else:
            x = x.amax(dim=1, keepdim=True) + x
        return x.reshape(b, a, n, d)
    return named(f"folded_{kind}", apply), []
