#!/bin/bash
# environment.sh REQUIREMENTS…: creates the Python environment BUILD/libraries/venv with torch and the packages that the
# files REQUIREMENTS… list. If the requirements change, the environment is created again.
set -euo pipefail
folder=${BUILD:-build}/libraries
requirements=("$@")

if ! cat "${requirements[@]}" tests/modules/requirements.txt | cmp -s - "$folder/venv/installed.txt"; then
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv"
    install() { "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
    # PyPI's torch depends on CUDA, which takes several GB. PyTorch's own index has a torch without CUDA.
    install --no-deps --retries 0 --index-url https://download.pytorch.org/whl/cpu \
        "$(grep -h ^torch== "${requirements[@]}")" || true
    install "${requirements[@]/#/--requirement=}"
    # Tests only load single files of the packages in tests/modules/requirements.txt. These files need no other package.
    install --no-deps --requirement=tests/modules/requirements.txt
    cat "${requirements[@]}" tests/modules/requirements.txt >"$folder/venv/installed.txt"
fi
