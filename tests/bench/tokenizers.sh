#!/bin/bash
# tokenizers.sh [ARGS of tokenizer_rates.py]: the tokenizer's rate beside that of the `tokenizers` of PyPI, on one thread.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/tokenizers/venv.sh
"$python" tests/bench/tokenizer_rates.py --program "${BUILD:-build}/tests/bench/tokenizer" \
    --folder "${BUILD:-build}/bench/tokenizers" "$@"
