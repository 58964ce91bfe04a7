#!/bin/sh
# browser.sh: puts into build/browser what the tests in Debian's Chromium need beside it. Does nothing for what is there.
#   node_modules/playwright-core  drives it; brings no browser of its own
#   liblavapipe.so                gives its WebGPU lavapipe (tests/web/lavapipe.c)
set -eu
cd "$(dirname "$0")/.."
version=1.61.0 # the last for Node 18, which is Debian 12's
sha256=b5ab14f09f3aaacdedbc2cb1431b0552cec8995fba35d841779a4ed535ce0200
here=$PWD/build/browser

playwright() {
    [ ! -e "$here/node_modules/playwright-core/package.json" ] || return 0
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
    mkdir -p "$here/node_modules"
    rm -rf "$here/node_modules/playwright-core"
    mv "$tmp/package" "$here/node_modules/playwright-core"
    echo "browser.sh: unpacked playwright-core $version into build/browser"
}

lavapipe() {
    library=$here/liblavapipe.so
    [ "$library" -nt tests/web/lavapipe.c ] ||
        ${CC-cc} -O2 -Wall -Wextra -shared -fPIC -o "$library" tests/web/lavapipe.c -ldl
}

playwright
lavapipe
