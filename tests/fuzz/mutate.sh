#!/bin/bash
# mutate.sh PROGRAM…: gives damaged inputs to each program (mutate.c, mutate_folders.c). SEED=… repeats a run. SCALE=0.1
# makes a tenth of the inputs.
set -euo pipefail
wrapper=()
if setarch -R true 2>/dev/null; then
    wrapper=(setarch -R) # with much address randomisation, the sanitizers of gcc 12 and 13 sometimes abort
fi
# For the last option, see tests/run.sh.
export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1:intercept_tls_get_addr=0
for program in "$@"; do
    count=1000000
    case $program in
    *_folders) count=10000 ;;
    esac
    echo "# $program"
    COUNT=$(awk -v count="$count" -v scale="${SCALE:-1}" 'BEGIN { print int(count * scale) }') "${wrapper[@]}" "$program"
done
