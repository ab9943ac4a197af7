#!/bin/bash
# run.sh PROGRAM…: runs test programs and scripts, each in a process of its own, and adds up what they report in TAP
# (cmocka speaks it). The last line is "N passed, M failed"; it exits with 0 when nothing failed and something passed.
# A program that crashes, exits with non-zero, reports other than it planned, or runs no test counts as a failure.
# A name that ends in @cuda is that program with the daemon on the CUDA engine as the shim of tests/cuda runs it. A name
# that ends in @ptx is that program on the engine as nvcc compiles it, whose PTX an emulator executes (tests/cuda/ptx). A
# name that ends in @asan or @tsan is that program with the daemon of the build for this sanitizer. It has none itself.
# JOBS: programs at a time. The default is one more than there are processors, because some tests wait. TEST_TIMEOUT:
# seconds after which a program is taken to hang. No test depends on it.
set -euo pipefail
logs=${LOGS:-${BUILD:-build}/log}

# One program: its output goes to a log, its numbers to a file beside it, one line to the terminal.
run_one() {
    local program=$1 build=${BUILD:-build} log beside arguments=() wrapper=() rc=0
    log=$logs/${program//\//_}
    case $program in
    *.sh | *.py) ;;
    *) build=${program%/tests/*} ;;
    esac
    build=$(realpath -m "$build")
    case $program in
    *@cuda) # of tests/http: the daemon on the CUDA engine that the shim runs
        program=${program%@cuda}
        export LINFORMERD=$build/tests/cuda/linformerd LINFORMERD_DEVICE=cuda LINFORMERD_DTYPE=f32
        export LINFORMERD_CUDA_F32=plain # the shim's tensor cores take several times as long. Programs of cuda/ use them
        export SHIM_SEED=${SHIM_SEED:-1} # threads and streams go on at random
        ;;
    *@ptx)
        beside=$build/tests/cuda/ptx
        program=${program%@ptx}
        case $program in */cuda/*) program=$beside/${program##*/} ;; esac
        export LINFORMERD=$beside/linformerd LINFORMERD_DEVICE=cuda LINFORMERD_DTYPE=f32
        export SHIM_SEED=${SHIM_SEED:-1} # warps and streams go on at random
        export PTX_ENTRIES=$log.entries  # the kernels that ran
        if [ -s "$beside/missing" ]; then
            program=echo arguments=("ok 1 # SKIP $(head -n 1 "$beside/missing")")
        fi
        ;;
    *@asan | *@tsan)
        build=$build/${program##*@}
        program=${program%@*}
        export LINFORMERD=$build/linformerd
        ;;
    *) export LINFORMERD=$build/linformerd ;;
    esac
    case $program in
    */fuzz/replay_*) arguments=("tests/fuzz/corpus/${program##*/replay_}") ;;
    esac
    if grep -qs -e '-fsanitize=address' "$build/flags"; then
        export SANITIZER=address # for programs that have none, with a daemon that has it
    fi
    if grep -qs -e '-fsanitize=' "$build/flags" && setarch -R true 2>/dev/null; then
        wrapper=(setarch -R) # the sanitizers of gcc 12 and 13 abort now and then where addresses are very random
    fi
    if grep -qs -e '-fsanitize=thread' "$build/flags"; then
        export SANITIZER=thread
        export OMP_NUM_THREADS=1 LINFORMERD_THREADS=1 # OpenMP's runtime is not instrumented
    fi
    TIMEFORMAT='%R %U %S'
    { time "${wrapper[@]}" timeout -k 10 "${TEST_TIMEOUT:-900}" "$program" "${arguments[@]}" >"$log.log" 2>&1 </dev/null; } \
        2>"$log.time" || rc=$?
    awk -v rc="$rc" -v program="$1" -v count="$log.count" '
        /^1\.\.[0-9]+/                  { planned += substr($1, 4) }
        /^(not )?ok( |$).*# ?SKIP/      { skipped++; sub(/^.*# ?SKIP ?/, ""); why = why (why ? "; " : "") $0; next }
        /^ok( |$)/                      { passed++ }
        /^not ok( |$)/                  { failed++ }
        END {
            if (rc != 0)                { note = "  exit status " rc; if (!failed) failed++ }
            if (passed + failed + skipped < planned) { note = note "  only part of " planned " tests ran"; if (!failed) failed++ }
            if (passed + failed + skipped == 0)      { note = note "  no test ran"; if (!failed) failed++ }
            if (skipped)                { note = note "  (" skipped " skipped: " why ")" }
            printf "%d %d %d\n", passed, failed, skipped >count
            printf "%-6s %4d  %s%s\n", failed ? "FAILED" : "ok", passed, program, note
        }' "$log.log"
}

if [ "${1:-}" = --one ]; then
    run_one "$2"
    exit 0
fi

mkdir -p "$logs"
logs=$(realpath "$logs")
for program in "$@"; do rm -f "$logs/${program//\//_}".*; done
export LOGS=$logs
export CMOCKA_MESSAGE_OUTPUT=TAP
export OMP_WAIT_POLICY=passive # several programs share the cores: their threads sleep while they wait
# The leak checker crashes on the thread-local storage of libraries that were loaded by hand (oneDNN) when it follows it.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:allocator_may_return_null=1:intercept_tls_get_addr=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-atexit_sleep_ms=0} # else each daemon sleeps a second at its end; its threads have ended

printf '%s\0' "$@" | xargs -0 -r -n 1 -P "${JOBS:-$(($(nproc) + 1))}" "$0" --one || true

passed=0 failed=0 skipped=0
for program in "$@"; do
    log=$logs/${program//\//_}
    p=0 f=1 s=0 # no numbers: not even this script got through
    [ ! -s "$log.count" ] || read -r p f s <"$log.count"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    [ "$f" = 0 ] || { echo && echo "---- $program" && tail -n 60 "$log.log"; } || true
done

# Processor time does not depend on what else the machine does. That of daemons counts: tests wait for their end.
if [ $# = 1 ]; then
    cat "$logs/${1//\//_}.log"
else
    echo
    echo "The ten slowest, in seconds of processor time (and from start to end):"
    for program in "$@"; do
        log=$logs/${program//\//_}
        [ ! -s "$log.time" ] ||
            awk -v program="$program" 'END { printf "%7.1f  (%.1f)  %s\n", $2 + $3, $1, program }' "$log.time"
    done | sort -rn >"$logs/times.txt"
    head -n 10 "$logs/times.txt"
    awk '{ all += $1 } END { printf "%7.1f  all programs\n", all }' "$logs/times.txt"
fi
echo
echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
