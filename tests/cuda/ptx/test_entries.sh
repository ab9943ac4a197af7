#!/bin/bash
# test_entries.sh: checks that every kernel of the CUDA engine ran in the programs NAME@ptx (tests/cuda/ptx.mk).
# tests/run.sh runs these programs first. If programs for another compute capability ran, such as NAME@ptx120, the
# script checks them separately. The PTX in the engine gives the list of all kernels. The script prints the kernels that
# never ran.
set -euo pipefail
build=${BUILD:-build} beside=${BUILD:-build}/tests/cuda/ptx
logs=${LOGS:-$build/log} number=0 failed=0
shopt -s nullglob

# check FOLDER ENDING: compares the kernels in the engine in FOLDER with the kernels that the programs NAME@ENDING ran.
check() {
    local all never
    number=$((number + 1))
    if [ -s "$1/missing" ]; then
        echo "ok $number - @$2 # SKIP $(head -n 1 "$1/missing")"
        return
    fi
    # The engine never launches any_kernel. It only asks the runtime whether the device can run this kernel.
    all=$(grep -aoP '\.entry \K[\w$.]+' "$1/libengine_cuda.so" | grep -v any_kernel | sort -u)
    never=$(comm -23 - <(cat "$logs"/*@"$2".entries /dev/null | sort -u) <<<"$all")
    if [ -n "$never" ]; then
        echo "# $(wc -l <<<"$never") kernels never ran:"
        c++filt <<<"$never" | sed 's/^/#   /'
        echo "not ok $number - every kernel ran in @$2"
        failed=1
    else
        echo "ok $number - all $(wc -l <<<"$all") kernels ran in @$2"
    fi
}

check "$beside" ptx
for folder in "$beside"/[0-9]*; do
    ran=("$logs"/*@ptx"${folder##*/}".log)
    [ ${#ran[@]} = 0 ] || check "$folder" "ptx${folder##*/}"
done
echo "1..$number"
exit $failed
