"""Loads classes of packages that import torchvision or torchaudio, even if these two cannot be imported. torchvision
and torchaudio only work with one version of torch."""

import importlib.util
import pathlib
import sys
import types
import unittest

import torch


def efficient_vit():
    """Loads vit_pytorch/efficient.py without vit_pytorch/__init__.py, which imports torchvision."""
    return load("vit_pytorch_efficient", pathlib.Path(found("vit_pytorch").origin).parent / "efficient.py")


def biot():
    """Returns braindecode.models.BIOT. Other models of braindecode import torchaudio. If it cannot be imported, modules
    of the class Absent replace it."""
    found("braindecode")
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
            del sys.modules[name]
        for name in ("torchaudio", "torchaudio.functional", "torchaudio.transforms"):
            sys.modules[name] = Absent(name)
    from braindecode.models import BIOT

    return BIOT


class Absent(types.ModuleType):
    """Replaces a missing package. Other classes may inherit from its classes, which are never called."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}") or type(name, (torch.nn.Module,), {})


def found(package):
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise unittest.SkipTest(f"{package} is not installed")
    return spec


def load(name, path):
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
