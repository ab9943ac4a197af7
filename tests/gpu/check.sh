#!/bin/bash
# check.sh [check] [bench] [ARGUMENT OF bench.py…]: tests (check) and measures (bench) the CUDA engine on a device.
# Without these two words, the script does both.
#
# The machine needs an NVIDIA GPU, its driver, gcc, and the CUDA toolkit (12.4 or later) with cuBLAS. It needs no
# network, no make, and none of the libraries that the project depends on. The archive build/gpu.tar.gz contains the
# compiled programs and these libraries. `make programs-gpu` makes the archive on any machine with the Debian packages
# of these libraries. If this machine has make and these packages, the script makes the archive itself. The script
# always compiles the engine.
#   check  tests of operations and of the cases of tests/reference on the device in every dtype, other tests of
#          tests/cuda, the cases through the daemon, the accuracy of the model tests/models/bytes, and tests with
#          compute-sanitizer
#   bench  bench.py, which compares the engine with the PyTorch of this machine's python3
# The script writes one table, with a row for each program and each goal of speed. The last line gives the numbers of
# failures, of missed goals, of goals that were not measured, and of programs that were not run. The exit status is 0 if
# something ran, nothing failed and no goal was missed. Logs, the table and the files of bench.py are in build/log/gpu.
# If $OUT is set, they are copied there after each row, so that a killed script leaves its results. The script has never
# run on a GPU.
#
# CUBLAS=FOLDER     the folder that contains include/cublasLt.h. Needed if neither the toolkit nor a Python package
#                   contains this header
# CORPUS=FOLDER     the output of weights/builtin/corpus.py. Without it, the accuracy of tests/models/bytes is not
#                   measured
# SECONDS_IN_ALL=N  seconds for the whole run, including the build. The default is 540. The tests get 2/5 of the time,
#                   the sanitizers 1/5, and the benchmarks the rest. Without benchmarks, the tests get 3/5, and the
#                   sanitizers the rest
# DRY=1             a dry run without a device, which tests the script itself. nvcc compiles nothing. The engine,
#                   test_tensor and test_split are compiled for the shim (CUDA on the CPU). nvidia-smi and
#                   compute-sanitizer do not run
set -euo pipefail
SECONDS=0 # the shell counts the seconds from here
cd "$(dirname "$0")/../.."
build=${BUILD:-build} dry=${DRY:-} limit=${SECONDS_IN_ALL:-540}
log=$build/log/gpu
programs=$(realpath -m "$build/gpu")
rm -rf "$log"
mkdir -p "$log"
device="no device known" child=''
heading="$(date -u +'%Y-%m-%d %H:%M UTC'), $(git rev-parse --short HEAD 2>/dev/null || echo 'no commit known')"
. tests/gpu/table.sh

say() { echo "== $*, $SECONDS s"; }
die() {
    echo "check.sh: $*" >&2
    add "$*" - - FAILED
    failed=$((failed + 1))
    exit 1
}
stop() {
    keep
    [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null || true
    exit 1
}
trap keep EXIT
trap stop TERM INT HUP

wanted=()
while [ "${1:-}" = check ] || [ "${1:-}" = bench ]; do
    wanted+=("$1")
    shift
done
[ ${#wanted[@]} -gt 0 ] || wanted=(check bench)
wants() { [[ " ${wanted[*]} " = *" $1 "* ]]; }

deadline=$limit # after this time, no program begins or continues
longest=150     # maximum number of seconds of one program. A program that hangs leaves time for the others
left() { echo $((deadline - SECONDS)); }
at_least_one() { echo $(($1 > 0 ? $1 : 1)); } # the command timeout has no limit if its argument is 0

# run_for SECONDS LOG COMMAND…: runs a command for a limited time. The command runs in the background, because a trap
# would wait for a command in the foreground.
run_for() {
    local seconds=$1 file=$2 status=0
    shift 2
    timeout -k 5 "$(at_least_one "$seconds")" "$@" >"$file" 2>&1 </dev/null &
    child=$!
    wait "$child" || status=$?
    child=''
    return $status
}

# ---- The device ----

find_device() {
    local why
    device="no device: dry run with the shim"
    [ -z "$dry" ] || return 0
    export PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin # for nvcc, compute-sanitizer and nvidia-smi
    why=$(engine/cuda/toolkit.sh check) || die "$why"
    device=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | sed -n 1p) ||
        die "no GPU, or no driver for it"
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sed -n '1s/\.//p')
    [ "$capability" -ge 80 ] || die "compute capability $capability is below 80: such a device lacks bfloat16"
}

# ---- Programs: they are built if their libraries are installed, otherwise unpacked. The engine is always built. ----

can_build() {
    command -v make >/dev/null && pkg-config --exists libmicrohttpd jansson zlib libcurl 2>/dev/null &&
        [ -e /usr/include/cmocka.h ]
}

unpack_programs() {
    if can_build; then
        say "make programs-gpu"
        run_for "$(left)" "$log/make.log" make --no-print-directory programs-gpu BUILD="$build" ||
            { tail -n 40 "$log/make.log" && die "the programs do not compile"; }
    elif [ ! -e "$build/gpu.tar.gz" ]; then
        die "$build/gpu.tar.gz is missing, and packages to build it. 'make programs-gpu' builds it on another machine"
    fi
    rm -rf "$programs"
    tar -C "$build" -xzf "$build/gpu.tar.gz"
}

# Also links cuBLAS and NVRTC into the folder of the programs, where the programs and cuBLASLt look for libraries. The
# engine loads cuBLAS, and cuBLASLt loads NVRTC.
compile_engine() {
    local cublas library
    cublas=$(engine/cuda/toolkit.sh cublas)
    say "nvcc for compute capability $capability"
    run_for "$(left)" "$log/nvcc.log" tests/gpu/compile.sh "$programs" "$capability" "$cublas" ||
        { tail -n 40 "$log/nvcc.log" && die "the engine or a test does not compile"; }
    for library in "$(dirname "$(engine/cuda/toolkit.sh library)")"/lib{cublas,nvrtc}*.so.*; do
        [ ! -e "$library" ] || ln -s "$library" "$programs/"
    done
}

# ---- Rows of the table ----

# These functions read a log: its TAP lines, the errors of the cases of tests/reference, and the summary of a sanitizer.
planned_in() { awk '/^1\.\.[0-9]+/ { planned += substr($1, 4) } END { print planned + 0 }' "$1"; }
passed_in() { grep -cE '^ok [0-9]+ - [^#]*$' "$1" || true; }
failed_in() { grep '^not ok ' "$1" | grep -vc '# *SKIP' || true; }
skipped_in() { grep -cE '^(not )?ok .*# *SKIP' "$1" || true; } # cmocka writes "not ok" for a skipped test
note_in() { grep -E '^={9} (ERROR|RACECHECK) SUMMARY' "$1" | tail -n 1 | sed 's/^=* /, /' || true; }
worst_in() {
    { grep -oE "relative L2 error [0-9.e+-]+" "$1" || true; } |
        awk '$4 > most + 0 { most = $4 } END { if (most) print ", worst error " most }'
}

# no_verdict LOG STATUS SECONDS COMMAND: prints why a command has no result, or nothing if the command has a result. If
# the time limit stopped a program, this is no failure in two cases. Either a sanitizer made the program tens of times
# slower, or the program began so late that its limit was shorter than usual. A program that reported a failure or an
# error before has failed.
no_verdict() {
    if [ "$4" = compute-sanitizer ] && grep -qi 'device not supported' "$1"; then # happens in some virtual machines
        echo "compute-sanitizer does not support this device here"
    elif { [ "$2" = 124 ] || [ "$2" = 137 ]; } && [ "$SECONDS" -ge $((from + $3)) ] && [ "$(failed_in "$1")" = 0 ] &&
        { [ "$4" = compute-sanitizer ] || [ "$3" -lt "$longest" ]; } &&
        ! grep -qE '^={9} (Invalid|Error:|Barrier error)' "$1"; then
        echo "stopped after $3 s, $(passed_in "$1") passed by then"
    fi
}

# row NAME COMMAND…: runs a command, and adds its result to the table. A skipped test counts as a failure.
row() {
    local name=$1 file=$log/$1.log status=0 seconds from=$SECONDS why
    shift
    seconds=$(left)
    if [ "$seconds" -lt 5 ]; then
        add_not_run "$name" "no time was left"
        return
    fi
    [ "$seconds" -lt "$longest" ] || seconds=$longest
    say "$name"
    run_for "$seconds" "$file" "$@" || status=$?
    why=$(no_verdict "$file" "$status" "$seconds" "$1")
    if [ -n "$why" ]; then
        add_not_run "$name" "$why"
    else
        judge "$name" "$file" "$status" $((SECONDS - from))
    fi
    keep
}

# judge NAME LOG STATUS SECONDS: adds a row for a program that ran.
judge() {
    local verdict=ok skipped
    skipped=$(skipped_in "$2")
    ran=$((ran + 1))
    if [ "$3" != 0 ] || [ "$(passed_in "$2")" = 0 ] || [ "$(failed_in "$2")" != 0 ] || [ "$skipped" != 0 ] ||
        [ "$(passed_in "$2")" -lt "$(planned_in "$2")" ]; then
        failed=$((failed + 1)) verdict="FAILED, exit status $3"
        grep -iE '^not ok |error' "$2" | head -n 6 || true
    fi
    [ "$skipped" = 0 ] || verdict+=", $skipped skipped"
    add "$1" "$(passed_in "$2") passed, $(failed_in "$2") failed$(worst_in "$2")$(note_in "$2")" - "$verdict, $4 s"
}

# ---- Tests ----

# Runs all programs of tests/cuda that do not need the shim. The test of tensor cores comes first. If inputs or results
# of tensor cores have another layout than assumed, most other tests fail, too.
run_tests() {
    local program name
    if wants bench; then deadline=$((limit * 2 / 5)); else deadline=$((limit * 3 / 5)); fi
    row tensor "$programs/test_tensor"
    for program in "$programs"/test_*; do
        name=${program##*/test_}
        [ "$name" = reference ] || [ "$name" = tensor ] || row "$name" "$program"
    done
    row daemon env LD_LIBRARY_PATH="$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" LINFORMERD="$programs/linformerd" \
        LINFORMERD_DEVICE=cuda LINFORMERD_DTYPE=f32 "$programs/test_reference"
    run_errors
    run_accuracy
}

# figures NAME COMMAND…: runs a command, and prints its output. Each line that begins with a dtype becomes a row.
figures() {
    local name=$1 file=$log/$1.txt status=0 line
    shift
    if [ "$(left)" -lt 5 ]; then
        add_not_run "$name" "no time was left"
        return
    fi
    say "$name"
    run_for "$(left)" "$file" "$@" || status=$?
    cat "$file"
    while read -r line; do
        add "$name: ${line%% *}" "${line#* }" - measured
    done < <(grep -E '^(f32|tf32|bf16|f16) ' "$file")
    if [ $status = 124 ]; then
        add_not_run "$name" "it had no time to end"
    else
        ran=$((ran + 1))
        [ $status = 0 ] || { add "$name" - - "FAILED, exit status $status" && failed=$((failed + 1)); }
    fi
    keep
}

run_errors() { figures errors tests/cuda/errors.sh "$programs"; }

run_accuracy() {
    if [ ! -e "${CORPUS:-}/heldout.bin" ]; then
        add_not_run accuracy "no CORPUS"
    elif ! python3 -c 'import numpy, torch' 2>/dev/null; then
        add_not_run accuracy "no numpy or no PyTorch"
    else
        figures accuracy python3 tests/gpu/accuracy.py "$CORPUS" --folder "$programs"
    fi
}

# ---- Sanitizers ----

# The kernels are templates over the element type. With types of the same size, they have the same barriers and races.
# The tool initcheck is not used, because rows after a batch's end are computed from uninitialised memory. The results
# of these rows are never read.
run_sanitizers() {
    if [ -n "$dry" ]; then
        add_not_run compute-sanitizer "dry run"
        return
    elif ! command -v compute-sanitizer >/dev/null; then
        add_not_run compute-sanitizer "it is not installed"
        return
    fi
    deadline=$limit longest=$((limit / 10))
    ! wants bench || deadline=$((limit * 3 / 5))
    sanitize memcheck tensor
    sanitize memcheck operations_bf16
    sanitize racecheck operations_bf16
    sanitize synccheck operations_bf16
    sanitize racecheck split
    sanitize memcheck operations_cuda
    sanitize memcheck cases_bf16
}

# sanitize TOOL PROGRAM: runs a program with a tool of compute-sanitizer. cuBLASLt's kernels are excluded, because they
# are not part of this project and take long under a sanitizer. Each pattern of names is a separate option, because the
# manual contradicts itself about several patterns in one option. By one passage, a name must match one pattern, and by
# another passage all patterns. Returned errors are not reported, because some calls return errors as answers. Examples
# are an event that is not ready, and an algorithm that is not supported.
sanitize() {
    local options=() name
    for name in cublas cutlass gemm gemv nvjet splitK; do options+=(--kernel-name-exclude "kns=$name"); done
    [ "$1" != memcheck ] || options+=(--report-api-errors no)
    row "$2-$1" compute-sanitizer --tool "$1" "${options[@]}" --error-exitcode 99 "$programs/test_$2"
}

# ---- Benchmarks ----

# While bench.py runs, the table is written every 5 s. The table therefore contains each figure soon after its
# measurement.
run_bench() {
    local status=0 ticker
    if [ "$(left)" -lt 5 ]; then
        add_not_run bench.py "no time was left"
        return
    fi
    say "bench.py $*"
    while sleep 5 && kill -0 $$ 2>/dev/null; do keep; done & # this loop ends with the script
    ticker=$!
    run_for "$(left)" "$log/bench.log" python3 tests/gpu/bench.py ${dry:+--dry} --seconds $(($(left) - 15)) \
        --programs "$programs" --log "$log" "$@" || status=$?
    kill $ticker
    wait $ticker 2>/dev/null || true
    cat "$log/bench.log"
    judge_bench $status "$*"
}

# judge_bench STATUS ARGUMENTS: adds a row for the exit status of bench.py. The goals have separate rows.
judge_bench() {
    local name="bench.py $2"
    case $1 in
    0 | 4) ran=$((ran + 1)) && add "$name" "see bench.md" - ok ;;
    3) ran=$((ran + 1)) && add_not_run "$name: parts of it" "see bench.md" ;;
    124 | 137 | 143) add_not_run "$name: parts of it" "stopped for lack of time" ;;
    *) ran=$((ran + 1)) failed=$((failed + 1)) && add "$name" "see bench.md" - "FAILED, exit status $1" ;;
    esac
}

# Compares the modules of plain.py with the libraries' outputs.
run_plain() {
    if python3 -c 'import numpy, torch' 2>/dev/null; then
        row plain python3 tests/gpu/test_plain.py "$([ -n "$dry" ] && echo cpu || echo cuda)"
    else
        add_not_run plain "no numpy or no PyTorch"
    fi
}

find_device
heading+=", $device"
keep
unpack_programs
if [ -n "$dry" ]; then cp "$programs"/shim/* "$programs/"; else compile_engine; fi
if wants check; then
    export SHIM_SEED=0 CMOCKA_MESSAGE_OUTPUT=TAP OMP_NUM_THREADS=1 # the seed has no effect on a device
    run_tests
    run_sanitizers
    export -n SHIM_SEED CMOCKA_MESSAGE_OUTPUT OMP_NUM_THREADS
fi
if wants bench; then
    deadline=$limit
    run_plain
    run_bench "$@"
fi
complete=1
keep
cat "$table"
trap - EXIT
good
