#!/bin/bash
# run.sh PROGRAM…: runs test programs and scripts in separate processes, and adds up their results. Each program prints
# its results in TAP, as cmocka does. The last line of the output is "N passed, M failed". The exit status is 0 if no
# test failed, and at least one passed. A program counts as a failure if it crashes, exits with another status than 0,
# prints fewer results than its plan announces, or runs no test.
#
# The name of a program may end in a suffix:
#   @cuda          the daemon runs the CUDA engine on the shim of tests/cuda, which replaces a GPU
#   @ptx           the engine is compiled by nvcc, and an emulator executes its PTX (tests/cuda/ptx)
#   @ptx120, …     as @ptx, with the engine for compute capability 12.0. For 8.0, the suffix is @ptx80
#   @shipped       as @ptx, with the file that `make cuda` builds. Its calls of the CUDA runtime reach the emulator
#   @asan, @tsan   the daemon has this sanitizer, and the program itself has none
#
# JOBS: number of programs that run at the same time. The default is twice the number of processors, because some tests
# wait.
# TEST_TIMEOUT: seconds after which a running program is ended, and counts as a failure. No other result depends on
# this time.
set -euo pipefail
logs=${LOGS:-${BUILD:-build}/log}

# Runs one program. Writes its output to a log, and its numbers of results to a file beside the log. Prints one line.
run_one() {
    local program=$1 build=${BUILD:-build} log beside arguments=() wrapper=() rc=0
    log=$logs/${program//\//_}
    case $program in
    *.sh | *.py) ;;
    *) build=${program%/tests/*} ;;
    esac
    build=$(realpath -m "$build")
    case $program in
    *@cuda) # a program of tests/http, whose daemon runs the CUDA engine on the shim
        program=${program%@cuda}
        export LINFORMERD=$build/tests/cuda/linformerd LINFORMERD_DEVICE=cuda LINFORMERD_DTYPE=f32
        export LINFORMERD_CUDA_F32=plain # the shim's tensor cores are slow. Programs of tests/cuda test them
        export SHIM_SEED=${SHIM_SEED:-1} # threads and streams run in random order
        ;;
    *@ptx | *@ptx[0-9]* | *@shipped)
        beside=$build/tests/cuda/ptx
        case $program in
        *@shipped)
            beside=$beside/shipped
            export LD_LIBRARY_PATH=$beside # contains the library that the engine loads instead of cuBLASLt
            ;;
        *@ptx[0-9]*) beside=$beside/${program##*@ptx} ;;
        esac
        program=${program%@*}
        case $program in */cuda/*) program=$beside/${program##*/} ;; esac
        export LINFORMERD=$beside/linformerd LINFORMERD_DEVICE=cuda LINFORMERD_DTYPE=f32
        export SHIM_SEED=${SHIM_SEED:-1} # warps and streams run in random order
        export PTX_ENTRIES=$log.entries  # file to which the emulator writes the names of the kernels that ran
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
        export SANITIZER=address # tells a program without a sanitizer that its daemon has one
    fi
    if grep -qs -e '-fsanitize=' "$build/flags" && setarch -R true 2>/dev/null; then
        wrapper=(setarch -R) # with much address randomisation, the sanitizers of gcc 12 and 13 sometimes abort
    fi
    if grep -qs -e '-fsanitize=thread' "$build/flags"; then
        export SANITIZER=thread
        export OMP_NUM_THREADS=1 LINFORMERD_THREADS=1 # OpenMP's runtime is not instrumented
    fi
    TIMEFORMAT='%R %U %S'
    { time "${wrapper[@]}" timeout -k 10 "${TEST_TIMEOUT:-900}" "$program" "${arguments[@]}" >"$log.log" 2>&1 </dev/null; } \
        2>"$log.time" || rc=$?
    case $1 in
    *@shipped) # If the redirection does not work, the tests find no device, and are skipped
        [ -s "$beside/missing" ] || [ -s "$log.entries" ] || echo "not ok - no kernel of the shipped engine ran" >>"$log.log"
        ;;
    esac
    awk -v rc="$rc" -v program="$1" -v count="$log.count" '
        /^1\.\.[0-9]+/                  { planned += substr($1, 4) }
        /^(not )?ok( |$).*# ?SKIP/      { skipped++; sub(/^.*# ?SKIP ?/, ""); why = why (why ? "; " : "") $0; next }
        /^ok( |$)/                      { passed++ }
        /^not ok( |$)/                  { failed++ }
        END {
            if (rc != 0)                { note = "  exit status " rc; if (!failed) failed++ }
            if (passed + failed + skipped < planned) { note = note "  fewer than the planned " planned " tests ran"; if (!failed) failed++ }
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
export OMP_WAIT_POLICY=passive # several programs share the cores, so waiting threads must sleep
# intercept_tls_get_addr=0 prevents a crash of the leak checker. The crash occurs when the leak checker follows the
# thread-local storage of libraries that were loaded with dlopen, such as oneDNN.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:allocator_may_return_null=1:intercept_tls_get_addr=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# By default, the thread sanitizer makes each process sleep for a second at its exit. The daemon's threads have ended by
# then.
export TSAN_OPTIONS=${TSAN_OPTIONS:-atexit_sleep_ms=0}

printf '%s\0' "$@" | xargs -0 -r -n 1 -P "${JOBS:-$((2 * $(nproc)))}" "$0" --one || true

passed=0 failed=0 skipped=0
for program in "$@"; do
    log=$logs/${program//\//_}
    p=0 f=1 s=0 # one failure, if run_one failed before it wrote the numbers of results
    [ ! -s "$log.count" ] || read -r p f s <"$log.count"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    [ "$f" = 0 ] || { echo && echo "---- $program" && tail -n 60 "$log.log"; } || true
done

if [ $# = 1 ]; then
    cat "$logs/${1//\//_}.log"
else
    # Processor time depends less on other work of the machine than elapsed time. It includes the time of daemons,
    # because each test waits for the end of its daemon.
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
