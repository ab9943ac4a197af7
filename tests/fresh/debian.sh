#!/bin/bash
# debian.sh TARGET [MMDEBSTRAP OPTION…]: writes a bare Debian from the archive into TARGET, a folder or a .tar. Needs
# root. SUITE is the release, by default bookworm (Debian 12). If this machine has the same release, its apt sources are
# used, otherwise Debian's own. If this machine has a proxy for apt, the result contains the proxy's address. So the
# result is for tests, not for publication.
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
