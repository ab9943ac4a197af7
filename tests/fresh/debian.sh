#!/bin/bash
# debian.sh TARGET [MMDEBSTRAP OPTION…]: a bare Debian (a folder, or a .tar) from the archive. Root. SUITE: which one,
# bookworm (12) by default. Uses this machine's sources when it is that one itself, else Debian’s own, and its proxy for apt if it has one.
# The result holds that proxy's address: it is for tests, not for publication.
set -euo pipefail
target=$1
shift
settings=$(mktemp)
trap 'rm -f "$settings"' EXIT
apt-config dump | grep -E '^Acquire::(https?::|Check-)' >"$settings" || true
sources=()
suite=${SUITE:-bookworm}
if grep -qs "$suite" /etc/apt/sources.list.d/debian.sources; then
    sources=(/etc/apt/sources.list.d/debian.sources)
fi
mmdebstrap --quiet --mode=root --variant=minbase --aptopt="$settings" "$@" "$suite" "$target" "${sources[@]}"
