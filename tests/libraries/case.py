"""A case: a class of a library with random arguments, its weights, and random calls of its forward().

A library's module (linformer_cases.py …) has GENERATORS: functions from a Random to a Case. Some of the cases are
spoiled on purpose: the class refuses to be made with these arguments, or its forward() raises.

Importing this needs numpy alone; torch_case.py adds what the PyTorch classes share."""

import dataclasses
import importlib.util
import json
import pathlib

import numpy as np


def _load_export():
    """weights/export.py, which users copy next to their own files."""
    path = pathlib.Path(__file__).parents[2] / "weights" / "export.py"
    spec = importlib.util.spec_from_file_location("export", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.export


export = _load_export()


@dataclasses.dataclass
class Call:
    """Inputs of one call, by the names of forward()'s parameters, and the outputs that are asked for."""

    inputs: dict
    attentions: bool = False  # besides the class's own output, everything else that it can give
    note: str = ""  # what is wrong with it, for the record

    def describe(self):
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in self.inputs.items())
        return f"{shapes}{' with attentions' if self.attentions else ''}{f' ({self.note})' if self.note else ''}"


@dataclasses.dataclass
class Case:
    """Subclasses say how a model is made, saved and called."""

    architecture: str
    kwargs: dict  # as config.json has them
    calls: list
    sound: dict = None  # arguments before they were spoiled: their weights stand in where `kwargs` make no model
    spoiled: tuple = ()  # names of the arguments that were changed
    settings: dict = dataclasses.field(default_factory=dict)  # other keys of config.json

    def make(self, kwargs):
        """The library's model; raises what the library raises."""
        raise NotImplementedError

    def call(self, model, call):
        """The library's outputs by name, as arrays; raises what the library raises."""
        raise NotImplementedError

    def save(self, model, folder):
        """With weights/export.py."""
        raise NotImplementedError

    def save_unchecked(self, model, folder):
        """Without it: the tensors of any model, beside `self.kwargs`."""
        raise NotImplementedError

    def write_config(self, folder):
        config = {"architecture": self.architecture, "kwargs": self.kwargs, **self.settings}
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))

    def variants(self, model, call):
        """Other results that a rounding error alone makes of a call; none where a result depends on inputs smoothly."""
        return ()

    def names(self, argument, message):
        """Whether the daemon's message names the argument."""
        return argument in message

    def leniency(self, call):
        """Why the daemon may answer this though the library raises; None: it may not."""
        return None

    def sides(self):
        """The arguments of each model within."""
        return [self.kwargs]

    def deviation(self, call):
        """Why the daemon may refuse this call though the library runs it; None: it may not. README.md has them all."""
        for kwargs in self.sides():
            if kwargs.get("depth", 1) < 0:
                return "a depth below 0, which Python takes for 0"
            if kwargs.get("depth", 1) == 0 and (self.spoiled or call.note):
                return "with depth 0 the library looks neither at inputs nor at the layers' arguments"
        if any(self.kwargs[name] == 0 for name in self.spoiled):
            return "a size of 0, with which a tensor is empty"
        return None


def chance(rng, probability):
    return rng.random() < probability


def generator_of(rng):
    """numpy's, from Python's."""
    return np.random.default_rng(rng.getrandbits(64))


def floats(rng, *shape):
    return generator_of(rng).standard_normal(shape).astype(np.float32)


def ids(rng, vocabulary, *shape):
    return generator_of(rng).integers(0, vocabulary, shape)


def mask(rng, *shape):
    """Mostly random; sometimes a prefix for each item, as padded batches have; sometimes false throughout."""
    kind = rng.random()
    if kind < 0.1:
        return np.zeros(shape, np.bool_)
    if kind < 0.4:
        lengths = generator_of(rng).integers(0, shape[-1] + 1, shape[:-1])
        return np.arange(shape[-1]) < lengths[..., None]
    return generator_of(rng).random(shape) < rng.choice([0.2, 0.5, 0.9])


def batch_size(rng):
    return rng.choice([1, 1, 2, 3, 5])


def lengths(rng, most, count):
    """Of sequences: the longest, one row, and any."""
    return ([most, 1] + [rng.randint(1, most) for _ in range(count)])[:count] if most else [0] * count


def spoil(rng, kwargs, spoilers, rate=0.25):
    """(kwargs, sound, names): at that rate one of the spoilers, {argument: function from Random to a value}, is
    applied; a function may give several arguments as a dict."""
    if not chance(rng, rate):
        return kwargs, kwargs, ()
    change = rng.choice(spoilers)(rng, kwargs)
    return kwargs | change, kwargs, tuple(change)


def without(kwargs, *names):
    return {name: value for name, value in kwargs.items() if name not in names}
