#!/bin/sh
# uninstall.sh BUILD PREFIX [DESTDIR]: takes away what `cmake --install BUILD --prefix PREFIX` puts there. The list
# comes from installing into a scratch folder, so it does not depend on which install was the last one.
set -eu
[ $# -ge 2 ] || { echo "usage: uninstall.sh BUILD PREFIX [DESTDIR]" >&2; exit 2; }
build=$1
prefix=$2
destdir=${3-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
DESTDIR=$scratch cmake --install "$build" --prefix "$prefix" >/dev/null
cd "$scratch"
find . ! -type d | while IFS= read -r file; do
    rm -f "$destdir/$file"
done
# Folders of ours that are empty now; never the prefix or a folder that others may share.
find . -depth -type d -name lockstep | while IFS= read -r folder; do
    [ ! -d "$destdir/$folder" ] || rmdir "$destdir/$folder" 2>/dev/null || true
done
