#!/bin/bash
# test_image.sh: builds docker/Dockerfile without changes, and runs its image read-only and without capabilities. It
# needs root, podman and other tools. The base image, debian:bookworm-slim, is made from Debian's archive, so no
# registry is needed. If root or a tool is missing, the test is skipped ('docker/packages.sh image' installs the tools).
# Not covered: Docker's own builder and engine, the base image of Docker Hub, other architectures, and compose.yaml.
# cuda.sh covers Dockerfile.cuda.
# shellcheck disable=SC2317 # functions that are called through expect and trap
set -euo pipefail
MAX_MB=${MAX_MB:-200}                       # maximum size of the image in MB. docs/docker.md lists its parts
# Folder that keeps the base image. The first run takes a minute, later runs take seconds.
cache=${CACHE_DIR:-/var/tmp/linformerd-image}
base=docker.io/library/debian:bookworm-slim
name=linformerd-test-$$
image=localhost/$name

skip() {
    echo "1..1"
    echo "ok 1 # SKIP $*"
    exit 0
}
[ "$(id -u)" = 0 ] || skip "the image test needs root"
for tool in podman runc mmdebstrap jq curl ss nsenter; do
    command -v $tool >/dev/null || skip "the image test needs $tool"
done

work=$(mktemp -d)
cleanup() {
    podman rm -f -t 0 "$name" || true
    podman rmi -f "$image" || true
    podman image prune -f --filter until=24h || true # removes layers of older sources
    rm -rf "$work"
} >/dev/null 2>&1
trap cleanup EXIT

# A separate storage for images. runc and cgroupfs also work without systemd, and with both versions of cgroups.
# podman's default limits are higher than root may set without CAP_SYS_RESOURCE.
mkdir -p "$cache"
export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf
cat >"$CONTAINERS_STORAGE_CONF" <<X
[storage]
driver = "overlay"
graphroot = "$cache/graph"
runroot = "$cache/run"
X
cat >"$CONTAINERS_CONF" <<'X'
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
X

# Makes an image like Docker Hub's: without documentation, and without files that apt leaves behind.
make_base() {
    local drop=path-exclude=/usr/share
    cat >"$work/docker-clean" <<'X'
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache ""; Acquire::Languages "none"; Acquire::GzipIndexes "true";
X
    tests/fresh/debian.sh "$work/base.tar" --include=usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
        --dpkgopt=$drop/man/* --dpkgopt=$drop/locale/* --dpkgopt=$drop/info/* --dpkgopt=$drop/doc/* \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' --customize-hook="rm -f \"\$1\"/var/cache/apt/*.bin" \
        --customize-hook="copy-in $work/docker-clean /etc/apt/apt.conf.d"
    podman import -q -c 'CMD ["bash"]' -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
        "$work/base.tar" $base
    rm "$work/base.tar"
}

number=0 failed=0
# expect NAME COMMAND…: a test that passes if the command succeeds.
expect() {
    local what=$1
    shift
    number=$((number + 1))
    if "$@" >"$work/said" 2>&1; then
        echo "ok $number - $what"
    else
        sed 's/^/# /' "$work/said" | tail -n 40
        echo "not ok $number - $what"
        failed=1
    fi
}
inspect() { jq -e "$1" "$work/image.json"; }
# Sends a request in the container's network namespace. In this namespace, the port is free, and no other server can
# answer.
ask() { nsenter -n -t "$pid" curl -fsS --retry-connrefused --retry 100 --retry-delay 1 "$@"; }
on_all_addresses() { nsenter -n -t "$pid" ss -ltnH 'sport = :8080' | tee /dev/stderr | grep -qE '(0\.0\.0\.0|\*|\[::\]):8080'; }
embeds() { ask http://127.0.0.1:8080/embed --json '{"inputs": "hello"}' | jq -e '.[0] | length > 0'; }
ends() { podman stop -t 60 "$name" && [ "$(podman inspect -f '{{.State.ExitCode}}' "$name")" = 0 ]; }

podman image exists $base || make_base >&2
echo 1..10
# The format is Docker's, because podman's own format has no HEALTHCHECK.
expect "the Dockerfile builds unchanged" \
    podman build --isolation chroot --pull=never --format docker -t "$image" -f docker/Dockerfile .
[ $failed = 0 ] || exit 1
podman image inspect "$image" >"$work/image.json"
echo "# size: $(jq '.[0].Size / 1e6 | floor' "$work/image.json") MB"
expect "runs as a numbered user that is not root" inspect '.[0].Config.User | test("^[1-9][0-9]*(:|$)")'
expect "has a HEALTHCHECK" inspect '.[0].Healthcheck.Test != null'
expect "is smaller than $MAX_MB MB" inspect ".[0].Size < $MAX_MB * 1e6"
expect "starts read-only, without capabilities and in 512 MB" podman run -d --name "$name" --network none --read-only \
    --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges --memory 512m --pids-limit 64 "$image"
pid=$(podman inspect -f '{{.State.Pid}}' "$name")
expect "answers /health" ask http://127.0.0.1:8080/health
expect "embeds a text with the built-in model" embeds
expect "listens on all addresses" on_all_addresses
expect "its HEALTHCHECK passes" podman healthcheck run "$name"
expect "ends with 0 at SIGTERM" ends
[ $failed = 0 ] || podman logs "$name" 2>&1 | sed 's/^/# /'
exit $failed
