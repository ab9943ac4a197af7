#!/bin/bash
# deb.sh: writes packages for this machine's release (Debian 12 or 13, or Ubuntu 24.04) into BUILD/deb. The package
# linformerd-cuda is only written if nvcc and cuBLAS are installed. `make deb` calls this script. It fails if lintian
# finds an error or a warning.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build}")
work=$build/deb
# shellcheck source=/dev/null
. /etc/os-release
version=$(sed -nE 's/^#define LINFORMERD_VERSION "(.*)"$/\1/p' config/config.h)
full=$version+$ID$VERSION_ID # such as 0.1.0+debian12. A newer release has a newer package
date=$(git log -1 --format=%cD 2>/dev/null || date -R)

# dpkg expects the folder debian beside the sources. Here this folder is in docker, so both are copied.
rm -rf "$work/source" "$work"/*.deb
mkdir -p "$work/source"
cp -a Makefile LICENSE CHANGELOG.md config docker docs engine server weights "$work/source"
cp -a docker/debian "$work/source/debian"
for unit in docker/systemd/linformerd*.service docker/systemd/linformerd*.socket; do
    [ ! -e "$unit" ] || cp "$unit" "$work/source/debian/"
done
cat >"$work/source/debian/changelog" <<X
linformerd ($full) ${VERSION_CODENAME}; urgency=medium

  * Built for $PRETTY_NAME. CHANGELOG.md says what is new.

 -- linformerd contributors <linformerd@packages.example.org>  $date
X

profiles=()
if engine/cuda/toolkit.sh check >/dev/null 2>&1; then
    profiles=(--build-profiles=pkg.linformerd.cuda)
fi
cd "$work/source"
OBJECTS=$work/objects dpkg-buildpackage --build=binary --no-sign "${profiles[@]}" >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log" >&2 && exit 1; }
! command -v lintian >/dev/null || lintian --allow-root --fail-on error,warning "$work"/*.changes
ls "$work"/*.deb
