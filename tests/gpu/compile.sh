#!/bin/bash
# compile.sh FOLDER CAPABILITY CUBLAS: compiles libengine_cuda.so and the tests with their own kernels for one compute
# capability, and writes them into FOLDER. The script needs nvcc but not make, because a machine that runs
# tests/gpu/check.sh may lack make. The flags are those of the Makefile. FOLDER contains include/cmocka.h and
# libcmocka.so.0 from the archive of bundle.sh. CUBLAS is the folder that contains include/cublasLt.h. If the sources
# have not changed, files from an earlier run are used.
set -euo pipefail
folder=$1 capability=$2 cublas=$3
tests=(test_tensor test_split)
made=$folder/../gpu_made # not in FOLDER, which is unpacked again in each run
flags=(-std=c++20 -O3 -gencode "arch=compute_$capability,code=sm_$capability"
    -gencode "arch=compute_$capability,code=compute_$capability" -I. -Xcompiler "-idirafter,$cublas/include"
    -Xcompiler "-fPIC,-fvisibility=hidden,-Werror=switch")

# Prints a digest of all files that a source may include, and of the compiler and its flags.
digest() {
    {
        echo "$cublas ${flags[*]} ${tests[*]}"
        nvcc --version
        find engine config weights tests/cuda -name '*.cu' -o -name '*.h' | LC_ALL=C sort | xargs cat
    } | sha256sum
}

make_test() {
    nvcc "${flags[@]}" -Xcompiler "-idirafter,$folder/include" -cudart static -o "$made/$1" \
        "tests/cuda/$1.cu" -Xlinker "$folder/libcmocka.so.0" -Xlinker "-rpath=\$ORIGIN"
}

make_engine() {
    printf '%s\n' engine/cuda/*.cu | xargs -P "$(nproc)" -I SOURCE nvcc "${flags[@]}" -c -odir "$made" SOURCE
    nvcc "${flags[@]}" -shared -cudart static -Xlinker --exclude-libs,ALL -o "$made/libengine_cuda.so" "$made"/*.o \
        -Xlinker "$(CUBLAS=$cublas engine/cuda/toolkit.sh library)"
}

digest=$(digest)
if [ "$(cat "$made/digest" 2>/dev/null)" != "$digest" ]; then
    rm -rf "$made"
    mkdir -p "$made"
    (for name in "${tests[@]}"; do make_test "$name"; done) &
    make_engine
    wait $!
    echo "$digest" >"$made/digest"
fi
cp "$made/libengine_cuda.so" "${tests[@]/#/$made/}" "$folder/"
