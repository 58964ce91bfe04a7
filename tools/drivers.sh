#!/bin/sh
# drivers.sh: puts the software drivers of the device tests into build/drivers. Beside what `deps.sh gpu` installs (lavapipe
# 22.3 and, in Debian's Chromium, SwiftShader), these are
#   lavapipe25/lvp_icd.json       lavapipe 25 of Debian's backports, unpacked, not installed
#   dawn/libwebgpu_wrapper.so     Dawn's C API, of the npm package bun-webgpu-linux-x64
# What cannot be had is named with its reason and left out: the tests that need it are then skipped. Does nothing for what is
# already there. `drivers.sh --list` prints the devices of the tests, one a line: NAME VARIABLE=VALUE...
set -eu
cd "$(dirname "$0")/.."
root=$PWD
drivers=$root/build/drivers
dawn_package=bun-webgpu-linux-x64
dawn_version=0.1.7
dawn_sha256=8badfecdad4e726ac12be4f29771f4cbd7ce7683b4418316a547c5bda94fb798

left_out() { echo "drivers.sh: $1 is left out: $2"; }

first_file() { # first_file PATH...: the first that is there
    for file in "$@"; do
        if [ -e "$file" ]; then echo "$file"; return; fi
    done
    return 1
}

list() {
    lavapipe=$(first_file /usr/share/vulkan/icd.d/lvp_icd.*.json) || lavapipe=
    swiftshader=$(first_file /usr/lib/chromium/vk_swiftshader_icd.json) || swiftshader=
    lavapipe25=$(first_file "$drivers/lavapipe25/lvp_icd.json") || lavapipe25=
    dawn=$(first_file "$drivers/dawn/libwebgpu_wrapper.so") || dawn=
    if [ "$lavapipe" ]; then echo "vulkan-lavapipe VK_ICD_FILENAMES=$lavapipe"; fi
    if [ "$lavapipe25" ]; then echo "vulkan-lavapipe25 VK_ICD_FILENAMES=$lavapipe25"; fi
    if [ "$swiftshader" ]; then echo "vulkan-swiftshader VK_ICD_FILENAMES=$swiftshader"; fi
    # Dawn refuses lavapipe 22.3.
    if [ "$dawn" ] && [ "$lavapipe25" ]; then
        echo "webgpu-lavapipe25 LOCKSTEP_WEBGPU=$dawn VK_ICD_FILENAMES=$lavapipe25"
    fi
    if [ "$dawn" ] && [ "$swiftshader" ]; then
        echo "webgpu-swiftshader LOCKSTEP_WEBGPU=$dawn VK_ICD_FILENAMES=$swiftshader"
    fi
}

lavapipe25() {
    here=$drivers/lavapipe25
    [ ! -e "$here/lvp_icd.json" ] || return 0
    command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 ||
        { left_out "lavapipe 25" "there is no apt-get here"; return 0; }
    # Debian's mirror as this machine names it, without its other sources.
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk '$2 == "bookworm" && $3 == "main" { print $1; exit }')
    [ "$mirror" ] || { left_out "lavapipe 25" "this machine's sources name no Debian 12"; return 0; }
    tmp=$(mktemp -d)
    mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$tmp/unpacked"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm-backports main" >"$tmp/sources.list"
    options="-qq -o Dir::Etc::sourcelist=$tmp/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$tmp/lists
        -o Dir::Cache=$tmp/cache -o APT::Sandbox::User="
    # shellcheck disable=SC2086
    if ! (cd "$tmp" && apt-get $options update && apt-get $options download mesa-vulkan-drivers) >"$tmp/log" 2>&1; then
        left_out "lavapipe 25" "Debian's backports gave no mesa-vulkan-drivers ($(tail -1 "$tmp/log" | tr -d '\n'))"
        rm -rf "$tmp"
        return 0
    fi
    package=$(first_file "$tmp"/mesa-vulkan-drivers_*.deb)
    case $package in
    *_2[5-9].*) ;;
    *) left_out "lavapipe 25" "the mirror's newest is $(basename "$package")"; rm -rf "$tmp"; return 0 ;;
    esac
    dpkg -x "$package" "$tmp/unpacked"
    library=$(first_file "$tmp"/unpacked/usr/lib/*/libvulkan_lvp.so)
    missing=$(ldd "$library" | awk '/not found/ { printf " %s", $1 }')
    if [ "$missing" ]; then
        left_out "lavapipe 25" "libraries are missing:$missing (run tools/deps.sh gpu)"
        rm -rf "$tmp"
        return 0
    fi
    rm -rf "$here"
    mkdir -p "$here"
    cp "$library" "$here/"
    # A path with a slash is relative to the file that it stands in.
    sed 's|"library_path" *: *"[^"]*"|"library_path": "./libvulkan_lvp.so"|' \
        "$(first_file "$tmp"/unpacked/usr/share/vulkan/icd.d/lvp_icd*.json)" >"$tmp/icd.json"
    mv "$tmp/icd.json" "$here/lvp_icd.json"
    echo "drivers.sh: unpacked $(basename "$package") into build/drivers/lavapipe25"
    rm -rf "$tmp"
}

dawn() {
    here=$drivers/dawn
    [ ! -e "$here/libwebgpu_wrapper.so" ] || return 0
    [ "$(uname -m)" = x86_64 ] || { left_out Dawn "its package is for x86-64"; return 0; }
    command -v npm >/dev/null 2>&1 || { left_out Dawn "npm is missing (run tools/deps.sh gpu)"; return 0; }
    tmp=$(mktemp -d)
    if ! (cd "$tmp" && npm pack --loglevel=error "$dawn_package@$dawn_version") >"$tmp/log" 2>&1; then
        left_out Dawn "'npm pack $dawn_package@$dawn_version' failed"
    elif ! echo "$dawn_sha256  $tmp/$dawn_package-$dawn_version.tgz" | sha256sum --check --status -; then
        left_out Dawn "$dawn_package-$dawn_version.tgz is not the file it was"
    else
        tar -xzf "$tmp/$dawn_package-$dawn_version.tgz" -C "$tmp" package
        mkdir -p "$here"
        for file in "$tmp"/package/LICENSE*; do
            [ ! -e "$file" ] || cp "$file" "$here/"
        done
        cp "$tmp/package/libwebgpu_wrapper.so" "$here/libwebgpu_wrapper.so.new"
        mv "$here/libwebgpu_wrapper.so.new" "$here/libwebgpu_wrapper.so"
        echo "drivers.sh: unpacked $dawn_package $dawn_version into build/drivers/dawn"
    fi
    rm -rf "$tmp"
}

if [ "${1-}" = --list ]; then
    list
    exit 0
fi
mkdir -p "$drivers"
lavapipe25
dawn
printf 'drivers:'
list | while read -r name rest; do printf ' %s' "$name"; done
echo
