"""Runs the examples of docs/python.md in a temporary folder, and compares their results with the page."""

import doctest
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))

from tap import run

PAGE = ROOT / "docs" / "python.md"


def the_examples_of_docs_python_md_print_what_it_says():
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks)
    assert text.count(">>> ") > 10, text
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    report = []
    result = doctest.DocTestRunner().run(test, out=report.append)
    assert result.failed == 0 and result.attempted > 10, "".join(report)


if __name__ == "__main__":
    os.chdir(os.environ["FOLDER"])
    name = the_examples_of_docs_python_md_print_what_it_says.__name__.replace("_", " ")
    sys.exit(1 if run([(name, the_examples_of_docs_python_md_print_what_it_says)]) else 0)
