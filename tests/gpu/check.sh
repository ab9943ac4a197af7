#!/bin/bash
# check.sh: the CUDA engine on a device. For a machine with an NVIDIA GPU, its driver and the CUDA toolkit 13 with
# cuBLAS, and without network: builds the engine and the tests of operations, passes and reference cases, runs them on
# the device, then the operations again under compute-sanitizer memcheck, and prints one table.
# It has never run on a chip.
# CUBLAS=FOLDER: above include/cublasLt.h, where that is not the toolkit's. Programs built elsewhere can come along in
# build/gpu/ (`make programs-gpu` makes them); where they are there and the machine has no C libraries to build them
# with, only the engine is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build} failed=0
log=$build/log/gpu
mkdir -p "$log"

command -v nvcc >/dev/null || { echo "check.sh: no nvcc: the CUDA toolkit is missing" >&2; exit 1; }
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
    { echo "check.sh: no GPU, or no driver for it" >&2; exit 1; }

if pkg-config --exists libmicrohttpd jansson zlib 2>/dev/null; then
    make programs-gpu
elif [ -x "$build/gpu/test_operations_cuda" ]; then
    make "$build/libengine_cuda.so"
    cp "$build/libengine_cuda.so" "$build/gpu/"
else
    echo "check.sh: neither the libraries to build the tests with nor build/gpu/ with tests built elsewhere" >&2
    exit 1
fi

# row NAME COMMAND…: runs it and prints what its TAP lines say.
row() {
    local name=$1 status=0
    shift
    SHIM_SEED=0 CMOCKA_MESSAGE_OUTPUT=TAP OMP_NUM_THREADS=1 "$@" >"$log/$name.log" 2>&1 || status=$?
    printf '%-24s %6s %6s %8s\n' "$name" "$(grep -c '^ok ' "$log/$name.log" || true)" \
        "$(grep -c '^not ok ' "$log/$name.log" || true)" "$status"
    [ "$status" = 0 ] || failed=1
}

printf '\n%-24s %6s %6s %8s\n' program passed failed status
for program in operations passes cases; do
    row "$program" "$build/gpu/test_${program}_cuda"
done
if command -v compute-sanitizer >/dev/null; then
    row operations-memcheck compute-sanitizer --tool memcheck --error-exitcode 99 "$build/gpu/test_operations_cuda"
else
    echo "operations-memcheck      not run: there is no compute-sanitizer"
    failed=1
fi
echo "logs are in $log"
exit $failed
