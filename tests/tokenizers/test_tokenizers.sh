#!/bin/bash
# test_tokenizers.sh [ARGS of compare.py]: the tokenizer beside that of PyPI: trained tokenizers, then random parts.
# Makes the environment BUILD/tokenizers/venv anew when its requirements change.
set -euo pipefail
folder=${BUILD:-build}/tokenizers
requirements=tests/tokenizers/requirements.txt
if ! cmp -s "$requirements" "$folder/venv/installed.txt"; then
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "--requirement=$requirements"
    cp "$requirements" "$folder/venv/installed.txt"
fi
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false
"$folder/venv/bin/python" tests/tokenizers/compare.py --program "${BUILD:-build}/tests/tokenizers/encode" "$@"
