#!/bin/bash
# test_cluster.sh: tests three daemons behind HAProxy, and then behind nginx, with the configurations of docker/. Under
# a constant load, daemons are killed, drained, restarted, reloaded and stopped. No answer may fail or be wrong.
# Afterwards, some events are tried with bodies that are larger than the buffers of the proxies. At the end, generations
# run for longer than the proxies wait for other answers. Each generation may be computed only once.
#   SEED=N                    seed of the requests (random)
#   FULL=1                    each event happens twice instead of once, under more load, and nginx is tested, too
#   PROXIES="haproxy nginx"   the proxies that are tested
# The result depends only on counts. A slow machine needs more time, but has the same result.
# shellcheck disable=SC2317 # functions are called by name
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
daemon=${LINFORMERD:-$build/linformerd}
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
proxies=${PROXIES:-haproxy${FULL:+ nginx}}
rounds=$([ -n "${FULL:-}" ] && echo 2 || echo 1)
export PAUSE_US=${PAUSE_US:-$([ -n "${FULL:-}" ] && echo 3000 || echo 25000)} # for the load
timeout_s=10 # time after which the proxies give up on a daemon, instead of 75 s
work=$(mktemp -d)
chmod 711 "$work" # the workers of nginx run as another user
processes=() # ids of the processes that must end with the script
failed=0

end() {
    local process
    for process in "${processes[@]}"; do
        kill -CONT "$process" 2>/dev/null || true
        kill "$process" 2>/dev/null || true
    done
    wait
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' PIPE HUP INT TERM

die() {
    echo "# $*"
    exit 1
}

# ---- Daemons. Daemons 1 to 3 are behind the proxy. Daemon 0 is the reference: it returns the expected answers.
declare -A pid port log

# start NUMBER: starts a daemon on its last port, or at first on a free port.
start() {
    log[$1]=$work/daemon-$1-$SECONDS-$RANDOM.log
    : >"${log[$1]}"
    "$daemon" --model "builtin=$work/models/builtin" --model "builtin-writer=$work/models/writer" --threads 1 \
        --port "${port[$1]:-0}" --drain-delay-ms 2500 >"${log[$1]}" 2>&1 &
    pid[$1]=$!
    processes+=("$!")
    local line
    until line=$(grep -om1 'listening on http://[^ ]*' "${log[$1]}"); do
        kill -0 "${pid[$1]}" 2>/dev/null || { sed 's/^/# /' "${log[$1]}" && die "daemon $1 does not start"; }
        sleep 0.05
    done
    port[$1]=${line##*:}
}

# ended NUMBER STATUS: waits for the end of a daemon. Its exit status must be STATUS.
ended() {
    local status=0
    wait "${pid[$1]}" 2>/dev/null || status=$?
    [ "$status" = "$2" ] || die "daemon $1 ended with status $status, expected $2"
}

# served NUMBER: prints the number of requests for /embed and /logits that a daemon has answered since its start.
served() {
    curl -s "http://127.0.0.1:${port[$1]}/metrics" |
        awk '/^linformerd_requests_total\{route="\/(embed|logits)"/ { sum += $NF } END { print sum + 0 }'
}

# ---- The load. The number of its answers is the clock of the test.
answers() { cat "$work/progress" 2>/dev/null || echo 0; }

# more COUNT: waits until the load has received COUNT further answers.
more() {
    local until=$(($(answers) + $1))
    while [ "$(answers)" -lt "$until" ]; do
        kill -0 "$load" 2>/dev/null || { sed 's/^/# /' "$work/load.log" && die "the load has ended"; }
        sleep 0.05
    done
}

# used NUMBER: waits until the proxy sends requests to this daemon.
used() {
    local before
    before=$(served "$1")
    until [ "$(served "$1")" -gt "$before" ]; do more 10; done
}

# ---- Proxies
free_port() { # shellcheck disable=SC2016
    perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

# start_PROXY TIMEOUT GENERATION_TIMEOUT: starts a proxy. The second timeout is for the routes that generate.
start_haproxy() {
    local statistics
    public=$(free_port) statistics=$(free_port)
    export PROXY_BIND=127.0.0.1:$public PROXY_STATISTICS=127.0.0.1:$statistics
    export PROXY_SERVER_1=127.0.0.1:${port[1]} PROXY_SERVER_2=127.0.0.1:${port[2]}
    export PROXY_SERVER_3=127.0.0.1:${port[3]} PROXY_TIMEOUT=$1 PROXY_GENERATION_TIMEOUT=$2
    haproxy -db -f docker/haproxy/haproxy.cfg >"$work/proxy.log" 2>&1 &
    proxy=$!
    retries_of="http://127.0.0.1:$statistics/metrics"
}

start_nginx() {
    public=$(free_port)
    sed -e "s/linformerd-1:8080/127.0.0.1:${port[1]}/; s/linformerd-2:8080/127.0.0.1:${port[2]}/" \
        -e "s/linformerd-3:8080/127.0.0.1:${port[3]}/; s/listen 8080/listen 127.0.0.1:$public/" \
        -e "s/proxy_read_timeout 75s/proxy_read_timeout $1/; s/timeout 1h/timeout $2/; s|/tmp/nginx|$work/nginx|" \
        docker/nginx/nginx.conf >"$work/nginx.conf"
    nginx -t -p "$work" -c "$work/nginx.conf" >"$work/proxy.log" 2>&1 || { sed 's/^/# /' "$work/proxy.log" && die "nginx -t"; }
    nginx -p "$work" -c "$work/nginx.conf" -g 'daemon off;' >>"$work/proxy.log" 2>&1 &
    proxy=$!
    retries_of=
}

# run_proxy PROXY TIMEOUT GENERATION_TIMEOUT: starts a proxy, and waits until it answers.
run_proxy() {
    "start_$1" "$2" "$3"
    processes+=("$proxy")
    until curl -so /dev/null "http://127.0.0.1:$public/health"; do
        kill -0 "$proxy" 2>/dev/null || { sed 's/^/# /' "$work/proxy.log" && die "$1 does not start"; }
        sleep 0.05
    done
}

end_proxy() {
    kill "$proxy"
    wait "$proxy" || true
}

# Prints the number of requests that the proxy has sent again. Prints nothing if the proxy does not count them.
sent_again() {
    [ -z "$retries_of" ] ||
        curl -s "$retries_of" |
        awk '/^haproxy_backend_retry_warnings_total\{proxy="(daemons|generation)"/ { sum += $2 } END { print sum + 0 }'
}

# ---- Events. event_NAME DAEMON ROUND: each event ends when the daemon receives requests again.
event_kill() {
    kill -9 "${pid[$1]}"
    ended "$1" 137
    more 100
    start "$1"
    used "$1"
}

event_drain() {
    kill -TERM "${pid[$1]}"
    ended "$1" 0
    more 100
    start "$1"
    used "$1"
}

event_restart() { # the daemon ends at once, without the drain delay
    kill -INT "${pid[$1]}"
    ended "$1" 0
    start "$1"
    used "$1"
}

reloads() { grep -c 'models reloaded loaded=2 failed=0' "${log[$1]}" || true; }

event_reload() { # both models are loaded again, while the old versions answer
    local before
    before=$(reloads "$1")
    touch "$work/models/builtin/config.json" "$work/models/writer/config.json"
    kill -HUP "${pid[$1]}"
    until [ "$(reloads "$1")" -gt "$before" ]; do more 10; done
    more 100
    kill -0 "${pid[$1]}" || die "daemon $1 has ended"
    used "$1"
}

# In the first round, the daemon is stopped for longer than the proxy waits. The proxy sends its requests to other
# daemons. In the other rounds, the daemon answers its requests late.
event_stop() {
    kill -STOP "${pid[$1]}"
    sleep $(($2 == 1 ? timeout_s + 2 : 3))
    more 50
    kill -CONT "${pid[$1]}"
    used "$1"
}

# All daemons are stopped until each client of the load waits. So the daemon has open requests when it is killed.
event_cut() {
    local before=
    kill -STOP "${pid[1]}" "${pid[2]}" "${pid[3]}"
    until [ "$(answers)" = "$before" ]; do
        before=$(answers)
        sleep 1
    done
    kill -9 "${pid[$1]}"
    kill -CONT "${pid[1]}" "${pid[2]}" "${pid[3]}"
    ended "$1" 137
    more 100
    start "$1"
    used "$1"
}

# begin_load [large]: starts the load, and waits for 100 answers.
begin_load() {
    rm -f "$work/progress"
    "$build/tests/cluster/load" "http://127.0.0.1:${port[0]}" "http://127.0.0.1:$public" "$work/progress" "$seed" "$@" \
        >"$work/load.log" 2>&1 &
    load=$!
    processes+=("$load")
    more 100
}

# end_load [WORD]: ends the load, and prints its output, each line behind WORD. The exit status is that of the load.
end_load() {
    local status=0
    kill "$load"
    wait "$load" || status=$?
    sed "s/^/# ${1:+$1: }/" "$work/load.log"
    return $status
}

# run PROXY: tests all events under load.
run() {
    local round event events=0 status=0
    run_proxy "$1" "${timeout_s}s" 1h
    begin_load
    for ((round = 1; round <= rounds; round++)); do
        for event in kill drain restart reload stop; do
            "event_$event" $((events++ % 3 + 1)) "$round" # each event of a round affects another daemon
            echo "# $1: round $round: $event: $(answers) answers so far"
        done
    done
    local retries
    retries=$(sent_again)
    for ((round = 1; round <= 20; round++)); do # if no request was sent again, restarts a daemon until one is
        [ "$retries" = 0 ] || break
        event_restart 1
        retries=$(sent_again)
    done
    end_load || status=$?
    end_proxy
    [ "$status" = 0 ] || { sed 's/^/# /' "$work/proxy.log" | tail -n 20 && printf 'not ' && failed=1; }
    echo "ok $((++number)) - $1: while daemons end and restart, no answer fails or is wrong${retries:+ ($retries requests were sent again)}"
    [ -z "$retries_of" ] || [ "${retries:-0}" -gt 0 ] || { printf 'not ' && failed=1; }
    [ -z "$retries_of" ] || echo "ok $((++number)) - $1: some requests were sent again, to another daemon"
}

# ---- Large bodies
# run_large PROXY EVENT…: sends bodies that are larger than the buffers of the proxy, while the events affect daemon 1.
# Sets `lost` to the number of failed answers, or to an empty text if an answer was wrong.
run_large() {
    local event
    run_proxy "$1" "${timeout_s}s" 1h
    begin_load large
    for event in "${@:2}"; do "event_$event" 1 2; done
    end_load large || true
    end_proxy
    lost=$(sed -nE 's/^[0-9]+ answers, ([0-9]+) failed, 0 wrong$/\1/p' "$work/load.log")
}

# lost_at_most MAX MIN NAME: tests that `lost` is between MIN and MAX.
lost_at_most() {
    if [ -z "$lost" ] || [ "$lost" -gt "$1" ] || [ "$lost" -lt "$2" ]; then printf 'not ' && failed=1; fi
    echo "ok $((++number)) - $3 (${lost:-unknown} lost)"
}

# HAProxy cannot keep a body that is larger than its buffer. nginx keeps such a body in a file. The load has six
# clients, so at most six bodies are lost.
large_bodies() {
    run_large "$1" drain reload
    lost_at_most 0 0 "$1: no large body is lost when a daemon drains or reloads"
    run_large "$1" cut
    if [ "$1" = haproxy ]; then
        lost_at_most 6 1 "$1: only large bodies at a killed daemon are lost"
        PROXY_BUFFER=1048576 run_large "$1" cut
        lost_at_most 0 0 "$1: with a buffer that is large enough, no large body is lost"
    else
        lost_at_most 0 0 "$1: no large body is lost when a daemon is killed"
    fi
}

# ---- Long generations
# generations: waits until no generation runs. Prints how many sequences the three daemons have generated, whether
# complete or not.
generations() {
    local values
    while values=$(curl -s "http://127.0.0.1:{${port[1]},${port[2]},${port[3]}}/metrics") &&
        awk '/^linformerd_generations_running/ { sum += $NF } END { exit !sum }' <<<"$values"; do sleep 0.05; done
    awk '/^linformerd_generations_total/ { sum += $NF } END { print sum + 0 }' <<<"$values"
}

# generate PATH TOKENS: prints the status of a generation. The generation takes longer than 100 ms, the lower timeout of
# the proxy.
generate() {
    local body
    body="\"max_new_tokens\": $2, \"do_sample\": false"
    body="{\"model\": \"builtin-writer\", \"inputs\": \"The\", \"parameters\": {$body}}"
    [[ $1 != *completions ]] ||
        body="{\"model\": \"builtin-writer\", \"prompt\": \"The\", \"max_tokens\": $2, \"temperature\": 0}"
    curl -so /dev/null -w '%{http_code}\n' "http://127.0.0.1:$public$1" --json "$body"
}

# generate_all PROXY TIMEOUT GENERATION_TIMEOUT STATUS PATH…: sends a generation to each path at the same time. Each
# generation must have this status, and must begin only once.
generate_all() {
    local before begun path paths=("${@:5}") senders=()
    run_proxy "$1" "$2" "$3"
    before=$(generations)
    : >"$work/statuses"
    for path in "${paths[@]}"; do
        generate "$path" 600 >>"$work/statuses" &
        senders+=("$!")
    done
    wait "${senders[@]}"
    begun=$(($(generations) - before))
    end_proxy
    echo "# ${#paths[@]} generations, $begun begun, status $(paste -sd ' ' "$work/statuses")"
    [ "$begun" = ${#paths[@]} ] && [ "$(grep -cx "$4" "$work/statuses")" = ${#paths[@]} ]
}

generation_routes=(/ /invocations /generate /generate_stream /v1/completions /openai/v1/completions
    /openai/deployments/builtin-writer/completions)

mkdir -p "$work/models"
cp -r tests/models/bytes "$work/models/builtin"
cp -r weights/writer "$work/models/writer"
echo "# seed $seed"
number=0
for proxy_name in $proxies; do
    command -v "$proxy_name" >/dev/null || {
        echo "ok $((++number)) - $proxy_name # SKIP there is no $proxy_name (docker/packages.sh deploy)"
        continue
    }
    for daemon_number in 0 1 2 3; do start $daemon_number; done
    run "$proxy_name"
    large_bodies "$proxy_name"
    generate_all "$proxy_name" 100ms 1h 200 "${generation_routes[@]}" || { printf 'not ' && failed=1; }
    echo "ok $((++number)) - $proxy_name: generations may take longer than other answers"
    generate_all "$proxy_name" 75s 100ms 504 /generate || { printf 'not ' && failed=1; }
    echo "ok $((++number)) - $proxy_name: a generation that takes too long is not computed again"
    for daemon_number in 0 1 2 3; do
        kill "${pid[$daemon_number]}"
        ended $daemon_number 0
    done
    port=()
done
echo "1..$number"
exit $failed
