#!/bin/bash
# bundle.sh ARCHIVE OF_SHIM… -- PROGRAM…: writes an archive with everything that the tests need on a machine with a GPU:
#   gpu/          the programs PROGRAM…, and the libraries that they load
#   gpu/shim/     the files OF_SHIM…, for a dry run: engine and driver of the shim (CUDA on the CPU), and the tests with
#                 their own kernels
#   gpu/include/  cmocka.h, with which the tests with their own kernels are compiled for a device
# glibc and libstdc++ are not in the archive. Programs that were linked with an older glibc run with a newer one. The
# engine is compiled on the machine with the GPU, and needs the libstdc++ of the compiler there.
set -euo pipefail
archive=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/gpu/shim" "$work/gpu/include"

while [ "$1" != -- ]; do
    strip -o "$work/gpu/shim/${1##*/}" "$1"
    shift
done
shift
for program in "$@"; do
    strip -o "$work/gpu/${program##*/}" "$program"
done
cp /usr/include/cmocka.h "$work/gpu/include/"

# libraries FILE…: prints the libraries that the files load, except glibc, libstdc++ and libgcc.
libraries() {
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s)\.so\.[0-9]+)$'
}

# The CPU engine loads OpenBLAS by name, so ldd does not list it.
# awk reads to the end, because ldconfig fails if its pipe is closed.
openblas=$(ldconfig -p | awk '$1 == "libopenblas.so.0" && !found++ { print $NF }')
{ libraries "$@" "$openblas" && echo "$openblas"; } | sort -u | xargs cp -Lt "$work/gpu"

tar -C "$work" --sort=name -czf "$archive" gpu
