"""Runs tests, and prints their results in TAP. Needs no package."""

import traceback
import unittest


def run(tests):
    """Runs the functions of pairs (name, function). Prints the results in TAP, and returns the number of failed
    tests."""
    failed = 0
    print(f"1..{len(tests)}")
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
        except unittest.SkipTest as skip:
            print(f"ok {number} - {name} # SKIP {skip}", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {number} - {name}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
        else:
            print(f"ok {number} - {name}", flush=True)
    return failed


def expect(error, function, *parts):
    """Calls the function, which must raise an error of this class. The error's text must contain all parts. Returns the
    error."""
    try:
        function()
    except error as raised:
        for part in parts:
            assert part in str(raised), f"{part!r} is not in: {raised}"
        return raised
    raise AssertionError(f"no {error.__name__} was raised")
