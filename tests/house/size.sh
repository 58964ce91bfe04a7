#!/bin/sh
# size.sh LIBRARY LIMIT: the shared library, stripped, is at most LIMIT bytes.
set -eu
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
strip -o "$tmp" "$1"
size=$(wc -c <"$tmp")
echo "$(basename "$1"), stripped: $size bytes, at most $2"
[ "$size" -le "$2" ]
