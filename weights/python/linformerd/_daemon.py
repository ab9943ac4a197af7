"""The process of the daemon: the path of its program, its start and its end."""

from __future__ import annotations

import collections
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
from typing import Mapping, Sequence

_log = logging.getLogger("linformerd")
_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARNING": logging.WARNING, "ERROR": logging.ERROR}
_LISTENING = re.compile(r"listening on (https?://[^\s\"]+)")
_KEPT_LINES = 20  # number of last lines of the log that are kept, for a StartError and for Server.log
_HERE = pathlib.Path(__file__).resolve().parent


class StartError(RuntimeError):
    """The daemon ended before it was ready, or serve() refused a setting. The message contains the reason, or the last
    lines of the daemon's log."""


def executable() -> str:
    """The path of the daemon: the value of the variable LINFORMERD, or the program in this package if there is no such
    variable."""
    path = os.environ.get("LINFORMERD") or str(_HERE / "bin" / "linformerd")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"{path} is not a program. Install the wheel that `make wheel` builds, or set the "
                                "environment variable LINFORMERD to the path of the daemon")
    return path


class Daemon(threading.Thread):
    """A daemon that ends with this process, even if this process is killed.

    The kernel signals the daemon when the thread that started it ends. So the thread of this class starts the daemon,
    and then reads its log until the log is closed."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__(name="linformerd", daemon=True)
        self.url = ""  # set when the daemon is ready
        self.lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._process: subprocess.Popen[str] | None = None
        self._error: BaseException | None = None
        self._begun = threading.Event()  # set when _process or _error is set
        self._decided = threading.Event()  # set when the daemon is ready, has ended, or could not be started
        self._environment = dict(environment)
        # _launch.py asks the kernel for the signal. Python code between fork and exec could deadlock in a process with
        # threads.
        self._command = [sys.executable, "-I", "-S", str(_HERE / "_launch.py"), str(os.getpid()), executable(), *arguments]

    def run(self) -> None:
        try:
            # The daemon gets its own session. So Ctrl-C, and the interrupt of a notebook, do not reach the daemon. Both
            # signal all processes of a group.
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, encoding="utf-8", errors="replace", start_new_session=True)
        except BaseException as error:
            self._error = error
            self._decided.set()
            return
        finally:
            self._begun.set()
        assert self._process.stderr
        for line in self._process.stderr:
            self._take(line.rstrip("\n"))
        self._decided.set()

    def _take(self, line: str) -> None:
        self.lines.append(line)
        found = None if self.url else _LISTENING.search(line)
        if found:
            self.url = found.group(1)
            self._decided.set()
        words = line.split(" ", 2)
        _log.log(_LEVELS.get(words[1] if len(words) > 1 else "", logging.INFO), "%s", line)

    def wait_until_ready(self) -> None:
        """Returns when the daemon listens. Raises StartError if it ends before."""
        self._decided.wait()
        if self._error:
            raise self._error
        if not self.url:
            status = self.stop()
            raise StartError("\n".join([f"linformerd ended with status {status}", *self.lines]))

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def stop(self) -> int | None:
        """Lets the daemon answer the requests that it accepted, and waits for its end. Returns its exit status, or None
        if it never started."""
        self._begun.wait()
        if not self._process:
            return None
        self._process.send_signal(signal.SIGTERM)  # has no effect if the process has ended
        status = self._process.wait()
        self.join()
        return status
