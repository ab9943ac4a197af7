#!/bin/bash
# fresh.sh: tests `make run` and `make test` on a bare Debian with only git and make. It needs root and network.
# SUITE: bookworm (Debian 12) by default, or trixie (13).
#   1. as root:            `make run` serves on 127.0.0.1:8080. A second run installs nothing. `make test` passes
#   2. as a user with sudo: `make run` serves
#   3. as a user without:   `make run` says what is missing and who can install it
# It tests the last commit. KEEP=1 keeps the root file systems. Not covered:
# - Ubuntu 24.04, whose archive has the same -dev packages
# - a machine that boots with its own kernel
# - other architectures
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d /var/tmp/linformerd-fresh.XXXXXX)
inside='' # id of the process that keeps the namespaces of the running chroot

cleanup() {
    [ -z "$inside" ] || kill -KILL "$inside" 2>/dev/null || true
    [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
fail() {
    echo "fresh.sh: $*" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail "needs root: it makes root file systems and changes into them"

# in_root ROOT USER COMMAND: runs a command in separate mount and process namespaces. When in_root ends, no process of
# the command remains. in_root replaces the calling shell, so call it in a subshell.
in_root() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    exec unshare --mount --pid --fork --kill-child bash -c '
        set -e
        mount -t proc proc "$1/proc"
        mount -t sysfs -o ro sysfs "$1/sys"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/tmp"
        exec chroot "$1" su - "$2" -c "cd ~/linformerd && $3"' - "$@" </dev/null
}

# serves ROOT USER: `make run` in ROOT must answer requests from outside on port 8080, the port in README.md.
serves() {
    local log=$work/run.log
    ! docker/healthcheck.sh 2>/dev/null || fail "something serves on port 8080 already"
    (in_root "$1" "$2" "make run") >"$log" 2>&1 &
    inside=$!
    until docker/healthcheck.sh 2>/dev/null; do
        kill -0 $inside 2>/dev/null || { cat "$log" && fail "make run ended"; }
        sleep 0.5
    done
    kill -KILL $inside
    wait $inside 2>/dev/null || true
    inside=''
    while docker/healthcheck.sh 2>/dev/null; do sleep 0.1; done
}

say() { echo "== $*, $SECONDS s"; }

say "a bare Debian, ${SUITE:-bookworm}"
tests/fresh/debian.sh "$work/bare.tar" --include=git,make,ca-certificates >"$work/debian.log" 2>&1 ||
    { cat "$work/debian.log" && exit 1; }

# new_root NAME USER: unpacks the bare Debian, with a clean clone in the user's home.
new_root() {
    local root=$work/$1 home
    mkdir "$root"
    tar -C "$root" -xf "$work/bare.tar"
    [ "$2" = root ] || chroot "$root" useradd -m -s /bin/bash "$2"
    home=$(chroot "$root" su - "$2" -c pwd)
    git clone -q --no-hardlinks . "$root$home/linformerd"
    chroot "$root" chown -R "$2:" "$home/linformerd"
}

say "make run as root"
new_root root root
serves "$work/root" root
grep -A 12 '^Missing' "$work/run.log" || fail "make run did not say what it installs"
say "make run once more"
serves "$work/root" root
! grep -E '^Missing|apt' "$work/run.log" || fail "make run installed something again"

say "make test as root"
(in_root "$work/root" root "make test") >"$work/test.log" 2>&1 || { cat "$work/test.log" && fail "make test failed"; }
grep SKIP "$work/test.log" || true
tail -n 1 "$work/test.log"

say "make run as a user without sudo"
new_root user alice
! (in_root "$work/user" alice "make run") >"$work/run.log" 2>&1 || fail "make run passed without its packages"
grep -F 'apt-get install' "$work/run.log" || { cat "$work/run.log" && fail "make run did not say what to install"; }

say "make run as a user with sudo"
chroot "$work/user" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends sudo' >/dev/null 2>&1
echo 'alice ALL=(ALL) NOPASSWD: ALL' >"$work/user/etc/sudoers.d/alice"
serves "$work/user" alice

say "all passed"
