#!/usr/bin/env python3
"""Compares the arithmetic of predict.py and registers.py with values computed by hand, and docs/cuda.md with their
output. Prints TAP."""
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True

import page
import predict
import predict_counts
import predict_page
import registers
import sass
import sources

CHIP = dict(sass="80", processors=4, clock=1e9, memory=1e10, cache=5e10, cached=1000, peak=8.192e12, large=1.0, mma=1.0,
            lanes=64, shared_kib=163)


def near(found, expected):
    return math.isclose(found, expected, rel_tol=1e-9) or print(f"# found {found}, expected {expected}")


def blocks_take_the_time_of_the_fullest_multiprocessor():
    """5 blocks on 4 multiprocessors take the time of 2 blocks, and would take 1.25 if they were shared evenly. 8 blocks
    take the time of 2, without waste. A single block takes the time of 1 instead of 0.25."""
    return near(predict.waste(5, 4), 1.6) and near(predict.waste(8, 4), 1.0) and near(predict.waste(1, 4), 4.0)


def bytes_take_the_time_of_cache_or_memory():
    """500 bytes come from the cache, at 50 GB/s. 9000 bytes come from memory, at 90 % of 10 GB/s."""
    return near(predict.memory_s(CHIP, 500), 1e-8) and near(predict.memory_s(CHIP, 9000), 1e-6)


def products_take_the_time_of_tiles_or_of_memory():
    """A product of 512 rows, 256 columns and depth 1024 has four tiles (128, 256), one for each multiprocessor. They
    take as long as 2 * 4 * 128 * 256 * (1024 + 128) FLOP at 8.192 TFLOP/s. A product of 128 rows, 128 columns and depth
    128 moves 98304 bytes in 10.9 us. This takes longer than its arithmetic."""
    return near(predict.product_s(CHIP | {"memory": 1e15}, (1, 512, 256, 1024), 2), 2 * 4 * 32768 * 1152 / 8.192e12) and \
        near(predict.product_s(CHIP, (1, 128, 128, 128), 2), 3 * 128 * 128 * 2 / 9e9)


def grouped_products_take_the_time_of_tiles_or_of_memory():
    """Two products of 128 rows and 256 columns, with depths of 1000 and 24, are four tiles (128, 128) on 4
    multiprocessors. They take as long as 2 * 128 * 256 * (1024 + 2 * 128) FLOP at 90 % of 8.192 TFLOP/s. With little
    memory bandwidth, they take as long as moving (128 + 256) * 1024 + 2 * 128 * 256 elements of 2 bytes."""
    shape = 128, 256, 1024, 2
    return near(predict.grouped_s(CHIP | {"memory": 1e15}, shape, 2), 2 * 32768 * 1280 / 8.192e12 / 0.9) and \
        near(predict.grouped_s(CHIP, shape, 2), (384 * 1024 + 65536) * 2 / 9e9)


def mixed_lengths_take_the_time_of_the_chosen_kernels():
    """Grouped products or the engine's kernel compute the projections, even if the other way is faster. For other
    steps, the faster way counts."""
    norm = {"kind": "kernel", "name": "layer_norm<__nv_bfloat16, 8>", "grid": [1000, 1, 1]}
    grouped = {"kind": "grouped", "shape": [128, 256, 1024, 2]}
    steps = [{"times": 2, "library": [grouped], "kernel": [norm]}, {"times": 1, "library": [norm], "kernel": [norm, norm]}]
    library, kernel = (predict.lengths_s(CHIP, {"lengths": {"full 4": steps}}, "full", way) for way in predict.WAYS)
    one = 2 * 8000 * 512 * 2 / 9e9 + 3e-6
    return near(library, 2 * (predict.grouped_s(CHIP, grouped["shape"], 2) + 3e-6) + one) and near(kernel, 3 * one)


def kernels_take_the_time_of_the_busiest_unit():
    """There are 3000 instructions on 16 schedulers, which issue in 75 % of their cycles. Other units of a scheduler
    take this many cycles for an instruction of a warp:
    - 8 for a product on tensor cores: 4096 FLOP at 8.192e12 / 4 / 1e9 / 4 = 512 FLOP per cycle.
    - 8 for an exponential.
    - 2 for an operation on floats, with 64 lanes in a multiprocessor.
    - 2 for an operation on integers.
    - 4 for 128 bytes of shared memory.

    Copies of 512 bytes come from the L2 cache, at 50 GB/s."""
    def seconds(**counts):
        return predict.kernel_s(CHIP, 4, {"all": 3000} | counts, 0)
    issue = seconds()
    return near(issue, 3000 / 16 / 0.75 * 1e-9) and near(seconds(HMMA=1500), 4 * issue) and \
        near(seconds(HMMA=1500, MUFU=3000), 8 * issue) and near(seconds(float=4500), 3 * issue) and \
        near(seconds(integer=4500), 3 * issue) and near(seconds(shared=2250), 3 * issue) and \
        near(seconds(LDGSTS=3000), 3000 * 512 / 5e10)


def flops_on_tensor_cores_are_those_of_the_products():
    """Attention at batch 1 consists of two products of 4096 * 256 * 512 multiplications. An instruction computes 4096
    FLOP. The two projections consist of equally many multiplications. With one head of keys and values, a projection
    has 16 parts of 256 rows, and 4096 * 256 * 64 multiplications. In f32, finish_projection adds 32 parts in this
    case."""
    attend = predict.attend_tensor_work({"hot": {"all": 680, "HMMA": 128}, "copy": {"all": 40, "LDGSTS": 1},
                                         "rest": {"all": 700}}, {"threads": 128, "grid": [33, 8, 1], "shared": 92160},
                                        predict.whole(1))
    project, shared = (predict.project_tensor_work(
        {"hot": {"all": 106, "HMMA": 16}, "copy": {"all": 38, "LDGSTS": 1}, "rest": {"all": 588}},
        {"name": "project_tensor<__nv_bfloat16, 64, 64, false>", "threads": 256, "grid": grid}, predict.whole(1))
        for grid in ([5, 8, 8], [17, 4, 1]))
    finish = predict.moved_by("finish_projection<float>", {"grid": [256, 1, 1], "threads": 64}, predict.whole(1), 4)
    flops = 2 * 2 * 4096 * 256 * 512
    copies = 256 * 2 * 8 * 33 * 8 + 256 * 128 * 8  # keys and values for each block, queries for 256 units
    return near(attend[1]["HMMA"] * 4096, flops) and near(project[1]["HMMA"] * 4096, flops) and \
        near(attend[1]["LDGSTS"] * 32, copies) and near(project[0], 4 * 8 * 8) and \
        near(shared[1]["HMMA"] * 4096, 2 * 4096 * 256 * 64) and near(shared[0], 16 * 4) and \
        near(finish, 256 * 64 * (32 * 4 + 4))


def a_split_product_of_floats_counts_as_three_products():
    """Each product of floats is three products on tensor cores. An instruction computes 2048 FLOP and 8 elements of
    depth. In one pass of the outer loop, a warp executes this many instructions:
    - 2 * 3 * 16 with tiles of 128 lines. The depth is 16, and the warp computes 4 by 4 fragments, 64 by 32 elements.
    - 4 * 3 * 4 with tiles of 64 lines. The depth is 32, and the warp computes 2 by 2 fragments.
    - 2 * 3 * 64 in attention. The warp computes two products, with 32 rows, 32 keys and 64 features."""
    def flops(work, name, tile, **launch):
        counts = {"tile": {"all": 1, "HMMA": tile}, "rest": {"all": 1}}
        return work(counts, {"name": name, "threads": 256, "added": 0} | launch, predict.whole(1))[1]["HMMA"] * 2048 / 3
    large = flops(predict.multiply_split_work, "multiply_split<128, true>", 96, grid=[128, 1, 1], shape=[512, 4096, 512])
    small = flops(predict.multiply_split_work, "multiply_split<64, true>", 48, grid=[512, 1, 1], shape=[512, 4096, 512])
    part = flops(predict.multiply_part_work, "multiply_part<128, false>", 96, grid=[9, 4, 4])
    attend = flops(predict.attend_part_work, "attend_part<64, 2>", 384, grid=[33, 8, 1], threads=128)
    product = 2 * 4096 * 512 * 512
    return near(large, product) and near(small, product) and near(part, 2 * 2 * 4096 * 256 * 512) and \
        near(attend, 2 * 2 * 4096 * 256 * 512)


def the_time_of_a_run_is_the_sum_of_its_launches():
    """Two launches process 8000 rows of 512 elements of 2 bytes. Each launch reads and writes the rows at 9 GB/s, and
    takes 3 us more. If a step has two ways, the faster way counts. With gelu_apart, the way of the engine's kernel
    counts, even if it is slower. This way also launches finish_product, with rows of 2048 elements."""
    launch = {"kind": "kernel", "name": "layer_norm<__nv_bfloat16, 8>", "grid": [1000, 1, 1]}
    step = {"times": 2, "library": [launch, launch], "kernel": [launch]}
    found = [predict.engine_s(CHIP, {"engine": {"full bf16 1 4": [step]}}, "full", "bf16", 1, *ways)[0]
             for step, *ways in ((launch | {"times": 2},), (step,), (step, ["library"]), (step, ["kernel"]))]
    usual = 2 * (2 * 8000 * 512 * 2 / 9e9 + 3e-6)
    finish = launch | {"name": "finish_product<__nv_bfloat16, 8>"}  # processes rows of 2048 elements
    gelu = {"engine": {"full bf16 1 4": [{"times": 1, "library": [launch], "kernel": [launch, finish]}]}}
    apart = predict.engine_s(CHIP, gelu, "full", "bf16", 1, gelu_apart=True)[0]
    return all(near(*pair) for pair in zip(found, (usual, usual, 2 * usual, usual))) and \
        near(apart, 5 * 2 * 8000 * 512 * 2 / 9e9 + 2 * 3e-6)


NORM, LONG, SPLIT = "kernel\tlayer_norm<float, 4>\t512 1 1\t256\t0", "product\t{}\t4\t4\t1\t0", \
    "kernel\tmultiply_split<128, true>\t{} 1 1\t256\t81920"


def kernels_of_the_engine_are_paired_with_products_of_cublaslt():
    """A product of the engine's own kernel gets its shape from the product of cuBLASLt at the same place. In other
    steps, the two ways may have different numbers of launches."""
    library = [NORM, LONG.format("512 4096 512"), LONG.format("64 4096 512"), NORM]
    kernel = [NORM, SPLIT.format(128), SPLIT.format(64), NORM]
    projected = [NORM, "kernel\tproject_tensor<__nv_bfloat16, 128, 128, false>\t40 4 4\t256\t69632", NORM]
    norm, first, second, last = predict_counts.choices(library, kernel)
    _, several, _ = predict_counts.choices([NORM, LONG.format("512 256 4096 8"), LONG.format("512 256 4096 8"), NORM],
                                           projected)
    return norm == last == {"kind": "kernel", "name": "layer_norm<float, 4>", "grid": [512, 1, 1], "threads": 256,
                            "shared": 0} and \
        [(step["library"][0]["shape"], step["kernel"][0]["grid"][0]) for step in (first, second)] == \
        [([512, 4096, 512], 128), ([64, 4096, 512], 64)] and \
        all(step["kernel"][0]["shape"] == step["library"][0]["shape"] for step in (first, second)) and \
        [launch["shape"] for launch in several["library"]] == [[512, 256, 4096, 8]] * 2 and \
        len(several["kernel"]) == 1


def the_host_limits_only_eager_pytorch():
    """Each of 100 operations takes 3 us on the device. With eager PyTorch, each operation takes 5 us on the host, so
    the host limits the run. torch.compile has no such limit."""
    counts = {"peers": {"full eager": [["other", 0, 500, 100]], "full compile": [["other", 0, 500, 100]]}}
    return near(predict.peer_s(CHIP, counts, "full", "bf16", 1, "eager"), 5e-4) and \
        near(predict.peer_s(CHIP, counts, "full", "bf16", 1, "compile"), 100 * (1e-8 + 3e-6))


CODE = """
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/                   LDSM.16.M88.4 R4, [R8] ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/                   FMUL R1, R1, R2 ;
        /*0040*/                   FMUL R1, R1, R2 ;
.L_x_2:
        /*0048*/              @!PT LDS RZ, [RZ] ;
        /*0050*/                   HMMA.16816.F32.BF16 R4, R4, R8, R4 ;
        /*0060*/               @P1 BRA `(.L_x_1) ;
        /*0070*/                   STG.E [R2], R4 ;
        /*0080*/                   EXIT ;
""".splitlines()


def instructions_of_skipped_branches_are_not_counted():
    """The loop is counted without its two multiplications: LDSM, BRA, LDS, HMMA and BRA. The LDS is never executed, so
    it is not counted as an access of shared memory. Before the loop is one instruction, after the loop are STG and
    EXIT."""
    found = sass.kernel_counts(CODE)
    loop = found["loops"][0]
    return len(found["loops"]) == 1 and (loop["all"], loop["HMMA"], loop["LDSM"], loop["innermost"]) == (5, 1, 1, True) \
        and loop["shared"] == 4 and found["whole"]["all"] == 8 and found["whole"]["STG"] == 1


UNREACHED = """
        /*0090*/                   HMMA.16816.F32.BF16 R4, R4, R8, R4 ;
        /*00a0*/                   BRA `(.L_x_2) ;
.L_x_3:
        /*00b0*/                   BRA `(.L_x_3) ;
        /*00c0*/                   NOP ;
        /*00d0*/               @P2 BRA `(.L_x_1) ;
""".splitlines()


def unreachable_blocks_are_not_counted():
    """Unreachable blocks may jump to blocks of the kernel. They neither form a loop nor change a loop."""
    return sass.kernel_counts(CODE + UNREACHED) == sass.kernel_counts(CODE) and \
        sass.kernel_counts(["        /*0000*/                   EXIT ;"] + UNREACHED)["loops"] == []


def dominators_of_random_blocks_are_found():
    """Block a dominates block b if every path from the first block to b passes a. Tested with random blocks, some of
    which are unreachable."""
    chance, good, unreached = random.Random(1), True, 0
    for _ in range(300):
        size = chance.randint(1, 7)
        blocks = [([], sorted(chance.sample(range(size), chance.randint(0, min(2, size))))) for _ in range(size)]
        all_reached = sass.reached(blocks)
        dominated, before = sass.dominators(blocks)
        for i in range(1, size):
            without = [([], [j for j in following if j != i]) for _, following in blocks]
            left = sass.reached(without)
            good = all((dominated[j] >> i & 1) == (j not in left) for j in all_reached) and good
        good = dominated.keys() == all_reached and good
        good = all(before[i] == [j for j in sorted(all_reached) if i in blocks[j][1]] for i in all_reached) and good
        unreached += size - len(all_reached)
    return good and unreached > 100


def accesses_of_shared_memory_are_counted():
    """The number of accesses of an instruction depends on the bytes that it moves for each thread, or on its number of
    matrices."""
    codes = ("LDSM.16.M88.4", "LDSM.16.MT88.2", "LDSM.16.M88", "LDS", "LDS.U.64", "STS.128", "LDGSTS.E.BYPASS.LTC128B.128",
             "LDG.E.128")
    return [sass.count([code])["shared"] for code in codes] == [4, 2, 1, 1, 2, 4, 4, 0] and \
        (sass.count(["FADD.FTZ", "LOP3.LUT"])["float"], sass.count(["FADD", "LOP3.LUT"])["integer"]) == (1, 1)


def own_flops(counts, launch, batch):
    """Returns the FLOPs of a kernel on tensor cores. An instruction computes 4096 FLOP. If floats are split, it
    computes 2048 FLOP, and three instructions are needed for one product."""
    family, name = launch["name"].split("<")[0], launch["name"]
    return predict.WORK[family](counts["sass"]["90"][name], launch, batch)[1]["HMMA"] * \
        (4096 if family.endswith("tensor") else 2048 / 3)


def kernels_have_the_flops_of_the_products_they_replace():
    """Checks the FLOPs of the kernels in counts.json. A kernel computes as many FLOPs as the product of cuBLASLt that
    it replaces. The FLOPs of an attention or a projection of floats follow from the sizes of the model."""
    counts, sizes, good = json.loads(predict.COUNTS.read_text()), predict.SIZES, True
    for key, steps in counts["engine"].items():
        model, _, batch, _ = key.split()
        attention = 4 * int(batch) * sizes["seq_len"] * sizes["k"] * sizes["dim"]
        wanted = {"attend_tensor": attention, "attend_part": attention,
                  "multiply_part": attention if model == "full" else attention // 2 // sizes["heads"]}
        for step in steps:
            product = sum(2 * math.prod(launch["shape"]) for launch in step.get("library", []))
            for launch in step.get("kernel", [step]):
                family = launch.get("name", "").split("<")[0]
                if family in predict.WORK:
                    good = near(own_flops(counts, launch, predict.whole(int(batch))), wanted.get(family, product)) and good
    return good


NVCC = """Cuda compilation tools, release 13.0, V13.0.88
ptxas info    : Compiling entry function '_Z5firstILi64EEvPf' for 'sm_80'
ptxas info    : Function properties for _Z5firstILi64EEvPf
    72 bytes stack frame, 68 bytes spill stores, 84 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 72 bytes cumulative stack size, 512 bytes cmem[0]
ptxas info    : Compiling entry function '_Z6secondPf' for 'sm_80'
ptxas info    : Function properties for _Z6secondPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 512 bytes cmem[0]
"""


def registers_and_spills_of_kernels_are_read():
    """resources() reads registers and spills of kernels. It ends the program if a function is not inlined, because the
    spills of such a function would be overlooked."""
    try:
        sass.resources(NVCC + "ptxas info    : Function properties for _Z5third\n    0 bytes stack frame\n")
        return False
    except SystemExit:
        return sass.resources(NVCC) == ("release 13.0, V13.0.88", {"first<64>": (255, 68), "second": (8, 0)})


def accesses_of_the_stack_in_the_main_loop_are_counted():
    """The loop with the product contains 5 instructions. The test replaces two of them by accesses of the stack. The
    other loop contains more instructions, but no product."""
    code = [line.replace("LDSM.16.M88.4 R4, [R8]", "LDL R4, [R1]").replace("@!PT LDS RZ, [RZ]", "STL [R1], R4") for line in CODE]
    other = [".L_x_9:", *["        /*0000*/                   MOV R0, R1 ;"] * 9,
             "        /*0000*/               @P1 BRA `(.L_x_9) ;"]
    return predict_counts.main_loop(other + code) == [5, 2]


def registers_and_memory_limit_the_blocks_at_a_time():
    """With 100 registers per thread, a warp occupies 3328 registers, the next multiple of 256 after 3200. A block of 4
    warps occupies 13312 registers. A multiprocessor has 65536, which suffice for 4 blocks. Its 100 KiB suffice for 3
    blocks of 30 + 1 KiB."""
    return (registers.blocks_of(100, 128, 10, (99, 100)), registers.blocks_of(100, 128, 30, (99, 100)),
            registers.blocks_of(255, 256, 10, (99, 100))) == (4, 3, 1)


def the_computed_shared_memory_is_that_of_the_engine():
    """registers.py computes the same shared memory as the engine requested on the shim. The kernels are attention with
    64 features, and projections with both sizes of tiles."""
    counts, seen = json.loads(predict.COUNTS.read_text())["engine"], set()
    chips = {"108": registers.CHIPS["8.0"], "132": registers.CHIPS["9.0, 10.0"]}
    for key, steps in counts.items():
        for launch in (launch for step in steps for launch in step.get("kernel", [step])):
            family, chip = launch.get("name", "").split("<")[0], chips[key.split()[3]]
            if family == "attend_tensor":
                found = registers.attend_kib(predict.template_numbers(launch["name"])[0], chip)
            elif family == "project_tensor":
                found = registers.project_kib(predict.template_numbers(launch["name"])[0], "true" in launch["name"])
            else:
                continue
            seen.add((launch["name"], chip[0], launch["shared"], found * 1024))
    return len(seen) == 6 and all(near(launched, computed) for *_, launched, computed in seen)


def counts_of(**kernels):
    return {"nvcc": "release 1.2", "kernels": {name: {"80": one, "90": other} for name, (one, other) in kernels.items()}}


def the_table_lists_all_kernels_that_spill():
    """The table lists the kernels that spill for at least one compute capability, and no others."""
    found = registers.spills(counts_of(one=([255, 68, 200, 8], [250, 0]), two=([8, 0], [9, 0]), three=([9, 0], [9, 4, 10, 1])))
    none = registers.spills(counts_of(two=([8, 0], [9, 0])))
    return "Of the 3 kernels, 2 spill" in found and "| `one` | 68 (8 of 200) | – |" in found and "`two`" not in found and \
        "| `three` | – | 4 (1 of 10) |" in found and "10.0 %, in `three` for 9.0" in " ".join(found.split()) and \
        "None of the 1 kernels spills" in none


def copied(folder):
    """Copies the files of the digest into another folder. Returns the folder."""
    for path in sources.files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sources.ROOT / path, folder / path)
    return folder


def with_comment(path, text):
    """Changes only comments, docstrings and white space of a source file. Returns the changed text."""
    if path.suffix == ".py":
        return f'"""Another text."""\n\n# a comment\n{text}  # another comment\n\n'
    indented = text.replace("\n    ", "\n\t")
    return f"/* int x = 1; */\n{indented}  \n// int y = 2;\n"


def the_digest_changes_with_code_alone():
    """Changes of comments and white space do not change the digest. A new line of code in any file, another name and
    another string change the digest."""
    before = sources.digest()
    with tempfile.TemporaryDirectory() as name:
        folder = copied(pathlib.Path(name))
        good = sources.digest(folder) == before
        texts = {path: (folder / path).read_text() for path in sources.files(folder)}
        for path, text in texts.items():
            (folder / path).write_text(with_comment(path, text))
        good = sources.digest(folder) == before and good
        overlooked = []
        for path, text in texts.items():
            (folder / path).write_text(text + "\nint_x = 1\n")
            overlooked += [path] if sources.digest(folder) == before else []
            (folder / path).write_text(text)
    for one, other in (("int a = 1;", "int b = 1;"), ('f("a b");', 'f("a  b");'), ('f("/* a */");', 'f("/* b */");')):
        good = sources.code_of(one, False) != sources.code_of(other, False) and good
    return good and not overlooked and len(texts) > 100 or print("# overlooked:", *overlooked)


def the_digest_contains_all_included_files():
    """The digest contains all files of engine/, except the backend of the CPU. It also contains all files of the
    repository that the compilers read, according to g++ -MM and gcc -MM."""
    if not shutil.which("g++"):
        return "g++ is not installed"
    every = {path.relative_to(sources.ROOT) for path in (sources.ROOT / "engine").rglob("*.*")
             if path.suffix in (".c", ".cu", ".h") and path.parent.name != "cpu"}
    read = set()
    for command, suffix in ((["g++", "-std=c++20", "-x", "c++", "-Itests/cuda/shim", "-Itests/cuda/shim/cublas"], ".cu"),
                            (["gcc", "-std=gnu11"], ".c")):
        paths = [path for path in every if path.suffix == suffix]
        said = subprocess.run([*command, "-I.", "-MM", *paths], cwd=sources.ROOT, check=True, capture_output=True, text=True)
        read |= {pathlib.Path(word) for word in said.stdout.split() if word != "\\" and not word.endswith(":")}
    missing = (read | every) - set(sources.files())
    return read > every - {path for path in every if path.suffix == ".h"} and not missing or \
        print("# not in the digest:", *sorted(missing))


def docs_cuda_md_has_the_predicted_figures():
    """docs/cuda.md contains the tables and sentences that predict.py and registers.py print."""
    text = page.PATH.read_text()
    wanted = predict_page.written(json.loads(predict.COUNTS.read_text())) | registers.written()
    return text == page.filled(text, wanted) or print("# docs/cuda.md is out of date. Run tests/gpu/predict.py --table")


def docs_cuda_shim_md_has_the_number_of_kernels():
    """docs/cuda-shim.md states how many kernels nvcc compiles, and how many of them the engine launches: all except
    any_kernel."""
    kernels = json.loads(registers.COUNTS.read_text())["kernels"]
    text = " ".join((page.PATH.parent / "cuda-shim.md").read_text().split())
    wanted = f"nvcc compiles {len(kernels)} kernels. The engine launches {len(kernels.keys() - {'any_kernel'})} of them"
    return wanted in text or print(f"# docs/cuda-shim.md has to say: {wanted}")


OLDER = "The engine has changed since it was counted."


def docs_cuda_md_says_if_counts_are_older_than_the_code():
    """docs/cuda.md contains the sentence OLDER if and only if the engine has changed since counts.json or
    registers.json was written."""
    now, text = sources.digest(), " ".join(page.PATH.read_text().split())
    older = [path.name for path in (predict.COUNTS, registers.COUNTS) if json.loads(path.read_text())["sources"] != now]
    return bool(older) == (OLDER in text) or print(
        f"# {' and '.join(older)}: counted from other sources. Run make predict, or write into docs/cuda.md: {OLDER}" if older
        else f"# the counts are of these sources, but docs/cuda.md says: {OLDER}")


def main():
    failed = 0
    tests = [blocks_take_the_time_of_the_fullest_multiprocessor, bytes_take_the_time_of_cache_or_memory,
             products_take_the_time_of_tiles_or_of_memory, grouped_products_take_the_time_of_tiles_or_of_memory,
             mixed_lengths_take_the_time_of_the_chosen_kernels, kernels_take_the_time_of_the_busiest_unit,
             flops_on_tensor_cores_are_those_of_the_products, a_split_product_of_floats_counts_as_three_products,
             the_time_of_a_run_is_the_sum_of_its_launches, kernels_of_the_engine_are_paired_with_products_of_cublaslt,
             the_host_limits_only_eager_pytorch, instructions_of_skipped_branches_are_not_counted,
             unreachable_blocks_are_not_counted, dominators_of_random_blocks_are_found,
             accesses_of_shared_memory_are_counted, kernels_have_the_flops_of_the_products_they_replace,
             registers_and_spills_of_kernels_are_read, accesses_of_the_stack_in_the_main_loop_are_counted,
             registers_and_memory_limit_the_blocks_at_a_time, the_computed_shared_memory_is_that_of_the_engine,
             the_table_lists_all_kernels_that_spill, the_digest_changes_with_code_alone,
             the_digest_contains_all_included_files, docs_cuda_md_has_the_predicted_figures,
             docs_cuda_shim_md_has_the_number_of_kernels, docs_cuda_md_says_if_counts_are_older_than_the_code]
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        good = test()
        failed += not good
        skip = f" # SKIP {good}" if isinstance(good, str) else ""
        print(f"{'ok' if good else 'not ok'} {number} - {test.__name__.replace('_', ' ')}{skip}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
