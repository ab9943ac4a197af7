#!/bin/bash
# test_healthcheck.sh: the health check of the image finds the port and the encryption of a daemon. A flag, a variable
# or the settings file may set them. The check fails if the daemon is about to stop, hangs, or has ended.
# shellcheck disable=SC2317 # functions are called by name
set -euo pipefail
cd "$(dirname "$0")/../.."
daemon=${LINFORMERD:-${BUILD:-build}/linformerd}
work=$(mktemp -d)
process=
end() {
    [ -z "$process" ] || { kill -CONT "$process" && kill -INT "$process"; } 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' PIPE HUP INT TERM
for program in perl openssl; do
    command -v $program >/dev/null || {
        echo 1..1
        echo "ok 1 - the health check passes for a daemon that serves # SKIP there is no $program (docker/packages.sh deploy)"
        exit 0
    }
done
number=0 failed=0
is() { # is NAME COMMAND…: runs one test
    "${@:2}" >"$work/said" 2>&1 || { sed 's/^/# /' "$work/said" && printf 'not ' && failed=1; }
    echo "ok $((++number)) - $1"
}
free_port() { # shellcheck disable=SC2016
    perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

# start [VARIABLE=VALUE…] -- ARGUMENT…: starts a daemon. Sets `variables` to the variables that its container would
# have.
start() {
    variables=()
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    : >"$work/log"
    env "${variables[@]}" "$daemon" --model tests/models/bytes "$@" >"$work/log" 2>&1 &
    process=$!
    until grep -q 'listening on' "$work/log"; do
        kill -0 "$process" 2>/dev/null || { sed 's/^/# /' "$work/log" && process='' && exit 1; }
        sleep 0.05
    done
}
stop() {
    kill -INT "$process"
    wait "$process" || true
    process=
}
passes() { env "${variables[@]}" docker/healthcheck.sh "$process"; }
fails() { ! passes; }

# checked SETTING [VARIABLE=VALUE…] -- ARGUMENT…: tests that the check passes for this daemon, which must listen on $port.
checked() {
    start "${@:2}"
    is "the health check passes with the $1" passes
    stop
}

certificate() { # certificate NAME ALGORITHM…: makes a certificate
    openssl req -x509 -newkey "${@:2}" -nodes -days 2 -subj /CN=localhost -keyout "$work/$1.key" -out "$work/$1.pem" \
        2>/dev/null
}
certificate p256 ec -pkeyopt ec_paramgen_curve:P-256
certificate p384 ec -pkeyopt ec_paramgen_curve:P-384
certificate rsa rsa:2048
certificate ed25519 ed25519
port=$(free_port)
echo "{\"log_level\": \"info\", \"port\": $port}" >"$work/plain.json"
echo "{\"tls_certificate\": \"$work/rsa.pem\", \"tls_key\":\"$work/rsa.key\",\"port\":$port}" >"$work/tls.json"

checked "port of a variable" LINFORMERD_PORT="$port" --
checked "port of a flag" LINFORMERD_PORT=1 -- --port "$port"
checked "port of a flag with =" -- "--port=$port"
checked "port of the settings file, which a flag names" -- --config "$work/plain.json"
checked "port of the settings file, which a variable names" LINFORMERD_CONFIG="$work/plain.json" --
checked "TLS of a flag" LINFORMERD_PORT="$port" -- --tls-certificate "$work/p256.pem" --tls-key "$work/p256.key"
checked "TLS of the settings file" -- "--config=$work/tls.json"
for name in p256 p384 rsa ed25519; do
    checked "TLS of variables, with the certificate $name" LINFORMERD_PORT="$port" \
        LINFORMERD_TLS_CERTIFICATE="$work/$name.pem" LINFORMERD_TLS_KEY="$work/$name.key" --
done

start LINFORMERD_PORT="$port" -- --tls-certificate "$work/p256.pem" --tls-key "$work/p256.key"
kill -STOP "$process"
is "the health check fails if a daemon with TLS hangs" fails
kill -CONT "$process"
stop
start LINFORMERD_PORT="$port" -- --drain-delay-ms 600000
kill -TERM "$process"
until grep -q 'no longer ready' "$work/log"; do sleep 0.05; done
is "the health check fails if the daemon will stop soon" fails
kill -STOP "$process"
is "the health check fails if the daemon hangs" fails
kill -CONT "$process"
stop
process=$$ # a process that does not listen on the port
is "the health check fails if there is no daemon" fails
process=
echo "1..$number"
exit $failed
