#!/bin/sh
# models.sh LOCKSTEP TREE [DEVICE...]: the real models of tools/models.sh on random inputs: every output on each device (default: cpu on two
# instruction sets, and the software GPUs of tools/drivers.sh) must have the SHA-256 that `cpu` gives. A line a model and device.
# LOCKSTEP_STORY_SECONDS is the limit of a run (900). Exit status: 0, the same bits everywhere; 1, something differs or failed; 3, nothing is
# wrong, but something was not finished within the limit; 77, the models are not here.
set -u
lockstep=$1 tree=$2
shift 2
[ $# -gt 0 ] || set -- cpu-scalar vulkan-lavapipe25 webgpu-lavapipe25
models=$tree/build/data/models bad=0 unfinished=0
[ -d "$models/ocr" ] || { echo "skipped: the models are not here; run tools/models.sh"; exit 77; }
limit=${LOCKSTEP_STORY_SECONDS:-900}
run() { # device's words, then arguments; 124: it took longer than the limit
    words=$1
    shift
    # shellcheck disable=SC2086
    text=$(env NODEVICE_SELECT=1 $words timeout "$limit" "$lockstep" run "$@" 2>/dev/null)
    code=$?
    echo "$text" | grep -o 'sha256 [0-9a-f]*' | sort | tr '\n' ' '
    return $code
}
environment() {
    case $1 in
    cpu-*) echo "LOCKSTEP_ISA=${1#cpu-}" ;;
    *) "$tree/tools/drivers.sh" --list | grep "^$1 " | tr ' ' '\n' | grep = | tr '\n' ' ' ;;
    esac
}
check() {
    name=$1 file=$models/$2
    shift 2
    expected=$(run "" "$file" "$@" --device cpu)
    if [ -z "$expected" ]; then
        printf '%-28s failed on cpu: %s\n' "$name" "$("$lockstep" run "$file" "$@" 2>&1 | tail -1)"
        bad=1
        return
    fi
    for device in $devices; do
        words=$(environment "$device")
        [ -n "$words" ] || { printf '%-28s %-20s skipped: its driver is not here\n' "$name" "$device"; continue; }
        begin=$(date +%s)
        got=$(run "$words" "$file" "$@" --device "${device%%-*}")
        case $?/$got in
        "0/$expected") result="the same bits" ;;
        124/*) result="not finished" unfinished=$((unfinished + 1)) ;;
        0/*) result=DIFFERS bad=1 ;;
        *) result=FAILED bad=1 ;;
        esac
        printf '%-28s %-20s %s, %s s\n' "$name" "$device" "$result" $(($(date +%s) - begin))
    done
}
devices=$*
check "expression (DenseNet)" faceplugin/model/fr_expression.onnx
check "face features" faceplugin/model/fr_feature.onnx
check "face liveness" faceplugin/model/fr_liveness.onnx
check "face landmarks" faceplugin/model/fr_landmark.onnx
check "BlazeFace 128" blazeface/ONNX/face_detection_front_128x128_barracuda.onnx
check "BlazeFace 256" blazeface/ONNX/face_detection_back_256x256_barracuda.onnx
check "wake word features" openwakeword/models/embedding_model.onnx
check "mel spectrogram" openwakeword/models/melspectrogram.onnx --dim samples=16000
check "hey Jarvis" openwakeword/models/hey_jarvis_v0.1.onnx
d=p2o.DynamicDimension
check "PP-OCRv4 detection" ocr/assets/ch_PP-OCRv4_det_infer.onnx --dim $d.1=160 --dim $d.2=160
check "PP-OCRv4 recognition" ocr/assets/ch_PP-OCRv4_rec_infer.onnx --dim $d.1=160
check "PP-OCRv4 direction" ocr/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx --dim $d.1=48 --dim $d.2=192
[ $unfinished -eq 0 ] || echo "not finished within $limit s: $unfinished runs, which say nothing either way (LOCKSTEP_STORY_SECONDS)"
[ $bad -eq 0 ] || exit 1
[ $unfinished -eq 0 ] || exit 3
