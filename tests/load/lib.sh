# Functions for the load scripts, which define only their requests. Options come from the environment:
#   URL          a running daemon. Without it, the script starts build/linformerd (LINFORMERD) on a free port
#   REQUESTS     number of measured requests (400)
#   CONCURRENCY  number of requests that are open at any time (8)
#   LENGTH       bytes of each text (64). Variable lengths are from MIN_LENGTH to MAX_LENGTH (8 to 1024)
# curl keeps its connections, and sends the next request when an answer is complete. curl shares the machine with the
# daemon, and its own work is a part of the measurement. So only rates below curl's own rate have a meaning.
# shellcheck shell=bash
REQUESTS=${REQUESTS:-400} CONCURRENCY=${CONCURRENCY:-8} LENGTH=${LENGTH:-64}
MIN_LENGTH=${MIN_LENGTH:-8} MAX_LENGTH=${MAX_LENGTH:-1024}
work=$(mktemp -d)
daemon=
trap 'load_end' EXIT
trap 'exit 1' PIPE HUP INT TERM # a signal must also end the daemon

load_end() {
    [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } || true
    rm -rf "$work"
}

# Keeps URL if it is given. Otherwise starts a daemon, and sets URL to its address.
load_start() {
    [ -z "${URL:-}" ] || return 0
    "${LINFORMERD:-build/linformerd}" --port 0 --model "builtin=$(dirname "${BASH_SOURCE[0]}")/../models/bytes" >"$work/daemon.log" 2>&1 &
    daemon=$!
    trap 'load_end' EXIT # set again, because a subshell at the end of a pipe does not inherit traps
    until URL=$(grep -om1 'listening on http://[^ ]*' "$work/daemon.log"); do
        kill -0 "$daemon" 2>/dev/null || { cat "$work/daemon.log" >&2 && daemon='' && exit 1; }
        sleep 0.05
    done
    URL=${URL#listening on }
}

# load_lengths uniform|mixed: prints REQUESTS lengths, one on each line. Mixed lengths are log-uniformly distributed,
# with a fixed seed. So two runs have the same lengths.
load_lengths() {
    awk -v n="$REQUESTS" -v kind="$1" -v length_="$LENGTH" -v low="$MIN_LENGTH" -v high="$MAX_LENGTH" 'BEGIN {
        srand(1)
        for (i = 0; i < n; i++)
            print kind == "mixed" ? int(low * exp(rand() * log(high / low)) + 0.5) : length_
    }'
}

# load_run NAME: reads lines "PATH LENGTH BODY" from stdin. @ in BODY stands for a text of LENGTH bytes. Prints the
# rate, percentiles and errors. Fails if an answer is missing, or is not 200.
load_run() {
    local started_ns finished_ns
    load_start
    awk -v url="$URL" -v concurrency="$CONCURRENCY" '
        BEGIN {
            text = "the quick brown fox jumps over the lazy dog "
            print "parallel\nparallel-immediate\nparallel-max = " concurrency "\nno-progress-meter"
        }
        {
            while (length(text) < $2) text = text text
            body = $0
            sub(/^[^ ]+ [^ ]+ /, "", body)
            sub(/@/, substr(text, 1, $2), body)
            gsub(/"/, "\\\"", body)
            if (NR > 1) print "next"
            print "url = \"" url $1 "\"\nheader = \"Content-Type: application/json\"\ndata = \"" body "\""
            print "output = \"/dev/null\"\nwrite-out = \"%{http_code} %{time_total}\\n\""
        }' >"$work/requests"

    started_ns=$(date +%s%N)
    curl -K "$work/requests" >"$work/answers" 2>"$work/complaints" || true # faults of answers are counted below
    finished_ns=$(date +%s%N)

    sort -k 2,2 -g "$work/answers" |
        awk -v name="$1" -v wanted="$REQUESTS" -v at_once="$CONCURRENCY" -v ns=$((finished_ns - started_ns)) '
        function percentile(p) { return 1000 * time[int(n * p / 100 + 0.999999)] } # the percentile by nearest rank
        $1 == 200 { time[++n] = $2 }
        $1 != 200 { status[$1]++ }
        { answered++ }
        END {
            if (answered < wanted) status["none"] += wanted - answered
            printf "%-8s %d requests, %d at a time: %.1f requests/s\n", name, wanted, at_once, n / (ns / 1e9)
            if (n) printf "%-8s p50 %.1f  p90 %.1f  p99 %.1f  max %.1f ms\n", "",
                percentile(50), percentile(90), percentile(99), 1000 * time[n]
            printf "%-8s errors %d\n", "", wanted - n
            for (s in status) printf "%-8s answers with status %s: %d\n", "", s, status[s]
            exit n != wanted
        }' || { head -3 "$work/complaints" >&2 && return 1; }
}
