#!/bin/bash
# aarch64.sh: the Makefile compiles the sources for aarch64 without a warning, and vector code becomes NEON
# instructions. Nothing is linked or run. The check is skipped if the compiler is missing ('docker/packages.sh arm'
# installs 150 MB). The build has no JPEG, because libjpeg's headers are installed only for the processor of this
# machine.
set -euo pipefail
compiler=aarch64-linux-gnu-gcc
build=${BUILD:-build}/aarch64

echo 1..2
if ! command -v "$compiler" >/dev/null || ! echo '#include <math.h>' | "$compiler" -fsyntax-only -xc - 2>/dev/null; then
    echo "ok 1 # SKIP $compiler with its C library is not installed"
    echo "ok 2 # SKIP $compiler with its C library is not installed"
    exit 0
fi

failed=0
env -u MAKEFLAGS -u MAKELEVEL make CC="$compiler" BUILD="$build" IMAGE_LIBRARIES=libpng WERROR=-Werror CFLAGS=-O0 \
    "$build"/{server,engine,weights,config}.a >&2 || failed=1
[ "$failed" = 0 ] || printf 'not '
echo "ok 1 - the sources compile for aarch64"

# Counts NEON's multiply-add instructions on four floats in the products of attention.
found=$(aarch64-linux-gnu-objdump -d "$build/engine/cpu/vector_attend_baseline.o" | grep -Ec 'fmla\s+v[0-9]+\.4s' || true)
if [ "$found" -ge 24 ]; then
    echo "ok 2 - attention is compiled to NEON instructions on four floats"
else
    echo "not ok 2 - attention is compiled to NEON instructions on four floats"
    failed=1
fi
exit $failed
