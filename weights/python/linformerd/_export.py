"""export() and export_module(). They load the exporter when they are called, because it needs numpy, and for a module
torch."""

from __future__ import annotations

import importlib
import os
from typing import Any, Mapping, Union

from ._daemon import executable

Path = Union[str, "os.PathLike[str]"]


def export(model: object, kwargs: Mapping[str, Any], folder: Path, *, daemon: Path | bool | None = None,
           **config: Any) -> None:
    """Writes a folder that linformerd serves: config.json and model.safetensors.

    `model` is a trained model of one of the five libraries, and `kwargs` are the arguments that it was made with. A
    pair of encoder and decoder is a tuple, with kwargs {"enc": …, "dec": …}. `config` are further keys of config.json,
    such as name, pooling and tokenizer.

    The daemon reads the folder before the folder gets its name. `daemon` is the path of another daemon, or False to
    skip this check. A ValueError names what cannot be served. Then nothing is written."""
    _exporter().export(model, kwargs, folder, daemon=_daemon(daemon), **config)


def export_module(module: object, example: Mapping[str, Any], folder: Path, *,
                  arguments: Mapping[str, Mapping[str, Any]] | None = None, daemon: Path | bool | None = None,
                  **config: Any) -> None:
    """Writes a folder for a torch.nn.Module that contains classes of the five libraries.

    `example` has a tensor for each parameter of forward(). The first dimension is the batch, of at least 2. The
    exporter reads the arguments of the classes from the module. `arguments` overrides them, by the path of the part.
    `config` are further keys of config.json, such as labels and image. `daemon` is the same as in export().

    A ValueError names what cannot be served, and the line of forward(). Then nothing is written."""
    _exporter().export_module(module, example, folder, arguments=arguments, daemon=_daemon(daemon), **config)


def _exporter() -> Any:
    return importlib.import_module("linformerd.exporter.export")


def _daemon(chosen: Path | bool | None) -> Path | bool:
    return executable() if chosen is None or chosen is True else chosen
