#!/bin/bash
# cuda_version.sh: only docker/Dockerfile.cuda names the version of CUDA in the image, as ARG CUDA. The other files
# listed below may only name the oldest version that compiles the engine. engine/cuda/toolkit.sh defines this version.
# tests/gpu/test_check.sh may name other versions, because it imitates toolkits and drivers.
set -euo pipefail

# versions_in FILE…: prints "FILE:LINE: VERSION" for each version of CUDA, and of its packages, in the files.
versions_in() {
    grep -HnoiE '(CUDA(=| |-|/|_VERSION[ =]*)v?|libcublas-|cublas-)[0-9]+[.-][0-9]+' "$@" |
        sed -E 's/^([^:]*:[0-9]+):[^0-9]*([0-9]+)[.-]([0-9]+)$/\1: \2.\3/' || true
}

# others OLDEST FILE…: prints the versions in the files, except OLDEST.
others() {
    local oldest=$1
    shift
    versions_in "$@" | grep -vE ": ${oldest//./\\.}\$" || true
}

oldest=$(engine/cuda/toolkit.sh oldest)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 1..3
printf '%s\n' "CUDA $oldest or later" 'FROM nvidia/cuda:x' 'CUDA=99.8.1' 'install libcublas-99-7' 'CUDA 99.6' >"$work/page"
found=$(others "$oldest" "$work/page" | sed 's/.*: //' | xargs)
[ "$found" = "99.8 99.7 99.6" ] || { echo "not ok 1 - the rule finds versions of CUDA in a sample (found: $found)" && exit 1; }
echo "ok 1 - the rule finds versions of CUDA in a sample"

failed=0
said=$(grep -cE '^ARG CUDA=[0-9]+\.[0-9]+\.[0-9]+$' docker/Dockerfile.cuda || true)
more=$(grep -nE '(^|[^0-9.])[0-9]+\.[0-9]+\.[0-9]+([^0-9.]|$)' docker/Dockerfile.cuda | grep -vE '^[0-9]+:ARG CUDA=' || true)
if [ "$said" != 1 ] || [ -n "$more" ]; then
    printf 'not '
    failed=1
fi
echo "ok 2 - docker/Dockerfile.cuda names one version of CUDA${more:+ (also: $more)}"

mapfile -t files < <(find README.md docs docker engine tests/check tests/gpu tests/image tests/README.md tests/tests.mk \
    -type f ! -name Dockerfile.cuda ! -name test_check.sh ! -name cuda_version.sh ! -name '*.json' ! -path '*/__pycache__/*' | sort)
found=$(others "$oldest" "${files[@]}")
[ -z "$found" ] || { printf 'not ' && failed=1; }
echo "ok 3 - ${#files[@]} files name no version of CUDA but $oldest"
[ -z "$found" ] || echo "# ${found//$'\n'/$'\n'# }"
exit $failed
