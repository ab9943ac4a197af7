"""What predict.py counts: the engine's launches, instructions of its largest kernels, and PyTorch's launches.

It needs programs that `make predict` builds, nvcc, nvdisasm (NVDISASM=PATH; PyPI's nvidia-cuda-nvdisasm has it), and a
python with PyTorch (PREDICT_PYTHON=PATH, else this one)."""
import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import predict
import sass
from predict import BATCHES, MODELS, SIZES

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
SHARED = {"one_kv_head": True, "share_kv": True}
SOURCES = ("attend_tensor", "project_tensor", "attend", "project")
HEADERS = ("tensor", "attention", "projection", "element")


def sources():
    """Changes with the code of the kernels whose instructions are counted, but not with comments and blanks."""
    digest = hashlib.sha256()
    for name in [f"{source}.cu" for source in SOURCES] + [f"{header}.h" for header in HEADERS]:
        text = re.sub(r"/\*.*?\*/", "", (ROOT / "engine/cuda" / name).read_text(), flags=re.DOTALL)
        digest.update("".join(text.split()).encode())
    return digest.hexdigest()


# ---- The engine's launches

def tensors(model):
    """(name, shape) of linformer.LinformerLM's weights."""
    dim, n, k = SIZES["dim"], SIZES["seq_len"], SIZES["k"]
    kv = dim // SIZES["heads"] if model == "shared" else dim
    yield from (("token_emb.weight", [SIZES["num_tokens"], dim]), ("pos_emb.weight", [n, dim]))
    for layer in range(SIZES["depth"]):
        attend, forward = f"linformer.net.layers.{layer}.0.", f"linformer.net.layers.{layer}.1."
        for prefix in (attend, forward):
            yield from ((prefix + "norm.weight", [dim]), (prefix + "norm.bias", [dim]))
        yield from ((attend + "fn.to_q.weight", [dim, dim]), (attend + "fn.to_k.weight", [kv, dim]),
                    (attend + "fn.proj_k", [n, k]))
        if model == "full":
            yield from ((attend + "fn.to_v.weight", [kv, dim]), (attend + "fn.proj_v", [n, k]))
        yield from ((attend + "fn.to_out.weight", [dim, dim]), (attend + "fn.to_out.bias", [dim]),
                    (forward + "fn.w1.weight", [4 * dim, dim]), (forward + "fn.w1.bias", [4 * dim]),
                    (forward + "fn.w2.weight", [dim, 4 * dim]), (forward + "fn.w2.bias", [dim]))
    yield from (("to_logits.weight", [SIZES["num_tokens"], dim]), ("to_logits.bias", [SIZES["num_tokens"]]))


def write_model(model, folder):
    """All weights are 0, and take no room on the disk: nothing is computed."""
    header, at = {}, 0
    for name, shape in tensors(model):
        end = at + 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    kwargs = SIZES | (SHARED if model == "shared" else {})
    (folder / "config.json").write_text(json.dumps({"architecture": "linformer.LinformerLM", "kwargs": kwargs}))


def launch_of(line, times):
    """A line of the trace (tests/cuda/shim/kernels.h)."""
    kind, *fields = line.split("\t")
    if kind == "product":
        return {"kind": kind, "times": times, "shape": [int(word) for word in fields[0].split()], "added": int(fields[4])}
    return {"kind": kind, "times": times, "name": fields[0], "grid": [int(word) for word in fields[1].split()],
            "threads": int(fields[2]), "shared": int(fields[3])}


def trace(folder, dtype, batch, chip):
    """The launches of one run. Those while the model is loaded convert weights (round_floats)."""
    path = folder.parent / "trace"
    environment = {"SHIM_TRACE": str(path), "SHIM_PROCESSORS": str(chip["processors"]), "SHIM_MEMORY": str(1 << 40),
                   "SHIM_SHARED_KIB": str(chip["shared_kib"]), "LINFORMERD_CUDA_TUNING_MS": "0", "LINFORMERD_CUDA_F32": "plain"}
    lengths = " ".join([str(SIZES["seq_len"])] * batch)
    command = [BUILD / "predict/tests/cuda/worker", folder, dtype, str(batch * SIZES["seq_len"]), str(batch), "1", "cuda"]
    said = subprocess.run(command, input=f"pooled - {lengths}\n", env=os.environ | environment, capture_output=True,
                          text=True, check=True).stdout
    if not said.endswith("ready\n"):
        raise SystemExit(f"{command}: {said}")
    lines = collections.Counter(line for line in path.read_text().splitlines() if "round_floats" not in line)
    return [launch_of(line, times) for line, times in lines.items()]


def engine_counts(work):
    found = {}
    for model in MODELS:
        write_model(model, work / model)
        for batch in BATCHES:
            for chip in ("A100", "H100"):
                for dtype in ("bf16", "f32") if chip == "H100" else ("bf16",):
                    key = f"{model} {dtype} {batch} {predict.CHIPS[chip]['processors']}"
                    found[key] = trace(work / model, dtype, batch, predict.CHIPS[chip])
    return found


# ---- Instructions

def only(counts):
    return {code: counts[code] for code in ("all", "HMMA", "FFMA", "MUFU", "LDSM", "LDGSTS") if counts.get(code)}


def minus(counts, times, other):
    return {code: number - times * other.get(code, 0) for code, number in counts.items()}


def tensor_counts(found):
    """`hot`: one pass of the loop with the products, without copies. `copy`: 16 bytes for each thread of a warp. `rest`:
    the way around the loop and the copies. Where nvcc unrolls a loop of copies, `hot` has all branches for the copies
    that are left, so it is too high. In projections it has 7.6 (8.0) and 9.3 (9.0) instructions for a product, where an
    emulator of PTX executed 6.3. So projections are predicted too slow."""
    copies = [loop for loop in found["loops"] if loop["innermost"] and loop.get("LDGSTS") and not loop.get("HMMA")]
    most = max(loop.get("HMMA", 0) for loop in found["loops"])
    whole = min((loop for loop in found["loops"] if loop.get("HMMA", 0) == most), key=lambda loop: loop["all"])
    usual = sorted(copies, key=lambda loop: loop["all"] / loop["LDGSTS"])[len(copies) // 2]
    copy = {code: number / usual["LDGSTS"] for code, number in only(usual).items()}
    hot = minus(only(whole), whole.get("LDGSTS", 0), copy)
    rest = minus(minus(only(found["whole"]), 1, hot), found["whole"].get("LDGSTS", 0), copy)
    return {"hot": hot, "copy": copy, "rest": {code: max(number, 0) for code, number in rest.items()}}


def float_counts(found, iterations):
    """`tile`: one pass of the outermost loop with multiply-adds, its inner loops as often as `iterations` says by the
    multiply-adds of one: a thread needs so many in all."""
    loops = [loop for loop in found["loops"] if loop.get("FFMA", 0) >= 64]
    outer = max(loops, key=lambda loop: loop["all"])
    inner = [loop for loop in loops if loop["innermost"] and loop is not outer]
    tile = only(outer)
    for loop in inner:
        tile = minus(tile, -(iterations // loop["FFMA"] - 1), only(loop))
    return {"tile": tile}


def compile_source(source, capability, work):
    cubin = work / f"{source}_{capability}.cubin"
    subprocess.run([os.environ.get("NVCC", "nvcc"), "-std=c++20", "-O3", f"-arch=sm_{capability}", "-cubin", "-I", ROOT,
                    "-o", cubin, ROOT / f"engine/cuda/{source}.cu"], check=True)
    return cubin


def sass_counts(work, wanted):
    nvdisasm = os.environ.get("NVDISASM") or shutil.which("nvdisasm")
    if not nvdisasm:
        raise SystemExit("nvdisasm is missing: NVDISASM=PATH names it; PyPI's package nvidia-cuda-nvdisasm has it")
    found = {}
    for capability in ("80", "90"):
        found[capability] = {}
        for source in SOURCES:
            cubin = work / f"{source}_{capability}.cubin"
            kernels = sass.disassemble(nvdisasm, cubin if cubin.exists() else compile_source(source, capability, work))
            for name in sorted(wanted & set(kernels)):
                counts = sass.kernel_counts(kernels[name])
                found[capability][name] = tensor_counts(counts) if "tensor" in name else float_counts(counts, 1024)
    return found


# ---- PyTorch

def peer_counts():
    """By a python that has PyTorch."""
    code = ("import json, sys, torch; sys.path.insert(0, sys.argv[1]); import predict_peers as p; "
            "print(json.dumps(p.counts(json.loads(sys.argv[2]), 1, torch.bfloat16, *json.loads(sys.argv[3]))))")
    ways = {"eager": (False, False), "compile": (True, False), "fused-compile": (True, True)}
    python = os.environ.get("PREDICT_PYTHON", sys.executable)
    return {f"{model} {peer}": json.loads(subprocess.run(
        [python, "-c", code, FOLDER, json.dumps(SIZES | (SHARED if model == "shared" else {})), json.dumps(way)],
        check=True, capture_output=True, text=True).stdout) for model in MODELS for peer, way in ways.items()}


def text():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        engine = engine_counts(work)
        wanted = {launch["name"] for launches in engine.values() for launch in launches
                  if launch.get("name", "").split("<")[0] in SOURCES}
        found = {"engine": engine, "sass": sass_counts(work, wanted), "peers": peer_counts()}
    lines = [f' "{part}": {{\n' + ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in counts.items()) + "\n }"
             for part, counts in found.items()]
    return f'{{\n "sources": "{sources()}",\n' + ",\n".join(lines) + "\n}\n"
