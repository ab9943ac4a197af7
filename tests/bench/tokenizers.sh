#!/bin/bash
# tokenizers.sh [ARGS of tokenizer_rates.py]: compares the rate of linformerd's tokenizer with that of the Python
# package `tokenizers`, on one thread.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/tokenizers/venv.sh
"$python" tests/bench/tokenizer_rates.py --program "${BUILD:-build}/tests/bench/tokenizer" \
    --folder "${BUILD:-build}/bench/tokenizers" "$@"
