#!/bin/bash
# packages.sh GROUP…: installs the distribution's packages that the groups need, and prints their names and reasons. If
# all are installed, the script ends quickly. The Makefile and the images use this list, so there is no other list.
# "a|b" means that a or b is needed. If both are missing, a is installed, or b if the distribution lacks a. A package
# with "|" at the end is useful, but not needed. It is installed only if a needed package is missing, too.
set -euo pipefail

list='
build make                                     drives the build
build gcc                                      C compiler, with OpenMP
build libc6-dev                                C headers
build pkg-config                               finds the libraries below
build libmicrohttpd-dev                        HTTP server
build libgnutls28-dev                         TLS and digests, which libmicrohttpd uses, too
build libjansson-dev                           JSON
build zlib1g-dev                               gzip and deflate
build libjpeg-dev                              JPEG images
build libpng-dev                               PNG images
build libonig-dev                              regular expressions of tokenizers
build libutf8proc-dev                          normal forms of Unicode, for tokenizers
build libopenblas0-openmp                      matrix products, loaded when the daemon starts
build libdnnl-dev|                             oneDNN: products with weights, twice as fast with AVX-512
run   libmicrohttpd12t64|libmicrohttpd12       HTTP server
run   libgnutls30t64|libgnutls30               TLS and digests, which libmicrohttpd uses, too
run   libjansson4                              JSON
run   zlib1g                                   gzip and deflate
run   libjpeg62-turbo|libjpeg-turbo8           JPEG images
run   libpng16-16t64|libpng16-16               PNG images
run   libonig5                                 regular expressions of tokenizers
run   libutf8proc3|libutf8proc2                normal forms of Unicode, for tokenizers
run   libgomp1                                 threads (OpenMP)
run   libopenblas0-openmp                      matrix products, loaded when the daemon starts
run   libdnnl2|                                oneDNN: products with weights, twice as fast with AVX-512
test  g++                                      kernels of the CUDA engine, on the CPU
test  libcmocka-dev                            unit tests
test  libzstd-dev                              reads PTX that nvcc has compressed
test  libcurl4-openssl-dev|libcurl4-gnutls-dev HTTP client of the tests
test  curl                                     load scripts
test  groff-base                               prints the manual page
test  zsh                                      completes flags
clients python3-venv                           clients from PyPI
console python3-venv                           packages from PyPI that drive the browser
console chromium                               browser
console fonts-dejavu-core                      letters of the page
bench wrk                                      HTTP load
bench python3-venv                             peers from PyPI
bench python3-dev                              what torch.compile compiles against
bench g++                                      what torch.compile compiles with
bench git                                      the Keras layer, which is not on PyPI
libraries git                                  clones the two libraries that are not on PyPI
fuzz  clang                                    libFuzzer
fuzz  libclang-rt-dev                          its sanitizers
fuzz  libomp-dev                               its OpenMP
check clang-format                             style of the C sources
check systemd                                  checks the units of the service
check shellcheck                               faults in shell scripts
check clang-19|clang-16                        checks the CUDA engine, if nvcc is installed
arm   gcc-aarch64-linux-gnu                    compiles the sources for aarch64
arm   libc6-dev-arm64-cross                    C headers for it
reliability python3                            faults and hostile clients
reliability faketime                           clocks that jump
reliability openssl                            certificates
deploy haproxy                                 load balancer in front of several daemons
deploy nginx-light                             the same
deploy prometheus                              promtool checks metrics and alerts
deploy docker-compose|                         checks compose files
deploy python3-kubernetes                      models of manifests
deploy kubernetes-client|kubectl|              builds kustomizations, from version 1.22 on
deploy perl                                    finds a free port
deploy openssl                                 certificates
image podman                                   builds and runs the image
image runc                                     runs it also where crun cannot (hybrid cgroups)
image mmdebstrap                               makes the base image from the archive, without a registry
image jq                                       reads the description of the image
image curl                                     asks the container for its health
image iproute2                                 shows where the container listens
fresh mmdebstrap                               makes a bare Debian
deb   build-essential                          what every package is built with
deb   debhelper                                makes packages
deb   patchelf                                 removes a path from the CUDA engine
deb   lintian                                  finds faults in packages
wheel python3                                  packs the wheel
wheel binutils                                 reads what libraries need
wheel patchelf                                 lets libraries look for others beside themselves
'

die() {
    echo "packages.sh: $*" >&2
    exit 1
}

names=() reasons=()
for group in "$@"; do
    found=
    while read -r of name reason; do
        [ "$of" = "$group" ] || continue
        found=1 names+=("$name") reasons+=("$reason")
    done <<<"$list"
    [ -n "$found" ] || die "unknown group '$group' (known groups: $(awk '!seen[$1]++ { printf "%s ", $1 }' <<<"$list"))"
done
[ ${#names[@]} -gt 0 ] || die "expected at least one group, as in: packages.sh build test"

command -v apt-get >/dev/null || {
    echo "packages.sh: found no apt; continuing as if these packages, or their equivalents, were installed: ${names[*]}" >&2
    exit 0
}

# dpkg-query complains about packages that it does not know. Those are not installed.
IFS=' |' read -ra all <<<"${names[*]}"
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${all[@]}" 2>/dev/null |
    awk '$2 == "installed" { print $1 }') || true

missing=() wanted=()
for i in "${!names[@]}"; do
    alternatives=${names[i]%|}
    if grep -qxF "${alternatives//|/$'\n'}" <<<"$installed"; then
        continue
    elif [[ ${names[i]} = *'|' ]]; then
        wanted+=("$i")
    else
        missing+=("$i")
    fi
done
[ ${#missing[@]} -gt 0 ] || exit 0
missing+=("${wanted[@]}")

echo "Missing from this system, now installed with apt-get, which may take a minute:"
for i in "${missing[@]}"; do printf '  %-42s %s\n' "${names[i]%|}" "${reasons[i]}"; done

as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "installing needs root or sudo. Run as root: apt-get install $(
        for i in "${missing[@]}"; do echo -n "${names[i]%|} "; done)"
    as_root=(sudo)
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive)

"${as_root[@]}" apt-get update -qq </dev/null
install=()
for i in "${missing[@]}"; do
    IFS='|' read -ra alternatives <<<"${names[i]}"
    name=
    for alternative in "${alternatives[@]}"; do
        ! apt-cache show "$alternative" >/dev/null 2>&1 || { name=$alternative && break; }
    done
    # If the distribution lacks all alternatives, apt-get fails, and its message names the last one.
    [ -n "$name" ] || [[ ${names[i]} = *'|' ]] || name=${alternatives[-1]}
    [ -z "$name" ] || install+=("$name")
done
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${install[@]}" </dev/null >/dev/null
