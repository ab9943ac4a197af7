#!/bin/bash
# cuda.sh: nvcc compiles the CUDA engine, which shows one symbol, and the test that has kernels of its own. Skipped by
# name where there is no nvcc or no cuBLAS.
set -euo pipefail
failed=0
engine=${BUILD:-build}/libengine_cuda.so
tensor=${BUILD:-build}/tests/cuda/test_tensor_device.o
cublas=${CUBLAS:-$(dirname "$(dirname "$(realpath "$(command -v nvcc || echo /none/none)")")")}
missing=
[ -e "$cublas/include/cublasLt.h" ] || missing="cuBLAS is not installed"
command -v nvcc >/dev/null || missing="nvcc is not installed"

# result NUMBER STATUS WHAT
result() {
    if [ -n "$missing" ]; then
        echo "ok $1 # SKIP $missing"
    elif [ "$2" = 0 ]; then
        echo "ok $1 - $3"
    else
        echo "not ok $1 - $3"
        failed=1
    fi
}

echo 1..2
status=0
[ -n "$missing" ] || make --no-print-directory cuda || status=1
[ -n "$missing" ] || [ "$(nm -D --defined-only "$engine" | awk '{ print $3 }')" = linformerd_backend ] || status=1
result 1 $status "the CUDA engine compiles and shows linformerd_backend alone"
status=0
[ -n "$missing" ] || make --no-print-directory "$tensor" || status=1
result 2 $status "test_tensor compiles for devices"
exit $failed
