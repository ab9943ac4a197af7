#!/bin/bash
# test_tokenizers.sh [ARGS of compare.py]: the tokenizer beside that of PyPI: trained tokenizers, then random parts.
set -euo pipefail
. tests/tokenizers/venv.sh
"$python" tests/tokenizers/compare.py --program "${BUILD:-build}/tests/tokenizers/encode" "$@"
