#!/bin/bash
# test_tokenizers.sh [ARGS of compare.py]: compares the project's tokenizer with the Python package `tokenizers`.
# Trained tokenizers are compared first, and tokenizers of random parts afterwards.
set -euo pipefail
. tests/tokenizers/venv.sh
"$python" tests/tokenizers/compare.py --program "${BUILD:-build}/tests/tokenizers/encode" "$@"
