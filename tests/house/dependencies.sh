#!/bin/sh
# dependencies.sh TREE: docs/dependencies.md has a row for every package that tools/deps.sh would install.
set -eu
missing=0
packages=$(sh "$1/tools/deps.sh" --list | sed 's/^[a-z]*://; s/(missing)//g')
[ -n "$packages" ] || { echo "tools/deps.sh lists nothing"; exit 1; }
for package in $packages; do
    grep -q "\`$package\`" "$1/docs/dependencies.md" ||
        { echo "docs/dependencies.md does not explain $package"; missing=$((missing + 1)); }
done
[ $missing = 0 ]
