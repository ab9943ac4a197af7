#!/bin/bash
# test_libraries.sh [ARGS of run.py]: the five Python libraries against the daemon. Makes the environment BUILD/libraries/venv
# anew when requirements.txt changes, and finds the two libraries that are not on PyPI: a checkout that a variable names,
# else one in BUILD/libraries, which is cloned when it is not there.
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

# checkout VARIABLE REPOSITORY FILE: exports VARIABLE, the folder of a checkout that has FILE; fails when there is none.
checkout() {
    local variable=$1 place=${!1:-$folder/${2##*/}} file=$3
    if [ -z "${!1:-}" ] && [ ! -e "$place/$file" ]; then
        rm -rf "$place"
        timeout 120 git clone --quiet --depth 1 "https://github.com/$2" "$place" </dev/null || true
    fi
    if [ ! -e "$place/$file" ]; then
        echo "left out: https://github.com/$2 cannot be cloned; $variable=FOLDER names a checkout of it" >&2
        return 1
    fi
    export "$variable=$place"
}

libraries=(linformer linear_attention_transformer linformer_pytorch)
checkout LINEAR_MULTIHEAD_ATTENTION kuixu/Linear-Multihead-Attention linear_multihead_attention.py &&
    libraries+=(linear_multihead_attention)
checkout KERAS_LINFORMER dholland42/linformer linformer/attention.py && libraries+=(keras)

export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore TF_CPP_MIN_LOG_LEVEL=3
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the models are small
status=0
if [ -e tests/libraries/test_export.py ]; then
    "$folder/venv/bin/python" tests/libraries/test_export.py || status=1
fi
"$folder/venv/bin/python" tests/libraries/run.py --daemon "${LINFORMERD:-build/linformerd}" --folder "$folder" \
    "${libraries[@]/#/--library=}" "$@" || status=1
exit $status
