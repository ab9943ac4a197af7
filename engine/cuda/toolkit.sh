#!/bin/bash
# toolkit.sh nvcc|folder|cublas|library|archs|check|check-compiler|clang|oldest: prints a fact about CUDA on this machine.
# Prints nothing if the machine lacks the requested program, folder or library.
#   nvcc     the compiler: on the PATH, or in /usr/local/cuda or /usr/local/nvidia
#   folder   the folder of the compiler's toolkit
#   cublas   the folder above include/cublasLt.h: the compiler's toolkit, /usr/local/cuda, Debian's /usr, or a Python package
#   library  libcublasLt.so in that folder
#   archs    the compute capabilities to compile for: those among 80 90 100 120 that the compiler supports
#   clang    a clang that compiles CUDA with the compiler's headers: version 16 or later
#   oldest   the oldest version of CUDA that can compile the engine
#   check    prints nothing if the engine can be compiled. Otherwise prints what is missing, status 1
#   check-compiler  like check, but does not require cuBLAS
# The environment variables NVCC=PROGRAM and CUBLAS=FOLDER name a compiler and a folder of cuBLAS in other places.
set -euo pipefail
oldest=12.4

find_nvcc() {
    PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin command -v "${NVCC:-nvcc}" || true
}

# Asks the compiler for its folder, because the program on the PATH may be a script that starts the compiler.
toolkit_of_nvcc() {
    local nvcc=$1
    "$nvcc" --dryrun -c -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p'
}

library_in() {
    local found
    for found in "$1"/lib*/libcublasLt.so* "$1"/lib/*-linux-gnu/libcublasLt.so*; do
        [ ! -e "$found" ] || { echo "$found" && return; }
    done
}

# Prints the folders of a Python package for CUDA version $1. The package nvidia-cublas installs nvidia/cu13, and
# nvidia-cublas-cu12 installs nvidia/cublas.
python_folders() {
    local name=nvidia/cu$1
    [ "$1" != 12 ] || name=nvidia/cublas
    python3 -c "import sys; [print(path + '/$name') for path in sys.path if path]" 2>/dev/null || true
}

release() { "$1" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'; }

find_cublas() {
    local nvcc folder release
    [ -z "${CUBLAS:-}" ] || { echo "$CUBLAS" && return; }
    nvcc=$(find_nvcc)
    [ -n "$nvcc" ] || return 0
    release=$(release "$nvcc")
    while read -r folder; do
        if [ -e "$folder/include/cublasLt.h" ] && [ -n "$(library_in "$folder")" ]; then
            realpath "$folder"
            return
        fi
    done < <(toolkit_of_nvcc "$nvcc" && printf '%s\n' /usr/local/cuda /usr && python_folders "${release%%.*}")
}

find_archs() {
    local nvcc known arch archs=()
    nvcc=$(find_nvcc)
    known=$([ -z "$nvcc" ] || "$nvcc" --list-gpu-arch)
    for arch in 80 90 100 120; do
        ! grep -qx "compute_$arch" <<<"$known" || archs+=("$arch")
    done
    echo "${archs[@]}"
}

# Versions 14 and 15 of clang cannot compile the headers of CUDA 13. Their own header for textures needs a
# template that CUDA 13 lacks.
find_clang() {
    local clang
    [ -n "$(find_nvcc)" ] || return 0
    for clang in clang $(compgen -c clang- | grep -xE 'clang-[0-9]+' | sort -rV); do
        command -v "$clang" >/dev/null || continue
        [ "$("$clang" -dumpversion | cut -d . -f 1)" -lt 16 ] || { echo "$clang" && return; }
    done
}

fail() { echo "$*" && return 1; }

check_compiler() {
    local nvcc release
    nvcc=$(find_nvcc)
    [ -n "$nvcc" ] || fail "${NVCC:-nvcc} is not installed: the CUDA toolkit is missing; NVCC=PROGRAM names its compiler"
    release=$(release "$nvcc")
    [ "$(printf '%s\n' $oldest "$release" | sort -V | sed -n 1p)" = $oldest ] ||
        fail "$nvcc is of CUDA ${release:-unknown}; expected $oldest or later"
}

check() {
    local nvcc cublas
    check_compiler
    nvcc=$(find_nvcc)
    cublas=$(find_cublas)
    [ -e "${cublas:-/none}/include/cublasLt.h" ] ||
        fail "include/cublasLt.h is not in ${cublas:-the toolkit of $nvcc}; CUBLAS=FOLDER names the folder above include/"
    [ -n "$(library_in "$cublas")" ] || fail "libcublasLt.so is not in $cublas/lib; CUBLAS=FOLDER names the folder above lib/"
}

case ${1:-} in
nvcc) find_nvcc ;;
folder) realpath "$(toolkit_of_nvcc "$(find_nvcc)")" ;;
cublas) find_cublas ;;
library) library_in "$(find_cublas)" ;;
archs) find_archs ;;
check) check ;;
check-compiler) check_compiler ;;
clang) find_clang ;;
oldest) echo $oldest ;;
*) echo "toolkit.sh: expected nvcc, folder, cublas, library, archs, check, check-compiler, clang or oldest" >&2 && exit 2 ;;
esac
