#!/bin/sh
# sysroot.sh aarch64: unpacks the arm64 libraries that the cross build links into build/sysroot-aarch64. It uses a
# package index of its own, so the machine's list of architectures stays as it is, and needs no root.
set -eu
[ "${1-}" = aarch64 ] || { echo "usage: sysroot.sh aarch64" >&2; exit 2; }
cd "$(dirname "$0")/.."
root=$PWD/build/sysroot-aarch64
[ ! -e "$root/complete" ] || [ ! -e "$root/usr/include/protobuf-c" ] || [ ! -e "$root/usr/include/pcre2.h" ] || exit 0
packages='zlib1g zlib1g-dev libcjson1 libcjson-dev libprotobuf-c1 libprotobuf-c-dev libpcre2-8-0 libpcre2-dev libcmocka0 libcmocka-dev
          libgmp10 libgmp-dev libmpfr6 libmpfr-dev'
rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/debs"
: >"$root/apt/status"
apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$root/apt" \
        -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt/cache" -o APT::Sandbox::User=root "$@"
}
apt update
# shellcheck disable=SC2086
(cd "$root/debs" && apt download $packages)
for deb in "$root"/debs/*.deb; do
    dpkg-deb -x "$deb" "$root"
done
find "$root" -type l -lname '/*' | while IFS= read -r link; do
    ln -sfn "$root$(readlink "$link")" "$link"
done
rm -rf "$root/apt" "$root/debs"
touch "$root/complete"
