#!/bin/bash
# test_console.sh: tests the console in headless Chromium, in TAP. Chromium is the distribution's package. Python
# packages control it, and search for faults of accessibility. requirements.txt lists their versions. The virtual
# environment is BUILD/console. If requirements.txt changes, the environment is made again. SCREENSHOTS=FOLDER writes
# the pictures of docs/console.md into a folder.
set -euo pipefail
environment=${BUILD:-build}/console
wanted=tests/console/requirements.txt

if ! cmp -s "$wanted" "$environment/installed.txt"; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$environment/installed.txt"
fi

export PYTHONDONTWRITEBYTECODE=1
export NO_PROXY='*' no_proxy='*' # the daemon is on this machine
exec "$environment/bin/python" tests/console/test_console.py "$@"
