#!/bin/bash
# mixed.sh: embeddings and, every fourth, logits of texts of MIN_LENGTH to MAX_LENGTH bytes, their lengths uniform in
# the logarithm: many short, few long, as traffic is. Options: see lib.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
load_lengths mixed | awk '{
    print NR % 4 ? "/embed " $1 " {\"inputs\": \"@\"}" : "/logits " $1 " {\"inputs\": \"@\", \"positions\": \"last\", \"top_k\": 5}"
}' | load_run mixed
