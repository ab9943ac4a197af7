"""serve() starts a daemon, which runs until the end of a with block."""

from __future__ import annotations

import atexit
import os
import tempfile
from typing import Any, Mapping, Union

from ._client import Client
from ._daemon import Daemon, StartError
from ._export import export, export_module

Folder = Union[str, "os.PathLike[str]"]

# Variables with settings of the daemon, and variables that a service manager sets for the process that calls serve().
_NOT_INHERITED = ("LINFORMERD_", "LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_")


class Server(Client):
    """A daemon that serve() started, and its client. The daemon ends with close(), at the end of a with block, or with
    this process."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], api_key: str | None,
                 folder: tempfile.TemporaryDirectory[str] | None) -> None:
        self._folder = folder
        self._owner = os.getpid()
        self._daemon = Daemon(arguments, environment)
        self._daemon.start()
        try:
            self._daemon.wait_until_ready()
        except BaseException:  # also KeyboardInterrupt
            self.close()
            raise
        atexit.register(self.close)
        super().__init__(self._daemon.url, api_key=api_key)

    @property
    def pid(self) -> int:
        """The id of the daemon's process."""
        return self._daemon.pid

    @property
    def log(self) -> list[str]:
        """The last lines of the daemon's log. All lines go to the logger "linformerd"."""
        return list(self._daemon.lines)

    def close(self) -> None:
        """Lets the daemon answer the requests that it accepted, and ends it. May be called several times."""
        if os.getpid() != self._owner:
            return  # this process is a fork of the process that started the daemon
        atexit.unregister(self.close)
        self._daemon.stop()
        if self._folder:
            self._folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(model: object = None, kwargs: Mapping[str, Any] | None = None, *, example: Mapping[str, Any] | None = None,
          config: Mapping[str, Any] | None = None, **settings: object) -> Server:
    """Starts a daemon on a free port, and returns when it is ready.

        serve()                          the built-in models
        serve("folder")                  a model's folder, or a folder that contains such folders
        serve({"small": "a", "big": "b"})   several folders by the names of the models
        serve(model, kwargs)             a model of the five libraries, as for export()
        serve(module, example=…)         a torch.nn.Module, as for export_module()

    `config` are further keys of config.json for a model that is exported, such as {"tokenizer": {"type": "byte"}}. Such
    a model is exported to a temporary folder, which close() removes. `settings` are the settings of
    docs/configuration.md, with _ in place of -: threads=2, dtype="bf16". Environment variables with settings
    (LINFORMERD_…) have no effect here.

    Raises StartError with the daemon's log if the daemon refuses a setting or a model. Also raises StartError if `host`
    has only Unix sockets, because the client connects over TCP."""
    _check_host(settings.get("host"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    environment.update({f"LINFORMERD_{name.upper()}": _spelled(value) for name, value in {"port": 0, **settings}.items()})
    api_key = settings.get("api_key")
    exported = kwargs is not None or example is not None
    if config is not None and not exported:
        raise TypeError("serve(): config is only for a model that is exported; expected kwargs or example, too")
    folder = tempfile.TemporaryDirectory(prefix="linformerd-") if exported else None
    try:
        if folder:
            path = os.path.join(folder.name, "model")
            _write(model, kwargs, example, path, config or {})
            arguments = _arguments(path)
        else:
            arguments = _arguments(model)
        return Server(arguments, environment, None if api_key is None else str(api_key), folder)
    except BaseException:
        if folder:
            folder.cleanup()
        raise


def _check_host(host: object) -> None:
    """Refuses hosts without a TCP address. The daemon would listen, but the client could not connect."""
    if host is not None and all(entry.strip().startswith("unix:") for entry in str(host).split(",")):
        raise StartError(f"host: expected an address such as 127.0.0.1, found {host}. The client of serve() connects "
                         f"over TCP. Both are possible: host=\"127.0.0.1,{host}\"")


def _spelled(setting: object) -> str:
    return ("false", "true")[setting] if isinstance(setting, bool) else str(setting)


def _write(model: object, kwargs: Mapping[str, Any] | None, example: Mapping[str, Any] | None, path: str,
           config: Mapping[str, Any]) -> None:
    if kwargs is not None and example is not None:
        raise TypeError("serve(): expected kwargs for a model of a library, or example for a module, found both")
    if kwargs is not None:
        export(model, kwargs, path, **config)
    elif example is not None:
        export_module(model, example, path, **config)


def _arguments(model: object) -> list[str]:
    """The flags --model for folders. An absolute path needs no name, because a slash stands before its first =."""
    if model is None:
        return []
    if isinstance(model, Mapping):
        return [f"--model={name}={os.path.abspath(path)}" for name, path in model.items()]
    if isinstance(model, (str, os.PathLike)):
        return [f"--model={os.path.abspath(model)}"]
    raise TypeError(f"serve(): expected a folder, found {type(model).__name__}. A model also needs kwargs, and a "
                    "module needs example")
