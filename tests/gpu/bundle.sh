#!/bin/bash
# bundle.sh ARCHIVE PLUGIN DRIVER TENSOR PROGRAM…: what a machine with a GPU and nothing else needs to run the tests, as
# one archive: the folder gpu/ with the programs and the libraries that they load; gpu/shim/ with the shim's PLUGIN and
# DRIVER and with TENSOR, which is of one piece with the shim, for a dry run; gpu/include/ with what TENSOR's source needs
# to be compiled for a device. glibc and libstdc++ are not among them: programs that were linked with an older glibc run
# with a newer one, and the engine that is compiled there needs the libstdc++ of its compiler.
set -euo pipefail
archive=$1 plugin=$2 driver=$3 tensor=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/gpu/shim" "$work/gpu/include"

for program in "$@"; do
    strip -o "$work/gpu/${program##*/}" "$program"
done
for program in "$plugin" "$tensor"; do
    strip -o "$work/gpu/shim/${program##*/}" "$program"
done
cp "$driver" "$work/gpu/shim/"
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
