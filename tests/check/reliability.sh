#!/bin/bash
# reliability.sh: the table of docs/reliability.md is the one that `make reliability` wrote, and its rows are the rows
# of a run. The backquotes are not for the shell, and functions are called by name, so two rules of shellcheck are off.
# shellcheck disable=SC2016,SC2317
set -euo pipefail
page=docs/reliability.md results=tests/reliability/results.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v python3 >/dev/null || {
    echo "1..1"
    echo "ok 1 - reliability # SKIP there is no python3 (docker/packages.sh reliability)"
    exit 0
}
number=0 failed=0
is() { # is NAME COMMAND…: one test
    local name=$1
    shift
    "$@" >"$work/said" 2>&1 || { sed 's/^/# /' "$work/said" && printf 'not ' && failed=1; }
    echo "ok $((++number)) - $name"
}
check() { RESULTS=${2:-$results} PAGE=$1 python3 tests/reliability/page.py check; }
# These tests change one value in a copy.
finds_another_figure() {
    sed '/`slow_clients`/s/clients at a time/clients at once/' "$page" >"$work/page.md"
    ! cmp -s "$page" "$work/page.md" && ! check "$work/page.md"
}
finds_an_unknown_row() {
    sed 's/"slow_clients"/"slow_client"/' "$results" >"$work/results.json"
    ! cmp -s "$results" "$work/results.json" && ! check "$page" "$work/results.json"
}

echo "1..3"
is "the table follows from results.json" check "$page"
is "a table that was edited by hand is found" finds_another_figure
is "a row that no run has is found" finds_an_unknown_row
exit $failed
