#!/bin/sh
# web-deps.sh: the sources of cJSON and zlib for the WebAssembly build, unpacked into build/web-deps/cjson and /zlib from Debian's
# source packages (Debian has no binaries for wasm32). Uses package lists of its own under build/, so the machine's sources stay as
# they are; needs no root. Does nothing when they are there.
set -eu
cd "$(dirname "$0")/.."
root=$PWD/build/web-deps
[ ! -e "$root/complete" ] || exit 0
# Debian's mirror as this machine names it.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "bookworm" && $3 == "main" { print $1; exit }') || mirror=
[ "$mirror" ] || { echo "web-deps.sh: this machine's apt sources name no Debian 12, which has cJSON's and zlib's sources" >&2; exit 1; }
rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/packages"
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$root/apt/sources.list"
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$root/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$root/apt/lists" \
        -o Dir::Cache="$root/apt/cache" -o APT::Sandbox::User=root "$@"
}
if ! { apt update && (cd "$root/packages" && apt source --download-only cjson zlib); } >"$root/log" 2>&1; then
    echo "web-deps.sh: cannot get the sources of cJSON and zlib from $mirror: $(tail -n 1 "$root/log")" >&2
    exit 1
fi
for name in cjson zlib; do # what dpkg-source -x does, without the tools of Debian's developers
    mkdir "$root/$name"
    tar -xf "$(echo "$root/packages/${name}"_*.orig.tar.*)" -C "$root/$name" --strip-components=1
    tar -xf "$(echo "$root/packages/${name}"_*.debian.tar.*)" -C "$root/$name" debian/patches
    while read -r patch; do
        patch -s -p1 -d "$root/$name" <"$root/$name/debian/patches/$patch"
    done <"$root/$name/debian/patches/series"
done
sed -n 's/^\(Source\|Version\): //p' "$root"/packages/*.dsc | paste -d ' ' - - >"$root/complete"
rm -rf "$root/apt" "$root/packages" "$root/log"
