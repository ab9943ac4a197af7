#!/bin/bash
# cuda.sh: nvcc compiles the CUDA engine, and two tests that contain kernels. The library of the engine exports one
# symbol. Both the installed toolkit and the oldest supported toolkit, CUDA 12.4, must compile the engine and the tests.
# `make test-cuda` downloads CUDA 12.4 to the folder CUDA_OLDEST. The installed toolkit compiles for the newest compute
# capability of 80, 90, 100 and 120 that it supports, and the oldest toolkit for 8.0 and 9.0. Each toolkit takes a minute of processor time. If
# a toolkit is missing, its check is skipped, and the output names the toolkit.
set -euo pipefail
build=${BUILD:-build} failed=0
oldest=$(realpath -m "${CUDA_OLDEST:-$build/cuda-12.4}")

# result NUMBER STATUS WHAT: prints the result of a test. Status 0 means success. If `missing` is not empty, the test
# was skipped for this reason.
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

# make_with FOLDER FILE ARGUMENT…: builds FOLDER/FILE with these arguments of make.
make_with() {
    local folder=$1 file=$2
    shift 2
    [ -n "$missing" ] || env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory BUILD="$folder" "$@" "$folder/$file" >&2
}

# shows_one_symbol ENGINE: succeeds if linformerd_backend is the only symbol that the library ENGINE exports.
shows_one_symbol() { [ -n "$missing" ] || [ "$(nm -D --defined-only "$1" | awk '{ print $3 }')" = linformerd_backend ]; }

# check_toolkit NUMBER NAME FOLDER CAPABILITY ARGUMENT…: runs three tests, beginning with NUMBER. The arguments are
# those of make.
check_toolkit() {
    local number=$1 name=$2 folder=$3 arch=$4 status=0 test
    shift 4
    make_with "$folder" libengine_cuda.so "$@" CUDA_ARCHS="$arch" && shows_one_symbol "$folder/libengine_cuda.so" || status=1
    result "$number" $status "$name compiles the CUDA engine for $arch, and it exports only linformerd_backend"
    for test in tensor split; do
        status=0
        number=$((number + 1))
        make_with "$folder" "tests/cuda/test_${test}_device.o" "$@" CUDA_ARCHS="$arch" || status=1
        result $number $status "$name compiles test_$test for devices"
    done
}

echo 1..6
missing=$(engine/cuda/toolkit.sh check || true)
newest=$([ -n "$missing" ] || engine/cuda/toolkit.sh archs)
check_toolkit 1 nvcc "$build/check_cuda" "${newest##* }"

missing=
[ -x "$oldest/bin/nvcc" ] || missing="CUDA 12.4 is not in $oldest: 'make test-cuda' fetches it"
check_toolkit 4 "CUDA 12.4" "$build/check_cuda_oldest" "80 90" NVCC="$oldest/bin/nvcc" CUBLAS="$oldest"
exit $failed
