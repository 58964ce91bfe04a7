#!/bin/sh
# browser.sh: puts playwright-core, by which the tests drive Debian's Chromium, into build/browser/node_modules. It brings no
# browser of its own. Does nothing when it is there.
set -eu
cd "$(dirname "$0")/.."
version=1.65.1
sha256=6f5a60be62a4fddfbe7d10c448d8fbd54547da3358f2f8a04211440471ee863e
here=$PWD/build/browser/node_modules/playwright-core
[ ! -e "$here/package.json" ] || exit 0
command -v npm >/dev/null 2>&1 || { echo "browser.sh: npm is missing (run tools/deps.sh web)" >&2; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if ! (cd "$tmp" && npm pack --loglevel=error "playwright-core@$version") >"$tmp/log" 2>&1; then
    echo "browser.sh: 'npm pack playwright-core@$version' failed: $(tail -n 1 "$tmp/log")" >&2
    exit 1
fi
echo "$sha256  $tmp/playwright-core-$version.tgz" | sha256sum --check --status - ||
    { echo "browser.sh: playwright-core-$version.tgz is not the file it was" >&2; exit 1; }
tar -xzf "$tmp/playwright-core-$version.tgz" -C "$tmp" package
mkdir -p "${here%/*}"
rm -rf "$here"
mv "$tmp/package" "$here"
echo "browser.sh: unpacked playwright-core $version into build/browser"
