"""A case: a class of a library with random arguments, its weights, and random calls of its forward().

The module of a library (linformer_cases.py …) has GENERATORS: functions from a Random to a Case. Some of the cases are
spoiled on purpose: the class refuses these arguments, or its forward() raises an error.

This module only needs numpy. torch_case.py contains what the PyTorch classes share."""

import dataclasses
import importlib.util
import json
import pathlib

import numpy as np


def _load_export():
    """Loads weights/export.py as its users do, from a path and not from a package."""
    path = pathlib.Path(__file__).parents[2] / "weights" / "export.py"
    spec = importlib.util.spec_from_file_location("export", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.export


export = _load_export()


@dataclasses.dataclass
class Call:
    """The inputs of one call, by the names of forward()'s parameters, and which outputs are requested."""

    inputs: dict
    attentions: bool = False  # whether all outputs are requested, not only the class's own one
    note: str = ""  # the fault of the call, for the record

    def describe(self):
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in self.inputs.items())
        return f"{shapes}{' with attentions' if self.attentions else ''}{f' ({self.note})' if self.note else ''}"


@dataclasses.dataclass
class Case:
    """Subclasses define how a model is made, saved and called."""

    architecture: str
    kwargs: dict  # in the form of config.json
    calls: list
    sound: dict = None  # the arguments before they were spoiled. If `kwargs` make no model, its weights are saved
    spoiled: tuple = ()  # names of the arguments that were changed
    settings: dict = dataclasses.field(default_factory=dict)  # other keys of config.json

    def make(self, kwargs):
        """The library's model. Raises the library's errors."""
        raise NotImplementedError

    def call(self, model, call):
        """The library's outputs by name, as arrays. Raises the library's errors."""
        raise NotImplementedError

    def save(self, model, folder):
        """Saves the model with weights/export.py."""
        raise NotImplementedError

    def save_unchecked(self, model, folder):
        """Saves the tensors of any model and `self.kwargs` without weights/export.py, which may refuse them."""
        raise NotImplementedError

    def write_config(self, folder):
        config = {"architecture": self.architecture, "kwargs": self.kwargs, **self.settings}
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))

    def variants(self, model, call):
        """Other results of a call that rounding errors alone can cause. There are none if the result depends on the
        inputs smoothly."""
        return ()

    def names(self, argument, message):
        """Whether the daemon's message names the argument."""
        return argument in message

    def leniency(self, call):
        """The reason why the daemon may answer a call on which the library raises. None: it may not."""
        return None

    def sides(self):
        """The arguments of each model in the case. An encoder/decoder pair has two."""
        return [self.kwargs]

    def deviation(self, call):
        """The reason why the daemon may refuse a call that the library runs. None: it may not. README.md lists all
        reasons."""
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
    """A numpy generator, seeded from a Python generator."""
    return np.random.default_rng(rng.getrandbits(64))


def floats(rng, *shape):
    return generator_of(rng).standard_normal(shape).astype(np.float32)


def ids(rng, vocabulary, *shape):
    return generator_of(rng).integers(0, vocabulary, shape)


def mask(rng, *shape):
    """Mostly random. Sometimes the first rows of each item, as in padded batches. Sometimes false in all rows."""
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
    """Lengths of `count` sequences: the longest one, one row, and random ones. 0 for all if there is no longest one."""
    return ([most, 1] + [rng.randint(1, most) for _ in range(count)])[:count] if most else [0] * count


def spoil(rng, kwargs, spoilers, rate=0.25):
    """(kwargs, sound, names): with the probability `rate`, one of the spoilers changes the arguments. `sound` are the
    arguments before the change, and `names` are the changed arguments. A spoiler returns the changed arguments as a
    dict."""
    if not chance(rng, rate):
        return kwargs, kwargs, ()
    change = rng.choice(spoilers)(rng, kwargs)
    return kwargs | change, kwargs, tuple(change)


def without(kwargs, *names):
    return {name: value for name, value in kwargs.items() if name not in names}
