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
    FLOP at 8.192e12 / 4 / 1e9 / 4 = 512 a cycle. An exponential takes 8."""
    issue = predict.kernel_s(CHIP, 4, {"all": 3000}, 0)
    tensor = predict.kernel_s(CHIP, 4, {"all": 3000, "HMMA": 1500}, 0)
    exponentials = predict.kernel_s(CHIP, 4, {"all": 3000, "HMMA": 1500, "MUFU": 3000}, 0)
    return near(issue, 3000 / 16 / 0.75 * 1e-9) and near(tensor, 4 * issue) and near(exponentials, 8 * issue)


def counts_tensor_products():
    """Attention at batch 1: two products of 4096 * 256 * 512, 4096 FLOP an instruction. Two projections: the same.
    With one head of keys and values, parts have 256 rows: 16 of them, and 4096 * 256 * 64 in all."""
    attend = predict.attend_tensor_work({"hot": {"all": 680, "HMMA": 128}, "copy": {"all": 40, "LDGSTS": 1},
                                         "rest": {"all": 700}}, {"threads": 128, "grid": [33, 8, 1], "shared": 92160}, 1)
    project = predict.project_tensor_work({"hot": {"all": 106, "HMMA": 16}, "copy": {"all": 38, "LDGSTS": 1},
                                           "rest": {"all": 588}}, {"threads": 256, "grid": [5, 8, 8]}, 1,
                                          "project_tensor<__nv_bfloat16, 64, 64, false>")
    shared = predict.project_tensor_work({"hot": {"all": 106, "HMMA": 16}, "copy": {"all": 38, "LDGSTS": 1},
                                          "rest": {"all": 588}}, {"threads": 256, "grid": [17, 4, 1]}, 1,
                                         "project_tensor<__nv_bfloat16, 64, 64, false>")
    finish = predict.moved_by("finish_projection<float>", {"grid": [256, 1, 1], "threads": 64}, 1, 4)
    flops = 2 * 2 * 4096 * 256 * 512
    copies = 256 * 2 * 8 * 33 * 8 + 256 * 128 * 8  # blocks fetch keys and values once; 256 units have 128 rows of queries
    return near(attend[1]["HMMA"] * 4096, flops) and near(project[1]["HMMA"] * 4096, flops) and \
        near(attend[1]["LDGSTS"] * 32, copies) and near(project[0], 4 * 8 * 8) and \
        near(shared[1]["HMMA"] * 4096, 2 * 4096 * 256 * 64) and near(shared[0], 16 * 4) and \
        near(finish, 256 * 64 * (32 * 4 + 4))


def adds_up_a_run():
    """Two launches that move 9000 bytes a row of 1000 blocks of 8, and 3 us each."""
    launch = {"kind": "kernel", "name": "layer_norm<__nv_bfloat16, 8>", "times": 2, "grid": [1000, 1, 1]}
    found = predict.engine_s(CHIP, {"engine": {"full bf16 1 4": [launch]}}, "full", "bf16", 1)[0]
    return near(found, 2 * (2 * 8000 * 512 * 2 / 9e9 + 3e-6))


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
        /*0050*/                   HMMA.16816.F32.BF16 R4, R4, R8, R4 ;
        /*0060*/               @P1 BRA `(.L_x_1) ;
        /*0070*/                   STG.E [R2], R4 ;
        /*0080*/                   EXIT ;
""".splitlines()


def counts_the_cheap_way():
    """The loop without the two multiplications: LDSM, BRA, HMMA, BRA. Before it one instruction, behind it STG."""
    found = sass.kernel_counts(CODE)
    loop = found["loops"][0]
    return len(found["loops"]) == 1 and (loop["all"], loop["HMMA"], loop["LDSM"], loop["innermost"]) == (4, 1, 1, True) \
        and found["whole"]["all"] == 7 and found["whole"]["STG"] == 1


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
    tests = [divides_blocks, moves_bytes, times_products, times_kernels, counts_tensor_products, adds_up_a_run,
             holds_eager_to_its_host, counts_the_cheap_way, page_is_current, page_says_which_kernels_were_counted]
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        good = test()
        failed += not good
        skip = f" # SKIP {good}" if isinstance(good, str) else ""
        print(f"{'ok' if good else 'not ok'} {number} - {test.__name__.replace('_', ' ')}{skip}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
