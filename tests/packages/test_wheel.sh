#!/bin/bash
# test_wheel.sh: tests the wheel that `make wheel` built, in TAP, in two virtual environments. BUILD/packages/bare
# contains only the wheel. BUILD/packages/full also contains torch and the Python libraries. release.sh tests the wheel
# on other releases of the system.
# shellcheck disable=SC2317 # functions that are called through check
set -euo pipefail
build=${BUILD:-build}
work=$build/packages
max_mb=60
unset LINFORMERD # so the wheel's daemon is tested
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
export NO_PROXY='*' no_proxy='*' # the daemon is on this machine
wheels=("$build"/wheel/linformerd-*.whl)
wheel=${wheels[0]}
[ -e "$wheel" ] || { echo "test_wheel.sh: no wheel in $build/wheel: make wheel" >&2 && exit 1; }

# environment NAME FILE: makes the environment NAME if it is missing, or if the content of FILE has changed. Installs
# the wheel into it.
environment() {
    local folder=$work/$1
    if ! cmp -s "$2" "$folder/installed.txt"; then
        rm -rf "$folder"
        python3 -m venv "$folder"
        "$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$2"
        cp "$2" "$folder/installed.txt"
    fi
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-index --force-reinstall --no-deps "$wheel"
}

mkdir -p "$work"
tests/libraries/environment.sh tests/libraries/requirements.txt
environment bare /dev/null
environment full tests/packages/requirements.txt
bare=$work/bare/bin/python full=$work/full/bin/python
realpath "$build"/libraries/venv/lib/python3*/site-packages >"$("$full" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/libraries.pth"

number=0 failed=0
check() {
    local output name=$1
    shift
    number=$((number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $number - $name"
    else
        failed=1
        echo "not ok $number - $name"
        echo "# ${output//$'\n'/$'\n# '}"
    fi
}

wheel_is_small() {
    stat --format=%s "$wheel"
    [ "$(stat --format=%s "$wheel")" -lt $((max_mb * 1000 * 1000)) ]
}

# auditwheel reads the symbols of all files itself. So its platform tag is independent of wheel.py.
auditwheel_agrees() {
    local platform=${wheel%.whl}
    "$full" -m auditwheel show "$wheel" | tr -s '\n' ' ' | tee /dev/stderr |
        grep -qF "following platform tag: \"${platform##*-}\""
}

sources_are_typed() { "$full" -m mypy --strict --cache-dir "$work/mypy" weights/python/linformerd; }

# mypy reads the package in the place where pip installed it, as it does for a user.
users_see_the_types() {
    local found expected
    found=$("$full" -m mypy --strict --cache-dir "$work/mypy" tests/packages/typed.py | tee /dev/stderr |
        sed -n 's/^.*Revealed type is "\(.*\)"$/\1/p')
    expected=$(sed -n 's/^.*reveal_type.*  # //p' tests/packages/typed.py)
    [ "$found" = "$expected" ] || { echo "expected $expected" && return 1; }
}

same_twice() {
    local before
    before=$(sha256sum <"$wheel")
    MAKEFLAGS="" make --no-print-directory wheel BUILD="$build" && [ "$before" = "$(sha256sum <"$wheel")" ]
}

echo 1..5
check "the wheel is below $max_mb MB" wheel_is_small
check "auditwheel finds the platform in the name of the wheel" auditwheel_agrees
check "mypy --strict accepts the sources" sources_are_typed
check "mypy --strict knows the types of the installed package" users_see_the_types
check "a second build of the same sources makes the same wheel" same_twice
FOLDER=$(mktemp -d)
export FOLDER
trap 'rm -rf "$FOLDER"' EXIT
"$bare" tests/packages/test_wheel.py || failed=1
"$full" tests/packages/test_exporter.py || failed=1
"$full" tests/packages/test_notebook.py || failed=1
"$full" tests/packages/test_documents.py || failed=1
exit $failed
