"""Modules around a Linformer, as export_module() writes them, beside PyTorch, ONNX Runtime and OpenVINO."""
import array
import random

import environment
import models
import part_engine
import report
import workers
from part_engine import OURS, PEERS, TITLES

BATCHES = [1, 8, 32]


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


def measure_module(name, rounds, batches, errors, failures):
    """Yields (batch, times)."""
    module, folder = models.MODULES[name], environment.model(name)
    with workers.Workers() as group:
        part_engine.start(group, name, folder, max(batches) * module["tokens"], max(batches), PEERS)
        for batch in batches:
            path = write_input(module, batch, environment.BENCH / "input.raw")
            print(f"{module['label']}, batch {batch}: preparing", flush=True)
            ready = group.prepare(f"shape {batch} {module['shape'][0]} {path}")
            ready = part_engine.compare(group, ready, "torch f32", errors)
            yield batch, group.measure(ready, rounds, part_engine.SLICE_S, part_engine.BUDGET_S)
        failures.update({f"{name}: {worker}": why for worker, why in group.failures.items()})
        measure_module.versions = sorted(set(group.descriptions.values()))


def run(options):
    """--shapes chooses batches: BATCHx0,…"""
    rows = {"f32": [], "bf16": []}
    errors, failures = {}, {}
    batches = [batch for batch, _ in options.shapes] if options.shapes else BATCHES
    began = report.heading(options.command)
    for name, module in models.MODULES.items():
        length = module["rows"]
        for batch, times in measure_module(name, options.rounds, batches, errors, failures):
            rows["f32"].append(part_engine.f32_row(module["label"], batch, length, times))
            rows["bf16"].append(part_engine.bf16_row(module["label"], batch, length, times))
    titles = {dtype: [TITLES[peer] for peer in peers] for dtype, peers in PEERS.items()}
    text = [began + "- versions: " + "; ".join(measure_module.versions) + "\n",
            "float32: milliseconds for a batch; in brackets, the ratio to linformerd's time:\n",
            report.table(["module", "n", "batch", OURS, *titles["f32"], "fastest peer : ours"], rows["f32"]),
            "bf16: milliseconds for a batch; in brackets, the ratio to linformerd's bf16, or else to its float32:\n",
            report.table(["module", "n", "batch", OURS, *titles["bf16"], "our f32 : ours", "fastest f32 peer : ours",
                          "fastest peer of all : ours"], rows["bf16"]),
            "Relative L2 distance of the outputs from PyTorch's in float32, the largest over all rows above:\n",
            report.table(["", *errors], [["", *(f"{error:.1e}" for error in errors.values())]]),
            part_engine.failure_list(failures)]
    report.write("modules", "\n".join(text))
