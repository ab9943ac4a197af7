#!/bin/bash
# errors.sh [FOLDER]: prints the median and the largest relative L2 error of the CUDA engine's outputs for the cases of
# tests/reference, in each dtype. The script runs the programs test_cases_* of FOLDER, for example of build/gpu on a
# device. The default is $BUILD/tests/cuda, with the shim. If a program fails, the script still runs the others, and
# then exits with status 1.
set -euo pipefail
status=0
programs=${1:-${BUILD:-build}/tests/cuda}
printf '%-6s %8s %10s %10s  %s\n' dtype outputs median largest of
for dtype in f32 tf32 bf16 f16; do
    program=$programs/test_cases_$dtype
    [ "$dtype" = f32 ] && program=$programs/test_cases_cuda
    SHIM_SEED=0 OMP_NUM_THREADS=1 "$program" 2>/dev/null |
        sed -n 's/^\([^ ]* call [0-9]* [^ :]*\): relative L2 error \(.*\)/\2 \1/p' | sort -g |
        awk -v dtype="$dtype" '{ error[NR] = $1; $1 = ""; of = $0 }
            END { if (NR) printf "%-6s %8d %10s %10s %s\n", dtype, NR, error[int((NR + 1) / 2)], error[NR], of }' || status=1
done
exit $status
