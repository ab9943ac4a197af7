#!/bin/bash
# test_clients.sh: tests clients from PyPI with the daemon, in TAP. requirements.txt lists their versions. The virtual
# environment is BUILD/clients. When requirements.txt changes, the environment is made again.
set -euo pipefail
environment=${BUILD:-build}/clients
wanted=tests/clients/requirements.txt

if ! cmp -s "$wanted" "$environment/installed.txt"; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$environment/installed.txt"
fi

export PYTHONDONTWRITEBYTECODE=1
export NO_PROXY='*' no_proxy='*' # the daemon is on this machine
failed=0
for script in tests/clients/test_*.py; do
    "$environment/bin/python" "$script" || failed=1
done
exit $failed
