#!/bin/bash
# embed.sh: requests embeddings of texts of LENGTH bytes. For options, see lib.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
load_lengths uniform | sed 's|.*|/embed & {"inputs": "@"}|' | load_run embed
