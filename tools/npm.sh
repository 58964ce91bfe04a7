#!/bin/sh
# npm.sh PACKAGE VERSION SHA256 FOLDER: unpacks a package of the npm registry into FOLDER, checked against the SHA-256 of its file and
# without what it depends on. Does nothing when it is there.
set -eu
package=$1 version=$2 sha256=$3 folder=$4
[ ! -e "$folder/package.json" ] || exit 0
file=$(echo "${package#@}" | tr / -)-$version.tgz
command -v npm >/dev/null 2>&1 || { echo "npm.sh: npm is missing; run 'make deps'" >&2; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if ! (cd "$tmp" && npm pack --loglevel=error "$package@$version") >"$tmp/log" 2>&1; then
    echo "npm.sh: 'npm pack $package@$version' failed: $(tail -n 1 "$tmp/log")" >&2
    exit 1
fi
echo "$sha256  $tmp/$file" | sha256sum --check --status - ||
    { echo "npm.sh: $file is not the file it was" >&2; exit 1; }
tar -xzf "$tmp/$file" -C "$tmp" package
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv "$tmp/package" "$folder"
echo "npm.sh: unpacked $package $version"
