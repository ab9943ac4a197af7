"""Replaces this process by the daemon. This is the command `linformerd`, and `python -m linformerd`."""

from __future__ import annotations

import os
import sys

from ._daemon import executable


def main() -> None:
    daemon = executable()
    os.execv(daemon, ["linformerd", *sys.argv[1:]])


if __name__ == "__main__":
    main()
