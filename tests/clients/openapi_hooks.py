"""Hooks of schemathesis for test_openapi.py. The hooks leave out some bodies that the OpenAPI document allows."""

import schemathesis

# Values that are valid, but need a long time, or exceed the limits of a served model.
LARGE = {
    "max_new_tokens": range(9, 1048577),  # the daemon refuses larger values at once
    "max_tokens": range(9, 1048577),
    "n": range(5, 2**63),
    "dimensions": range(17, 2**63),
}


def is_large(key, value):
    return isinstance(value, int) and value in LARGE.get(key, ())


def is_left_out(value):
    """True if the JSON contains a value of LARGE, or an invalid value that JSON Schema cannot exclude. Such values are
    a NUL in a key, an integer beyond 64 bits, and an integer that is written as 1.0."""
    if isinstance(value, dict):
        return any("\0" in key or is_large(key, each) or is_left_out(each) for key, each in value.items())
    if isinstance(value, list):
        return any(is_left_out(each) for each in value)
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not -(2**63) <= value < 2**63


@schemathesis.hook
def filter_body(context, body):
    return not is_left_out(body)
