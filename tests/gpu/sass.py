"""Counts instructions in SASS, the machine code of a kernel, as nvdisasm prints it. Nothing is executed.

A loop is counted as its cheapest path among those with the most work. Work is what the kernel is for: products on tensor
cores, and copies. So paths that a plan does not take, such as those for masks, do not count. Loops
within a loop are counted once; predict.py multiplies each with its number of iterations.

Beside opcodes, three groups of instructions are counted, because each has a unit of its own:
  - "float": arithmetic of float32
  - "integer": arithmetic and logic of 32 bits, comparisons and selections
  - "shared": accesses of a warp to 128 bytes of shared memory. An instruction may make several of them"""
import collections
import re
import subprocess

WORK = ("HMMA", "LDGSTS", "LDSM", "STG")
FLOAT = ("FADD", "FFMA", "FMUL")
INTEGER = ("FMNMX", "FSEL", "FSETP", "IADD3", "IMNMX", "ISETP", "LEA", "LOP3", "PLOP3", "PRMT", "SEL", "SHF", "VIADD",
           "VIADDMNMX", "VIMNMX")
LEAVES = ("EXIT", "RET", "BRX", "KILL")


def disassemble(nvdisasm, cubin):
    """{plain name of a kernel: lines of its code}"""
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
    """(version of nvcc, {plain name of a kernel: (registers of a thread, bytes that it spills)}), from what `nvcc
    --version` and ptxas with -v print. A function that is not inlined has a stack of its own, which nobody adds up."""
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
    """As the trace of the shim has it: without parameters, and with the types' own names."""
    return re.sub(r"\(.*", "", name.removeprefix("void ")).replace("(int)", "").replace("(bool)1", "true") \
        .replace("(bool)0", "false")


class Block:
    def __init__(self):
        self.labels, self.codes, self.goes, self.falls = [], [], None, True


def blocks_of(lines):
    """Basic blocks: [(opcodes, indices of the blocks that may follow)]"""
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
        blocks[-1].codes.append("NOP" if (predicate or "").strip() == "@!PT" else opcode)  # nvcc pads copies with LDS
        base = opcode.split(".")[0]
        target = re.search(r"`\((\.L_x_\d+)\)", rest)
        if base in ("BRA", "CALL") and target:  # such a call does not return: it is a jump
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


def dominators(blocks):
    """By block, as bits: the blocks that every way from the first one passes. 0 of what is never reached."""
    before = [[] for _ in blocks]
    for i, (_, following) in enumerate(blocks):
        for j in following:
            before[j].append(i)
    every = (1 << len(blocks)) - 1
    found, changed = [1] + [every] * (len(blocks) - 1), True
    while changed:
        changed = False
        for i in range(1, len(blocks)):
            bits = every
            for j in before[i]:
                bits &= found[j]
            bits |= 1 << i
            if bits != found[i]:
                found[i], changed = bits, True
    return found, before


def loops_of(blocks):
    """{header: blocks of the loop}, of loops with one entry."""
    dominated, before = dominators(blocks)
    loops = {}
    for i, (_, following) in enumerate(blocks):
        for header in following:
            if dominated[i] >> header & 1 and before[i] + [i]:
                body, todo = {header}, [i]
                while todo:
                    at = todo.pop()
                    if at not in body:
                        body.add(at)
                        todo += before[at]
                loops.setdefault(header, set()).update(body)
    return loops


def shared_accesses(code):
    """How often the instruction accesses 128 bytes of shared memory for a warp, without conflicts of banks."""
    base, *rest = code.split(".")
    if base == "LDSM":  # one, two or four matrices of 128 bytes: LDSM.16.M88, LDSM.16.MT88.4
        return int(rest[-1]) if rest[-1].isdigit() else 1
    if base in ("LDS", "STS", "LDGSTS"):
        return 4 if "128" in rest else 2 if "64" in rest else 1
    return 0


def count(codes):
    counts = collections.Counter(code.split(".")[0] for code in codes)
    counts["float"] = sum(counts[code] for code in FLOAT)
    counts["integer"] = sum(counts[code] for code in INTEGER)
    counts["shared"] = sum(map(shared_accesses, codes))
    counts["all"] = len(codes)
    return counts


def path(blocks, header, body, ends_anywhere=False):
    """Counts of the cheapest path with the most work from the header through the body, back to the header or out of the
    body, or with `ends_anywhere` to the end of the work. It passes no block twice."""
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
    """Counts of a kernel: `whole`, a way from its beginning to its end with each loop once; `loops`, each with the number
    of loops around it, in the order of the code."""
    blocks = blocks_of(lines)
    loops = loops_of(blocks)
    found = []
    for header, body in sorted(loops.items()):
        depth = sum(header in other and body < other for other in loops.values())
        found.append({"depth": depth, "innermost": not any(other < body for other in loops.values()),
                      **path(blocks, header, body)})
    return {"whole": dict(path(blocks, 0, set(range(len(blocks))), True)), "loops": found}
