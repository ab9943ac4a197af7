"""Measures modules around a Linformer, as export_module() writes them, and compares them with PyTorch, ONNX Runtime and
OpenVINO. The measurement consists of pieces. A piece is one module, one dtype and one batch. Most pieces take one to
four minutes, the largest takes ten. So a piece fits into a short time in which the machine has no other work.
BUILD/bench/modules keeps the result of each piece. After each piece, the section of BENCHMARKS.md is written again from
all results."""
import array
import json
import random

import environment
import models
import part_engine
import report
import workers
from part_engine import OURS, PEERS, TITLES

# Time limits of a piece. Loading needs some 20 s more.
PREPARE_S = 400  # compiling, converting and first runs of all workers together. A worker that needs longer is left out
MEASURE_S = 25   # no round begins after this time, except the first three, which need at most 80 s
PROFILE_S = 2

BATCHES = {"vit_224": [1, 8, 32], "vit_1024": [1, 8], "classifier": [1, 8, 32]}
PREFIXES = {"vit_224": "transformer.", "vit_1024": "transformer.", "classifier": "linformer."}
RESULTS = environment.BENCH / "modules"


class Piece:
    def __init__(self, name, dtype, batch):
        self.name, self.dtype, self.batch = name, dtype, batch
        self.path = RESULTS / f"{name}_{dtype}_{batch}.json"

    def __str__(self):
        return f"{self.name}:{self.dtype}:{self.batch}"

    def result(self):
        return json.loads(self.path.read_text()) if self.path.exists() else None

    def label(self):
        module = models.MODULES[self.name]
        return module["label"] + (f", patch {module['patch']}" if "patch" in module else "")

    def rows(self):
        return models.MODULES[self.name]["rows"]


def all_pieces():
    return [Piece(name, dtype, batch) for name in BATCHES for batch in BATCHES[name] for dtype in PEERS]


def write_input(module, batch, path):
    count = batch
    for size in module["shape"]:
        count *= size
    if "vocabulary" not in module:
        return part_engine.normal_floats(count, path)
    generator = random.Random(1)
    with open(path, "wb") as file:
        array.array("i", (generator.randrange(module["vocabulary"]) for _ in range(count))).tofile(file)
    return path


def peers_of(piece):
    """The workers by dtype. In bf16, linformerd in float32 and its fastest competitor in float32 are measured again,
    because both times of a ratio must come from the same round. PyTorch in float32 gives the reference output."""
    if piece.dtype == "f32":
        return {"f32": PEERS["f32"]}
    result = Piece(piece.name, "f32", piece.batch).result()
    best = workers.fastest(result["times"], f32_peers()) if result else "openvino f32"
    return {"bf16": PEERS["bf16"], "f32": sorted({"torch", best.split()[0]})}


def f32_peers():
    return [f"{peer} f32" for peer in PEERS["f32"]]


def measured(piece, peers, ready):
    """The names of the workers to measure. In bf16, PyTorch in float32 may run only for its output."""
    only_compared = "torch f32" if piece.dtype == "bf16" and len(peers["f32"]) > 1 else None
    return [name for name in ready if name != only_compared]


def measure(piece, rounds):
    module, folder, peers = models.MODULES[piece.name], environment.model(piece.name), peers_of(piece)
    began, errors = report.heading(""), {}
    path = write_input(module, piece.batch, environment.BENCH / "input.raw")
    with workers.Workers() as group:
        part_engine.start(group, piece.name, folder, piece.batch * module["tokens"], piece.batch, peers)
        ready = group.prepare_in_turn(f"shape {piece.batch} {module['shape'][0]} {path}", PREPARE_S, first="torch f32")
        ready = measured(piece, peers, part_engine.compare(group, ready, "torch f32", errors))
        times = group.measure(ready, rounds, part_engine.SLICE_S, MEASURE_S)
        profile = environment.BENCH / "profile.txt"
        glue = group.running[f"{OURS} {piece.dtype}"].ask(f"profile {PROFILE_S} {PREFIXES[piece.name]} {profile}")
        return {"began": began.splitlines()[0].removeprefix("- measured "), "load": began.splitlines()[-1],
                "times": times, "errors": errors, "failures": group.failures, "profile": profile.read_text(),
                "glue": float(glue.split()[0]), "products": float(glue.split()[1]),
                "versions": sorted(set(group.descriptions.values()))}


def print_times(piece, result):
    ours = f"{OURS} {piece.dtype}"
    for name, times in result["times"].items():
        print(f"    {name:18} {report.number(workers.median_ms(result['times'], name)):>8} ms"
              f"  {report.times(workers.ratio(result['times'], name, ours))} of ours, {len(times)} rounds", flush=True)
    print(result["profile"], flush=True)


def chosen(options):
    pieces = all_pieces()
    wanted = options.pieces or [str(piece) for piece in pieces]
    unknown = set(wanted) - {str(piece) for piece in pieces}
    if unknown:
        raise ValueError(f"no piece {', '.join(sorted(unknown))}; there are {', '.join(map(str, pieces))}")
    return [piece for piece in pieces if str(piece) in wanted]


def tables(results):
    """The tables of the measured pieces. `results`: pairs of a piece and its result."""
    rows, glue = {"f32": [], "bf16": []}, []
    for piece, result in results:
        row = part_engine.f32_row if piece.dtype == "f32" else part_engine.bf16_row
        rows[piece.dtype].append(row(piece.label(), piece.batch, piece.rows(), result["times"]))
        glue.append([piece.label(), piece.batch, piece.dtype, f"{result['products']:.2f} %", f"{result['glue']:.2f} %",
                     len(result["times"][f"{OURS} {piece.dtype}"]), result["began"], result["load"].rpartition(": ")[2]])
    titles = {dtype: [TITLES[peer] for peer in peers] for dtype, peers in PEERS.items()}
    return ["float32: milliseconds for a batch; in brackets, the ratio to linformerd's time:\n",
            report.table(["module", "n", "batch", OURS, *titles["f32"], "fastest peer : ours"], rows["f32"]),
            "bf16: milliseconds for a batch; in brackets, the ratio to linformerd's bf16, or to its float32 if it has "
            "no bf16:\n",
            report.table(["module", "n", "batch", OURS, *titles["bf16"], "our f32 : ours", "fastest f32 peer : ours",
                          "fastest peer of all : ours"], rows["bf16"]),
            "Shares of linformerd's time outside of the Linformer: products with weights, and glue, which is all else. "
            "Each line is one piece:\n",
            report.table(["module", "batch", "dtype", "products", "glue", "rounds", "measured", "load average"], glue)]


def notes(results):
    errors, failures = {}, {}
    for piece, result in results:
        for name, error in result["errors"].items():
            errors[name] = max(errors.get(name, 0), error)
        failures.update({f"{piece}: {name}": why for name, why in result["failures"].items()})
    return ["Relative L2 distance of the outputs from PyTorch's in float32, the largest over all rows above:\n",
            report.table(["", *errors], [["", *(f"{error:.1e}" for error in errors.values())]]),
            part_engine.failure_list(failures)]


def write_section():
    results = [(piece, piece.result()) for piece in all_pieces() if piece.result()]
    missing = [str(piece) for piece in all_pieces() if not piece.result()]
    versions = sorted({version for _, result in results for version in result["versions"]})
    command = 'make bench ARGS="--rounds ROUNDS --pieces MODULE:DTYPE:BATCH modules"'
    began = [f"- command: `{command}`, for each row", f"- machine: {report.machine()}", "- versions: " + "; ".join(versions)]
    if missing:
        began.append("- not measured yet: " + ", ".join(missing))
    began.append("")
    report.write("modules", "\n".join(["\n".join(began), *tables(results), *notes(results)]))


def run(options):
    RESULTS.mkdir(parents=True, exist_ok=True)
    for piece in chosen(options):
        print(f"{piece}: preparing", flush=True)
        result = measure(piece, options.rounds)
        print_times(piece, result)
        piece.path.write_text(json.dumps(result, indent=1))
        write_section()
