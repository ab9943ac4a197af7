#!/bin/bash
# toolkit_oldest.sh FOLDER: downloads the oldest CUDA toolkit that compiles the engine into FOLDER. This is version
# 12.4, from the section non-free of Debian 13. Nothing is installed on the system. FOLDER receives bin/nvcc and the
# programs that nvcc starts, headers, and the libraries that the engine is linked with. The script uses apt-get without
# root's rights, downloads 1.2 GB, and keeps 0.6 GB. nvcc calls this machine's gcc, which must be version 13 or older.
set -euo pipefail
folder=$1
[ ! -x "$folder/bin/nvcc" ] || exit 0
work=$(mktemp -d "${TMPDIR:-/var/tmp}/linformerd-cuda.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A separate configuration of apt, so that the release of this machine has no effect.
mkdir -p "$work"/{lists/partial,cache/archives/partial,packages,root}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main non-free" >"$work/sources"
options=(-qq -o "Dir::Etc::sourcelist=$work/sources" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
    -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=)
apt-get "${options[@]}" update
(cd "$work/packages" && apt-get "${options[@]}" download nvidia-cuda-toolkit nvidia-cuda-dev libcublaslt12 libcu++-dev)

# The packages have 3 GB. Only the needed files are unpacked.
for package in "$work"/packages/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -C "$work/root" -x --wildcards \
        './usr/bin/*' './usr/lib/nvidia-cuda-toolkit/*' './usr/include/*' './usr/lib/*/libcudart_static.a' \
        './usr/lib/*/libcudadevrt.a' './usr/lib/*/libcublasLt.so*' 2>/dev/null || true # no package has all of these
    rm "$package"
done

# Moves the files to their places in NVIDIA's own toolkit.
usr=$work/root/usr
mkdir -p "$work/made/nvvm/bin" "$work/made/lib64" "$work/made/bin"
mv "$usr/lib/nvidia-cuda-toolkit/bin"/{nvcc,crt} "$usr/bin"/{cudafe++,ptxas,fatbinary,nvlink,bin2c} "$work/made/bin/"
mv "$usr/lib/nvidia-cuda-toolkit/bin/cicc" "$work/made/nvvm/bin/"
mv "$usr/lib/nvidia-cuda-toolkit/libdevice" "$work/made/nvvm/"
mv "$usr/include" "$work/made/"
mv "$usr"/lib/*-linux-gnu/lib* "$work/made/lib64/"
cat >"$work/made/bin/nvcc.profile" <<'X'
TOP                = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH              += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64"
X
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv "$work/made" "$folder"
"$folder/bin/nvcc" --version | sed -n 's/^Cuda.*release/CUDA/p'
