#!/bin/bash
# cute.sh FOLDER: downloads headers. FOLDER/cutlass receives those of NVIDIA's CuTe. FOLDER/cuda receives the headers of
# CUDA that CuTe includes. The packages are listed in requirements.txt. CuTe has the BSD-3-Clause licence. The headers
# of CUDA have NVIDIA's licence. Only test_fragments.cu and layouts.cpp use these headers.
set -euo pipefail
folder=$1
wanted=tests/cuda/fragments/requirements.txt

if ! cmp -s "$wanted" "$folder/installed.txt"; then
    rm -rf "$folder"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement="$wanted"
    packages=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    ln -s "$packages/cutlass_library/source/include" "$folder/cutlass"
    ln -s "$packages/nvidia/cu13/include" "$folder/cuda"
    cp "$wanted" "$folder/installed.txt"
fi
