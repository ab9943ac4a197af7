#!/bin/bash
# healthcheck.sh [PROCESS]: asks the daemon in this container for its health. Port and TLS are those of the daemon: from
# its flags, from variables, or from the settings file. PROCESS is the number of the daemon's process, by default 1.
# Uses only bash, grep and tail, because the image has no HTTP client. So with TLS, the check only begins a handshake,
# and the daemon must answer it.
set -euo pipefail
export LC_ALL=C
mapfile -d '' -t arguments <"/proc/${1:-1}/cmdline"

# flag NAME: prints the value of the last flag of this name.
flag() {
    local i value=
    for i in "${!arguments[@]}"; do
        case ${arguments[i]} in
        "--$1") value=${arguments[i + 1]-} ;;
        "--$1="*) value=${arguments[i]#*=} ;;
        esac
    done
    echo "$value"
}

# setting NAME [FILE]: prints the value of a setting. The daemon has the same order: flag, variable, key of the file.
setting() {
    local value variable=LINFORMERD_${1^^} key=${1//-/_}
    variable=${variable//-/_}
    value=$(flag "$1")
    value=${value:-${!variable-}}
    [ -n "$value" ] || [ -z "${2-}" ] || value=$(grep -oE "\"$key\": *(\"[^\"]*\"|[0-9]+)" "$2" | tail -n 1) || true
    value=${value#"\"$key\":"}
    value=${value# }
    value=${value#\"}
    echo "${value%\"}"
}

file=$(setting config)
port=$(setting port "$file")
exec 3<>"/dev/tcp/127.0.0.1/${port:-8080}"
if [ -z "$(setting tls-certificate "$file")" ]; then
    printf 'GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
    read -r -t 2 _ status _ <&3
    [ "$status" = 200 ]
else
    # The first message of TLS 1.2 (ClientHello): its header, version and 32 bytes that should be random, no session,
    # two ciphers (ECDHE with AES-128-GCM, for ECDSA and RSA), and no compression. The extensions are the groups P-256,
    # P-384, P-521 and X25519, uncompressed points, and signatures with ECDSA, Ed25519, RSA-PSS and RSA. The answer is a
    # record of TLS with a handshake.
    printf '%b' '\x16\x03\x01\x00\x5b\x01\x00\x00\x57\x03\x03' 'linformerd-healthcheck-32-bytes.' '\x00' \
        '\x00\x04\xc0\x2b\xc0\x2f' '\x01\x00' '\x00\x2a' '\x00\x0a\x00\x0a\x00\x08\x00\x17\x00\x18\x00\x19\x00\x1d' \
        '\x00\x0b\x00\x02\x01\x00' '\x00\x0d\x00\x12\x00\x10\x04\x03\x05\x03\x06\x03\x08\x07\x08\x04\x08\x05\x04\x01\x05\x01' >&3
    read -r -t 2 -N 1 answer <&3
    [ "$answer" = $'\x16' ]
fi
