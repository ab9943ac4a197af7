#!/bin/bash
# tokenizers.sh [ARGS of tokenizer_rates.py]: compares the tokenizer's rate with that of the package `tokenizers` of
# PyPI, on one thread.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/tokenizers/venv.sh
"$python" tests/bench/tokenizer_rates.py --program "${BUILD:-build}/tests/bench/tokenizer" \
    --folder "${BUILD:-build}/bench/tokenizers" "$@"
