#!/bin/bash
# test_bench.sh: checks that the programs of the benchmarks work, and that they fail when they should. The test covers
# neither the speed nor the other libraries, which need the network.
set -euo pipefail
build=${BUILD:-build}
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$work"' EXIT
trap 'exit 1' PIPE HUP INT TERM
number=0 failed=0

# result NAME EXPECTED: expects that the whole file $work/out matches the extended regular expression EXPECTED.
result() {
    number=$((number + 1))
    if [[ "$(cat "$work/out")" =~ ^$2$ ]]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        sed 's/^/# /' "$work/out"
        failed=1
    fi
}

echo 1..14
newline=$'\n'
worker() { "$build/tests/bench/worker" "$@" 2>&1 || echo "exit $?"; }

printf 'shape 2 5\nrun 0\nsave %s\nshape 2 100000\nrun 0\n' "$work/output" |
    worker tests/reference/linformer_encoder f32 64 4 >"$work/out"
result "worker runs shapes, and refuses those that the model cannot run" \
    "ready linformerd [^$newline]*${newline}ready${newline}ms [0-9.]+${newline}saved${newline}failed expected [^$newline]*100000${newline}failed no shape yet"
wc -c <"$work/output" >"$work/out"
result "worker saves an output of (2, 5, dim) floats" $((2 * 5 * 4 * $(grep -o '"dim": *[0-9]*' tests/reference/linformer_encoder/config.json | grep -o '[0-9]*')))
head -c 4096 /dev/zero | tr '\0' '\100' >"$work/input" # floats with the value 3.004
dim=$(grep -o '"dim": *[0-9]*' tests/reference/linformer_encoder/config.json | grep -o '[0-9]*')
printf 'pooled %s 2 3\nrun 0\nsave %s\nexplain 5 %s\npooled\n' "$work/input" "$work/pooled" "$work/explained" |
    worker tests/reference/linformer_encoder f32 64 4 >"$work/out"
result "worker pools sequences of different lengths, and saves the explanation" \
    "ready linformerd [^$newline]*${newline}ready${newline}ms [0-9.]+${newline}saved${newline}saved${newline}failed pooled FILE [^$newline]*"
grep '^flops ' "$work/explained" >"$work/out"
result "the explanation of worker has a line with the FLOPs" "flops [0-9]+"
printf 'shape 1 2 %s\nsave %s\n' "$work/input" "$work/output" | worker tests/reference/linformer_encoder f32 64 4 >"$work/out"
{ od -An -v -tf4 -w4 "$work/output" | head -n $((2 * dim)) && od -An -v -tf4 -w4 "$work/pooled" | head -n "$dim"; } |
    awk -v dim="$dim" '{ at = (NR - 1) % dim; if (NR <= 2 * dim) { mean[at] += $1 / 2 } else if (($1 - mean[at]) ^ 2 > 1e-10) { print "differs at", at } }
        END { print NR / dim, "rows" }' >"$work/out"
result "the pooled vector is the mean of the rows" "3 rows"
printf 'profile 0 net. %s\nshape 2 5\nprofile 0 net. %s\n' "$work/profile" "$work/profile" |
    worker tests/reference/linformer_encoder f32 64 4 >"$work/out"
awk '$1 == "inside" { inside += $3 } $1 == "outside" { outside += $3 } $1 == "total" { total = $2 }
    END { sum = inside + outside; print (inside > 0 && outside > 0 && (sum - total) ^ 2 < 1e-4 ? "sums to the total" : "does not") }' \
    "$work/profile" >>"$work/out"
result "the times of all operations in worker's profile sum to the total" \
    "ready linformerd [^$newline]*${newline}failed profile [^$newline]*${newline}ready${newline}glue [0-9.]+ 0.00${newline}sums to the total"
worker tests/reference/linformer_encoder f3 64 4 </dev/null >"$work/out"
result "worker reports a model that cannot be opened" "failed dtype \"f3\"[^$newline]*${newline}exit 1"

: >"$work/daemon.log" # the file must exist before it is read
"${LINFORMERD:-build/linformerd}" --port 0 >"$work/daemon.log" 2>&1 &
daemon=$!
until port=$(grep -om1 'listening on http://[^ ]*' "$work/daemon.log"); do
    kill -0 "$daemon" || { cat "$work/daemon.log" >&2 && daemon='' && exit 1; }
    sleep 0.05
done
port=${port##*:}
"$build/tests/bench/client" "$port" /embed 3 0.2 2 9 256 |
    awk '$3 >= 2 && $3 <= 9 && $2 <= $1 { n++; next } { print } END { print (n >= 3 ? "enough" : n) }' >"$work/out"
result "client counts answers, whose lengths are in the range asked for" "errors 0${newline}enough"
"$build/tests/bench/client" "$port" /embed 3 0 2 9 256 5 | awk 'NF == 3 { n++; next } { print } END { print (n >= 15 ? "enough" : n) }' >"$work/out"
result "client goes on until each connection has had its answers" "errors 0${newline}enough"
"$build/tests/bench/client" "$port" /absent 3 0 2 9 256 >"$work/out"
result "client counts answers other than 200 as errors" "errors 3"
"$build/tests/bench/client" "$port" /embed 3 0 9 2 256 >"$work/out" 2>&1 || echo "exit $?" >>"$work/out"
result "client refuses invalid lengths" "client: expected [^$newline]*${newline}exit 2"

if command -v python3 >/dev/null; then
    printf 'kept\n<!-- begin a -->\nold\n<!-- end a -->\nalso\n' >"$work/B.md"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/bench python3 -c '
import pathlib, sys, report
report.PATH = pathlib.Path(sys.argv[1])
report.write("a", "new")
report.write("b", "more")' "$work/B.md" >/dev/null
    cat "$work/B.md" >"$work/out"
    result "report.py writes only between the markers of a part" \
        "kept${newline}<!-- begin a -->${newline}new${newline}<!-- end a -->${newline}also${newline}+## B${newline}+<!-- begin b -->${newline}more${newline}<!-- end b -->"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/gpu:tests/bench python3 - "$work/explained" >"$work/out" <<'X'
import pathlib, sys
import measure
lengths = measure.mixed_lengths(measure.CHIP, 131072)
print(sum(lengths), max(lengths) <= 4096 and min(lengths[:-1]) >= 16)
print(measure.product_flops(pathlib.Path(sys.argv[1]).read_text()) > 0,
      measure.product_flops("   0 linear   20  x\n  12 layer_norm 7 x\n  13 attend 3 x\n  14 give_output 9 x\n"))
X
    result "the GPU benchmark sums FLOPs of --explain, and draws lengths in range" "131072 True${newline}True 23"
    PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/test_queueing.py >"$work/out"
    result "the simulation of the queue agrees with theory and with examples" "$(printf '%s\n' \
        'M/D/1 0.5 agrees' 'M/M/1 0.5 agrees' 'M/D/1 0.7 agrees' 'M/M/1 0.7 agrees' 'work for HTTP counts as load: yes' \
        'batches 15 36 35 34' 'tokens 15 28 27 44' 'requests 15 28 27 44' 'time 15 28 27 44' 'full 15 26 refused 2' \
        'queue tokens 15 28 27 refused 1' 'passed over 15 35 33 48 51 refused 0' \
        'interrupted 8.5 11.5' 'slower 30 73 72 71' 'highest rate yes' 'too short 0')"
else
    echo "ok 12 # SKIP python3 is not installed"
    echo "ok 13 # SKIP python3 is not installed"
    echo "ok 14 # SKIP python3 is not installed"
fi
exit $failed
