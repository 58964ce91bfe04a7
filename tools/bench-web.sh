#!/bin/sh
# bench-web.sh BUILD: the npm package of the WebAssembly build BUILD beside onnxruntime-web, which it fetches into build/bench-web.
set -eu
[ $# -eq 1 ] || { echo "usage: bench-web.sh BUILD" >&2; exit 2; }
cd "$(dirname "$0")/.."
version=1.30.0
modules=$PWD/build/bench-web/node_modules

fetch() { # fetch PACKAGE SHA256: into node_modules, unless it is there
    [ ! -e "$modules/$1/package.json" ] || return 0
    command -v npm >/dev/null 2>&1 || { echo "bench-web.sh: npm is missing (run tools/deps.sh web)" >&2; exit 1; }
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    if ! (cd "$tmp" && npm pack --loglevel=error "$1@$version") >"$tmp/log" 2>&1; then
        echo "bench-web.sh: 'npm pack $1@$version' failed: $(tail -n 1 "$tmp/log")" >&2
        exit 1
    fi
    echo "$2  $tmp/$1-$version.tgz" | sha256sum --check --status - || { echo "bench-web.sh: $1-$version.tgz is not the file it was" >&2; exit 1; }
    tar -xzf "$tmp/$1-$version.tgz" -C "$tmp" package
    mkdir -p "$modules"
    rm -rf "${modules:?}/$1"
    mv "$tmp/package" "$modules/$1"
    rm -rf "$tmp"
}

fetch onnxruntime-web d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71
fetch onnxruntime-common 7906c439e0d3e0f4048caa23b64cdfadc0f455c377f579ce1ab2a4b778f07d5f
LOCKSTEP_PACKAGE=$1/package ORT=$modules/onnxruntime-web node bench/web/bench.mjs
