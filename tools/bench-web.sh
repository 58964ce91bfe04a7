#!/bin/sh
# bench-web.sh BUILD: the npm package of the WebAssembly build BUILD beside onnxruntime-web, which it fetches into build/bench-web.
set -eu
[ $# -eq 1 ] || { echo "usage: bench-web.sh BUILD" >&2; exit 2; }
cd "$(dirname "$0")/.."
modules=$PWD/build/bench-web/node_modules

tools/npm.sh onnxruntime-web 1.30.0 d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71 "$modules/onnxruntime-web"
tools/npm.sh onnxruntime-common 1.30.0 7906c439e0d3e0f4048caa23b64cdfadc0f455c377f579ce1ab2a4b778f07d5f "$modules/onnxruntime-common"
LOCKSTEP_PACKAGE=$1/package ORT=$modules/onnxruntime-web node bench/web/bench.mjs
