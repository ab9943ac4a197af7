"""Saves a model of one of the five Linformer libraries as a folder that linformerd serves.

    from linformer import LinformerLM
    from export import export

    kwargs = dict(num_tokens=20000, dim=64, seq_len=256, depth=2, k=32)
    model = LinformerLM(**kwargs)              # and train it
    export(model, kwargs, "mine")              # then: linformerd --model mine

`kwargs` are the arguments that the class was made with. export(model, kwargs, folder, **config) writes config.json and
model.safetensors: all of it or nothing. `config` are config.json's optional keys: name, pooling, normalize, padding,
tokenizer. Needs the library itself and numpy, nothing else of linformerd: copy this file next to your own.

Models: the classes of `linformer`, `linear-attention-transformer` and `linformer-pytorch`, and LinearMultiheadAttention
(github.com/kuixu/Linear-Multihead-Attention). A pair of LinearAttentionTransformerLM, encoder and decoder, is a tuple:

    export((encoder, decoder), {"enc": encoder_kwargs, "dec": decoder_kwargs}, "translator")

Padder, Autopadder, AutoregressiveWrapper, DataParallel, DistributedDataParallel, AveragedModel and torch.compile's
wrapper may be around the model; the padders set `padding`."""
import json
import math
import numbers
import os
import pathlib
import secrets
import shutil
import struct
import sys

import numpy

LINEAR = "linear_attention_transformer"
PYTORCH = "linformer_pytorch"
PAIR = LINEAR + ".EncoderDecoder"
KUIXU = "linear_multihead_attention.LinearMultiheadAttention"

ARCHITECTURES = [
    "linformer.LinformerLM",
    "linformer.Linformer",
    "linformer.LinformerSelfAttention",
    LINEAR + ".LinearAttentionTransformerLM",
    LINEAR + ".LinearAttentionTransformer",
    LINEAR + ".ImageLinearAttention",
    PYTORCH + ".LinformerLM",
    PYTORCH + ".Linformer",
    PYTORCH + ".MHAttention",
    PYTORCH + ".LinformerEncDec",
    KUIXU,
]

# Where a wrapper keeps what it wraps, and the padding that it stands for.
WRAPPERS = {
    "Padder": ("net", "zero"),
    "Autopadder": ("net", "autopad"),
    "AutoregressiveWrapper": ("net", None),
    "DataParallel": ("module", None),
    "DistributedDataParallel": ("module", None),
    "AveragedModel": ("module", None),
    "OptimizedModule": ("_orig_mod", None),
}

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def refuse(message):
    raise ValueError(message)


def export(model, kwargs, folder, **config):
    """Writes `folder`/config.json and `folder`/model.safetensors; see the top of this file."""
    if isinstance(model, (tuple, list)):
        architecture, model, kwargs, padding, tensors = read_pair(model, kwargs)
    else:
        model, padding = unwrap(model)
        architecture = find_architecture(model)
        kwargs, tensors = read_torch(architecture, model, kwargs)
    if padding:
        config.setdefault("padding", padding)
    config = {"architecture": architecture, "kwargs": kwargs, **config}
    write_folder(pathlib.Path(folder), json.dumps(config, indent=1, allow_nan=False) + "\n", tensors)


# ---- Models ---------------------------------------------------------------------------------------------------------


def unwrap(model):
    """What is inside the wrappers, and the padding of the padder among them."""
    padding = None
    while type(model).__name__ in WRAPPERS:
        attribute, wrapper_padding = WRAPPERS[type(model).__name__]
        if getattr(model, "pad_left", False):
            refuse("Autopadder with pad_left: linformerd pads on the right")
        padding = wrapper_padding or padding
        model = getattr(model, attribute)
    return model, padding


def find_architecture(model):
    cls = type(model)
    if cls.__name__ == KUIXU.rpartition(".")[2]:
        return KUIXU
    name = f"{cls.__module__.partition('.')[0]}.{cls.__name__}"
    if name not in ARCHITECTURES:
        refuse(f"{cls.__module__}.{cls.__qualname__} is not served; expected one of {', '.join(ARCHITECTURES)}")
    return name


def read_pair(models, kwargs):
    if len(models) != 2 or not isinstance(kwargs, dict) or set(kwargs) != {"enc", "dec"}:
        refuse('a pair is (encoder, decoder) with kwargs {"enc": …, "dec": …}')
    inner, tensors, paddings = {}, {}, set()
    for name, model in zip(("enc", "dec"), models):
        model, padding = unwrap(model)
        architecture = find_architecture(model)
        if architecture != LINEAR + ".LinearAttentionTransformerLM":
            refuse(f"{name}: a pair is made of two {LINEAR}.LinearAttentionTransformerLM, not {architecture}")
        inner[name], found = read_torch(architecture, model, kwargs[name])
        tensors.update({f"{name}.{key}": tensor for key, tensor in found.items()})
        paddings.add(padding)
    return PAIR, models, inner, (paddings - {None} or {None}).pop(), tensors


def read_torch(architecture, model, kwargs):
    """kwargs as config.json has them, and the tensors by name."""
    kwargs = {name: plain(value, f"{architecture}: argument {name}") for name, value in kwargs.items()}
    return kwargs, torch_tensors(model)


def torch_tensors(model):
    """state_dict(), and the plain tensors that linformer-pytorch's heads hold as E and F with method="no_params"."""
    tensors = dict(model.state_dict())
    for path, module in model.named_modules():
        if type(module).__name__ == "LinearAttentionHead":
            for name in ("E", "F"):
                if isinstance(getattr(module, name), sys.modules["torch"].Tensor):
                    tensors[f"{path}.{name}".lstrip(".")] = getattr(module, name)
    return tensors


def plain(value, where):
    """As JSON has it: tuples are lists, namedtuples objects, numpy's and torch's numbers plain ones."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(item, where) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item, where) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), where)
    return refuse(f"{where}: {value!r:.80} has no place in config.json")


# ---- Files ----------------------------------------------------------------------------------------------------------


def describe(name, tensor):
    """dtype as safetensors names it, shape, and what is the same for names of one tensor."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    if dtype not in DTYPES:
        refuse(f'tensor "{name}": expected dtype {", ".join(DTYPES)}, found {dtype}')
    identity = id(tensor)
    if hasattr(tensor, "data_ptr") and tensor.data_ptr():
        identity = (str(tensor.device), tensor.data_ptr(), tensor.stride())
    return DTYPES[dtype], list(tensor.shape), (identity, dtype, tuple(tensor.shape))


def raw(tensor):
    """The tensor's bytes, little-endian, as a flat array of integers."""
    if hasattr(tensor, "detach"):
        torch = sys.modules["torch"]
        words = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        array = tensor.detach().cpu().contiguous().reshape(-1).view(words).numpy()
    else:
        array = numpy.ascontiguousarray(tensor).reshape(-1)
        array = array.view(f"i{array.dtype.itemsize}")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def write_safetensors(file, tensors):
    """A length, a JSON header, the tensors. One that has several names is stored once, __metadata__ has the others."""
    stored, aliases, header, offset = {}, {}, {}, 0
    for name, tensor in tensors.items():
        dtype, shape, identity = describe(name, tensor)
        if identity in stored:
            aliases[name] = stored[identity]
            continue
        stored[identity] = name
        header[name] = {"dtype": dtype, "shape": shape}
    names = sorted(header, key=lambda name: (-int(header[name]["dtype"].lstrip("BF")), name))  # so each is aligned
    for name in names:
        size = math.prod(header[name]["shape"]) * int(header[name]["dtype"].lstrip("BF")) // 8
        header[name]["data_offsets"] = [offset, offset + size]
        offset += size
    if aliases:
        header["__metadata__"] = aliases
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in names:
        file.write(raw(tensors[name]))


def write_folder(folder, config, tensors):
    """A folder that is new appears whole. In one that is there, a reader finds the old model, the new one, or none."""
    exists = folder.is_dir()
    stage = (folder if exists else folder.absolute().parent) / f".export-{secrets.token_hex(8)}"
    stage.mkdir(parents=True)
    try:
        with open(stage / "model.safetensors", "wb") as file:
            write_safetensors(file, tensors)
            file.flush()
            os.fsync(file.fileno())
        (stage / "config.json").write_text(config)
        if not exists:
            stage.rename(folder)
            return
        old = folder / "config.json"
        if old.exists() and old.read_text() != config:
            old.unlink()
        for name in ("model.safetensors", "config.json"):
            (stage / name).replace(folder / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


if __name__ == "__main__":
    print(__doc__)
