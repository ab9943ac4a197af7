#!/bin/bash
# mixed.sh: requests embeddings, and for every fourth text logits. The texts have MIN_LENGTH to MAX_LENGTH bytes,
# uniform in the logarithm. So many texts are short, and a few are long, as in real traffic. For options, see lib.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
load_lengths mixed | awk '{
    print NR % 4 ? "/embed " $1 " {\"inputs\": \"@\"}" : "/logits " $1 " {\"inputs\": \"@\", \"positions\": \"last\", \"top_k\": 5}"
}' | load_run mixed
