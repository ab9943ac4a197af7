"""Writes tests/torch/FORM/: the weights of one case of tests/reference, saved by torch.save and by huggingface_hub in
the usual forms. In tests/reference, the same weights are in a safetensors file. tests/http/test_torch.c serves all
forms and compares their outputs. Also writes the inputs of tests/fuzz/corpus/pickle, which
tests/unit/test_torch_archive.c reads.

Written with torch 2.13.0 and huggingface_hub 2.4.0: python3 tests/torch/make.py
"""

import io
import os
import shutil
import zipfile

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import safe_open

CASE = "tests/reference/linformer_pytorch_no_ff"
FORMS = "tests/torch"
CORPUS = "tests/fuzz/corpus/pickle"


def state_dict():
    """Returns the tensors of the case. Names that share a tensor in the file share memory in the result."""
    with safe_open(f"{CASE}/model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        aliases = file.metadata()
    for alias, name in aliases.items():
        if name in tensors:
            tensors[alias] = tensors[name]
    return dict(sorted(tensors.items()))


def folder(form):
    path = f"{FORMS}/{form}"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def strided(tensors):
    """Returns the same values as views. Matrices are transposed views. Vectors are every second element of a storage
    that they share."""
    result, pool = {}, torch.empty(2 * sum(t.numel() for t in tensors.values()))
    begin = 0
    for name, tensor in tensors.items():
        if tensor.dim() == 2:
            result[name] = tensor.t().contiguous().t()
        else:
            view = pool[begin : begin + 2 * tensor.numel() : 2].view(tensor.shape)
            result[name] = view.copy_(tensor)
            begin += 2 * tensor.numel()
    return result


def write_forms():
    tensors = state_dict()
    parameters = {name: torch.nn.Parameter(tensor) for name, tensor in tensors.items()}
    torch.save(tensors, folder("plain") + "/model.pt")
    torch.save(strided(tensors), folder("strided") + "/pytorch_model.bin")
    prefixed = {f"module.{name}": tensor for name, tensor in parameters.items()}
    torch.save({"epoch": 3, "model": prefixed, "loss": 0.5}, folder("wrapped") + "/model.pth")
    torch.save(tensors, folder("protocol4") + "/model.pt", pickle_protocol=4)
    save_torch_state_dict(dict(tensors), folder("shards"), max_shard_size="8KB")
    # With safe_serialization=False, huggingface_hub saves a shared tensor under only one of its names. Therefore each
    # name gets a copy.
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    save_torch_state_dict(copies, folder("shards_bin"), max_shard_size="16KB", safe_serialization=False)


def save(name, value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    with open(f"{CORPUS}/{name}.pt", "wb") as out:
        out.write(file.getvalue())
    if options.get("_use_new_zipfile_serialization", True):
        archive = zipfile.ZipFile(file)
        inner = next(entry for entry in archive.namelist() if entry.endswith("data.pkl"))
        with open(f"{CORPUS}/{name}.pkl", "wb") as out:
            out.write(archive.read(inner))
    return file.getvalue()


def pack(name, data, change=lambda entry, content: content, **options):
    """Writes the entries of the archive `data` into a new archive. `change` returns the new content of an entry."""
    source, file = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(file, "w", options.get("compression", zipfile.ZIP_STORED)) as archive:
        for entry in source.namelist():
            with archive.open(entry, "w", force_zip64=options.get("zip64", False)) as out:
                out.write(change(entry, source.read(entry)))
    with open(f"{CORPUS}/{name}.pt", "wb") as out:
        out.write(file.getvalue())


class Call:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def write_corpus():
    os.makedirs(CORPUS, exist_ok=True)
    torch.manual_seed(1)
    layer, norm, row = torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.arange(16.0)
    good = save("state_dict", layer.state_dict())
    save("parameters", dict(layer.named_parameters()))
    dtypes = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
    save("dtypes", {name: torch.arange(4).to(getattr(torch, name)) for name in dtypes})
    views = {"whole": row, "again": row, "transposed": row.view(4, 4).t(), "slice": row[2:10:3], "scalar": row[3]}
    save("views", {**views, "expanded": row[:1].expand(3, 1), "empty": row[:0]})
    save("bomb", {"a": row[:1].expand(1 << 40)})
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.zeros(1, 3)).sum().backward()
    optimizer.step()
    plain = {"loss": 0.5, "big": 1 << 70, "minus": -5, "note": "n", "none": None, "flag": True, "pair": (1, 2)}
    save("model", {"model": layer.state_dict(), "optimizer": optimizer.state_dict(), **plain, "list": [1, [2]]})
    save("state_dict_key", {"state_dict": layer.state_dict(), "epoch": 300, "seed": 1 << 40})
    save("model_state_dict", {"model_state_dict": norm.state_dict()})
    save("two", {"model": layer.state_dict(), "ema": layer.state_dict()})
    almost = {**{f"tensor{i}": row for i in range(30)}, "note": None}
    save("repeated", {f"key{i}": almost for i in range(60)})
    save("other_key", {"weights": layer.state_dict()})
    for name, value in {"list": [row], "tensor": row, "integers": {"a": 1}, "empty": {}, "number_key": {1: row}}.items():
        save(name, value)
    save("protocol4", layer.state_dict(), pickle_protocol=4)
    save("protocol5", {"model": layer.state_dict(), "x": [1.5]}, pickle_protocol=5)
    save("old_format", layer.state_dict(), _use_new_zipfile_serialization=False)
    save("whole_module", layer)
    save("complex", {"a": torch.zeros(1, dtype=torch.complex64)})
    save("sparse", {"a": torch.eye(2).to_sparse()})
    save("uint16", {"a": torch.zeros(2, dtype=torch.uint16)})
    save("system", {"a": row, "b": Call(os.system, "true")})
    save("eval4", {"a": Call(eval, "1")}, pickle_protocol=4)
    with open(f"{CORPUS}/inst.pkl", "wb") as out:
        out.write(b"\x80\x02(ios\nsystem\n.")
    script = io.BytesIO()
    torch.jit.save(torch.jit.script(layer), script)
    with open(f"{CORPUS}/script.pt", "wb") as out:
        out.write(script.getvalue())
    with open(f"{CORPUS}/cut.pt", "wb") as out:
        out.write(good[:-30])
    pack("compressed", good, compression=zipfile.ZIP_DEFLATED)
    pack("big_endian", good, lambda entry, content: b"big" if entry.endswith("byteorder") else content)
    pack("short_storage", good, lambda entry, content: content[:-1] if entry.endswith("data/0") else content)
    pack("zip64", good, zip64=True)


if __name__ == "__main__":
    write_forms()
    write_corpus()
