"""Makes the table of docs/clients.md from the results in the file $TRIES. The page must contain this table. With
WRITE_PAGES=1, the script writes the table into the page instead. Needs no package."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import run  # noqa: E402

PAGE = "docs/clients.md"
BEGIN, END = "<!-- clients tried: begin -->\n", "<!-- clients tried: end -->\n"

def outcome(entry):
    return {
        "works": "works",
        "note": f"works: {entry['note']}",
        "fails": f"does not work: {entry['fails']}",
    }[entry["result"]]


def table(entries):
    """The table with one row for each try. The rows of a client are consecutive, and its newest release comes first."""
    order = []
    for entry in entries:
        if entry["package"] not in order:
            order.append(entry["package"])
    rows = ["| client | version | calls | result |\n", "|---|---|---|---|\n"]
    for entry in sorted(entries, key=lambda entry: order.index(entry["package"])):
        cells = (entry["package"], entry["version"], entry["called"], outcome(entry))
        rows.append("| " + " | ".join(cells) + " |\n")
    return "".join(rows)


def page_has_results():
    with open(os.environ["TRIES"]) as file:
        entries = [json.loads(line) for line in file]
    broken = [f"{entry['package']}: {entry['called']}" for entry in entries if entry["result"] == "broken"]
    assert not broken, f"no table with failed tests: {broken}"
    with open(PAGE) as file:
        before, rest = file.read().split(BEGIN)
    old, after = rest.split(END)
    new = "\n" + table(entries) + "\n"
    if os.environ.get("WRITE_PAGES") == "1":
        with open(PAGE, "w") as file:
            file.write(before + BEGIN + new + END + after)
    else:
        assert old == new, f"{PAGE} differs from the results; WRITE_PAGES=1 make test-clients-all writes it"


if __name__ == "__main__":
    sys.exit(1 if run([("docs/clients.md has the table of results", page_has_results)]) else 0)
