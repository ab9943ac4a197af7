"""Runs the tries of a script with_NAME.py. A try is a function that calls a client in its usual way. Its result becomes
a line of JSON in the file that the environment variable TRIES names. table.py writes the table of docs/clients.md from
these lines."""

import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
import urllib.request

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import support  # noqa: E402

TEXTS = ["cp copies files.", "mv moves files."]
PROMPT = "This option"
TRIES = []


def tried(package, called, note="", fails=""):
    """Marks a function as a try of the calls `called` of a package. The names of its parameters choose daemons. note:
    what a user has to set. fails: why the client does not work. With `fails`, the function checks that the client still
    fails."""

    def mark(function):
        TRIES.append((function, {"package": package, "called": called, "note": note, "fails": fails}))
        return function

    return mark


def main():
    """Runs the tries of the script. A try receives the addresses of the daemons that its parameters name. `builtin`
    serves the models of served.py. `classes` serves a classifier and a model of bytes. `writer` serves only the model
    of bytes, which generates."""
    with tempfile.TemporaryDirectory() as folder:
        support.generating_model(os.path.join(folder, "bytes"))
        support.text_model(os.path.join(folder, "classes"))
        models = ("--model", os.path.join(folder, "classes"), "--model", os.path.join(folder, "bytes"))
        with (
            support.Daemon() as builtin,
            support.Daemon(*models, "--model-control") as classes,
            support.Daemon("--model", os.path.join(folder, "bytes")) as writer,
        ):
            addresses = {"builtin": builtin, "classes": classes, "writer": writer}
            addresses = {name: f"http://{daemon.address}" for name, daemon in addresses.items()}
            tests = [(name(record), attempt(function, record, addresses)) for function, record in TRIES]
            return 1 if support.run(tests) else 0


def name(record):
    return f"{record['package']} {importlib.metadata.version(record['package'])}: {record['called']}"


def attempt(function, record, addresses):
    def run():
        wanted = function.__code__.co_varnames[: function.__code__.co_argcount]
        record["version"] = importlib.metadata.version(record["package"])
        try:
            function(*[addresses[name] for name in wanted])
            record["result"] = "fails" if record["fails"] else "note" if record["note"] else "works"
        except Exception:
            record["result"] = "broken"
            raise
        finally:
            if "TRIES" in os.environ:
                with open(os.environ["TRIES"], "a") as file:
                    file.write(json.dumps(record) + "\n")

    return run


def post(url, body):
    """The daemon's answer to a POST, read without the client under test."""
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())) as answer:
        return json.load(answer)


def get(url):
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def vectors(address, texts=TEXTS, **keys):
    return post(f"{address}/embed", {"inputs": texts, **keys})


def same(found, expected):
    """True if the vectors are equal up to small differences. Clients may convert numbers to float32 and back."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, f"shape {found.shape}, expected {expected.shape}"
    assert np.abs(found - expected).max() < 1e-6, f"off by {np.abs(found - expected).max()}"


def completion(address, **keys):
    body = {"model": "builtin-writer", "prompt": PROMPT, "max_tokens": 8, "temperature": 0, **keys}
    return post(f"{address}/v1/completions", body)["choices"][0]["text"]
