#!/bin/bash
# prefetch.sh: the compiled code of the bf16 products contains prefetch instructions. A compiler may drop them without a
# message, and only the time of the products would show the loss.
set -euo pipefail
object=${BUILD:-build}/engine/cpu/vector_product_avx512_bf16.o

echo 1..1
if [ "$(uname -m)" != x86_64 ]; then
    echo "ok 1 # SKIP AVX512_BF16 is x86-64's"
    exit 0
fi
env -u MAKEFLAGS -u MAKELEVEL make "$object" >&2
found=$(objdump -d "$object" | grep -c prefetch || true)
if [ "$found" -gt 0 ]; then
    echo "ok 1 - the compiler keeps the prefetches of the tiles"
else
    echo "not ok 1 - the compiler keeps the prefetches of the tiles"
    exit 1
fi
