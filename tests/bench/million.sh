#!/bin/bash
# million.sh: compares a sequence of 1 048 576 rows with sequences of 4096 rows, through /v2 in binary. Both models are
# linformer_pytorch.Linformer, and their arguments differ only in input_size (long_model.c). The script prints the time per token of both, and
# compares the memory with --explain. The script fails if a token of the long sequence takes more than 1.5 times as long
# as a token of a short one. It also fails if the memory differs from --explain by more than 5 %. It needs 1.1 GB in
# /tmp (TMPDIR), and 3 GB of memory. The times require an idle machine, because the long sequence waits for memory. With
# ten other busy processes, its tokens took 2.3 times as long as those of the short sequences.
#
# Options come from the environment:
#   ROUNDS (5): each has one long sequence, and then as many rows in short sequences. Medians are printed
#   LONG (1048576)  SHORT (4096)   rows
#   BUILD (build)   LINFORMERD (BUILD/linformerd)
set -euo pipefail
ROUNDS=${ROUNDS:-5} LONG=${LONG:-1048576} SHORT=${SHORT:-4096}
BUILD=${BUILD:-build}
LINFORMERD=${LINFORMERD:-$BUILD/linformerd}
work=$(mktemp -d)
daemons=()
trap 'kill "${daemons[@]}" 2>/dev/null && wait; rm -rf "$work"' EXIT
trap 'exit 1' PIPE HUP INT TERM

# start NAME ROWS: writes the model, and starts a daemon for it. Sets `url` and `daemon`.
start() {
    local folder=$work/$1
    mkdir "$folder"
    "$BUILD/tests/bench/long_model" "$2" "$folder"
    : >"$folder/log"
    "$LINFORMERD" --port 0 --model "$folder" --payload-limit "$(stat -c %s "$folder/request")" 2>"$folder/log" &
    daemon=$!
    daemons+=("$daemon")
    until url=$(grep -om1 'listening on http://[^ ]*' "$folder/log"); do
        kill -0 "$daemon" 2>/dev/null || { cat "$folder/log" >&2 && exit 1; }
        sleep 0.05
    done
    url=${url#listening on }/v2/models/$1/infer
}

# call NAME URL COUNT: sends the model's request COUNT times over one connection. Appends a line for each request to the
# file times: "NAME STATUS SECONDS MILLISECONDS_IN_THE_ENGINE".
call() {
    local i
    for ((i = 0; i < $3; i++)); do
        [ "$i" = 0 ] || echo next
        printf 'url = "%s"\nupload-file = "%s"\nrequest = "POST"\noutput = "%s"\n' "$2" "$work/$1/request" "$work/$1/answer"
        printf 'header = "Inference-Header-Content-Length: 0"\nheader = "Expect:"\nno-progress-meter\n'
        printf 'write-out = "%s %%{http_code} %%{time_total} %%header{x-inference-time}\\n"\n' "$1"
    done >"$work/calls"
    curl -K "$work/calls" >>"$work/times"
}

# memory FIELD: memory of the daemon with the long model, in bytes. FIELD is VmRSS (current) or VmHWM (peak).
memory() {
    awk -v field="$1:" '$1 == field { print $2 * 1024 }' "/proc/$long_daemon/status"
}

explained() {
    "$LINFORMERD" --explain "$work/long" | awk '/^(weights|arena|request)_bytes / { print }'
}

start short "$SHORT"
short_url=$url
start long "$LONG"
long_url=$url
long_daemon=$daemon
echo "loaded $(memory VmHWM)" >"$work/memory"
call long "$long_url" 1 # the first request touches all pages of the daemon's memory
call short "$short_url" $((LONG / SHORT))
: >"$work/times"
for ((round = 0; round < ROUNDS; round++)); do
    call long "$long_url" 1
    echo "resting $(memory VmRSS)" >>"$work/memory"
    call short "$short_url" $((LONG / SHORT))
done
echo "most $(memory VmHWM)" >>"$work/memory"
explained >>"$work/memory"

# median NAME FIELD: median of a field of the file times, for the calls with this name.
median() {
    awk -v name="$1" -v field="$2" '$1 == name { print $field }' "$work/times" | sort -g |
        awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
awk '$2 != 200 { print "status " $2; bad = 1 } END { exit bad }' "$work/times"
[ "$(stat -c %s "$work/long/answer")" -gt $((LONG * 64 * 4)) ]

status=0
awk -v long_="$LONG" -v short="$SHORT" -v rounds="$ROUNDS" -v seconds="$(median long 3)" -v engine="$(median long 4)" \
    -v short_seconds="$(median short 3)" -v short_engine="$(median short 4)" '
    function line(rows, seconds, engine) {
        printf "%8d rows  %9.2f ms  %7.3f us a token, %.3f of them in the engine\n", rows, seconds * 1e3,
            seconds * 1e6 / rows, engine * 1e3 / rows
    }
    BEGIN {
        line(short, short_seconds, short_engine)
        line(long_, seconds, engine)
        ratio = seconds / long_ / (short_seconds / short)
        printf "a token takes %.2f times as long (at most 1.5; medians of %d and %d calls)\n", ratio, rounds,
            rounds * long_ / short
        exit ratio > 1.5
    }' || status=1
awk '
    $1 == "loaded" { loaded = $2 } $1 == "resting" { resting = $2 } $1 == "most" { most = $2 }
    $1 == "weights_bytes" { weights = $2 } $1 == "arena_bytes" { arena = $2 } $1 == "request_bytes" { request = $2 }
    function line(what, found, expected, whose) {
        printf "%-32s %7.1f MB, explained %7.1f MB (%s): %+.1f %%\n", what, found / 1e6, expected / 1e6, whose,
            100 * (found / expected - 1)
        return found / expected > 1.05 || found / expected < 0.95
    }
    END {
        printf "%-32s %7.1f MB\n", "most while loading", loaded / 1e6
        bad = line("resident between requests", resting, weights + arena, "weights and arena")
        bad += line("most while answering", most, weights + arena + request, "and a request")
        exit bad
    }' "$work/memory" || status=1
exit $status
