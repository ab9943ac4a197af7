#!/bin/bash
# style.sh: C sources are as clang-format leaves them, shell scripts are without what shellcheck finds.
# A tool that is not installed is skipped by name: 'docker/packages.sh check' brings both.
set -euo pipefail
failed=0
version=14 # Debian 12's; others break lines elsewhere

# result NUMBER STATUS TOOL
result() {
    [ "$2" = 0 ] || failed=1
    [ "$2" = 0 ] || printf 'not '
    echo "ok $1 - $3 finds nothing"
}

files() { find config weights engine server tests docker .ci -type f "$@" -print0; }

echo 1..2
if ! command -v clang-format >/dev/null; then
    echo "ok 1 # SKIP clang-format is not installed"
elif ! clang-format --version | grep -q "version $version\."; then
    echo "ok 1 # SKIP clang-format is not version $version"
else
    status=0
    files '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' ')' | xargs -0 clang-format --dry-run -Werror || status=1
    result 1 $status clang-format
fi

if ! command -v shellcheck >/dev/null; then
    echo "ok 2 # SKIP shellcheck is not installed"
else
    status=0
    files '(' -name '*.sh' -o -path .ci/run ')' | xargs -0 shellcheck -x || status=1 # .ci/run has no suffix
    result 2 $status shellcheck
fi
exit $failed
