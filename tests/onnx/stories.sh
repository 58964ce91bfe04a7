#!/bin/sh
# stories.sh BUILD TREE [DEVICE...]: real models on the pictures and sounds of tools/media.sh, by the programs of examples/: what a page says, when
# somebody speaks, where the face is, what a wake word listens for. Each on cpu, and with the same result on the devices named (default: the
# software GPUs of tools/drivers.sh; "none": cpu alone). A line a story and device.
# LOCKSTEP_STORY_SECONDS is the limit of a run (900). Exit status: 0, all is well; 1, something is wrong; 3, nothing is wrong, but something was
# not finished within the limit; 77, the models are not here.
set -u
build=$1 tree=$2
shift 2
[ $# -gt 0 ] || set -- vulkan-lavapipe25 webgpu-lavapipe25
[ "$1" != none ] || shift
models=$tree/build/data/models media=$tree/build/data/media bad=0 unfinished=0 limit=${LOCKSTEP_STORY_SECONDS:-900}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ -d "$models/ocr" ] || { echo "skipped: the models are not here; run tools/models.sh"; exit 77; }
devices="cpu $*"

say() { printf '%-26s %-20s %s\n' "$1" "$2" "$3"; }
wrong() { say "$@"; bad=1; }
late() { say "$1" "$2" "not finished within $limit s"; unfinished=1; }
environment() { [ "$1" = cpu ] || "$tree/tools/drivers.sh" --list | grep "^$1 " | tr ' ' '\n' | grep = | tr '\n' ' '; }

# story NAME MEDIA CHECK PROGRAM ARGUMENTS...: runs PROGRAM DEVICE ARGUMENTS on each device; CHECK looks at what it prints on cpu.
story() {
    name=$1 needs=$2 check=$3 program=$build/examples/$4
    shift 4
    [ -e "$media/$needs" ] || { say "$name" - "skipped: $needs is not here; run tools/media.sh"; return; }
    for device in $devices; do
        words=$(environment "$device")
        [ "$device" = cpu ] || [ "$words" ] || { say "$name" "$device" "skipped: its driver is not here"; continue; }
        begin=$(date +%s)
        # shellcheck disable=SC2086
        env NODEVICE_SELECT=1 $words timeout "$limit" "$program" "${device%%-*}" "$@" >"$tmp/out" 2>"$tmp/err"
        code=$?
        took="$(($(date +%s) - begin)) s"
        if [ $code = 124 ]; then
            late "$name" "$device"
        elif [ $code != 0 ]; then
            wrong "$name" "$device" "FAILED: $(tail -n 1 "$tmp/err")"
        elif [ "$device" = cpu ]; then
            cp "$tmp/out" "$tmp/expected"
            if result=$($check <"$tmp/out"); then say "$name" cpu "$result, $took"; else wrong "$name" cpu "WRONG: $(tr '\n' '|' <"$tmp/out" | cut -c 1-300)"; fi
        elif cmp -s "$tmp/out" "$tmp/expected"; then
            say "$name" "$device" "the same, $took"
        else
            wrong "$name" "$device" "DIFFERS: $(diff "$tmp/expected" "$tmp/out" | tr '\n' '|' | cut -c 1-300)"
        fi
    done
}

reads() { grep -o 'Let us first determine markers of the coins and the'; }
speaks() { awk '$3 > most { most = $3 } END { printf "speech %.4f", most; exit !(most > 0.9) }'; }
is_silent() { awk '$3 > most { most = $3 } END { printf "speech %.4f", most; exit !(NR > 20 && most < 0.3) }'; }
sees() { # one face: its middle within 10 pixels of (224, 128), 80 to 120 wide
    awk '{ x = $2 + $4 / 2; y = $3 + $5 / 2; good = x > 214 && x < 234 && y > 118 && y < 138 && $4 > 80 && $4 < 120
           printf "face at %.0f, %.0f", x, y } END { exit !(NR == 1 && good) }'
}

ocr=$models/ocr/assets
story "a page's text" page.png reads read_text "$ocr/ch_PP-OCRv4_det_infer.onnx" "$ocr/ch_PP-OCRv4_rec_infer.onnx" "$ocr/ppocr_keys_v1.txt" "$media/page.png"
for size in front_128x128 back_256x256; do
    story "a face, ${size#*_}" astronaut.png sees find_faces "$models/blazeface/ONNX/face_detection_${size}_barracuda.onnx" "$media/astronaut.png"
done
silero=$models/silero/weights
story "a voice, 25 nested Ifs" Front_Center.wav speaks hear_speech "$silero/silero_vad.onnx" "$media/Front_Center.wav"
story "noise, 25 nested Ifs" Noise.wav is_silent hear_speech "$silero/silero_vad.onnx" "$media/Noise.wav"
every=$devices devices=cpu # one program serves them all
for sound in Front_Center Front_Left Front_Right Rear_Center Rear_Left Rear_Right Side_Left Side_Right; do
    story "$sound" $sound.wav speaks hear_speech "$silero/silero_vad_16k_op15.onnx" "$media/$sound.wav"
done
story Noise Noise.wav is_silent hear_speech "$silero/silero_vad_16k_op15.onnx" "$media/Noise.wav"
devices=$every

# The wake word's networks on a recording: inside the bound beside ONNX Runtime, and the same bits on every device.
wake() { # wake NAME MODEL INPUT.npy
    name=$1 model=$models/openwakeword/models/$2 input=$3
    if [ -d "$models/peer/node_modules/onnxruntime-node" ]; then
        if "$build/lockstep" verify "$model" --input "$input" --devices cpu --peer "node $tree/tools/peers/onnxruntime.mjs" >"$tmp/report" 2>&1; then
            say "$name" "cpu, ONNX Runtime" "$(grep -o 'lockstep inside ([^)]*), the peer inside ([^)]*)' "$tmp/report" | head -n 1)"
        else
            wrong "$name" "cpu, ONNX Runtime" "WRONG: $(tail -n 1 "$tmp/report")"
        fi
    fi
    for device in $devices; do
        words=$(environment "$device")
        [ "$device" = cpu ] || [ "$words" ] || { say "$name" "$device" "skipped: its driver is not here"; continue; }
        # shellcheck disable=SC2086
        env NODEVICE_SELECT=1 $words timeout "$limit" "$build/lockstep" run "$model" --input "$input" --device "${device%%-*}" --output "$tmp/$device" >"$tmp/report" 2>&1
        code=$?
        hash=$(grep -o 'sha256 [0-9a-f]*' "$tmp/report")
        [ "$device" != cpu ] || expected=$hash
        if [ $code = 124 ]; then late "$name" "$device"
        elif [ "$hash" ] && [ "$hash" = "$expected" ]; then say "$name" "$device" "the same bits"
        else wrong "$name" "$device" "DIFFERS: $(tail -n 1 "$tmp/report")"; fi
    done
}
if [ ! -e "$media/Front_Center.wav" ] || ! command -v node >/dev/null 2>&1; then
    say "wake word features" - "skipped: no recording, or no node"
else
    node "$tree/tests/onnx/clip.mjs" sound "$media/Front_Center.wav" "$tmp/sound.npy" || bad=1
    wake "spectrogram of a voice" melspectrogram.onnx "input=$tmp/sound.npy"
    node "$tree/tests/onnx/clip.mjs" window "$tmp/cpu/output.npy" "$tmp/window.npy" || bad=1
    wake "wake word features" embedding_model.onnx "input_1=$tmp/window.npy"
fi
[ $bad -eq 0 ] || exit 1
[ $unfinished -eq 0 ] || exit 3
