#!/bin/bash
# cute.sh FOLDER: puts the headers of NVIDIA's CuTe into FOLDER/cutlass, and headers of CUDA that these include into
# FOLDER/cuda. The packages are those of requirements.txt. CuTe has the BSD-3-Clause licence, and the headers of CUDA have
# NVIDIA's. Only the test of fragments uses them.
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
