#!/bin/bash
# check.sh [check] [bench] [ARGUMENT OF bench.py…]: the CUDA engine on a device; both without a word.
#
# For a machine with an NVIDIA GPU, its driver, gcc and the CUDA toolkit 13 with cuBLAS; it needs no network and none of
# the project's libraries: programs and libraries come along in build/gpu.tar.gz, which `make programs-gpu` makes on any
# machine with Debian's packages (where these packages are, it is made here). The engine is compiled here, for the device.
#   check  tests of operations, passes and reference cases on the device in every dtype, the reference cases through the
#          daemon, then compute-sanitizer
#   bench  bench.py, beside the PyTorch of this machine's python3
# It ends with one table, whose last line says whether something failed, and with 0 when nothing did. What time was short
# for is "not run", which is no failure, unless nothing ran. Logs, the table and what bench.py writes lie in
# build/log/gpu, and in $OUT where that is set. It has never run on a chip.
#
# CUBLAS=FOLDER     above include/cublasLt.h, where that is neither the toolkit's nor of a Python package
# SECONDS_IN_ALL=N  after the build, after which no test and no measurement begins (480). Of these the tests have 2/5, the
#                   sanitizers 1/5, and the benchmarks what is left; without benchmarks the tests have 3/5
# DRY=1             a dry run without a device: with the shim's engine and test_tensor in place of what nvcc compiles, and
#                   without nvidia-smi and compute-sanitizer, so that the script and all it starts run once before they
#                   matter
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build} dry=${DRY:-} limit=${SECONDS_IN_ALL:-480}
log=$build/log/gpu
programs=$(realpath -m "$build/gpu")
table=$log/table.txt
rm -rf "$log"
mkdir -p "$log"

say() { echo "== $*, $SECONDS s"; }
die() {
    echo "check.sh: $*" >&2
    exit 1
}

wanted=()
while [ "${1:-}" = check ] || [ "${1:-}" = bench ]; do
    wanted+=("$1")
    shift
done
[ ${#wanted[@]} -gt 0 ] || wanted=(check bench)
wants() { [[ " ${wanted[*]} " = *" $1 "* ]]; }

# ---- What is here ----

find_cublas() {
    local folder
    for folder in ${CUBLAS:-} "$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")" /usr/local/cuda \
        $(python3 -c 'import sys; [print(f"{path}/nvidia/cu13") for path in sys.path if path]' 2>/dev/null); do
        if [ -e "$folder/include/cublasLt.h" ] && compgen -G "$folder/lib*/libcublasLt.so.*" >/dev/null; then
            realpath "$folder"
            return
        fi
    done
    die "cublasLt.h and libcublasLt.so are not in the toolkit; CUBLAS=FOLDER names the folder above include/"
}

device="no device: dry run with the shim"
capability=90
if [ -z "$dry" ]; then
    command -v nvcc >/dev/null || export PATH=$PATH:/usr/local/cuda/bin
    command -v nvcc >/dev/null || die "no nvcc: the CUDA toolkit is missing"
    device=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | sed -n 1p) ||
        die "no GPU, or no driver for it"
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sed -n '1s/\.//p')
    [ "$capability" -ge 80 ] || die "compute capability $capability is below 80: such a device lacks bfloat16"
fi

# ---- Programs: built where their libraries are, else unpacked. The engine: always built here. ----

if pkg-config --exists libmicrohttpd jansson zlib libcurl 2>/dev/null && [ -e /usr/include/cmocka.h ]; then
    make --no-print-directory programs-gpu
elif [ ! -e "$build/gpu.tar.gz" ]; then
    die "neither the libraries to build the tests with nor $build/gpu.tar.gz, which 'make programs-gpu' makes elsewhere"
fi
rm -rf "$programs"
tar -C "$build" -xzf "$build/gpu.tar.gz"

if [ -z "$dry" ] || command -v nvcc >/dev/null; then
    cublas=$(find_cublas)
    say "nvcc for compute capability $capability"
    make --no-print-directory "$build/libengine_cuda.so" "$build/gpu/test_tensor" BUILD="$build" CUBLAS="$cublas" \
        CUDA_ARCHS="$capability" >"$log/nvcc.log" 2>&1 ||
        { tail -n 40 "$log/nvcc.log" && die "the engine or test_tensor does not compile"; }
    cp "$build/libengine_cuda.so" "$programs/"
    # The programs look for libraries in their own folder, too. A toolkit may have both lib and lib64.
    cublas_lib=$(dirname "$(compgen -G "$cublas/lib*/libcublasLt.so.*" | sed -n 1p)")
    ln -s "$cublas_lib"/libcublasLt.so.* "$programs/"
fi
[ -z "$dry" ] || cp "$programs"/shim/* "$programs/"

# ---- Rows of the table ----

SECONDS=0 # the shell's own clock
rows=() ran=0 failed=0 not_run=0
longest=150 # seconds of one program: what hangs leaves the others their turn
if wants bench; then tests_until=$((limit * 2 / 5)); else tests_until=$((limit * 3 / 5)); fi
sanitizers_until=$((tests_until + limit / 5))
deadline=$tests_until # no program begins after it, or goes on

add_not_run() {
    rows+=("$1" - - - "not run" "$2")
    not_run=$((not_run + 1))
}

# row NAME COMMAND…: runs it, and adds what its TAP lines and reference cases say to the table.
row() {
    local name=$1 status=0 seconds=$((deadline - SECONDS)) from=$SECONDS file
    shift
    file=$log/$name.log
    if [ "$seconds" -lt 5 ]; then
        add_not_run "$name" "no time was left"
        return
    fi
    [ "$seconds" -lt "$longest" ] || seconds=$longest
    say "$name"
    SHIM_SEED=0 CMOCKA_MESSAGE_OUTPUT=TAP OMP_NUM_THREADS=1 timeout -k 10 "$seconds" "$@" >"$file" 2>&1 </dev/null || status=$?
    local note worst passed wrong
    note=$(grep -E '^={9} (ERROR|RACECHECK) SUMMARY' "$file" | tail -n 1 | sed 's/^=* //' || true)
    worst=$({ grep -oE "relative L2 error [0-9.e+-]+" "$file" || true; } | awk '$4 > most + 0 { most = $4 } END { print most ? most : "-" }')
    passed=$(grep -cE '^ok [0-9]+ - [^#]*$' "$file" || true)
    wrong=$(grep -c '^not ok ' "$file" || true)
    if grep -q '^ok .*# *SKIP' "$file"; then # on a device nothing has a reason to be skipped
        note="$(grep -c '^ok .*# *SKIP' "$file") skipped" status=77
    elif [ "$1" = compute-sanitizer ] && grep -qi 'device not supported' "$file"; then # in some virtual machines
        add_not_run "$name" "compute-sanitizer does not support this device here"
        return
    elif [ "$status" = 124 ] || { [ "$status" = 137 ] && [ $((SECONDS - from)) -ge "$seconds" ]; }; then
        note="stopped after $seconds s"
        # A sanitizer makes a program tens of times slower, so its end says nothing; nor does that of one that began late.
        if [ "$wrong" = 0 ] && { [ "$1" = compute-sanitizer ] || [ "$seconds" -lt "$longest" ]; } &&
            ! grep -qE '^={9} (Invalid|Error:|Barrier error)' "$file"; then
            add_not_run "$name" "$note, $passed passed by then"
            return
        fi
    fi
    ran=$((ran + 1))
    rows+=("$name" "$passed" "$wrong" "$worst" "$status, $((SECONDS - from)) s" "$note")
    if [ "$status" != 0 ] || [ "$passed" = 0 ] || [ "$wrong" != 0 ]; then
        failed=$((failed + 1))
        grep -E '^not ok |rror' "$file" | head -n 5 || true
    fi
}

# All tests of tests/cuda, and so every dtype that has its program there. What tensor cores take and give comes first:
# where that is other than written down, so is all that follows.
run_tests() {
    local program name status=0
    row tensor "$programs/test_tensor"
    for program in "$programs"/test_*; do
        name=${program##*/test_}
        [ "$name" = reference ] || [ "$name" = tensor ] || row "$name" "$program"
    done
    LD_LIBRARY_PATH=$programs LINFORMERD=$programs/linformerd LINFORMERD_DEVICE=cuda LINFORMERD_DTYPE=f32 \
        row daemon "$programs/test_reference"
    if [ $((deadline - SECONDS)) -lt 5 ]; then
        add_not_run errors.sh "no time was left"
        return
    fi
    timeout -k 10 $((deadline - SECONDS)) tests/cuda/errors.sh "$programs" >"$log/errors.txt" || status=$?
    cat "$log/errors.txt"
    if [ $status = 124 ]; then
        add_not_run errors.sh "it had no time to end"
    elif [ $status != 0 ]; then
        rows+=(errors.sh - - - "$status" "")
        failed=$((failed + 1))
    fi
}

# The kernels are templates over the element type: where the types are alike, so are barriers and races. No initcheck:
# rows behind a batch's end are computed from what is there, and read by nobody.
run_sanitizers() {
    if [ -n "$dry" ]; then
        rows+=(compute-sanitizer - - - "not run" "dry run")
        return
    elif ! command -v compute-sanitizer >/dev/null; then
        rows+=(compute-sanitizer - - - "not run" "it is not installed")
        failed=$((failed + 1))
        return
    fi
    deadline=$sanitizers_until longest=$((limit / 10))
    sanitize memcheck tensor
    sanitize memcheck operations_bf16
    sanitize racecheck operations_bf16
    sanitize synccheck operations_bf16
    sanitize memcheck operations_cuda
    sanitize memcheck cases_bf16
}

# That an event is not ready, or an algorithm not supported, is an answer: calls that return errors are not reported.
sanitize() {
    local options=()
    [ "$1" != memcheck ] || options=(--report-api-errors no)
    row "$2-$1" compute-sanitizer --tool "$1" "${options[@]}" --error-exitcode 99 "$programs/test_$2"
}

run_bench() {
    local status=0 seconds=$((limit - SECONDS))
    if [ "$seconds" -lt 5 ]; then
        add_not_run bench.py "no time was left"
        return
    fi
    say "bench.py $*"
    # What has begun may take longer: torch.compile, which measures its candidates.
    timeout -k 10 $((seconds + 90)) python3 tests/gpu/bench.py ${dry:+--dry} --seconds $seconds \
        --programs "$programs" --log "$log" "$@" || status=$?
    case $status in
    3 | 124) add_not_run "bench.py, parts of it" "no time was left; see bench.md" ;;
    *) rows+=(bench.py - - - "$status" "see bench.md") ;;
    esac
    ran=$((ran + 1))
    [ "$status" = 0 ] || [ "$status" = 3 ] || [ "$status" = 124 ] || failed=$((failed + 1))
}

if wants check; then
    run_tests
    run_sanitizers
fi
if wants bench; then run_bench "$@"; fi

verdict="nothing failed"
[ $ran != 0 ] || verdict="nothing ran: FAILED"
[ $failed = 0 ] || verdict="$failed FAILED"
[ $not_run = 0 ] || verdict+=", $not_run not run"
{
    echo
    echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(git rev-parse --short HEAD 2>/dev/null || echo 'no commit known'), $device"
    printf '%-30s %6s %6s %11s %12s  %s\n' program passed failed "worst error" "exit, time" ""
    [ ${#rows[@]} = 0 ] || printf '%-30s %6s %6s %11s %12s  %s\n' "${rows[@]}"
    echo "$SECONDS s; logs are in $log"
    echo "$verdict"
} | tee "$table"
if [ -n "${OUT:-}" ]; then
    cp "$table" "$log"/bench.md "$log"/bench.json "$log"/errors.txt "$OUT/" 2>/dev/null || true
    tar -C "$log" -czf "$OUT/logs.tar.gz" .
fi
[ $ran != 0 ] && [ $failed = 0 ]
