#!/bin/bash
# all.sh: tests many clients from PyPI with the daemon, in TAP. A file NAME.txt in this folder lists the packages of one
# virtual environment, BUILD/clients-NAME. If NAME.txt changes, the environment is made again. The first line of
# NAME.txt names the scripts that run in the environment: "langchain" is with_langchain.py. Packages that exclude each
# other are in different environments. At the end, the table of docs/clients.md is compared with the results, or written
# with WRITE_PAGES=1. ENVIRONMENTS="NAME…" runs some of the environments, without the table. An environment that pip
# cannot install is skipped by name. In this case, the table is neither compared nor written.
set -euo pipefail
here=tests/clients/all
build=${BUILD:-build}
names=${ENVIRONMENTS:-direct recent earlier stores kserve mteb}
export PYTHONDONTWRITEBYTECODE=1
export NO_PROXY='*' no_proxy='*' # the daemon is on this machine
export ANONYMIZED_TELEMETRY=False HAYSTACK_TELEMETRY_ENABLED=False
TRIES=$(mktemp)
export TRIES
trap 'rm -f "$TRIES"' EXIT

# prepare NAME: makes the environment of a name. Fails if pip cannot install a package.
prepare() {
    local name=$1 wanted=$here/$1.txt environment=$build/clients-$1
    if cmp -s "$wanted" "$environment/installed.txt"; then
        return
    fi
    rm -rf "$environment" && python3 -m venv "$environment" &&
        nice -n 5 "$environment/bin/pip" install --quiet --disable-pip-version-check --prefer-binary -r "$wanted" >&2 &&
        cp "$wanted" "$environment/installed.txt"
}

failed=0 missing=0
for name in $names; do
    if ! prepare "$name"; then
        echo 1..1
        echo "ok 1 - $name # SKIP pip cannot install $here/$name.txt"
        missing=1
        continue
    fi
    read -ra scripts <"$here/$name.txt" # the line is "# runs: SCRIPT…"
    for script in "${scripts[@]:2}"; do
        "$build/clients-$name/bin/python" "$here/with_$script.py" || failed=1
    done
done
if [ -z "${ENVIRONMENTS:-}" ] && [ $failed = 0 ] && [ $missing = 0 ]; then
    python3 "$here/table.py" || failed=1
fi
exit $failed
