#!/bin/bash
# test_check.sh: tests the output and the files of check.sh on an imitated machine, whose nvidia-smi, nvcc, python3,
# compute-sanitizer and test programs are scripts. Also runs test_figures.py and test_predict.py. Does not test a
# device.
set -uo pipefail # a command that fails is a result, not an error
work=$(mktemp -d)
built=${BUILD:-build}
hanging=''
trap '[ -z "$hanging" ] || kill -KILL "$hanging" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' PIPE HUP INT TERM
number=0 failed=0

# result NAME STATUS: reports a test. The status 0 means success.
result() {
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        sed 's/^/# /' "$work/said" "$work/out/table.txt" 2>/dev/null || true
        failed=1
    fi
}

if ! command -v python3 >/dev/null; then
    echo "1..1"
    echo "ok 1 # SKIP python3 is not installed"
    exit
fi
python3 tests/gpu/test_figures.py || failed=1
python3 tests/gpu/test_predict.py || failed=1
echo 1..17

# put PATH: writes a script to PATH. Standard input is the content.
put() {
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/bash' && cat; } >"$1"
    chmod +x "$1"
}

# ---- The archive ----

# Prints libraries that ldd finds outside of the archive, except libraries of glibc and gcc.
from_elsewhere() {
    ldd "$@" | awk -v folder="$(realpath "$work/real")/" '/not found/ || ($2 == "=>" && index($3, folder) != 1) { print $1, $3 }' |
        grep -vE '^(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s)\.so\.[0-9]+) '
}

# Tests that the programs of an archive need no libraries outside of the archive. Besides the tests with their own
# kernels, the archive contains only one program of tests/cuda, because one rule of tests.mk links all such programs.
# Such a program contains the weights of the built-in models, and compressing them takes a while.
archive_suffices() {
    local real=$work/real/gpu
    tests/gpu/bundle.sh "$work/real.tar.gz" "$built"/tests/cuda/{libengine_cuda.so,libcuda.so.1,test_tensor,test_split} \
        -- "$built"/tests/{cuda/test_dtypes,http/test_reference,bench/worker} "$built/linformerd" &&
        mkdir "$work/real" && tar -C "$work/real" -xzf "$work/real.tar.gz" &&
        cp "$real"/shim/* "$real/" && env -i SHIM_SEED=0 "$real/test_tensor" &&
        env -i SHIM_SEED=0 "$real/test_split" && env -i SHIM_SEED=0 "$real/test_dtypes" &&
        ! from_elsewhere "$real/test_dtypes" "$real/worker" &&
        ! LD_LIBRARY_PATH=$real from_elsewhere "$real/test_reference" "$real/linformerd"
}

if [ -e "$built/tests/bench/worker" ] && [ -e "$built/tests/cuda/test_tensor" ] &&
    [ -e "$built/tests/cuda/test_split" ]; then
    archive_suffices >"$work/said" 2>&1
    result "programs run with the libraries of the archive" $?
    rm -rf "$work"/real*
else
    number=1
    echo "ok 1 # SKIP the programs are not built"
fi

# ---- The machine ----

export PATH=$work/bin:$PATH BUILD=$work/build OUT=$work/out WORK=$work CUBLAS=$work/cublas
unset DRY CORPUS SECONDS_IN_ALL LD_LIBRARY_PATH
mkdir -p "$OUT" "$work/cublas/include" "$work/cublas/lib"
touch "$work/cublas/include/cublasLt.h" "$work/cublas/lib/libcublasLt.so.13"
put "$work/bin/pkg-config" <<<'exit 1'
put "$work/bin/nvidia-smi" <<'X'
case $1 in *compute_cap*) echo 9.0 ;; *) echo "Made Up, 1, 2 MiB" ;; esac
X
put "$work/bin/nvcc" <<'X'
echo "$*" >>"$WORK/nvcc"
[ "$1" != --version ] || echo "release $(cat "$WORK/release"), V1"
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || cp "$WORK/passes" "$2"
    shift
done
X
echo 12.4 >"$work/release"
put "$work/bin/python3" <<X
case "\$*" in
*'import numpy, torch'*) exit 1 ;;
tests/gpu/bench.py*) exec "\$WORK/bench" "\$@" ;;
*) exec "$(python3 -c 'import sys; print(sys.executable)')" "\$@" ;;
esac
X
# Accepts the options that the manual lists for each tool. Several names in one option are an error, for the reason that
# sanitize() in check.sh states.
put "$work/bin/compute-sanitizer" <<'X'
while [ "${1#--}" != "$1" ]; do
    case "$tool,$1 $2" in
    ",--tool "*check) tool=$2 ;;
    *",--kernel-name-exclude kns="*,*) exit 1 ;;
    *",--kernel-name-exclude kns="* | "memcheck,--report-api-errors no" | *",--error-exitcode 99") ;;
    *) echo "unknown option $1" && exit 1 ;;
    esac
    shift 2
done
echo "$tool ${1##*/} in order $SHIM_SEED" >>"$WORK/sanitized"
. "$WORK/sanitizer"
X
cat >"$work/sanitizer" <<'X'
"$@" || exit
echo "========= $([ $tool = racecheck ] && echo "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" || echo "ERROR SUMMARY: 0 errors")"
X
put "$work/passes" <<'X'
echo 1..1
echo "ok 1 - it works"
echo "case call 0 out: relative L2 error 1.5e-07"
X
for name in cases_cuda cases_tf32 cases_bf16 cases_f16 operations_bf16 operations_cuda reference last; do
    mkdir -p "$work/build/gpu"
    cp "$work/passes" "$work/build/gpu/test_$name"
done
put "$work/build/gpu/test_last" <<'X'
exec "$WORK/last_program"
X
put "$work/build/gpu/test_reference" <<'X'
echo "$LD_LIBRARY_PATH" >"$WORK/path"
exec "$WORK/passes"
X
touch "$work/build/gpu/libcmocka.so.0"
tar -C "$work/build" -czf "$work/build/gpu.tar.gz" gpu

# check ARGUMENT…: runs check.sh, and sets $status to its exit status.
check() {
    status=0
    tests/gpu/check.sh "$@" >"$work/said" 2>&1 </dev/null || status=$?
}
last_line() { tail -n 1 "$work/out/table.txt"; }
has() { grep -qE "$1" "$work/out/table.txt"; }

# ---- Tests ----

cp "$work/passes" "$work/last_program"
LD_LIBRARY_PATH=/driver check check
has '^last +1 passed, 0 failed, worst error 1.5e-07 +- +ok' && has '^split +1 passed' && has '^errors: bf16 +1 +1.5e-07' && has 'Made Up' &&
    [[ "$(last_line)" = "nothing failed, 21 goals not measured, 1 not run" ]] && [ $status = 0 ]
result "if all programs pass, nothing failed, and the goals are not measured" $?
has '^operations_bf16-racecheck +1 passed, 0 failed, .*, RACECHECK SUMMARY: 0 hazards .*ok' &&
    has '^cases_bf16-memcheck .*, ERROR SUMMARY: 0 errors .*ok' && [ "$(wc -l <"$work/sanitized")" = 7 ] &&
    [ "$(grep 'order 0' "$work/sanitized" | sort -u | wc -l)" = 7 ]
result "each run of compute-sanitizer has a row" $?
[ "$(cat "$work/path")" = "$work/build/gpu:/driver" ]
result "LD_LIBRARY_PATH keeps the folder of the driver" $?
cmp -s "$work/out/table.txt" "$work/build/log/gpu/table.txt" && tar -tzf "$work/out/logs.tar.gz" | grep last.log >"$work/said"
result "the table and logs are in OUT" $?

make -n -B -s cuda BUILD="$work/made" NVCC=nvcc CUDA_ARCHS=90 CUBLAS="$CUBLAS" 2>/dev/null | grep -o 'nvcc -std.*' |
    sed -n '/ -c -o /s/ -MD.*//p' | sort -u >"$work/flags_made"
sed -n '/ -c -odir /s/ -c -odir.*//p' "$work/nvcc" | sort -u | sed 's/^/nvcc /' >"$work/flags_here"
cmp "$work/flags_made" "$work/flags_here" >"$work/said" 2>&1 && [ -s "$work/flags_here" ]
result "compile.sh calls nvcc with the Makefile's flags" $?
: >"$work/nvcc"
check check
! grep -v '^--version$' "$work/nvcc" >"$work/said" && [ $status = 0 ]
result "nothing is compiled again if the sources are the same" $?

echo 12.3 >"$work/release"
check check
grep -q "nvcc is of CUDA 12.3; expected 12.4 or later" "$work/said" && [ $status = 1 ]
result "a toolkit that is too old is refused with its version" $?
echo 12.4 >"$work/release"
CUBLAS=$work check check
grep -q "include/cublasLt.h is not in $work; CUBLAS=FOLDER names" "$work/said" && [ $status = 1 ]
result "if cublasLt.h is missing, the message names CUBLAS" $?

put "$work/last_program" <<<'echo "ok 1 - a"; echo "not ok 2 - b"; exit 1'
check check
has '^last +1 passed, 1 failed.*FAILED, exit status 1' && [[ "$(last_line)" = "1 FAILED, "* ]] && [ $status = 1 ]
result "a failed test is in the table, and changes the exit status" $?

put "$work/last_program" <<<'echo 1..2; echo "ok 1 - a"'
check check
has '^last +1 passed, 0 failed.*FAILED, exit status 0' && [[ "$(last_line)" = "1 FAILED, "* ]] && [ $status = 1 ]
result "a program that runs only some of its tests has failed" $?

cp "$work/passes" "$work/last_program"
cat >"$work/sanitizer" <<'X'
"$@" && [ $tool = racecheck ] && echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)" && exit 99
[ $tool = memcheck ] || { echo "========= Error: Device not supported" && exit 1; }
X
check check
has '^operations_bf16-racecheck .*RACECHECK SUMMARY: 1 hazard .*FAILED, exit status 99' &&
    has '^split-racecheck .*FAILED, exit status 99' &&
    has '^operations_bf16-synccheck .*not run: compute-sanitizer does not support' && [[ "$(last_line)" = "2 FAILED, "* ]]
result "a finding of a sanitizer is a failure, and an unsupported device is not" $?

# A program that reports its start, and then never ends.
mkfifo "$work/began"
put "$work/last_program" <<'X'
echo $$ >"$WORK/program"
echo >"$WORK/began"
exec sleep 1000
X
for signal in KILL TERM; do
    rm -f "$work/out"/*
    tests/gpu/check.sh check >"$work/said" 2>&1 </dev/null &
    hanging=$!
    read -r <"$work/began"
    kill -$signal $hanging
    wait $hanging 2>/dev/null || true
    has '^cases_bf16 .* ok' && [[ "$(last_line)" = "NOT FINISHED: nothing failed, "* ]] &&
        tar -tzf "$work/out/logs.tar.gz" | grep cases_bf16.log >"$work/said"
    result "after SIG$signal, OUT has the results until then" $?
    hanging=$(cat "$work/program")
    if [ $signal = TERM ]; then
        ! kill -0 "$hanging" 2>/dev/null
        result "after SIGTERM, the running program has ended" $?
    fi
    kill "$hanging" 2>/dev/null
    hanging=''
done

put "$work/bench" <<'X'
while [ "$1" != --log ]; do shift; done
cp "$WORK/bench.json" "$2/"
exit 4
X
for ms in 1.0 1.1; do
    PYTHONPATH=tests/gpu PYTHONDONTWRITEBYTECODE=1 "$work/bin/python3" -c "
import json, test_figures
print(json.dumps(test_figures.all_measured($ms)))" >"$work/bench.json"
    check bench
    if [ $ms = 1.0 ]; then
        has 'batch 8: eager f32 to ours +1.75 +>= 1.7 +met' &&
            [[ "$(last_line)" = "nothing failed, 1 not run" ]] && [ $status = 0 ]
        result "the table has a row for each goal that is met" $?
    else
        has 'mixed to full length +0.782 +>= 0.85 +NOT MET' &&
            [[ "$(last_line)" = "20 goals NOT MET, 1 not run" ]] && [ $status = 1 ]
        result "missed goals are in the last line, and change the exit status" $?
    fi
done
exit $failed
