#!/bin/bash
# test_libraries.sh [ARGS of run.py]: compares the Python libraries with the daemon. Runs test_export.py, then
# test_modules.py, random_modules.py and test_examples.py of tests/modules, and then run.py.
# With SHORT=1, run.py uses only the libraries on PyPI, and 30 models, which are always the same. Its result is then
# printed as a TAP test.
#
# environment.sh creates the Python environment. Some libraries are files that are not on PyPI. Environment variables
# contain the paths of these files (run.py --libraries). Without a variable, the repository is cloned into
# BUILD/libraries.
set -euo pipefail
folder=${BUILD:-build}/libraries
requirements=(tests/libraries/requirements.txt)
[ -n "${SHORT:-}" ] || requirements+=(tests/libraries/requirements_keras.txt)

tests/libraries/environment.sh "${requirements[@]}"
python=$folder/venv/bin/python

# find_source VARIABLE REPOSITORY FILE: exports VARIABLE with the path of FILE. Fails if the file is missing.
find_source() {
    local variable=$1 repository=https://github.com/$2 file=$3 place=$folder/${2##*/}
    local path=${!variable:-$place/$file}
    if [ -z "${!variable:-}" ] && [ ! -e "$path" ]; then
        rm -rf "$place"
        timeout 120 git clone --quiet --depth 1 "$repository" "$place" </dev/null || true
    fi
    if [ ! -e "$path" ]; then
        echo "left out: $repository, which cannot be cloned; $variable=PATH names its $file" >&2
        unset "$variable"
        return 1
    fi
    export "$variable=$path"
}

libraries=()
while read -r name source; do
    # shellcheck disable=SC2086 # $source has three words
    if [ -z "$source" ] || { [ -z "${SHORT:-}" ] && find_source $source; }; then
        libraries+=("--library=$name")
    fi
done < <("$python" tests/libraries/run.py --libraries)
[ ${#libraries[@]} -gt 0 ] || { echo "run.py lists no library" >&2 && exit 1; }

# models ARGUMENTS: compares random models of the found libraries.
models() {
    "$python" tests/libraries/run.py --daemon "${LINFORMERD:-build/linformerd}" --folder "$folder" "${libraries[@]}" "$@"
}

export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore TF_CPP_MIN_LOG_LEVEL=3
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the models are small
status=0
modules=300
[ -z "${SHORT:-}" ] || modules=20
"$python" tests/libraries/test_export.py || status=1
"$python" tests/modules/test_modules.py || status=1
"$python" tests/modules/random_modules.py --daemon "${LINFORMERD:-build/linformerd}" --folder "$folder/modules" \
    --count "$modules" >"$folder/modules.txt" 2>&1 || { status=1 && tail -n 20 "$folder/modules.txt"; }
"$python" tests/modules/test_examples.py || status=1
if [ -z "${SHORT:-}" ]; then
    models "$@" || status=1
else
    result='not ok'
    if models --count 30 --seed 1 "$@" >"$folder/short.txt" 2>&1; then result=ok; else status=1; fi
    sed 's/^/# /' "$folder/short.txt"
    printf '1..1\n%s 1 - %s\n' "$result" "30 random models agree with the daemon, seed 1: $(tail -n 1 "$folder/short.txt")"
fi
exit $status
