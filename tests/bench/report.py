"""Writes the tables of BENCHMARKS.md between the markers of each part. The rest of the file is written by hand."""
import datetime
import os
import pathlib
import platform
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent
PATH = FOLDER / "BENCHMARKS.md"


def machine():
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    sets = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in fields.get("flags", "").split()]
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / (1 << 20)
    return (f"{len(os.sched_getaffinity(0))} cores of {fields.get('model name', platform.machine())} "
            f"(family {fields.get('cpu family', '?')}, {', '.join(sets) or 'no known vector extension'}), "
            f"{memory:.0f} GiB, Linux {platform.release().split('-')[0]}")


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=FOLDER).stdout.strip()


def commit():
    """The name of the commit, the name of the commit's tree engine/, and the names of changed files. If history is
    rewritten, only the name of the tree stays valid."""
    try:
        changed = git("diff", "--name-only", "HEAD", "--", ":/", ":!*.md").split()
        names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        return (f"commit {git('rev-parse', '--short', 'HEAD')} (engine {git('rev-parse', '--short', 'HEAD:engine')})"
                + (f" with changes in {names}" if changed else ""))
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


def heading(command, versions=()):
    """The date, the commit and the machine. The load average shows how busy the machine was."""
    now = datetime.datetime.now(datetime.timezone.utc)
    load = os.getloadavg()
    lines = [f"- measured {now:%Y-%m-%d %H:%M} UTC, {commit()}", f"- command: `{command}`", f"- machine: {machine()}",
             f"- load average at the start: {load[0]:.1f} (1 minute), {load[2]:.1f} (15 minutes)"]
    if versions:
        lines.append("- versions: " + "; ".join(versions))
    return "\n".join(lines) + "\n"


def table(columns, rows):
    def line(cells):
        return "| " + " | ".join(str(cell) for cell in cells) + " |"
    return "\n".join([line(columns), "|" + "|".join("---" for _ in columns) + "|", *map(line, rows)]) + "\n"


def number(value, digits=3):
    """The value with `digits` significant digits and without an exponent. A value with at least `digits` digits before
    the point is rounded to an integer. An en dash stands for a missing value."""
    if value != value:
        return "–"
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return integer(round(value))
    text = f"{value:.{digits}g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def integer(value):
    return f"{value:,}".replace(",", " ")


def times(value):
    return "–" if value != value else f"{value:.2f}×"


def write(part, text):
    """Writes `text` between the markers of the part, and prints it. If the file lacks these markers, adds them at the
    end."""
    print(text, flush=True)
    begin, end = f"<!-- begin {part} -->\n", f"<!-- end {part} -->\n"
    old = PATH.read_text() if PATH.exists() else ""
    if begin not in old:
        old += f"\n## {part.capitalize()}\n\n{begin}{end}"
    before, _, rest = old.partition(begin)
    _, _, after = rest.partition(end)
    PATH.write_text(before + begin + text.rstrip("\n") + "\n" + end + after)
