#!/usr/bin/env python3
"""mutants.py [--list] [--random N] [--seed N] [WORD...]: plants faults in the PTX of the CUDA engine, one at a time.

Each fault must make a test program fail, unless the list gives a reason why the program cannot notice it (survives).
The program also runs without the fault, and must pass. A fault is an edit of the text of kernels in a copy of
libengine_cuda.so. The library contains the PTX as plain text, and an edit keeps the length of the library.

The script first tries the faults in the list FAULTS. With WORD..., it tries only faults whose descriptions contain all
words. Then it tries N random faults (--random N, default 0). A random fault may have no effect, or cause an endless
loop. A program that runs longer than SECONDS is therefore ended, and its fault counts as not noticed.

The environment variable FAULTS=N limits the list to N faults. The seed chooses these faults and the random faults. The
seed is the value of --seed, of the environment variable SEED, or the time. BUILD names the build folder. `make
programs-ptx` builds what this script needs. Without nvcc, the script is skipped. The output is TAP."""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

BUILT = Path(os.environ.get("BUILD", "build")) / "tests/cuda/ptx"
ENGINE = "libengine_cuda.so"
SECONDS = 600

# ---- Edits: a pattern, and the replacement of a match


def swap(first, second):
    """Exchanges two groups of the match. The first group must stand before the second."""

    def replace(match):
        text, (a, b), (c, d) = match.string, match.span(first), match.span(second)
        return text[match.start():a] + text[c:d] + text[b:c] + text[a:b] + text[d:match.end()]

    return replace


def add(amount, group=2):
    """Adds `amount` to the number in a group of the match."""

    def replace(match):
        begin, end = match.span(group)
        return match.string[match.start():begin] + str(int(match[group]) + amount) + match.string[end:match.end()]

    return replace


EDITS = {
    "operands of a conversion to a pair are swapped": (r"cvt\.rn\.\w+x2\.f32\s+%r\d+, (%f\d+), (%f\d+);", swap(1, 2)),
    "a conversion to 16 bits rounds towards zero": (r"cvt\.rn\.((?:bf|f)16(?:x2)?\.f32)", r"cvt.rz.\1"),
    "registers of a matrix A are swapped": (r"mma\.sync[^{]*\{[^}]*\},\s*\{[^,]*, (%r\d+), (%r\d+),", swap(1, 2)),
    "registers of a matrix B are swapped": (r"mma\.sync[^{]*\{[^}]*\},\s*\{[^}]*\},\s*\{(%r\d+), (%r\d+)\}", swap(1, 2)),
    "matrices are not transposed": (r"(ldmatrix\S*)\.trans(\S*)", r"\1\2"),
    "matrices are loaded into swapped registers": (r"ldmatrix\S*\s+\{[^,]*, (%r\d+), (%r\d+),", swap(1, 2)),
    "a wait leaves one more group of copies pending": (r"(cp\.async\.wait_group\s+)(\d);", add(1)),
    "copies beyond the rows do not become zeros": (r"(cp\.async\.cg\S*\s+\[[^]]*\], \[[^]]*\], 16), %r\d+;", r"\1;"),
    "a barrier is missing": (r"bar\.sync\s+0;", ""),
    "a barrier of a warp is missing": (r"bar\.warp\.sync\s+[^;]*;", ""),
    "an address is an element further": (r"((?:ld|st)\.(?:global|shared)\.[^;\[]*\[[^]+]*\+)(\d+)\]", add(4)),
    "less becomes less or equal": (r"setp\.lt\.", "setp.le."),
    "greater becomes greater or equal": (r"setp\.gt\.", "setp.ge."),
    "less becomes greater or equal": (r"setp\.lt\.", "setp.ge."),
    "the predicate of a jump is missing": (r"@!?%p\d+ (bra\s+(\$L\w+);)(?=[\s\S]*\n\2:)", r"\1"),
    "a jump is missing": (r"@!?%p\d+ bra\s+(\$L\w+);(?=[\s\S]*\n\1:)", ""),
    "a shuffle takes the value of another thread": (r"shfl\.sync\.bfly", "shfl.sync.down"),
    "a sum becomes a difference": (r"add\.((?:rn\.)?f32)\b", r"sub.\1"),
    "a maximum becomes a minimum": (r"max\.f32", "min.f32"),
    "a shift is a bit shorter": (r"(shl\.b\d\d\s+[^;]*, )([1-9]\d?);", add(-1)),
    "a choice takes the other value": (r"selp\.\w+\s+%\w+, ([^,]+), ([^,]+),", swap(1, 2)),
}

# ---- Faults

# kernel: a pattern of the mangled names of kernels. which: the index of the place to edit, among the matches in each of
# these kernels, or None for all places. survives: the reason why the program cannot notice the fault, or "". With a
# reason, the program must pass.
Fault = namedtuple("Fault", "edit kernel which program tests survives", defaults=[""])


def on(kernel, program, tests, *edits, survives=""):
    """Returns the faults of one kernel. Each edit is a name in EDITS, or a pair of a name and `which`."""
    pairs = [edit if isinstance(edit, tuple) else (edit, None) for edit in edits]
    return [Fault(edit, kernel, which, program, tests, survives) for edit, which in pairs]


FAULTS = [
    *on("attend_tensorI13__nv_bfloat16", "test_operations_bf16", "test_attend",
        "operands of a conversion to a pair are swapped", "registers of a matrix A are swapped",
        "registers of a matrix B are swapped", "matrices are not transposed",
        "matrices are loaded into swapped registers", ("a wait leaves one more group of copies pending", 0),
        ("a barrier is missing", 1)),
    *on("attend_tensorI13__nv_bfloat16", "test_operations_bf16", "test_full_attention",
        "copies beyond the rows do not become zeros"),
    *on("attend_tensorI6__half", "test_operations_f16", "test_attend", "registers of a matrix B are swapped"),
    *on("attend_partILi", "test_operations_cuda", "test_attend", "registers of a matrix B are swapped",
        "matrices are loaded into swapped registers", ("a wait leaves one more group of copies pending", 0),
        ("a barrier is missing", 0), "a maximum becomes a minimum"),
    *on("attend_partILi", "test_operations_cuda", "test_masked_attention", ("a barrier is missing", 1)),
    *on("project_tensorI13__nv_bfloat16", "test_operations_bf16", "test_project_sequence",
        "operands of a conversion to a pair are swapped", "matrices are not transposed", "a barrier is missing",
        ("a wait leaves one more group of copies pending", 0), "copies beyond the rows do not become zeros"),
    *on("multiply_partILi", "test_operations_cuda", "test_project_sequence", "registers of a matrix A are swapped",
        "a barrier is missing"),
    *on("multiply_splitILi64", "test_operations_cuda", "test_linear", "registers of a matrix A are swapped",
        "a barrier is missing", ("a wait leaves one more group of copies pending", 0)),
    *on("multiply_splitILi128ELb0", "test_operations_cuda", "test_calls", "registers of a matrix B are swapped"),
    *on("multiply_tileI13__nv_bfloat16", "test_faults_products", "test_linear", ("a barrier is missing", 0),
        ("a barrier is missing", 1), "less becomes less or equal"),
    *on("finish_productI13__nv_bfloat16", "test_product_method", "gelu of 64 columns with a bias",
        "a sum becomes a difference"),
    *on("10layer_norm", "test_operations_cuda", "test_layer_norm", "a shuffle takes the value of another thread",
        "a sum becomes a difference"),
    *on("16normalise_groups", "test_operations_cuda", "test_group_norm", "a sum becomes a difference",
        ("a barrier is missing", 1), ("a barrier is missing", 2)),
    *on("16normalise_groups", "test_operations_cuda", "test_group_norm", ("a barrier is missing", 0),
        survives="no block has several groups: a launch would need more than 4096 groups"),
    *on("16cumulate_results", "test_operations_cuda", "test_cumulate", "a sum becomes a difference"),
    *on("15softmax_results", "test_operations_cuda", "test_softmax", "a shuffle takes the value of another thread"),
    *on("14reduce_results", "test_operations_cuda", "test_reduce", "a maximum becomes a minimum",
        "a barrier is missing"),
    *on("6rotate", "test_operations_cuda", "test_rotate*", "a choice takes the other value"),
    *on("8retrieve", "test_operations_cuda", "test_retrieve", "a shuffle takes the value of another thread"),
    *on("8retrieve", "test_operations_cuda", "test_retrieve", ("a barrier is missing", 0),
        survives="a block is one warp, and the emulator runs the threads of a warp in step"),
    *on("11attend_partIfLi", "test_states", "local, d*", "a shuffle takes the value of another thread",
        "a barrier is missing"),
    *on("13walk_sequenceIf", "test_operations_cuda", "test_causal_linear_attend", ("a barrier is missing", 1),
        ("a barrier is missing", 3), "a sum becomes a difference"),
    *on("11sum_contextIf", "test_operations_cuda", "test_linear_attend", ("a barrier is missing", 0),
        ("a barrier is missing", 2)),
    *on("9walk_partIf", "test_states", "linear, d*", ("a barrier is missing", 2)),
    *on("8step_rowIf", "test_states", "linear, d*", ("a barrier is missing", 0), ("a barrier is missing", 1),
        ("a barrier is missing", 2)),
    *on("9keep_rowsIf", "test_states", "local, d*", "less becomes greater or equal"),
    *on("4poolIf", "test_operations_cuda", "test_output_layer", "a barrier is missing"),
    *on("15convolve_pixelsIf", "test_operations_cuda", "test_convolve_groups", "a sum becomes a difference"),
    *on("6choose11output_rows", "test_top_k", "largest_columns*", ("a barrier is missing", 0), ("a barrier is missing", 4)),
    *on("8pad_rowsIf", "test_operations_cuda", "test_pad_rows", "less becomes greater or equal"),
    *on("10over_spaceIfff15select", "test_operations_cuda", "test_select", "a barrier is missing"),
    *on("12shift_tokensIf", "test_operations_cuda", "test_shift_tokens", "less becomes less or equal"),
]


def describe(fault):
    which = "" if fault.which is None else f", place {fault.which}"
    return f"{fault.edit} ({fault.kernel}{which}; {fault.program} {fault.tests})"


# ---- Texts

class Unfit(Exception):
    """The fault cannot be tried: the kernel or place is missing, the edit is too long, or the program fails anyway."""


def kernels_in(text):
    """Yields the name of each kernel, and the begin and end of its body. The last kernel comes first."""
    starts = [(match[1], match.start()) for match in re.finditer(r"\.entry ([\w$.]+)\(", text)]
    for name, begin in reversed(starts):
        body = text.index("\n{", begin)
        yield name, body, text.index("\n}", body)


def edit_at(text, place, end, replacement):
    """Returns the text with the match `place` replaced. The text keeps its length. Spaces follow a shorter replacement.
    If the replacement is longer than the match, some later lines of the kernel lose a tab."""
    new = place.expand(replacement) if isinstance(replacement, str) else replacement(place)
    room = len(place[0]) - len(new)
    behind = text[place.end():end]
    if room < 0:
        behind = behind.replace("\n\t", "\n", -room)
    planted = text[:place.start()] + new + " " * max(0, room) + behind + text[end:]
    if len(planted) != len(text):
        raise Unfit("the kernel has no room for the edit")
    return planted


def plant(text, fault):
    pattern, replacement = EDITS[fault.edit]
    planted = text
    for name, begin, end in kernels_in(text):
        if not re.search(fault.kernel, name):
            continue
        places = list(re.compile(pattern).finditer(text, begin, end))
        for place in reversed(places if fault.which is None else places[fault.which:fault.which + 1]):
            place = re.compile(pattern).match(planted, place.start(), end)
            planted = edit_at(planted, place, end, replacement)
    if planted == text:
        raise Unfit("the kernel has no such place for the edit")
    return planted


# ---- Runs


def run(folder, fault):
    """Runs the program of a fault. Returns its exit status, its last complaint, and the kernels that ran."""
    entries = folder / "entries"
    entries.write_text("")
    environment = dict(os.environ, SHIM_SEED="1", TEST_FILTER=fault.tests, PTX_ENTRIES=str(entries))
    try:
        done = subprocess.run([folder / fault.program], env=environment, capture_output=True, timeout=SECONDS,
                              check=False)
        status, said = done.returncode, (done.stdout + done.stderr).decode(errors="replace")
    except subprocess.TimeoutExpired:
        status, said = None, "ended"  # the program neither passed nor failed
    complaints = [line for line in said.splitlines() if re.search("PTX|rror|NaN|fail", line)]
    return status, (complaints or [""])[-1].strip(), set(entries.read_text().split())


class Bench:
    """A folder with the programs and the engine. The engine may contain a fault."""

    def __init__(self, folder):
        self.folder = folder
        self.text = (BUILT / ENGINE).read_bytes().decode("latin-1")
        self.sound = {}  # the kernels that run without a fault, by program and tests
        for file in BUILT.iterdir():
            if file.is_file() and file.name != ENGINE and os.access(file, os.X_OK):
                os.link(file, folder / file.name)

    def put(self, text):
        (self.folder / ENGINE).write_bytes(text.encode("latin-1"))

    def kernels_of(self, fault):
        """Returns the kernels that the program runs without a fault. Raises Unfit if the program fails."""
        key = fault.program, fault.tests
        if key not in self.sound:
            self.put(self.text)
            status, said, kernels = run(self.folder, fault)
            if status != 0:
                raise Unfit(f"{fault.program} {fault.tests} fails without a fault: {said}")
            self.sound[key] = kernels
        return self.sound[key]

    def try_fault(self, fault):
        """Returns whether the program failed, or passed if the fault must survive. Also returns a description."""
        try:
            if not any(re.search(fault.kernel, name) for name in self.kernels_of(fault)):
                return False, "the program runs no kernel that the pattern names"
            self.put(plant(self.text, fault))
        except Unfit as reason:
            return False, str(reason)
        status, said, _ = run(self.folder, fault)
        if "PTX emulator" in said and "block" not in said:
            return False, f"the emulator cannot read the kernel with the fault: {said}"
        if fault.survives:
            return status == 0, f"cannot be noticed: {fault.survives}"
        noticed = status not in (0, None)
        return noticed, said if noticed else "the program did not fail in time"


def choose(bench, count, seed):
    """Chooses random faults. Each fault edits a random place of a kernel that a program of FAULTS runs."""
    chance = random.Random(seed)
    homes = sorted({(fault.program, fault.tests) for fault in FAULTS})
    bodies = {name: bench.text[begin:end] for name, begin, end in kernels_in(bench.text)}
    chosen = []
    while len(chosen) < count:
        program, tests = chance.choice(homes)
        edit = chance.choice(sorted(EDITS))
        kernels = sorted(bench.kernels_of(Fault(edit, "", None, program, tests)) & bodies.keys())
        kernel = chance.choice(kernels)
        places = len(re.findall(EDITS[edit][0], bodies[kernel]))
        if places:
            chosen.append(Fault(edit, f"^{re.escape(kernel)}$", chance.randrange(places), program, tests))
    return chosen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or time.time()))
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    faults = [fault for fault in FAULTS if all(word in describe(fault) for word in given.words)]
    count = int(os.environ.get("FAULTS") or len(faults))
    faults = sorted(random.Random(given.seed).sample(faults, min(count, len(faults))), key=faults.index)
    if given.list:
        print("\n".join(map(describe, faults)))
        return 0
    missing = BUILT / "missing"
    if missing.exists() and missing.read_text():
        print(f"1..1\nok 1 # SKIP {missing.read_text().splitlines()[0]}")
        return 0
    with tempfile.TemporaryDirectory(dir=BUILT) as folder:
        bench = Bench(Path(folder))
        faults += choose(bench, given.random, given.seed)
        print(f"1..{len(faults)}\n# seed {given.seed}")
        failed = 0
        for number, fault in enumerate(faults, 1):
            good, said = bench.try_fault(fault)
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number} - {describe(fault)}\n#     {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
