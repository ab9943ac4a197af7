#!/bin/bash
# Asks the daemon in this container for its health. Uses only bash, because the image has no HTTP client. The port is
# LINFORMERD_PORT. If the daemon gets its port from --port, this check fails.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/${LINFORMERD_PORT:-8080}"
printf 'GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r _ status _ <&3
[ "$status" = 200 ]
