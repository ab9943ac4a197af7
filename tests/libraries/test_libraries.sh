#!/bin/bash
# test_libraries.sh [ARGS of run.py]: the five Python libraries against the daemon. Makes the environment
# BUILD/libraries/venv anew when requirements.txt changes, and finds the two libraries that are not on PyPI: KUIXU_PY and
# KERAS_PY name their files, else their repositories are cloned into BUILD/libraries.
set -euo pipefail
folder=${BUILD:-build}/libraries
wanted=tests/libraries/requirements.txt

if ! cmp -s "$wanted" "$folder/venv/installed.txt"; then
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv"
    install() { "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
    # PyPI's torch brings CUDA along, several GB; PyTorch's own index has one without.
    install --no-deps --retries 0 --index-url https://download.pytorch.org/whl/cpu "$(grep ^torch== "$wanted")" || true
    install -r "$wanted"
    cp "$wanted" "$folder/venv/installed.txt"
fi

# find_source VARIABLE REPOSITORY FILE: exports VARIABLE, the path of FILE; fails when there is none.
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

libraries=(linformer linear_attention_transformer linformer_pytorch)
find_source KUIXU_PY kuixu/Linear-Multihead-Attention linear_multihead_attention.py &&
    libraries+=(linear_multihead_attention)
find_source KERAS_PY dholland42/linformer linformer/attention.py &&
    libraries+=(keras)

export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore TF_CPP_MIN_LOG_LEVEL=3
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the models are small
status=0
"$folder/venv/bin/python" tests/libraries/test_export.py || status=1
"$folder/venv/bin/python" tests/libraries/run.py --daemon "${LINFORMERD:-build/linformerd}" --folder "$folder" \
    "${libraries[@]/#/--library=}" "$@" || status=1
exit $status
