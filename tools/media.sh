#!/bin/sh
# media.sh: puts real pictures and sounds into build/data/media, for the stories of `make test-models`: a photographed page and a portrait of
# Debian's python3-skimage, and the spoken words and the noise of its alsa-utils. The packages are unpacked, not installed. Does nothing for
# what is there; what cannot be had is named with its reason and left out.
set -eu
cd "$(dirname "$0")/.."
into=build/data/media

# media.sh's table: package, path in it, SHA-256
table='
python3-skimage usr/lib/python3/dist-packages/skimage/data/page.png      341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3
python3-skimage usr/lib/python3/dist-packages/skimage/data/astronaut.png 88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5
alsa-utils usr/share/sounds/alsa/Front_Center.wav 0d61518bcd3f13b0c709a5298e939caf698b80d31d71d50475365ee0e5536cc9
alsa-utils usr/share/sounds/alsa/Front_Left.wav   9f97e8458785da2f0aa0ec60bf9cc81520cbf80a4683e83eca9cb5f2958e9fef
alsa-utils usr/share/sounds/alsa/Front_Right.wav  1fdea4d7003f1f7d3e48d3521aaab0a112c4ac570b02ddf1813abacac3070f6f
alsa-utils usr/share/sounds/alsa/Noise.wav        0d897df3862192ea078efc1dd8fdc4f51fae9e93d3ed4c15e049829b0386729e
alsa-utils usr/share/sounds/alsa/Rear_Center.wav  9343207e3298813fdc4d26b7948e15a38533c37a9f232c3eff809b565398b330
alsa-utils usr/share/sounds/alsa/Rear_Left.wav    1679e0557701864d55b742a0abd3fe5f50d95b1bfcb55ffad4b597dcc7e3c7b8
alsa-utils usr/share/sounds/alsa/Rear_Right.wav   12828d125f692faa75c7445d52125dcc2c36f82c4f7a3ef49b8ae6afd74ada9d
alsa-utils usr/share/sounds/alsa/Side_Left.wav    03dc7c641d7825417d2a261831715e945e95d87343fb037db910e7ce4f87a2a1
alsa-utils usr/share/sounds/alsa/Side_Right.wav   ecdd0329945f355960796a56f8126d5080ed93fdd2437c7eaddbbbd56137d7e9
'

left_out() { echo "media.sh: $1 is left out: $2"; }

unpack() { # unpack PACKAGE FOLDER
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || { left_out "$1" "there is no apt-get here"; return 1; }
    mkdir -p "$2/$1"
    # Debian's mirror as this machine names it; its lists may be old or missing.
    (cd "$2" && { apt-get -qq -o APT::Sandbox::User= download "$1" || { apt-get -qq update && apt-get -qq -o APT::Sandbox::User= download "$1"; }; }) \
        >"$2/log" 2>&1 || { left_out "$1" "'apt-get download $1' failed: $(tail -n 1 "$2/log")"; return 1; }
    dpkg-deb -x "$2/$1"_*.deb "$2/$1"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$into"
echo "$table" | while read -r package path sha256; do
    file=$into/${path##*/}
    [ "$package" ] && [ ! -e "$file" ] || continue
    [ -d "$tmp/$package" ] || unpack "$package" "$tmp" || { mkdir -p "$tmp/$package"; continue; }
    [ -e "$tmp/$package/$path" ] || { left_out "${path##*/}" "$package does not have it"; continue; }
    echo "$sha256  $tmp/$package/$path" | sha256sum --check --status - || { left_out "${path##*/}" "it is not the file it was"; continue; }
    cp "$tmp/$package/usr/share/doc/$package/copyright" "$into/$package.copyright"
    cp "$tmp/$package/$path" "$file.new"
    mv "$file.new" "$file"
done
echo "media: $(find "$into" -name '*.png' -o -name '*.wav' | wc -l) files"
