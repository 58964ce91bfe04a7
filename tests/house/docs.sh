#!/bin/sh
# docs.sh PROGRAM PAGE: the generated page that is checked in is what the program prints.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$1" >"$tmp/page"
[ -s "$tmp/page" ] || { echo "$1 prints nothing"; exit 1; }
diff -u "$2" "$tmp/page" || { echo "$2 is not what $1 prints; 'make docs' writes it anew"; exit 1; }
