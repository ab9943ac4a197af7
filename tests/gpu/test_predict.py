#!/usr/bin/env python3
"""The arithmetic of predict.py against values computed by hand, and docs/cuda.md against what it prints, in TAP."""
import json
import math
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True

import predict
import predict_counts
import sass

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


def page_is_current():
    """The page has the tables that predict.py prints."""
    page = predict.PAGE.read_text()
    return page == predict.page_with(page, predict.written(json.loads(predict.COUNTS.read_text()))) or \
        print("# tests/gpu/predict.py --table writes it")


OLDER = "The kernels have changed since their instructions were counted."


def page_says_which_kernels_were_counted():
    """The counts are of the kernels as they are, or the page says that they are older: either, and not both."""
    older = json.loads(predict.COUNTS.read_text())["sources"] != predict_counts.sources()
    page = " ".join(predict.PAGE.read_text().split())
    return older == (OLDER in page) or print(f"# counts of other kernels: {older}; the page says it: {not older}")


def main():
    failed = 0
    tests = [divides_blocks, moves_bytes, times_products, times_kernels, counts_tensor_products,
             counts_split_products, adds_up_a_run, finds_choices, holds_eager_to_its_host, counts_the_cheap_way,
             counts_shared_memory, counts_all_products, page_is_current, page_says_which_kernels_were_counted]
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        good = test()
        failed += not good
        skip = f" # SKIP {good}" if isinstance(good, str) else ""
        print(f"{'ok' if good else 'not ok'} {number} - {test.__name__.replace('_', ' ')}{skip}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
