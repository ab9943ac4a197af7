#!/bin/bash
# logits.sh: requests the five most probable tokens at the last position of texts of LENGTH bytes. For options, see
# lib.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
load_lengths uniform | sed 's|.*|/logits & {"inputs": "@", "positions": "last", "top_k": 5}|' | load_run logits
