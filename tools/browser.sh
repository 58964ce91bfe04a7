#!/bin/sh
# browser.sh: puts into build/browser what the tests in Debian's Chromium need beside it. Does nothing for what is there.
#   node_modules/playwright-core  drives it; brings no browser of its own
#   liblavapipe.so                gives its WebGPU lavapipe (tests/web/lavapipe.c)
set -eu
cd "$(dirname "$0")/.."
here=$PWD/build/browser

lavapipe() {
    library=$here/liblavapipe.so
    [ "$library" -nt tests/web/lavapipe.c ] ||
        ${CC-cc} -O2 -Wall -Wextra -shared -fPIC -o "$library" tests/web/lavapipe.c -ldl
}

# The last version for Node 18, which is Debian 12's.
tools/npm.sh playwright-core 1.61.0 b5ab14f09f3aaacdedbc2cb1431b0552cec8995fba35d841779a4ed535ce0200 "$here/node_modules/playwright-core"
lavapipe
