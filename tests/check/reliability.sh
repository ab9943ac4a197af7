#!/bin/bash
# reliability.sh: the table of docs/reliability.md follows from the results that `make reliability` wrote, and has one
# row for each measurement of a run. All documents give the same time for a run. A run that takes too long ends. Two
# rules of shellcheck are off, because sed needs backquotes in single quotes, and `is` calls functions by name.
# shellcheck disable=SC2016,SC2317
set -euo pipefail
page=docs/reliability.md results=tests/reliability/results.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v python3 >/dev/null || {
    echo "1..1"
    echo "ok 1 - the table follows from results.json # SKIP there is no python3 (docker/packages.sh reliability)"
    exit 0
}
number=0 failed=0
is() { # is NAME COMMAND…: runs COMMAND as the test NAME
    local name=$1
    shift
    "$@" >"$work/said" 2>&1 || { sed 's/^/# /' "$work/said" && printf 'not ' && failed=1; }
    echo "ok $((++number)) - $name"
}
check() { RESULTS=${2:-$results} PAGE=$1 python3 tests/reliability/page.py check; }
# Each of the next three functions changes a copy of the page or of the results, and succeeds if the check finds the
# change.
finds_another_figure() {
    sed '/`slow_clients`/s/clients at a time/clients at once/' "$page" >"$work/page.md"
    ! cmp -s "$page" "$work/page.md" && ! check "$work/page.md"
}
finds_an_unknown_row() {
    sed 's/"slow_clients"/"slow_client"/' "$results" >"$work/results.json"
    ! cmp -s "$results" "$work/results.json" && ! check "$page" "$work/results.json"
}
finds_a_missing_row() { # even if the page is written from the results without this row
    python3 - "$results" >"$work/results.json" <<'X'
import json, sys
with open(sys.argv[1]) as file:
    results = json.load(file)
del results["rows"]["slow_clients"]
json.dump(results, sys.stdout)
X
    cp "$page" "$work/page.md"
    RESULTS=$work/results.json PAGE=$work/page.md python3 tests/reliability/page.py
    ! check "$work/page.md" "$work/results.json" >"$work/faults" && grep -q 'there is no row slow_clients' "$work/faults"
}
# `make help` and two documents give the same time for a whole run.
times_agree() {
    local times
    times=$(sed -nE 's/^reliability: .* in ([0-9]+) minutes.*/\1/p' tests/tests.mk
        sed -nE 's/.*`make reliability` .* in ([0-9]+) minutes.*/\1/p' docs/testing.md
        sed -nE 's/.*A whole run takes about ([0-9]+) minutes.*/\1/p' "$page")
    echo "minutes: $times"
    [ "$(wc -l <<<"$times")" = 3 ] && [ "$(sort -u <<<"$times" | wc -l)" = 1 ]
}
# A program that never listens replaces the daemon. Without LIMIT_S, the first row would wait for minutes.
a_run_ends() {
    printf '#!/bin/sh\nsleep 1000 & echo $! >>"%s"\nwait\n' "$work/processes" >"$work/daemon"
    chmod +x "$work/daemon"
    ! LIMIT_S=1 LINFORMERD=$work/daemon python3 tests/reliability/reliability.py slow_clients idle_connections >"$work/run" &&
        grep -q 'the whole run took longer than 1 s' "$work/run" && grep -qx 'not ok 1 - slow_clients' "$work/run" &&
        ! grep -q idle_connections "$work/run" || return 1
    while kill -0 "$(cat "$work/processes")" 2>/dev/null; do sleep 0.05; done
}

echo "1..6"
is "the table follows from results.json" check "$page"
is "a table that was edited by hand is found" finds_another_figure
is "a row of results.json that no run has is found" finds_an_unknown_row
is "a row that results.json lacks is found" finds_a_missing_row
is "make help and the documents give the same time for a run" times_agree
is "a run that takes too long ends, with all that it started" a_run_ends
exit $failed
