#!/bin/bash
# overhead.sh: the server's own cost, with a model that takes almost no time. It prints requests per second, and CPU
# time per request. For comparison, it measures constant.c: the same HTTP library with the same threads and a constant
# answer. The event loop sends this answer ("constant"), or another thread first resumes the connection ("resumed").
# Afterwards it measures start-up and memory with tests/models/bytes and weights/writer. It needs wrk, which shares the
# machine with the server.
#
# Options come from the environment:
#   CONNECTIONS (64)  SECONDS_EACH (5) of each run  ROUNDS (3), medians are printed  TOKENS (32) per request
#   BUILD (build)     LINFORMERD (BUILD/linformerd)  OTHER: another linformerd, measured in turns
#   STARTS (11)       0: no start-up and memory
set -euo pipefail
CONNECTIONS=${CONNECTIONS:-64} SECONDS_EACH=${SECONDS_EACH:-5} ROUNDS=${ROUNDS:-3} TOKENS=${TOKENS:-32}
BUILD=${BUILD:-build} STARTS=${STARTS:-11}
LINFORMERD=${LINFORMERD:-$BUILD/linformerd}
models=(--model builtin=tests/models/bytes --model builtin-writer=weights/writer)
work=$(mktemp -d)
running=
trap 'end; rm -rf "$work"' EXIT
trap 'exit 1' PIPE HUP INT TERM

end() {
    [ -z "$running" ] || { kill "$running" && wait "$running"; } 2>/dev/null || true
    running=
}

# start COMMAND…: starts the server, and sets `running` and `port` when the server listens. The file log contains its
# output up to this line.
start() {
    local line=
    mkfifo "$work/says"
    "$@" 2>"$work/says" >/dev/null &
    running=$!
    exec 4<"$work/says"
    rm "$work/says"
    port=
    : >"$work/log"
    while [ -z "$port" ] && read -r line <&4; do
        echo "$line" >>"$work/log"
        case $line in *"listening on http://"*) port=${line##*:} ;; esac
    done
    [ -n "$port" ] || { echo "$1 does not start: $line" >&2 && exit 1; }
}

# ticks: CPU time of the process since its start, in clock ticks.
ticks() {
    local fields
    read -r -a fields <"/proc/$running/stat"
    echo $((fields[13] + fields[14]))
}

body=$(awk -v n="$TOKENS" 'BEGIN { srand(1); for (i = 0; i < n; i++) s = s (i ? ", " : "") int(rand() * 256); print s }')
cat >"$work/post.lua" <<EOF
wrk.method = "POST"
wrk.body = '{"inputs": [[$body]]}'
wrk.headers["Content-Type"] = "application/json"
EOF

# load NAME COMMAND…: appends "NAME REQUESTS_A_SECOND CPU_US P50 P99" to the results.
load() {
    local name=$1 before after
    shift
    start "$@"
    wrk -t 1 -c "$CONNECTIONS" -d 1 -s "$work/post.lua" "http://127.0.0.1:$port/embed" >/dev/null
    before=$(ticks)
    wrk -t 1 -c "$CONNECTIONS" -d "$SECONDS_EACH" -s "$work/post.lua" --latency "http://127.0.0.1:$port/embed" >"$work/wrk"
    after=$(ticks)
    awk -v name="$name" -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" '
        /requests in/ { count = $1 }
        /Requests\/sec/ { rate = $2 }
        $1 == "50%" { p50 = $2 }
        $1 == "99%" { p99 = $2 }
        /Non-2xx|Socket errors/ { print name ": " $0 >"/dev/stderr"; bad = 1 }
        END { printf "%s %.0f %.2f %s %s\n", name, rate, ticks * 1e6 / hertz / count, p50, p99; exit bad }
    ' "$work/wrk" >>"$work/results"
    end
}

# median NAME COLUMN: the median of a column of the results with this name.
median() {
    awk -v name="$1" -v field="$2" '$1 == name { print $field }' "$work/results" | sort -g |
        awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

"$BUILD/tests/bench/tiny_model" "$work"
threads=$("$LINFORMERD" --help | awk '/--http-threads/ { found = 1 } found && /Default:/ { print $2; exit }')
names=(linformerd constant resumed)
[ -z "${OTHER:-}" ] || names=(linformerd other constant resumed)
for ((round = 0; round < ROUNDS; round++)); do
    for name in "${names[@]}"; do
        case $name in
        linformerd) load "$name" "$LINFORMERD" --port 0 --model "tiny=$work" ;;
        other) load "$name" "$OTHER" --port 0 --model "tiny=$work" ;;
        constant) load "$name" "$BUILD/tests/bench/constant" "$threads" ;;
        resumed) SUSPEND=1 load "$name" "$BUILD/tests/bench/constant" "$threads" ;;
        esac
    done
done
printf '%-12s %12s %14s\n' "$CONNECTIONS at once" requests/s "CPU us/request"
for name in "${names[@]}"; do
    printf '%-12s %12.0f %14.1f\n' "$name" "$(median "$name" 2)" "$(median "$name" 3)"
done
awk '{ print "  " $0 }' "$work/results"
[ "$STARTS" -gt 0 ] || exit 0

# Start-up: the time from exec to the first line of the answer to the first /embed.
for ((i = 0; i < STARTS; i++)); do
    began=${EPOCHREALTIME/[.,]/}
    start "$LINFORMERD" --port 0 "${models[@]}"
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{"inputs": "a"}' >&3
    read -r status <&3
    echo "start $((${EPOCHREALTIME/[.,]/} - began))" >>"$work/results"
    [[ $status == *" 200 "* ]] || { echo "the first answer is $status" >&2 && exit 1; }
    exec 3>&-
    end
done
awk -v us="$(median start 2)" -v n="$STARTS" 'BEGIN { printf "models bytes and writer: first answer %.1f ms after exec (median of %d starts)\n", us / 1e3, n }'

# memory WHEN: prints the resident memory and its peak. The texts of the requests have 1024 bytes, the most that the
# model accepts.
memory() {
    awk -v when="$1" -v planned="$planned" '
        /^VmHWM/ { most = $2 } /^VmRSS/ { now = $2 }
        END { printf "  %-22s resident %.1f MiB, at most %.1f MiB: weights and arena, and %.1f MiB\n", when, now / 1024,
                  most / 1024, most / 1024 - planned / 1048576 }' "/proc/$running/status"
}
start "$LINFORMERD" --port 0 "${models[@]}"
planned=$(grep -o '_bytes=[0-9]*' "$work/log" | awk -F = '{ sum += $2 } END { print sum }')
printf 'wrk.method = "POST"\nwrk.body = "{\\"inputs\\": \\"" .. string.rep("text", 256) .. "\\"}"\n' >"$work/text.lua"
awk -v planned="$planned" 'BEGIN { printf "  planned: weights and arena %.1f MiB\n", planned / 1048576 }'
memory "after the start"
wrk -t 1 -c "$CONNECTIONS" -d "$SECONDS_EACH" --timeout 60 -s "$work/text.lua" "http://127.0.0.1:$port/embed" >/dev/null
memory "after $CONNECTIONS at once"
