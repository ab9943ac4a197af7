#!/bin/bash
# mixed.sh: requests logits for every fourth text, and embeddings for the other texts. The texts have MIN_LENGTH to
# MAX_LENGTH bytes, log-uniformly distributed. Most texts are short and a few are long, as in real traffic. For options,
# see lib.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
load_lengths mixed | awk '{
    print NR % 4 ? "/embed " $1 " {\"inputs\": \"@\"}" : "/logits " $1 " {\"inputs\": \"@\", \"positions\": \"last\", \"top_k\": 5}"
}' | load_run mixed
