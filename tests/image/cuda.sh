#!/bin/bash
# cuda.sh: builds docker/Dockerfile.cuda unchanged, and runs its image on the CPU. The script needs neither NVIDIA's
# images and archive, nor a GPU. Ubuntu 24.04 from its own archive replaces NVIDIA's images. The replacement of the
# image for compiling contains this machine's CUDA toolkit. The replacement of the image for running contains a package
# libcublas-VERSION, made from this machine's cuBLAS. So each RUN line is executed, nvcc compiles the engine with
# Ubuntu's compiler, and the engine finds its libraries. The test does not cover other contents of NVIDIA's images.
# It needs root, podman, mmdebstrap, dpkg-dev, network, and nvcc in TOOLKIT=FOLDER (/usr/local/cuda). CUBLAS=FOLDER is
# the folder above include/cublasLt.h, by default the toolkit's. The test is not part of `make test`, because it takes
# minutes and 4 GB. CACHE_DIR keeps the replacements of the images.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${CACHE_DIR:-/var/tmp/linformerd-cuda-image}
toolkit=$(realpath "${TOOLKIT:-/usr/local/cuda}")
cublas=${CUBLAS:-$toolkit}
cuda=$(sed -n 's/^ARG CUDA=//p' docker/Dockerfile.cuda)
release=$(cut -d . -f 1,2 <<<"$cuda")
devel=docker.io/nvidia/cuda:$cuda-devel-ubuntu24.04
base=docker.io/nvidia/cuda:$cuda-base-ubuntu24.04
image=localhost/linformerd-cuda-test
work=$(mktemp -d /var/tmp/linformerd-cuda.XXXXXX)
name=linformerd-cuda-$$
trap 'podman rm -f -t 0 "$name" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

[ -e "$cublas/include/cublasLt.h" ] || { echo "no cuBLAS in $cublas; CUBLAS names its folder" >&2 && exit 1; }
mkdir -p "$cache"
export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/graph"\nrunroot = "%s/run"\n' "$cache" "$cache" >"$CONTAINERS_STORAGE_CONF"
cat >"$CONTAINERS_CONF" <<'X'
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
X

# ubuntu PACKAGES: makes a bare Ubuntu in $work/root. Debian has no key of Ubuntu, so the signature of the archive is
# not checked. The result is only for this test.
ubuntu() {
    rm -rf "$work/root"
    apt-config dump | grep -E '^Acquire::(https?::|Check-)' >"$work/apt.conf" || true
    printf 'deb [trusted=yes] http://archive.ubuntu.com/ubuntu %s main universe\n' noble noble-updates >"$work/ubuntu.list"
    mmdebstrap --quiet --mode=root --variant=minbase --format=directory --aptopt="$work/apt.conf" \
        --include="apt,ca-certificates$1" noble "$work/root" "$work/ubuntu.list"
}

# import IMAGE PATH: makes an image from $work/root. PATH is put before the usual PATH.
import() {
    tar -C "$work/root" -c . | podman import -q -c 'CMD ["bash"]' \
        -c "ENV PATH=$2/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" - "$1"
}

make_devel() {
    ubuntu ,build-essential
    cp -a "$toolkit" "$work/root/usr/local/cuda"
    cp -an "$cublas"/include/cublas* "$work/root/usr/local/cuda/include/"
    cp -an "$cublas"/lib*/libcublas{,Lt}.so.* "$work/root/usr/local/cuda/lib64/"
    import "$devel" /usr/local/cuda/bin:
}

make_base() {
    local package=$work/package archive=$work/root/opt/archive folder=usr/local/cuda-$release/targets/x86_64-linux/lib
    ubuntu ''
    mkdir -p "$package/DEBIAN" "$package/$folder" "$archive"
    printf '%s\n' "Package: libcublas-${release/./-}" "Version: $release" 'Architecture: amd64' \
        'Maintainer: nobody <nobody@localhost>' 'Description: stand-in' >"$package/DEBIAN/control"
    cp "$cublas"/lib*/libcublas{,Lt}.so.* "$package/$folder/"
    dpkg-deb -Znone -b "$package" "$archive/libcublas.deb"
    (cd "$archive" && dpkg-scanpackages . >Packages)
    echo 'deb [trusted=yes] file:/opt/archive ./' >"$work/root/etc/apt/sources.list.d/archive.list"
    rm -rf "$package"
    import "$base" ''
}

podman image exists "$devel" || make_devel
podman image exists "$base" || make_base
podman build --isolation chroot --pull=never --format docker -t "$image" -f docker/Dockerfile.cuda .
podman run -d --name "$name" --network none --read-only --read-only-tmpfs=false --cap-drop all \
    --security-opt no-new-privileges "$image"
for _ in $(seq 60); do
    if podman healthcheck run "$name" 2>/dev/null; then
        break
    fi
    sleep 1
done
podman healthcheck run "$name"
podman logs "$name" 2>&1 | tee "$work/log"
grep -q 'no NVIDIA driver' "$work/log" # the engine was loaded, and the log contains the reason why the CPU serves
podman stop -t 60 "$name"
[ "$(podman inspect -f '{{.State.ExitCode}}' "$name")" = 0 ]
echo "built and run: $(podman image inspect -f '{{.Size}}' "$image") bytes"
