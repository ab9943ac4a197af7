#!/bin/bash
# run.sh PROGRAM…: fuzzes each target for FUZZ_SECONDS (60), starting with its corpus in tests/fuzz/corpus/. New inputs
# are written to the folder PROGRAM.corpus. If an input crashes the target, the output names the file of the input. Add
# this file to the corpus after the repair.
set -euo pipefail
[ $# -gt 0 ] || { echo "run.sh: no fuzz targets" >&2 && exit 1; }
failed=0
for program in "$@"; do
    name=${program##*/fuzz_}
    found=$program.corpus
    mkdir -p "$found"
    echo "---- $name, ${FUZZ_SECONDS:-60} s"
    "$program" -max_total_time="${FUZZ_SECONDS:-60}" -artifact_prefix="$program." \
        "$found" "tests/fuzz/corpus/$name" >"$program.log" 2>&1 || { failed=1 && tail -n 40 "$program.log"; }
    grep -E '^(Done|SUMMARY)' "$program.log" || true
done
exit "$failed"
