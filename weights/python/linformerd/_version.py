"""The version of the wheel, which is that of the daemon."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("linformerd")
except PackageNotFoundError:  # the sources, not installed
    __version__ = "0"
