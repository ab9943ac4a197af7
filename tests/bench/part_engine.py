"""Compares the engine with PyTorch, ONNX Runtime and OpenVINO. With the model of the Keras entrypoint, compares it with
TensorFlow."""
import array
import math
import random

import environment
import report
import workers
from workers import fastest, median_ms, ratio

MODELS = {"shared": "(a) one_kv_head, share_kv", "full": "(b) full heads"}
SHAPES = [(1, 128), (8, 128), (1, 512), (8, 512), (1, 4096), (8, 4096)]  # (batch, n)
DIM = 512
OURS = "linformerd"
PEERS = {"f32": ["torch", "compile", "onnxruntime", "openvino"], "bf16": ["torch", "compile", "openvino"]}
TITLES = {"torch": "PyTorch", "compile": "torch.compile", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO",
          "keras": "model.predict", "keras_function": "tf.function", "keras_xla": "XLA"}
SLICE_S, BUDGET_S = 0.3, 25
# With a larger error, the other library computes something else, and its time has no meaning.
MAX_ERROR = {"f32": 1e-4, "bf16": 3e-2}


def normal_floats(count, path):
    generator = random.Random(1)
    block = array.array("f", (generator.gauss(0, 1) for _ in range(min(count, 1 << 18))))
    with open(path, "wb") as file:
        while count > 0:
            block[:count].tofile(file)
            count -= len(block)
    return path


def start(group, model_name, folder, most_tokens, most_items, peers, more_environment=()):
    """Starts linformerd's worker and the workers of the other libraries in each dtype, with the names "NAME DTYPE"."""
    for dtype in peers:
        group.start(f"{OURS} {dtype}",
                    [environment.program("worker"), folder, dtype, str(most_tokens), str(most_items)],
                    environment.log(f"{model_name}_{OURS}_{dtype}"), workers.OUR_ENVIRONMENT)
        for peer in peers[dtype]:
            more = workers.TORCH_ENVIRONMENT if peer in ("torch", "compile") else workers.ENVIRONMENT
            more = dict(more, TORCHINDUCTOR_CACHE_DIR=str(environment.BENCH / "inductor"))
            group.start(f"{peer} {dtype}", [environment.PYTHON, environment.FOLDER / "peers.py", peer, folder, dtype],
                        environment.log(f"{model_name}_{peer}_{dtype}"), more | dict(more_environment))
    group.wait_ready()


def compare(group, ready, reference, errors):
    """Compares the outputs of the workers with the reference, and returns the workers whose output is right. Only these
    workers are measured. `errors` keeps the largest relative L2 distance of each worker over all shapes."""
    path = environment.BENCH / "output.raw"
    good = []
    for name in ready:
        group.running[name].ask(f"save {path}")
        distance = float(group.running[reference].ask(f"compare {path}"))
        errors[name] = max(errors.get(name, 0), distance)
        if distance <= MAX_ERROR[name.split()[1]]:
            good.append(name)
        else:
            group.failures[name] = f"its output differs by {distance:.1e}"
    path.unlink(missing_ok=True)
    return good


def cell(times, name, ours):
    """A cell of the table: milliseconds, and their ratio to the time of linformerd."""
    if not times.get(name):
        return "–"
    text = report.number(median_ms(times, name))
    return text if ours is None or not times.get(ours) else f"{text} ({report.times(ratio(times, name, ours))})"


def f32_row(label, batch, length, times):
    ours = f"{OURS} f32"
    peers = [f"{peer} f32" for peer in PEERS["f32"]]
    best = fastest(times, peers)
    return [label, length, batch, cell(times, ours, None), *(cell(times, peer, ours) for peer in peers),
            f"**{report.times(ratio(times, best, ours))}**"]


def bf16_row(label, batch, length, times):
    """A row of the table for bf16. If linformerd has no result in bf16, the others are compared with its result in
    float32."""
    ours, own_f32 = f"{OURS} bf16", f"{OURS} f32"
    peers = [f"{peer} bf16" for peer in PEERS["bf16"]]
    f32_peers = [f"{peer} f32" for peer in PEERS["f32"]]
    best = fastest(times, peers + f32_peers)
    return [label, length, batch, cell(times, ours, None),
            *(cell(times, peer, ours if times.get(ours) else own_f32) for peer in peers),
            report.times(ratio(times, own_f32, ours)),
            report.times(ratio(times, fastest(times, f32_peers), ours)),
            f"**{report.times(ratio(times, best, ours))}**"]


def measure_model(name, rounds, shapes, errors, failures):
    """Yields (batch, length, times) for each shape."""
    folder = environment.model(name)
    with workers.Workers() as group:
        start(group, name, folder, max(b * n for b, n in shapes), max(b for b, _ in shapes), PEERS)
        for batch, length in shapes:
            path = normal_floats(batch * length * DIM, environment.BENCH / "input.raw")
            print(f"{MODELS[name]}, batch {batch}, n {length}: preparing", flush=True)
            ready = compare(group, group.prepare(f"shape {batch} {length} {path}"), "torch f32", errors)
            times = group.measure(ready, rounds, SLICE_S, BUDGET_S)
            for worker in ready:
                print(f"    {worker:18} {report.number(median_ms(times, worker)):>8} ms"
                      f"  {report.times(ratio(times, worker, f'{OURS} f32'))} of our f32", flush=True)
            yield batch, length, times
        failures.update({f"{name}: {worker}": why for worker, why in group.failures.items()})
        measure_model.versions = sorted(set(group.descriptions.values()))


def failure_list(failures):
    return "".join(f"- not measured: {name}: {why}\n" for name, why in sorted(failures.items()))


def run(options):
    heading_rows = {"f32": [], "bf16": []}
    errors, failures = {}, {}
    began = report.heading(options.command)
    for name, label in MODELS.items():
        for batch, length, times in measure_model(name, options.rounds, options.shapes or SHAPES, errors, failures):
            heading_rows["f32"].append(f32_row(label, batch, length, times))
            heading_rows["bf16"].append(bf16_row(label, batch, length, times))
    titles = {dtype: [TITLES[peer] for peer in peers] for dtype, peers in PEERS.items()}
    text = [began + "- versions: " + "; ".join(measure_model.versions) + "\n",
            "float32: milliseconds for a batch; in brackets, the ratio to linformerd's time:\n",
            report.table(["model", "n", "batch", OURS, *titles["f32"], "fastest peer : ours"], heading_rows["f32"]),
            "bf16: milliseconds for a batch; in brackets, the ratio to linformerd's bf16, or to its float32 if it has no bf16:\n",
            report.table(["model", "n", "batch", OURS, *titles["bf16"], "our f32 : ours", "fastest f32 peer : ours",
                          "fastest peer of all : ours"], heading_rows["bf16"]),
            "Relative L2 distance of the outputs from PyTorch's in float32, the largest over all shapes above:\n",
            report.table(["", *errors], [["", *(f"{error:.1e}" for error in errors.values())]]),
            failure_list(failures)]
    report.write("engine", "\n".join(text))


# ---- The model of dholland42's entrypoint.py: 25 sequences of 2000 ids, dim 256, 8 heads of 128, projected to 64 rows

KERAS_BATCH, KERAS_LENGTH, KERAS_VOCABULARY = 25, 2000, 100
KERAS_PEERS = {"f32": ["keras", "keras_function", "keras_xla"]}


def run_keras(options):
    source = environment.keras_source()
    if source is None:
        report.write("keras", f"Not measured: {environment.KERAS_REPOSITORY} cannot be cloned; KERAS_PY=PATH names its "
                              "linformer/attention.py.")
        return
    began = report.heading(options.command)
    more = {"KERAS_PY": str(source)}
    folder = environment.model("keras", more)
    generator = random.Random(1)
    path = environment.BENCH / "input.raw"
    with open(path, "wb") as file:
        ids = (generator.randrange(KERAS_VOCABULARY) for _ in range(KERAS_BATCH * KERAS_LENGTH))
        array.array("i", ids).tofile(file)
    errors = {}
    with workers.Workers() as group:
        start(group, "keras", folder, KERAS_BATCH * KERAS_LENGTH, KERAS_BATCH, KERAS_PEERS, more)
        ready = group.prepare(f"shape {KERAS_BATCH} {KERAS_LENGTH} {path}")
        ready = compare(group, ready, "keras f32", errors)
        times = group.measure(ready, max(options.rounds, 7), SLICE_S, 2 * BUDGET_S)
        ours, peers = f"{OURS} f32", [f"{peer} f32" for peer in KERAS_PEERS["f32"]]
        best = fastest(times, peers)
        row = [cell(times, ours, None), *(cell(times, peer, ours) for peer in peers),
               f"**{report.times(ratio(times, best, ours) if best else math.nan)}**"]
        text = [began + "- versions: " + "; ".join(sorted(set(group.descriptions.values()))) + "\n",
                report.table([OURS, *(TITLES[peer] for peer in KERAS_PEERS["f32"]), "fastest peer : ours"], [row]),
                "Relative L2 distance from model.predict's output: "
                + ", ".join(f"{name} {error:.1e}" for name, error in errors.items()) + ".\n",
                failure_list(group.failures)]
    report.write("keras", "\n".join(text))
