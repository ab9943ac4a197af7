#!/bin/bash
# release.sh SUITE…: tests the packages on bare systems of these releases: bookworm (Debian 12), trixie (Debian 13),
# noble (Ubuntu 24.04). Needs root, network, and the wheel of `make wheel`. For each release:
#   1. `make deb` builds the packages there, and lintian finds no error and no warning
#   2. on another bare system, apt installs the package, and the daemon serves. All files of the package and the user
#      exist. After a purge, the files do not exist. The user stays
#   3. an upgrade and a removal call systemctl with the right arguments. An upgrade does not stop the socket
#   4. on the system of step 2, pip installs the wheel into an empty environment, and the daemon serves
# Not covered: systemd, which needs a machine that boots. A script in the place of systemctl records the calls of dpkg's
# scripts. KEEP=1 leaves the root file systems.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${BUILD:-build}")
cache=$build/packages
work=$(mktemp -d /var/tmp/linformerd-release.XXXXXX)
cleanup() { [ -n "${KEEP:-}" ] || rm -rf "$work"; }
trap cleanup EXIT
fail() {
    echo "release.sh: $*" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail "needs root: it makes root file systems and changes into them"
wheels=("$build"/wheel/linformerd-*.whl)
wheel=${wheels[0]}
[ -e "$wheel" ] || fail "no wheel in $build/wheel: make wheel"

# in_root ROOT COMMAND: runs a command in separate mount and process namespaces. When in_root ends, no process of the
# command remains.
in_root() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --pid --fork --kill-child bash -c '
        set -e
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/tmp"
        exec chroot "$1" /bin/bash -euc "$2"' - "$@" </dev/null
}

# logged NAME COMMAND…: runs a command. Its output goes to a file, and if it fails, to the terminal.
logged() {
    local log=$work/$1.log
    shift
    "$@" >"$log" 2>&1 || { tail -n 60 "$log" && fail "$*"; }
}

# new_root SUITE ROOT: unpacks a bare system into ROOT. The first call for a suite makes the archive, and later calls
# use it again.
new_root() {
    local suite=$1 root=$2 bare=$cache/$1.tar script=tests/fresh/debian.sh
    [ "$suite" != noble ] || script=tests/packages/ubuntu.sh
    mkdir -p "$cache" "$root"
    if [ ! -e "$bare" ]; then
        SUITE=$suite logged bare "$script" "$bare.part.tar" --include=make,git,ca-certificates,python3-venv
        mv "$bare.part.tar" "$bare"
    fi
    tar -C "$root" -xf "$bare"
}

# Functions for the commands that in_root runs. serve COMMAND…: starts the daemon on a free port, sends a request with
# bash, and ends the daemon. files: prints the files with the name of the package, except files that pip, apt and the
# shell write for themselves. record_systemctl: makes dpkg's scripts believe that systemd runs and both units are
# enabled and active. Each call of systemctl by these scripts is then a line of /tmp/systemctl.
# shellcheck disable=SC2016 # expanded within the root
functions='
    record_systemctl() {
        mkdir -p /run/systemd/system /root/fake
        printf "%s\n" "#!/bin/sh" "echo \"\$*\" >>/tmp/systemctl" "case \"\$*\" in *is-enabled*) echo enabled ;; esac" \
            >/root/fake/systemctl
        chmod +x /root/fake/systemctl
        : >/tmp/systemctl
    }
    serve() {
        "$@" --port 0 2>/tmp/log &
        until grep -q "listening on" /tmp/log; do kill -0 $! || { cat /tmp/log; exit 1; }; sleep 0.1; done
        port=$(sed -n "s,^.*listening on http://127.0.0.1:,,p" /tmp/log)
        exec 3<>"/dev/tcp/127.0.0.1/$port"
        printf "POST /embed HTTP/1.0\r\nContent-Length: 16\r\n\r\n{\"inputs\": \"cp\"}" >&3
        grep -q "^\[\[-\?[0-9]" <&3
        kill $! && wait $!
        grep "model loaded name=builtin " /tmp/log
    }
    files() {
        find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /root -o -path /var/log -o -path /var/cache \) \
            -prune -o -iname "*linformerd*" -print
    }'

for suite in "$@"; do
    echo "== $suite, $SECONDS s"
    root=$work/$suite-build
    new_root "$suite" "$root"
    git clone -q --no-hardlinks . "$root/root/linformerd"
    logged build in_root "$root" 'cd /root/linformerd && make deb >/root/make.log 2>&1 || { tail -n 50 /root/make.log; exit 1; }
        command -v lintian'
    echo "make deb, and lintian agrees, $SECONDS s"

    clean=$work/$suite
    new_root "$suite" "$clean"
    mkdir "$clean/root/deb"
    cp "$root"/root/linformerd/build/deb/linformerd_*.deb "$wheel" "$clean/root/deb/"
    rm -rf "$root"
    # shellcheck disable=SC2016 # expanded within the root
    logged install in_root "$clean" "$functions"'
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq && apt-get install -y -qq /root/deb/linformerd_*.deb
        serve linformerd
        getent passwd linformerd
        ls /usr/share/man/man8/linformerd.8.gz /usr/share/bash-completion/completions/linformerd \
            /usr/share/zsh/vendor-completions/_linformerd /usr/lib/systemd/system/linformerd.{service,socket} \
            /usr/lib/sysusers.d/linformerd.conf /etc/default/linformerd \
            /usr/share/doc/linformerd/examples/linformerd.example.json
        files | grep -x /usr/bin/linformerd

        record_systemctl
        PATH=/root/fake:$PATH dpkg -i /root/deb/linformerd_*.deb
        sed "s/^/upgrade: systemctl /" /tmp/systemctl
        grep -x "try-restart linformerd.service" /tmp/systemctl
        if grep -E "(stop|restart) .*linformerd.socket" /tmp/systemctl; then exit 1; fi
        : >/tmp/systemctl
        PATH=/root/fake:$PATH dpkg -r linformerd
        sed "s/^/removal: systemctl /" /tmp/systemctl
        grep -x "stop linformerd.service linformerd.socket" /tmp/systemctl
        rm -r /root/fake /run/systemd/system

        apt-get purge -y -qq linformerd
        left=$(files)
        [ -z "$left" ] || { echo "left: $left"; exit 1; }'
    grep "model loaded" "$work/install.log" | grep -o 'kernels="[^"]*"'
    echo "apt installs, serves and purges, and an upgrade keeps the socket, $SECONDS s"

    logged wheel in_root "$clean" "$functions"'
        apt-get autoremove -y -qq --purge # this also removes the libraries that apt installed for the package
        if ls /usr/lib/*/libmicrohttpd.so.* /usr/lib/*/libopenblas.so.* 2>/dev/null; then exit 1; fi
        python3 -m venv /root/venv && /root/venv/bin/pip install -q --no-index /root/deb/linformerd-*.whl
        serve /root/venv/bin/linformerd
        cd /root && venv/bin/python -c "
import linformerd
with linformerd.serve() as server:
    print(len(server.embed([\"a\", \"b\"])), server.generate(\"This option\", max_new_tokens=5, seed=2))"'
    grep "Generation(" "$work/wheel.log"
    echo "pip installs the wheel, and it serves, $SECONDS s"
    rm -rf "$clean"
done
echo "== all passed, $SECONDS s"
