#!/bin/sh
# version.sh TREE VERSION: the header, the change log and the build agree on the version.
set -eu
header=$1/include/lockstep/version.h
value() {
    sed -n "s/^#define LS_VERSION_$1 //p" "$header"
}
[ "$(value MAJOR).$(value MINOR).$(value PATCH)" = "$2" ] || { echo "$header: numbers are not $2"; exit 1; }
grep -q "^#define LS_VERSION \"$2\"$" "$header" || { echo "$header: LS_VERSION is not \"$2\""; exit 1; }
grep -q "^## $2" "$1/CHANGELOG.md" || { echo "CHANGELOG.md has no section $2"; exit 1; }
