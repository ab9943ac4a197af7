#!/bin/bash
# ubuntu.sh TARGET [MMDEBSTRAP OPTION…]: writes a bare Ubuntu from the archive into TARGET, a folder or a .tar. Needs
# root. SUITE is the release, by default noble (24.04). Debian has no package with Ubuntu's key, so the script also
# reads the key from the archive. The key must have the fingerprint that Ubuntu publishes.
set -euo pipefail
target=$1
shift
suite=${SUITE:-noble}
archive=http://archive.ubuntu.com/ubuntu
fingerprint=F6ECB3762474EDA9D21B7022871920D1991BC93C # Ubuntu Archive Automatic Signing Key (2018)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt reads the key as another user

path=$(curl -sSf "$archive/dists/$suite/main/binary-amd64/Packages.xz" | xzcat |
    awk -v RS= '/^Package: ubuntu-keyring\n/' | sed -n 's/^Filename: //p')
curl -sSf -o "$work/keyring.deb" "$archive/$path"
dpkg-deb -x "$work/keyring.deb" "$work/keyring"
export GNUPGHOME=$work/gnupg
mkdir -m 700 "$GNUPGHOME"
gpg --quiet --no-default-keyring --keyring "$work/all.gpg" --import \
    "$work/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg"
gpg --quiet --no-default-keyring --keyring "$work/all.gpg" --export "$fingerprint" >"$work/ubuntu.gpg"
[ -s "$work/ubuntu.gpg" ] || { echo "ubuntu.sh: the archive's keyring lacks the key $fingerprint" >&2 && exit 1; }

apt-config dump | grep -E '^Acquire::(https?::|Check-)' >"$work/settings" || true
mmdebstrap --quiet --mode=root --variant=minbase --aptopt="$work/settings" --include=apt,ubuntu-keyring \
    --keyring="$work/ubuntu.gpg" "$@" "$suite" "$target" \
    "deb $archive $suite main universe" \
    "deb $archive $suite-updates main universe"
