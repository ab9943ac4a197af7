#!/bin/bash
# mutate.sh PROGRAM…: gives damaged inputs to each program (mutate.c, mutate_folders.c). COUNT is the number of inputs for
# each program. SEED repeats a run.
set -euo pipefail
wrapper=()
if setarch -R true 2>/dev/null; then
    wrapper=(setarch -R) # with much address randomisation, the sanitizers of gcc 12 and 13 sometimes abort
fi
# tests/run.sh explains the option intercept_tls_get_addr.
export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1:intercept_tls_get_addr=0
for program in "$@"; do
    echo "# $program"
    "${wrapper[@]}" "$program"
done
