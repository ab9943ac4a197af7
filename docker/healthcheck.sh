#!/bin/bash
# Asks the daemon in this container for its health; bash alone, since the image has no HTTP client.
# The port is that of LINFORMERD_PORT: set it rather than --port, or the check asks elsewhere.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/${LINFORMERD_PORT:-8080}"
printf 'GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r _ status _ <&3
[ "$status" = 200 ]
