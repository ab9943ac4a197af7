"""A case: a class of a library with random arguments, its weights, and random calls of its forward().

The module of a library (linformer_cases.py …) contains GENERATORS: functions that make a Case from a random.Random.
Some cases are spoiled on purpose: the class refuses the arguments, or its forward() raises an error.

This module needs only numpy. torch_case.py contains the parts that the PyTorch classes share."""

import dataclasses
import importlib.util
import json
import pathlib

import numpy as np


def _load_export():
    """Loads weights/export.py from its path, because the file is in no package."""
    path = pathlib.Path(__file__).parents[2] / "weights" / "export.py"
    spec = importlib.util.spec_from_file_location("export", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.export


export = _load_export()


@dataclasses.dataclass
class Call:
    """One call: the inputs by the names of forward()'s parameters, and the requested outputs."""

    inputs: dict
    attentions: bool = False  # whether all outputs are requested, instead of only the class's own output
    note: str = ""  # description of the call's fault, for the record

    def describe(self):
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in self.inputs.items())
        return f"{shapes}{' with attentions' if self.attentions else ''}{f' ({self.note})' if self.note else ''}"


@dataclasses.dataclass
class Case:
    """Subclasses define how a model is made, saved and called."""

    architecture: str
    kwargs: dict  # in the form of config.json
    calls: list
    sound: dict = None  # the arguments before they were spoiled. Their model is saved if `kwargs` make no model
    spoiled: tuple = ()  # names of the arguments that were changed
    settings: dict = dataclasses.field(default_factory=dict)  # other keys of config.json

    def make(self, kwargs):
        """Returns the library's model. Raises the library's errors."""
        raise NotImplementedError

    def call(self, model, call):
        """Returns the library's outputs by name, as arrays. Raises the library's errors."""
        raise NotImplementedError

    def save(self, model, folder):
        """Saves the model with weights/export.py."""
        raise NotImplementedError

    def save_unchecked(self, model, folder):
        """Saves the model's tensors and `self.kwargs` without weights/export.py, which may refuse them."""
        raise NotImplementedError

    def write_config(self, folder):
        config = {"architecture": self.architecture, "kwargs": self.kwargs, **self.settings}
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))

    def variants(self, model, call):
        """Returns other results of a call that rounding errors alone can cause. There are none if the result is a
        smooth function of the inputs."""
        return ()

    def names(self, argument, message):
        """Returns whether the daemon's message names the argument."""
        return argument in message

    def leniency(self, call):
        """Returns the reason why the daemon may answer a call for which the library raises an error. None means that
        the daemon must not answer."""
        return None

    def sides(self):
        """Returns the arguments of each model in the case. An encoder/decoder pair consists of two models."""
        return [self.kwargs]

    def deviation(self, call):
        """Returns the reason why the daemon may refuse a call that the library runs. None means that the daemon must
        not refuse. README.md lists all reasons."""
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
    """Returns a numpy generator, seeded from a Python generator."""
    return np.random.default_rng(rng.getrandbits(64))


def floats(rng, *shape):
    return generator_of(rng).standard_normal(shape).astype(np.float32)


def ids(rng, vocabulary, *shape):
    return generator_of(rng).integers(0, vocabulary, shape)


def mask(rng, *shape):
    """Returns a mask. Most masks are random. Some select the first rows of each item, as in padded batches. Some are
    false in all rows."""
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
    """Returns the lengths of `count` sequences: `most`, 1, and random lengths up to `most`. If `most` is 0, all are
    0."""
    return ([most, 1] + [rng.randint(1, most) for _ in range(count)])[:count] if most else [0] * count


def spoil(rng, kwargs, spoilers, rate=0.25):
    """With the probability `rate`, one of the spoilers changes the arguments. Returns (the arguments, the arguments
    before the change, the names of the changed arguments). A spoiler returns the changed arguments as a dict."""
    if not chance(rng, rate):
        return kwargs, kwargs, ()
    change = rng.choice(spoilers)(rng, kwargs)
    return kwargs | change, kwargs, tuple(change)


def without(kwargs, *names):
    return {name: value for name, value in kwargs.items() if name not in names}
