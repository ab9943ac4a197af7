"""Counts the engine's launches, the instructions of its largest kernels, and PyTorch's launches. predict.py uses these
counts. Also reads the registers of all kernels for registers.py.

`make predict` builds the engine on the shim (CUDA on the CPU), and cubins of all kernels. The module also needs
nvdisasm, which is in PyPI's package nvidia-cuda-nvdisasm. NVDISASM=PATH is the path of nvdisasm. PREDICT_PYTHON=PATH
names a python with PyTorch. The default is the python that runs this module."""
import collections
import difflib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import predict
import sass
import sources
from predict import BATCHES, MODELS, SIZES

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
SHARED = {"one_kv_head": True, "share_kv": True}
CUBINS = BUILD / "predict/sass"  # contains NAME_CAPABILITY.cubin, and the output of nvcc in NAME_CAPABILITY.cubin.txt
CAPABILITIES = ("80", "90", "100", "120")
# The sources engine/cuda/NAME.cu of the kernels whose instructions are counted.
COUNTED = ("attend_split", "attend_tensor", "project_split", "project_tensor", "split_product")


# ---- The engine's launches

def tensors(model):
    """Yields (name, shape) for each weight of linformer.LinformerLM."""
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
    """Writes a model whose weights are all 0, as a file with a hole that occupies no disk space. With SHIM_TRACE
    nothing is computed, so the values do not matter."""
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


def launch_of(line):
    """Returns a launch as a dict, from a line of the shim's trace (tests/cuda/shim/kernels.h)."""
    kind, *fields = line.split("\t")
    if kind == "product":
        return {"kind": kind, "shape": [int(word) for word in fields[0].split()], "added": int(fields[4])}
    if kind == "grouped":
        return {"kind": kind, "shape": [int(word) for word in fields[0].split()]}
    return {"kind": kind, "name": fields[0], "grid": [int(word) for word in fields[1].split()],
            "threads": int(fields[2]), "shared": int(fields[3])}


# The times that the shim reports for the engine's kernels, and for GELU at the end of a product. With these times, the
# engine's tuning chooses cuBLASLt ("library") or the engine's kernels ("kernel").
TIMES = {"library": {"SHIM_KERNEL_MS": "1000", "SHIM_GELU_MS": "0"},
         "kernel": {"SHIM_KERNEL_MS": "0.01", "SHIM_GELU_MS": "10"}}


def answer(worker, command, folder):
    """Sends the command to the worker, and waits for its answer. Ends the program if the command failed."""
    worker.stdin.write(command)
    worker.stdin.flush()
    said = worker.stdout.readline()
    if not said.startswith("ready"):
        raise SystemExit(f"the worker with {folder}: {said or 'it ended'}")


def traces(folder, dtype, chip, way, batches):
    """Returns the lines of the trace of each batch, as a list of lists. A batch is the list of its items' lengths."""
    path = folder.parent / "trace"
    path.write_text("")
    environment = {"SHIM_TRACE": str(path), "SHIM_PROCESSORS": str(chip["processors"]), "SHIM_MEMORY": str(1 << 40),
                   "SHIM_SHARED_KIB": str(chip["shared_kib"]), "LINFORMERD_CUDA_TUNING_MS": "60000", **TIMES[way]}
    rows, most, found = SIZES["seq_len"], max(map(len, batches)), []
    command = [BUILD / "predict/tests/cuda/worker", folder, dtype, str(most * rows), str(most), "1", "cuda"]
    with subprocess.Popen(command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as worker:
        answer(worker, "", folder)
        for lengths in batches:
            before = path.stat().st_size  # bytes of the trace so far, from loading the model and from earlier batches
            answer(worker, f"pooled - {' '.join(map(str, lengths))}\n", folder)
            found.append(path.read_text()[before:].splitlines())
    return found


def choices(library, kernel):
    """Yields the launches that two traces of the same run have in common, in order. Where the traces differ, yields a
    step that contains both ways: {"library": [launches], "kernel": [launches]}."""
    for same, a, b, c, d in difflib.SequenceMatcher(None, library, kernel, autojunk=False).get_opcodes():
        ways = [launch_of(line) for line in library[a:b]], [launch_of(line) for line in kernel[c:d]]
        if same == "equal":
            yield from ways[0]
        elif all(launch.get("name", "").startswith("multiply_split<") for launch in ways[1]):
            for product, split in zip(*ways, strict=True):  # the grid does not contain the shape of a product
                yield {"library": [product], "kernel": [split | {"shape": product["shape"], "added": product["added"]}]}
        else:
            yield {"library": ways[0], "kernel": ways[1]}


def counted(library, kernel):
    """Returns the launches of a run, from its traces in both ways. Equal launches are one entry, with their number."""
    steps = collections.Counter(map(json.dumps, choices(library, kernel)))
    return [{"times": times} | json.loads(step) for step, times in steps.items()]


def engine_counts(work):
    """Returns the launches of all runs of the engine, for counts.json: first of items with the full length, then of
    items with the lengths LENGTHS."""
    whole, lengths = {}, {}
    for model in MODELS:
        write_model(model, work / model)
        for chip in (predict.CHIPS["A100"], predict.CHIPS["H100"]):
            for dtype in ("bf16", "f32"):
                batches = [[SIZES["seq_len"]] * batch for batch in BATCHES]
                if dtype == "bf16":  # in f32, the engine's own kernel computes all projections
                    batches.append(predict.LENGTHS)
                library, kernel = (traces(work / model, dtype, chip, way, batches) for way in predict.WAYS)
                found = list(map(counted, library, kernel))
                whole |= {f"{model} {dtype} {batch} {chip['processors']}": steps for batch, steps in zip(BATCHES, found)}
                if dtype == "bf16":
                    lengths[f"{model} {chip['processors']}"] = found[-1]
    return whole, lengths


# ---- Instructions

def only(counts):
    """Returns only the counts that predict.py uses."""
    codes = ("all", "HMMA", "float", "integer", "MUFU", "shared", "LDGSTS")
    return {code: counts[code] for code in codes if counts.get(code)}


def minus(counts, times, other):
    """Returns counts - times * other, but at least 0, for each opcode."""
    return {code: max(number - times * other.get(code, 0), 0) for code, number in counts.items()}


def tensor_counts(found):
    """Divides the counts of a kernel into three parts, {part: counts}:
    - `hot`: one pass of the loop with the products, without copies.
    - `copy`: the copy of 16 bytes for each thread of a warp.
    - `rest`: the instructions before and after the loop.

    If nvcc unrolls a loop of copies, `hot` also contains the branches for the remaining copies. `hot` is then too high,
    and projections are predicted too slow. In projections with large tiles, a pass of the loop with its copies has 7.6
    instructions for each product on compute capability 8.0. On 9.0 it has 9.3. The PTX emulator executed 6.3."""
    copies = [loop for loop in found["loops"] if loop["innermost"] and loop.get("LDGSTS") and not loop.get("HMMA")]
    most = max(loop.get("HMMA", 0) for loop in found["loops"])
    whole = min((loop for loop in found["loops"] if loop.get("HMMA", 0) == most), key=lambda loop: loop["all"])
    usual = sorted(copies, key=lambda loop: loop["all"] / loop["LDGSTS"])[len(copies) // 2]
    copy = {code: number / usual["LDGSTS"] for code, number in only(usual).items()}
    hot = minus(only(whole), whole.get("LDGSTS", 0), copy)
    rest = minus(minus(only(found["whole"]), 1, hot), found["whole"].get("LDGSTS", 0), copy)
    return {"hot": hot, "copy": copy, "rest": rest}


def split_counts(found, name):
    """Divides the counts of a kernel that splits floats into three parts, {part: counts}:
    - `inner`: one pass of the inner loop, which multiplies 8 elements of depth.
    - `tile`: one pass of the outer loop, with all passes of the inner loop.
    - `rest`: the instructions before and after the outer loop."""
    loops = [loop for loop in found["loops"] if loop.get("HMMA")]
    inner = max((loop for loop in loops if loop["innermost"]), key=lambda loop: loop["HMMA"])
    outer = max((loop for loop in loops if not loop["innermost"]), key=lambda loop: (loop["HMMA"], -loop["all"]))
    passes = (predict.template_numbers(name)[0] if name.startswith("attend") else predict.split_depth(name)) // 8
    return {"inner": only(inner), "tile": minus(only(outer), 1 - passes, only(inner)),
            "rest": minus(only(found["whole"]), 1, only(outer))}


def disassemble(source, capability):
    """Returns {kernel: lines of SASS} of engine/cuda/SOURCE.cu, for a compute capability."""
    nvdisasm = os.environ.get("NVDISASM") or shutil.which("nvdisasm")
    if not nvdisasm:
        raise SystemExit("nvdisasm is missing. Set NVDISASM=PATH. PyPI's package nvidia-cuda-nvdisasm has it")
    return sass.disassemble(nvdisasm, CUBINS / f"{source}_{capability}.cubin")


def sass_counts(wanted):
    """Returns {capability: {kernel: {part: counts}}} of the wanted kernels, for counts.json."""
    found = {}
    for capability in ("80", "90"):
        kernels = {}
        for source in COUNTED:
            kernels |= disassemble(source, capability)
        missing = wanted - kernels.keys()
        if missing:
            raise SystemExit(f"no code of {', '.join(sorted(missing))} in the cubins for {capability}")
        found[capability] = {}
        for name in sorted(wanted):
            counts = sass.kernel_counts(kernels[name])
            found[capability][name] = tensor_counts(counts) if "tensor" in name else split_counts(counts, name)
    return found


# ---- Registers

def main_loop(lines):
    """Returns [number of instructions, number of instructions that access the stack] in one pass of the loop with the
    most products. If the kernel has no products on tensor cores, operations on floats count in their place. If several
    loops contain equally many products, the shortest loop counts. Loops within the loop count once."""
    loops = sass.kernel_counts(lines)["loops"]
    product = "HMMA" if any(loop.get("HMMA") for loop in loops) else "float"
    loop = min(loops, key=lambda loop: (-loop.get(product, 0), loop["all"]))
    return [loop["all"], loop.get("LDL", 0) + loop.get("STL", 0)]


def register_counts():
    """Returns (version of nvcc, {kernel: {capability: [registers of a thread, bytes spilled, *main_loop]}}). Only
    entries of kernels that spill contain the counts of main_loop()."""
    versions, found = set(), {}
    for capability in CAPABILITIES:
        for source in sorted(path.stem for path in (ROOT / "engine/cuda").glob("*.cu") if "__global__" in path.read_text()):
            version, kernels = sass.resources((CUBINS / f"{source}_{capability}.cubin.txt").read_text())
            versions.add(version)
            spilling = any(spilled for _, spilled in kernels.values())
            codes = disassemble(source, capability) if spilling else {}
            for name, (registers, spilled) in kernels.items():
                if capability in found.setdefault(name, {}):
                    raise SystemExit(f"two kernels are called {name}")
                found[name][capability] = [registers, spilled, *(main_loop(codes[name]) if spilled else [])]
    if len(versions) != 1:
        raise SystemExit(f"{CUBINS} is of several versions of nvcc: {', '.join(sorted(versions))}; remove this folder")
    return *versions, found


def registers_text():
    """Returns the content of registers.json."""
    version, found = register_counts()
    lines = ",\n".join(f'  {json.dumps(name)}: {json.dumps(counts)}' for name, counts in sorted(found.items()))
    return f'{{\n "sources": "{sources.digest()}",\n "nvcc": "{version}",\n "kernels": {{\n{lines}\n }}\n}}\n'


# ---- PyTorch

def peer_counts():
    """Returns the counts of predict_peers.py, for counts.json. PREDICT_PYTHON computes them, because PyTorch is
    needed."""
    code = ("import json, sys, torch; sys.path.insert(0, sys.argv[1]); import predict_peers as p; "
            "print(json.dumps(p.counts(json.loads(sys.argv[2]), 1, torch.bfloat16, *json.loads(sys.argv[3]))))")
    ways = {"eager": (False, False), "compile": (True, False), "fused-compile": (True, True)}
    python = os.environ.get("PREDICT_PYTHON", sys.executable)
    return {f"{model} {peer}": json.loads(subprocess.run(
        [python, "-c", code, FOLDER, json.dumps(SIZES | (SHARED if model == "shared" else {})), json.dumps(way)],
        check=True, capture_output=True, text=True).stdout) for model in MODELS for peer, way in ways.items()}


def text():
    """Returns the content of counts.json."""
    with tempfile.TemporaryDirectory() as folder:
        engine, lengths = engine_counts(pathlib.Path(folder))
    launches = [launch for steps in (*engine.values(), *lengths.values()) for step in steps for launch in step.get("kernel", [step])]
    wanted = {launch["name"] for launch in launches if launch.get("name", "").split("<")[0] in predict.WORK}
    found = {"engine": engine, "lengths": lengths, "sass": sass_counts(wanted), "peers": peer_counts()}
    lines = [f' "{part}": {{\n' + ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in counts.items()) + "\n }"
             for part, counts in found.items()]
    return f'{{\n "sources": "{sources.digest()}",\n' + ",\n".join(lines) + "\n}\n"
