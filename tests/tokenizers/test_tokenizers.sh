#!/bin/bash
# test_tokenizers.sh [ARGS of compare.py]: compares the tokenizer with the one on PyPI: first trained tokenizers, then
# random parts.
set -euo pipefail
. tests/tokenizers/venv.sh
"$python" tests/tokenizers/compare.py --program "${BUILD:-build}/tests/tokenizers/encode" "$@"
