"""The version of the wheel, which is the version of the daemon."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("linformerd")
except PackageNotFoundError:  # the package is not installed
    __version__ = "0"
