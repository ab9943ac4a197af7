#!/bin/bash
# bundle.sh ARCHIVE OF_SHIM… -- PROGRAM…: one archive with all that the tests need on a machine with a GPU:
#   gpu/          the programs, and the libraries that they load
#   gpu/shim/     OF_SHIM, for a dry run: the shim's engine and driver, and the tests with kernels of their own
#   gpu/include/  a header that the sources of these tests need, to be compiled for a device
# glibc and libstdc++ are not in the archive. Programs that were linked with an older glibc run with a newer one. The
# engine is compiled on that machine, and needs the libstdc++ of its compiler.
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

# libraries FILE…: the libraries that the files load, except the system's own.
libraries() {
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s)\.so\.[0-9]+)$'
}

# OpenBLAS is loaded by name, for what runs on the CPU.
openblas=$(ldconfig -p | awk '$1 == "libopenblas.so.0" && !found++ { print $NF }') # awk reads on: ldconfig fails else
{ libraries "$@" "$openblas" && echo "$openblas"; } | sort -u | xargs cp -Lt "$work/gpu"

tar -C "$work" --sort=name -czf "$archive" gpu
