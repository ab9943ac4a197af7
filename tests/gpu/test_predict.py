#!/usr/bin/env python3
"""The arithmetic of predict.py and registers.py against values computed by hand, and docs/cuda.md against what they
print, in TAP."""
import json
import math
import pathlib
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


def divides_blocks():
    """5 blocks on 4 processors take 2 turns instead of 1.25; 8 take 2."""
    return near(predict.waste(5, 4), 1.6) and near(predict.waste(8, 4), 1.0) and near(predict.waste(1, 4), 4.0)


def moves_bytes():
    """500 bytes from the cache at 50 GB/s; 9000 bytes from memory at 90 % of 10 GB/s."""
    return near(predict.memory_s(CHIP, 500), 1e-8) and near(predict.memory_s(CHIP, 9000), 1e-6)


def times_products():
    """512 x 256 x 1024 in four tiles (128, 256), one for each processor: 2 * 4 * 128 * 256 * (1024 + 128) FLOP at 8.192
    TFLOP/s. 128 x 128 x 128 has few tiles: it moves 98304 bytes in 10.9 us, and is bound by that."""
    return near(predict.product_s(CHIP | {"memory": 1e15}, (1, 512, 256, 1024), 2), 2 * 4 * 32768 * 1152 / 8.192e12) and \
        near(predict.product_s(CHIP, (1, 128, 128, 128), 2), 3 * 128 * 128 * 2 / 9e9)


def times_kernels():
    """3000 instructions on 16 schedulers: at 75 % of a cycle each. A product of a warp takes 8 cycles of tensor cores: 4096
    FLOP at 8.192e12 / 4 / 1e9 / 4 = 512 a cycle. An exponential takes 8. An operation on floats takes 2, with 64 lanes,
    and so does one on integers. 128 bytes of shared memory take 4. Copies of 512 bytes come from the cache, at 50 GB/s."""
    def seconds(**counts):
        return predict.kernel_s(CHIP, 4, {"all": 3000} | counts, 0)
    issue = seconds()
    return near(issue, 3000 / 16 / 0.75 * 1e-9) and near(seconds(HMMA=1500), 4 * issue) and \
        near(seconds(HMMA=1500, MUFU=3000), 8 * issue) and near(seconds(float=4500), 3 * issue) and \
        near(seconds(integer=4500), 3 * issue) and near(seconds(shared=2250), 3 * issue) and \
        near(seconds(LDGSTS=3000), 3000 * 512 / 5e10)


def counts_tensor_products():
    """Attention at batch 1: two products of 4096 * 256 * 512, 4096 FLOP an instruction. Two projections: the same.
    With one head of keys and values, parts have 256 rows: 16 of them, and 4096 * 256 * 64 in all."""
    attend = predict.attend_tensor_work({"hot": {"all": 680, "HMMA": 128}, "copy": {"all": 40, "LDGSTS": 1},
                                         "rest": {"all": 700}}, {"threads": 128, "grid": [33, 8, 1], "shared": 92160}, 1)
    project, shared = (predict.project_tensor_work(
        {"hot": {"all": 106, "HMMA": 16}, "copy": {"all": 38, "LDGSTS": 1}, "rest": {"all": 588}},
        {"name": "project_tensor<__nv_bfloat16, 64, 64, false>", "threads": 256, "grid": grid}, 1)
        for grid in ([5, 8, 8], [17, 4, 1]))
    finish = predict.moved_by("finish_projection<float>", {"grid": [256, 1, 1], "threads": 64}, 1, 4)
    flops = 2 * 2 * 4096 * 256 * 512
    copies = 256 * 2 * 8 * 33 * 8 + 256 * 128 * 8  # blocks fetch keys and values once; 256 units have 128 rows of queries
    return near(attend[1]["HMMA"] * 4096, flops) and near(project[1]["HMMA"] * 4096, flops) and \
        near(attend[1]["LDGSTS"] * 32, copies) and near(project[0], 4 * 8 * 8) and \
        near(shared[1]["HMMA"] * 4096, 2 * 4096 * 256 * 64) and near(shared[0], 16 * 4) and \
        near(finish, 256 * 64 * (32 * 4 + 4))


def counts_split_products():
    """Each product of floats is three on tensor cores, of 2048 FLOP an instruction. Tiles of 128 lines have a depth of 16:
    a warp has 64 by 32 elements, which are 4 by 4 fragments, so 2 * 3 * 16 instructions. With 64 lines the depth is 32,
    and fragments are 2 by 2. Attention: 32 rows and 32 keys of 64 features, twice, are 2 * 3 * 64 instructions."""
    def flops(work, name, tile, **launch):
        counts = {"tile": {"all": 1, "HMMA": tile}, "rest": {"all": 1}}
        return work(counts, {"name": name, "threads": 256, "added": 0} | launch, 1)[1]["HMMA"] * 2048 / 3
    large = flops(predict.multiply_split_work, "multiply_split<128, true>", 96, grid=[128, 1, 1], shape=[512, 4096, 512])
    small = flops(predict.multiply_split_work, "multiply_split<64, true>", 48, grid=[512, 1, 1], shape=[512, 4096, 512])
    part = flops(predict.multiply_part_work, "multiply_part<128, false>", 96, grid=[9, 4, 4])
    attend = flops(predict.attend_part_work, "attend_part<64, 2>", 384, grid=[33, 8, 1], threads=128)
    product = 2 * 4096 * 512 * 512
    return near(large, product) and near(small, product) and near(part, 2 * 2 * 4096 * 256 * 512) and \
        near(attend, 2 * 2 * 4096 * 256 * 512)


def adds_up_a_run():
    """Two launches that move 9000 bytes a row of 1000 blocks of 8, and 3 us each. Of a step with two ways, the faster."""
    launch = {"kind": "kernel", "name": "layer_norm<__nv_bfloat16, 8>", "grid": [1000, 1, 1]}
    step = {"times": 2, "library": [launch, launch], "kernel": [launch]}
    found = [predict.engine_s(CHIP, {"engine": {"full bf16 1 4": [step]}}, "full", "bf16", 1, *ways)[0]
             for step, *ways in ((launch | {"times": 2},), (step,), (step, ["library"]), (step, ["kernel"]))]
    usual = 2 * (2 * 8000 * 512 * 2 / 9e9 + 3e-6)
    finish = launch | {"name": "finish_product<__nv_bfloat16, 8>"}  # rows of 2048
    gelu = {"engine": {"full bf16 1 4": [{"times": 1, "library": [launch], "kernel": [launch, finish]}]}}
    apart = predict.engine_s(CHIP, gelu, "full", "bf16", 1, gelu_apart=True)[0]
    return all(near(*pair) for pair in zip(found, (usual, usual, 2 * usual, usual))) and \
        near(apart, 5 * 2 * 8000 * 512 * 2 / 9e9 + 2 * 3e-6)


NORM, LONG, SPLIT = "kernel\tlayer_norm<float, 4>\t512 1 1\t256\t0", "product\t{}\t4\t4\t1\t0", \
    "kernel\tmultiply_split<128, true>\t{} 1 1\t256\t81920"


def finds_choices():
    """Products of the engine's own kernel get the shape from those of cuBLASLt. Other launches differ in number, too."""
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


def holds_eager_to_its_host():
    """100 operations of which each takes 3 us on the device take 5 us on the host."""
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


def counts_the_cheap_way():
    """The loop without the two multiplications: LDSM, BRA, LDS, HMMA, BRA. Before it one instruction, behind it STG and
    EXIT. The LDS is never executed."""
    found = sass.kernel_counts(CODE)
    loop = found["loops"][0]
    return len(found["loops"]) == 1 and (loop["all"], loop["HMMA"], loop["LDSM"], loop["innermost"]) == (5, 1, 1, True) \
        and loop["shared"] == 4 and found["whole"]["all"] == 8 and found["whole"]["STG"] == 1


def counts_shared_memory():
    """Each instruction by the bytes that it reads or writes for a thread, or by its matrices."""
    codes = ("LDSM.16.M88.4", "LDSM.16.MT88.2", "LDSM.16.M88", "LDS", "LDS.U.64", "STS.128", "LDGSTS.E.BYPASS.LTC128B.128",
             "LDG.E.128")
    return [sass.count([code])["shared"] for code in codes] == [4, 2, 1, 1, 2, 4, 4, 0] and \
        (sass.count(["FADD.FTZ", "LOP3.LUT"])["float"], sass.count(["FADD", "LOP3.LUT"])["integer"]) == (1, 1)


def own_flops(counts, launch, batch):
    """Of a kernel on tensor cores: an instruction is 4096 FLOP, or a third of 2048 where floats are split."""
    family, name = launch["name"].split("<")[0], launch["name"]
    return predict.WORK[family](counts["sass"]["90"][name], launch, batch)[1]["HMMA"] * \
        (4096 if family.endswith("tensor") else 2048 / 3)


def counts_all_products():
    """In counts.json, each kernel multiplies as much as the product of cuBLASLt that it replaces, or as the model wants."""
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
                    good = near(own_flops(counts, launch, int(batch)), wanted.get(family, product)) and good
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


def reads_registers():
    """A function with a stack of its own is none of the kernels, so what it spills would be overlooked."""
    try:
        sass.resources(NVCC + "ptxas info    : Function properties for _Z5third\n    0 bytes stack frame\n")
        return False
    except SystemExit:
        return sass.resources(NVCC) == ("release 13.0, V13.0.88", {"first<64>": (255, 68), "second": (8, 0)})


def counts_accesses_of_the_stack():
    """The loop with the product has 5 instructions, of which two are made to access the stack. The other loop is longer."""
    code = [line.replace("LDSM.16.M88.4 R4, [R8]", "LDL R4, [R1]").replace("@!PT LDS RZ, [RZ]", "STL [R1], R4") for line in CODE]
    other = [".L_x_9:", *["        /*0000*/                   MOV R0, R1 ;"] * 9,
             "        /*0000*/               @P1 BRA `(.L_x_9) ;"]
    return predict_counts.main_loop(other + code) == [5, 2]


def divides_multiprocessors():
    """100 registers: a warp takes 3328, the next multiple of 256 after 3200, and 4 of them 13312. 65536 are 4.9 times as
    many. Of 100 KiB, 30 and one each leave room for 3 blocks."""
    return (registers.blocks_of(100, 128, 10, (99, 100)), registers.blocks_of(100, 128, 30, (99, 100)),
            registers.blocks_of(255, 256, 10, (99, 100))) == (4, 3, 1)


def knows_the_shared_memory():
    """As the engine launched kernels on the shim: attention with 64 features, and projections with both tiles."""
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


def lists_all_that_spill():
    found = registers.spills(counts_of(one=([255, 68, 200, 8], [250, 0]), two=([8, 0], [9, 0]), three=([9, 0], [9, 4, 10, 1])))
    none = registers.spills(counts_of(two=([8, 0], [9, 0])))
    return "Of the 3 kernels, 2 spill" in found and "| `one` | 68 (8 of 200) | – |" in found and "`two`" not in found and \
        "| `three` | – | 4 (1 of 10) |" in found and "10.0 %, in `three` for 9.0" in " ".join(found.split()) and \
        "None of the 1 kernels spills" in none


def copied(folder):
    """The files of the digest, below another folder."""
    for path in sources.files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sources.ROOT / path, folder / path)
    return folder


def with_comment(path, text):
    """Comments, docstrings and blanks."""
    if path.suffix == ".py":
        return f'"""Another text."""\n\n# a comment\n{text}  # another comment\n\n'
    indented = text.replace("\n    ", "\n\t")
    return f"/* int x = 1; */\n{indented}  \n// int y = 2;\n"


def digest_is_of_code():
    """It stays with other comments and blanks, and changes with a line of code in any file, in a name and in a text."""
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


def digest_has_all_that_is_included():
    """All of engine/ but the backend of the CPU, and what the compilers read of the repository, as they say themselves."""
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


def page_is_current():
    """The page has the tables and sentences that predict.py and registers.py print."""
    text = page.PATH.read_text()
    wanted = predict_page.written(json.loads(predict.COUNTS.read_text())) | registers.written()
    return text == page.filled(text, wanted) or print("# tests/gpu/predict.py --table writes it")


OLDER = "The engine has changed since it was counted."


def page_says_what_was_counted():
    """Counts and registers are of the engine as it is, or the page says that they are older: either, and not both."""
    now, text = sources.digest(), " ".join(page.PATH.read_text().split())
    older = [path.name for path in (predict.COUNTS, registers.COUNTS) if json.loads(path.read_text())["sources"] != now]
    return bool(older) == (OLDER in text) or print(
        f"# run make predict: {' and '.join(older)} are of another engine. Else docs/cuda.md has to say: {OLDER}" if older
        else f"# docs/cuda.md says what is not so: {OLDER}")


def main():
    failed = 0
    tests = [divides_blocks, moves_bytes, times_products, times_kernels, counts_tensor_products,
             counts_split_products, adds_up_a_run, finds_choices, holds_eager_to_its_host, counts_the_cheap_way,
             counts_shared_memory, counts_all_products, reads_registers, counts_accesses_of_the_stack,
             divides_multiprocessors, knows_the_shared_memory, lists_all_that_spill, digest_is_of_code,
             digest_has_all_that_is_included, page_is_current, page_says_what_was_counted]
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        good = test()
        failed += not good
        skip = f" # SKIP {good}" if isinstance(good, str) else ""
        print(f"{'ok' if good else 'not ok'} {number} - {test.__name__.replace('_', ' ')}{skip}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
