"""Counts instructions in SASS, the machine code of a kernel, in the output of nvdisasm. Nothing is executed.

If a loop contains several paths, the path with the most work is counted. Work is products on tensor cores, loads of
their matrices, copies, and writes of results. Among paths with the same work, the shortest path is counted. For
example, the paths for masks are not counted. A loop within a loop counts once. Where such loops matter,
predict_counts.py multiplies their counts by the number of passes.

Besides opcodes, three groups of instructions are counted. Each group has its own unit of the multiprocessor:

- "float": arithmetic of float32.
- "integer": arithmetic and logic of 32 bits, comparisons and selections.
- "shared": accesses of a warp to 128 bytes of shared memory. An instruction may make several such accesses."""
import collections
import re
import subprocess

WORK = ("HMMA", "LDGSTS", "LDSM", "STG")
FLOAT = ("FADD", "FFMA", "FMUL")
INTEGER = ("FMNMX", "FSEL", "FSETP", "IADD3", "IMNMX", "ISETP", "LEA", "LOP3", "PLOP3", "PRMT", "SEL", "SHF", "VIADD",
           "VIADDMNMX", "VIMNMX")
LEAVES = ("EXIT", "RET", "BRX", "KILL")


def disassemble(nvdisasm, cubin):
    """Returns {plain name of a kernel: lines of its code} of a cubin."""
    text = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    found, lines = {}, None
    for line in text.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.([^,]*),", line)
        if section:
            lines = found.setdefault(section[1], [])
        elif lines is not None:
            lines.append(line)
    names = subprocess.run(["c++filt"], input="\n".join(found), capture_output=True, text=True, check=True).stdout
    return dict(zip(map(plain_name, names.splitlines()), found.values()))


def resources(text):
    """Returns (version of nvcc, {plain name of a kernel: (registers of a thread, bytes that it spills)}). `text` is the
    output of `nvcc --version` and of ptxas with -v. Ends the program if a function is not inlined, because the spills
    of such a function would be overlooked."""
    kernels = re.findall(
        r"Compiling entry function '(.*?)' for.*?(\d+) bytes spill stores.*?Used (\d+) registers", text,
        re.DOTALL)
    if text.count("Function properties for") != len(kernels):
        raise SystemExit("nvcc compiled a function that is not inlined")
    names = subprocess.run(["c++filt"], input="\n".join(kernel[0] for kernel in kernels), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return re.search(r"release .*", text)[0], {plain_name(name): (int(registers), int(spilled))
                                               for name, (_, spilled, registers) in zip(names, kernels)}


def plain_name(name):
    """Returns a kernel's name as in the shim's trace: without parameters, and without casts of template arguments."""
    return re.sub(r"\(.*", "", name.removeprefix("void ")).replace("(int)", "").replace("(bool)1", "true") \
        .replace("(bool)0", "false")


class Block:
    """A basic block: its labels, its opcodes, the label of a jump at its end, and whether the next block may follow."""

    def __init__(self):
        self.labels, self.codes, self.goes, self.falls = [], [], None, True


def blocks_of(lines):
    """Returns the basic blocks of a kernel, as [(opcodes, indices of the blocks that may follow)]."""
    blocks = [Block()]
    for line in lines:
        label = re.match(r"(\.L_x_\d+):", line)
        code = re.match(r"\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+ )?\s*([A-Z0-9_.]+)(.*)", line)
        if label:
            if blocks[-1].codes:
                blocks.append(Block())
            blocks[-1].labels.append(label[1])
        if not code:
            continue
        predicate, opcode, rest = code.groups()
        # After copies, nvcc emits the instruction @!PT LDS, which never executes.
        blocks[-1].codes.append("NOP" if (predicate or "").strip() == "@!PT" else opcode)
        base = opcode.split(".")[0]
        target = re.search(r"`\((\.L_x_\d+)\)", rest)
        if base in ("BRA", "CALL") and target:  # a call with such a label does not return, so it is a jump
            blocks[-1].goes = target[1]
            blocks[-1].falls = bool(predicate) or bool(re.match(r"\s*(\.\w+\s+)?!?U?P\d", rest.strip()))
            blocks.append(Block())
        elif base in LEAVES and not predicate:
            blocks[-1].falls = False
            blocks.append(Block())
    at = {label: i for i, block in enumerate(blocks) for label in block.labels}
    return [(block.codes, sorted({*([at[block.goes]] if block.goes in at else []),
                                  *([i + 1] if block.falls and i + 1 < len(blocks) else [])}))
            for i, block in enumerate(blocks)]


def reached(blocks):
    """Returns the blocks that can be reached from the first block."""
    found, todo = set(), [0]
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += blocks[at][1]
    return found


def dominators(blocks):
    """Returns two dictionaries with an entry for each block that can be reached from the first block. The first
    dictionary contains the block's dominators as bits, which are the blocks on every path to the block. The second
    dictionary contains the preceding blocks, without unreachable blocks."""
    before = {i: [] for i in sorted(reached(blocks))}
    for i in before:
        for j in blocks[i][1]:
            before[j].append(i)
    every = (1 << len(blocks)) - 1
    found, changed = {i: every if i else 1 for i in before}, True
    while changed:
        changed = False
        for i in before:
            bits = every if i else 1
            for j in before[i]:
                bits &= found[j]
            bits |= 1 << i
            if bits != found[i]:
                found[i], changed = bits, True
    return found, before


def loops_of(blocks):
    """Returns {header: blocks of the loop}. Only loops with a single entry, the header, are found. Unreachable blocks
    are in no loop."""
    dominated, before = dominators(blocks)
    loops = {}
    for i in dominated:
        for header in blocks[i][1]:
            if dominated[i] >> header & 1:
                body, todo = {header}, [i]
                while todo:
                    at = todo.pop()
                    if at not in body:
                        body.add(at)
                        todo += before[at]
                loops.setdefault(header, set()).update(body)
    return loops


def shared_accesses(code):
    """Returns how often an instruction of a warp accesses 128 bytes of shared memory, if there are no bank
    conflicts."""
    base, *rest = code.split(".")
    if base == "LDSM":  # 1, 2 or 4 matrices of 128 bytes, as in LDSM.16.M88 or LDSM.16.MT88.4
        return int(rest[-1]) if rest[-1].isdigit() else 1
    if base in ("LDS", "STS", "LDGSTS"):
        return 4 if "128" in rest else 2 if "64" in rest else 1
    return 0


def count(codes):
    """Returns {opcode or group: number}. "all" is the number of instructions."""
    counts = collections.Counter(code.split(".")[0] for code in codes)
    counts["float"] = sum(counts[code] for code in FLOAT)
    counts["integer"] = sum(counts[code] for code in INTEGER)
    counts["shared"] = sum(map(shared_accesses, codes))
    counts["all"] = len(codes)
    return counts


def path(blocks, header, body, ends_anywhere=False):
    """Returns the counts of one path, which begins at the header and passes no block twice. The path ends where it
    would return to the header or leave the body. With `ends_anywhere`, it may end at any block. Among these paths, the
    path with the most work is chosen, and among paths with the same work, the path with the fewest instructions."""
    order, seen = [], set()

    def visit(at):
        stack = [(at, iter(blocks[at][1]))]
        seen.add(at)
        while stack:
            node, following = stack[-1]
            for other in following:
                if other in body and other not in seen:
                    seen.add(other)
                    stack.append((other, iter(blocks[other][1])))
                    break
            else:
                order.append(stack.pop()[0])

    visit(header)
    place = {at: i for i, at in enumerate(reversed(order))}
    best = {header: count(blocks[header][0])}

    def worth(counts):
        return sum(counts[code] for code in WORK), -counts["all"]

    ends = []
    for at in sorted(place, key=place.get):
        if at not in best:
            continue
        if header in blocks[at][1] or any(other not in body for other in blocks[at][1]) or not blocks[at][1]:
            ends.append(best[at])
        for other in blocks[at][1]:
            if other in place and place[other] > place[at]:
                found = best[at] + count(blocks[other][0])
                if other not in best or worth(found) > worth(best[other]):
                    best[other] = found
    return max(best.values() if ends_anywhere or not ends else ends, key=worth)


def kernel_counts(lines):
    """Returns the counts of a kernel. "whole" contains the counts of a path from the first block, with each loop once.
    "loops" contains the counts of each loop, in the order of the code. A loop's "depth" is the number of loops around
    it."""
    blocks = blocks_of(lines)
    loops = loops_of(blocks)
    found = []
    for header, body in sorted(loops.items()):
        depth = sum(header in other and body < other for other in loops.values())
        found.append({"depth": depth, "innermost": not any(other < body for other in loops.values()),
                      **path(blocks, header, body)})
    return {"whole": dict(path(blocks, 0, set(range(len(blocks))), True)), "loops": found}
