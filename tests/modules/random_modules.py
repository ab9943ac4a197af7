#!/usr/bin/env python3
"""Compares random modules with the daemon. The modules are drawn from a grammar of what people write around a
Linformer.

    random_modules.py [--daemon build/linformerd] [--folder build/modules] [--seed 1] [--count 300] [--only SEED]
                      [--record tests/modules/random.tar.gz --most-bytes 8000]

A module is a list of steps on tensors. Each step is drawn among the steps that the present tensors allow. Three probes,
inputs with different batches and lengths, show which steps run without an error. export_module() exports each module,
unless it is too sensitive to rounding errors (NOISE). One daemon loads several modules, and answers requests with
several batches and lengths. Its outputs must be within 1e-5 of PyTorch's (relative L2). The results of an item alone
must have the same bits as in a batch.

Seeds are consecutive numbers from --seed. The name of a module contains its seed. --record adds small modules to an
archive, which tests/reference/test_random_modules.c replays. The archive contains a folder for each module, as in
tests/modules/reference."""
import argparse
import copy
import gzip
import io
import json
import pathlib
import random
import shutil
import sys
import tarfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "weights"), str(ROOT / "tests/libraries")]

import numpy as np
import torch
from daemon import Daemon, Refused, load_refusal
from export import ALL_DTYPES, export_module, write_safetensors
from random_steps import STEPS, Source

TOLERANCE = 1e-5
NOISE = 1e-6  # limit of the change of outputs. A module is left out if rounding errors of 1e-7 change its outputs more
PROBES = [(2, 11), (3, 14), (1, 9)]  # batch and length of the example, and of two more inputs
CALLS = [(2, 11), (1, 9), (3, 16), (4, 10)]
CHUNK = 25  # number of modules that one daemon serves


class Drawn(torch.nn.Module):
    """Runs steps on a list of tensors. The inputs come first in the list. The parts with weights are submodules of this
    module."""

    def __init__(self, names):
        super().__init__()
        self.names, self.steps, self.chosen, self.as_dict = names, [], [], False
        self.parts = torch.nn.ModuleList()

    def forward(self, *inputs):
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        results = [values[i] for i in self.chosen]
        if self.as_dict:
            return {f"result_{i}": value for i, value in enumerate(results)}
        return results[0] if len(results) == 1 else tuple(results)


def with_names(drawn):
    """Gives the module a forward() whose parameters have the names of its inputs, because export_module() reads these
    names."""
    text = f"def forward(self, {', '.join(drawn.names)}):\n    return Drawn.forward(self, {', '.join(drawn.names)})\n"
    space = {"Drawn": Drawn}
    exec(text, space)
    drawn.__class__ = type("Drawn", (Drawn,), {"forward": space["forward"]})
    return drawn


def sound(values):
    return all(v.numel() > 0 and torch.isfinite(v).all() and v.abs().max() < 100 for v in values)


def draw(seed):
    """Returns a random module, and the Source of its inputs."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    source = Source(rng)
    module = Drawn(list(source.inputs(*PROBES[0])))
    examples = [source.inputs(*probe) for probe in PROBES]
    probes = [list(example.values()) for example in examples]
    wanted, tries = rng.randint(3, 14), 0
    while len(module.steps) < wanted and tries < 400:
        tries += 1
        step, parts = rng.choice(STEPS)(rng, probes) or (None, None)
        if step is None:
            continue
        try:
            with torch.no_grad():
                warnings.simplefilter("ignore")
                made = [step(values) for values in probes]
        except (RuntimeError, IndexError, ValueError, AssertionError, TypeError):
            continue
        if not sound(made) or any(v.shape[0] != b or v.dim() > 5 or v.numel() > 30000 for v, (b, _) in zip(made, PROBES)):
            continue
        module.steps.append(step)
        module.parts.extend(parts)
        for values, value in zip(probes, made):
            values.append(value)
    made = range(len(module.names), len(probes[0]))
    module.chosen = [made[-1]] + rng.sample(made[:-1], min(len(made) - 1, rng.choice([0, 0, 0, 1, 2])))
    module.as_dict = rng.random() < 0.2
    return with_names(module).eval(), source


def outputs_of(module, inputs):
    with torch.no_grad():
        outputs = module(*(value.clone() for value in inputs.values()))
    if isinstance(outputs, torch.Tensor):
        outputs = {"output": outputs}
    elif not isinstance(outputs, dict):
        outputs = {f"output.{i}": value for i, value in enumerate(outputs)}
    return {name: value.float() for name, value in outputs.items()}


def relative(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    difference, norm = np.linalg.norm(found - expected), np.linalg.norm(expected)
    return 0.0 if difference == 0 else difference / norm if norm > 0 else float("inf")


def noise(module, inputs):
    """Returns the relative change of the outputs if weights and inputs change by rounding errors of 1e-7."""
    def shake(tensor):
        return tensor * (1 + 1e-7 * torch.randn_like(tensor)) if tensor.is_floating_point() else tensor
    expected, shaken = outputs_of(module, inputs), copy.deepcopy(module)
    with torch.no_grad():
        for parameter in shaken.parameters():
            parameter.copy_(shake(parameter))
    found = outputs_of(shaken, {name: shake(value) for name, value in inputs.items()})
    return max(relative(found[name], expected[name]) for name in expected)


def words(module):
    return " ".join(step.__name__ for step in module.steps)


class Case:
    def __init__(self, seed, folder):
        self.name, self.seed, self.folder = f"random_{seed}", seed, folder / f"random_{seed}"
        self.module, self.source = draw(seed)
        torch.manual_seed(seed)
        self.calls, self.state = [], None

    def export(self, daemon):
        """Exports the module, and lets the daemon load it. Returns the reason why it cannot be tested, or None."""
        example = self.source.inputs(*PROBES[0])
        try:
            if not noise(self.module, example) < NOISE:
                return "noisy"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                export_module(self.module, example, self.folder, daemon=False)
        except ValueError as error:
            return f"not exported: {error}"
        refusal = load_refusal(daemon, str(self.folder))
        if refusal:
            return f"REFUSED: {refusal}"
        for size in CALLS:
            inputs = self.source.inputs(*size)
            try:
                self.calls.append((inputs, outputs_of(self.module, inputs)))
            except (RuntimeError, IndexError, AssertionError):
                pass  # the module itself fails for this length
        return None

    def is_free(self, arrays):
        """Whether the graph allows these sizes of the inputs."""
        graph = json.loads((self.folder / "config.json").read_text())["graph"]
        for one in graph["inputs"]:
            for wanted, size in zip(one["shape"][1:], arrays[one["name"]].shape[1:]):
                limits = graph.get("sizes", {}).get(wanted, {}) if isinstance(wanted, str) else {"least": wanted, "most": wanted}
                if size < limits.get("least", 1) or size > (limits.get("most") or size):
                    return False
        return True

    def ask(self, server):
        """Compares the daemon's answers with PyTorch. Returns the fault, or None."""
        for index, (inputs, expected) in enumerate(self.calls):
            arrays = {name: value.numpy() for name, value in inputs.items()}
            shapes = [tuple(value.shape) for value in arrays.values()]
            try:
                together = server.infer(self.name, arrays, list(expected))
                alone = [server.infer(self.name, {k: v[b:b + 1] for k, v in arrays.items()}, list(expected))
                         for b in range(len(next(iter(arrays.values()))))]
            except Refused as refused:
                if not self.is_free(arrays):
                    continue
                return f"call {index} {shapes}: {refused}"
            for name, value in expected.items():
                if together[name].shape != tuple(value.shape):
                    return f"call {index} {shapes}: {name} has the shape {together[name].shape}, not {tuple(value.shape)}"
                if not relative(together[name], value) <= TOLERANCE:
                    return f"call {index} {shapes}: {name} is {relative(together[name], value):.2g} off"
                if any(a[name].tobytes() != together[name][b:b + 1].tobytes() for b, a in enumerate(alone)):
                    return f"call {index} {shapes}: {name} has other bits alone than in the batch"
        return None

    def write_calls(self, server, most):
        """Writes calls that the daemon answers, at most `most` of them, to the folder of the module."""
        tensors, count = {}, 0
        # The call with the sizes of the example comes first, then the others.
        for inputs, expected in self.calls[:1] + self.calls[:0:-1]:
            try:
                server.infer(self.name, {name: value.numpy() for name, value in inputs.items()}, list(expected))
            except Refused:
                continue
            tensors.update({f"{count}/in/{key}": value for key, value in inputs.items()})
            tensors.update({f"{count}/out/{key}": value.clone() for key, value in expected.items()})
            count += 1
            if count == most:
                break
        with open(self.folder / "calls.safetensors", "wb") as file:
            write_safetensors(file, tensors, ALL_DTYPES)


class Archive:
    """A .tar.gz of cases. Its bytes depend only on the cases, not on times or users."""

    def __init__(self, path):
        self.path, self.files = path, {}
        if path.exists():
            with tarfile.open(path) as archive:
                self.files = {one.name: archive.extractfile(one).read() for one in archive.getmembers()}

    def count(self):
        return sum(name.endswith("/config.json") for name in self.files)

    def add(self, folder):
        self.files.update({f"{folder.name}/{one.name}": one.read_bytes() for one in folder.iterdir()})

    def write(self):
        with gzip.GzipFile(self.path, "wb", 9, mtime=0) as file, \
                tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def run_chunk(seeds, options, counts, archive):
    folder = options.folder / "served"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ready = []
    for seed in seeds:
        case = Case(seed, folder)
        problem = case.export(options.daemon)
        if problem is None:
            ready.append(case)
            continue
        kind = problem.split(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
        if kind != "noisy":
            print(f"seed {seed}: {problem} [{words(case.module)}]", flush=True)
        if kind == "REFUSED":
            shutil.copytree(case.folder, options.folder / "failed" / case.name, dirs_exist_ok=True)
        shutil.rmtree(case.folder, ignore_errors=True)
    if not ready:
        return
    with Daemon(options.daemon, str(folder)) as server:
        for case in ready:
            problem = case.ask(server)
            kind = "FAILED" if problem else "passed"
            counts[kind] = counts.get(kind, 0) + 1
            if problem:
                print(f"seed {case.seed}: FAILED: {problem} [{words(case.module)}]", flush=True)
                case.write_calls(server, len(CALLS))
                shutil.copytree(case.folder, options.folder / "failed" / case.name, dirs_exist_ok=True)
            elif archive and archive.count() < options.record_count:
                case.write_calls(server, 2)
                if sum(path.stat().st_size for path in case.folder.iterdir()) <= options.most_bytes:
                    archive.add(case.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=str(ROOT / "build/linformerd"))
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/modules")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="number of modules that are compared (300)")
    parser.add_argument("--only", type=int, help="seed of the only module that is compared")
    parser.add_argument("--record", type=pathlib.Path, help="archive to which modules are added")
    parser.add_argument("--record-count", type=int, default=300, help="modules in the archive at the end (300)")
    parser.add_argument("--most-bytes", type=int, default=8000, help="largest size of a module in the archive (8000)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts, seed = {}, options.seed
    archive = Archive(options.record) if options.record else None
    if options.only is not None:
        run_chunk([options.only], options, counts, archive)
    while options.only is None and counts.get("passed", 0) + counts.get("FAILED", 0) + counts.get("REFUSED", 0) < options.count:
        run_chunk(range(seed, seed + CHUNK), options, counts, archive)
        seed += CHUNK
        if seed > options.seed + 10 * options.count:
            break
    if archive:
        archive.write()
        print(f"{archive.count()} modules in {archive.path}")
    print(f"seeds from {options.seed}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    bad = counts.get("FAILED", 0) + counts.get("REFUSED", 0)
    return 1 if bad or not counts.get("passed") else 0


if __name__ == "__main__":
    sys.exit(main())
