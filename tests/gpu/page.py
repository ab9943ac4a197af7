"""Writes generated texts into docs/cuda.md. Each text is a block between two markers, and the first marker names the
block. The rest of the page is written by hand."""
import pathlib
import re
import textwrap

PATH = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "cuda.md"
MARKED = re.compile(r"(<!-- written by make predict: (\w+) -->\n).*?(<!-- end of \2 -->\n)", re.DOTALL)


def table(head, rows):
    """Returns a table in Markdown. `head` contains the titles of the columns, and `rows` is a list of rows of cells."""
    first, *others = [f"| {' | '.join(map(str, row))} |\n" for row in [head, *rows]]
    return first + "|" + "---|" * len(head) + "\n" + "".join(others)


def paragraph(text, first="", other=""):
    """Breaks `text` into lines of at most 120 columns. The first line begins with `first`, each later line with
    `other`. Between a number and its percent sign, there is no break."""
    text = re.sub(r"(\d) %", "\\1\0%", " ".join(text.split()))
    return textwrap.fill(text, 120, initial_indent=first, subsequent_indent=other, break_long_words=False,
                         break_on_hyphens=False).replace("\0", " ") + "\n"


def items(texts):
    """A list in Markdown, with one item for each text."""
    return "".join(paragraph(text, "- ", "  ") for text in texts)


def filled(text, blocks):
    """Returns the page `text` with new contents of its blocks. `blocks` is {name: content}. The page must contain each
    of these blocks once, and no other blocks."""
    names = [found[1] for found in MARKED.findall(text)]
    if sorted(names) != sorted(blocks):
        raise SystemExit(f"{PATH} has the blocks {', '.join(names)}; expected {', '.join(blocks)}")
    return MARKED.sub(lambda found: f"{found[1]}\n{blocks[found[2]]}\n{found[3]}", text)


def write(blocks):
    PATH.write_text(filled(PATH.read_text(), blocks))
