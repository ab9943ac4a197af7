"""Runs notebooks headless: docs/examples/serve.ipynb, and one whose kernel ends while a daemon runs."""

import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))

import nbformat
from nbclient import NotebookClient
from tap import run

NOTEBOOK = ROOT / "docs" / "examples" / "serve.ipynb"


def executed(notebook):
    NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    return notebook


def texts_of(notebook):
    """The printed text of each code cell, or the cell's value."""
    return ["".join(one.get("text") or one["data"]["text/plain"] for one in cell.outputs)
            for cell in notebook.cells if cell.cell_type == "code"]


def the_notebook_in_docs_runs_and_its_results_are_right():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    begin, shapes, error, generated, end = texts_of(executed(notebook))
    assert (begin, end) == ("", ""), (begin, end)
    assert shapes == "((4, 64), (4, 100, 1000))", shapes
    assert error == "the relative error is below 1e-5: True\n", error
    assert len(generated.strip()) > 0, generated


def the_daemon_ends_when_the_notebooks_kernel_ends():
    code = "import linformerd\nserver = linformerd.serve()\nprint(server.pid)"
    notebook = executed(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]))
    pid = int(texts_of(notebook)[0])
    while os.path.exists(f"/proc/{pid}"):  # waits until the process that inherited the daemon has read its exit status
        if " Z " in pathlib.Path(f"/proc/{pid}/stat").read_text():
            break
        time.sleep(0.02)


if __name__ == "__main__":
    tests = [the_notebook_in_docs_runs_and_its_results_are_right, the_daemon_ends_when_the_notebooks_kernel_ends]
    sys.exit(1 if run([(one.__name__.replace("_", " "), one) for one in tests]) else 0)
