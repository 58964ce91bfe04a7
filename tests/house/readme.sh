#!/bin/sh
# readme.sh TREE BUILD: the first C example of README.md compiles without a warning and runs.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
awk '/^```c$/ { inside = 1; next } /^```/ && inside { exit } inside' "$1/README.md" >"$tmp/example.c"
[ -s "$tmp/example.c" ] || { echo "README.md has no c block"; exit 1; }
gcc -std=c17 -Wall -Wextra -Werror -I"$1/include" "$tmp/example.c" -o "$tmp/example" -L"$2" -llockstep \
    -Wl,-rpath,"$2"
ln -s "$1/build" "$tmp/build"
cd "$tmp"
./example
