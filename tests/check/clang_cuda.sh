#!/bin/bash
# clang_cuda.sh: clang compiles the CUDA engine without a warning, as nvcc does. clang only checks syntax and types. The
# check is skipped if no clang 16 or later, or no nvcc, is installed.
set -euo pipefail
build=${BUILD:-build}

echo 1..1
clang=$(engine/cuda/toolkit.sh clang)
if [ -z "$clang" ]; then
    echo "ok 1 # SKIP no clang 16 or later with nvcc's headers is installed"
    exit 0
fi
mapfile -t sources < <(find engine/cuda -name '*.cu' | sort)
targets=("${sources[@]/#/$build/clang/}")
targets=("${targets[@]%.cu}")
status=0
mkdir -p "$build"
env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory -k BUILD="$build" \
    "${targets[@]/%/.checked}" >"$build/clang.log" 2>&1 || status=1
if [ $status = 0 ]; then
    echo "ok 1 - $clang finds nothing in ${#sources[@]} files of the CUDA engine"
else
    sed 's/^/# /' "$build/clang.log"
    echo "not ok 1 - $clang finds nothing in ${#sources[@]} files of the CUDA engine"
fi
exit $status
