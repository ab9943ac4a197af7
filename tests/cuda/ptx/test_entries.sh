#!/bin/bash
# test_entries.sh: checks that every kernel of the CUDA engine ran in the programs NAME@ptx. tests/run.sh runs these
# programs first. The PTX in the engine gives the list of all kernels. The script prints the kernels that never ran.
set -euo pipefail
build=${BUILD:-build} beside=${BUILD:-build}/tests/cuda/ptx
logs=${LOGS:-$build/log}
echo 1..1
if [ -s "$beside/missing" ]; then
    echo "ok 1 # SKIP $(head -n 1 "$beside/missing")"
    exit 0
fi

# The engine never launches any_kernel. It only asks whether a kernel of this library fits the device.
all=$(grep -aoP '\.entry \K[\w$.]+' "$beside/libengine_cuda.so" | grep -v any_kernel | sort -u)
never=$(comm -23 - <(sort -u "$logs"/*@ptx.entries) <<<"$all")
if [ -n "$never" ]; then
    echo "# $(wc -l <<<"$never") kernels never ran:"
    c++filt <<<"$never" | sed 's/^/#   /'
    echo "not ok 1 - every kernel ran as PTX"
    exit 1
fi
echo "ok 1 - every kernel ran as PTX"
