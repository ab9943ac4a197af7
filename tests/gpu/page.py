"""Texts that programs write into docs/cuda.md, between markers that name them. The rest is written by hand."""
import pathlib
import re
import textwrap

PATH = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "cuda.md"
MARKED = re.compile(r"(<!-- written by make predict: (\w+) -->\n).*?(<!-- end of \2 -->\n)", re.DOTALL)


def table(head, rows):
    first, *others = [f"| {' | '.join(map(str, row))} |\n" for row in [head, *rows]]
    return first + "|" + "---|" * len(head) + "\n" + "".join(others)


def paragraph(text, first="", other=""):
    """Lines of at most 120 columns. A number and its percent sign stay together."""
    text = re.sub(r"(\d) %", "\\1\0%", " ".join(text.split()))
    return textwrap.fill(text, 120, initial_indent=first, subsequent_indent=other, break_long_words=False,
                         break_on_hyphens=False).replace("\0", " ") + "\n"


def items(texts):
    return "".join(paragraph(text, "- ", "  ") for text in texts)


def filled(text, blocks):
    """`blocks` is {name: text}. Each must be in the page once, and the page has no other blocks."""
    names = [found[1] for found in MARKED.findall(text)]
    if sorted(names) != sorted(blocks):
        raise SystemExit(f"{PATH} has the blocks {', '.join(names)}; expected {', '.join(blocks)}")
    return MARKED.sub(lambda found: f"{found[1]}\n{blocks[found[2]]}\n{found[3]}", text)


def write(blocks):
    PATH.write_text(filled(PATH.read_text(), blocks))
