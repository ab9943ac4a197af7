#!/bin/bash
# cuda.sh: nvcc compiles the CUDA engine, and it shows one symbol. Skipped by name where there is no nvcc or no cuBLAS.
set -euo pipefail
echo 1..1
engine=${BUILD:-build}/libengine_cuda.so
cublas=${CUBLAS:-$(dirname "$(dirname "$(realpath "$(command -v nvcc || echo /none/none)")")")}
if ! command -v nvcc >/dev/null; then
    echo "ok 1 # SKIP nvcc is not installed"
elif [ ! -e "$cublas/include/cublasLt.h" ]; then
    echo "ok 1 # SKIP cuBLAS is not installed"
elif make --no-print-directory cuda && [ "$(nm -D --defined-only "$engine" | awk '{ print $3 }')" = linformerd_backend ]; then
    echo "ok 1 - the CUDA engine compiles and shows linformerd_backend alone"
else
    echo "not ok 1 - the CUDA engine compiles and shows linformerd_backend alone"
    exit 1
fi
