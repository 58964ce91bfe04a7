#!/bin/sh
# export.sh LOCKSTEP TREE FINETUNE [TEST_EXPORT]: a network is trained, saved and exported; the file gives the bits that the network gives, on cpu and on ref, and what ONNX
# Runtime computes of it and of the networks that TEST_EXPORT writes (where that is here) lies inside the bound. Wrong words are refused. FINETUNE (the example) trains the
# file further.
set -u
lockstep=$(realpath "$1") tree=$(cd "$2" && pwd) finetune=$(realpath "$3") networks=${4:+$(realpath "$4")}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C LOCKSTEP_THREADS=1
unset LOCKSTEP_LOG LOCKSTEP_CHECK LOCKSTEP_ISA LOCKSTEP_DATA
cd "$tmp" || exit 1
failures=0

complain() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
sha() { # of the outputs of a run
    "$lockstep" run "$@" 2>/dev/null | grep -o 'sha256 [0-9a-f]*'
}
bad() { # TEXT ARGUMENTS...: exit code 2 and a message
    text=$1
    shift
    "$lockstep" export "$@" >out 2>err
    [ $? -eq 2 ] || complain "export $*: expected exit code 2: $(cat out err)"
    grep -qF -- "$text" err || complain "export $*: '$(cat err)' does not say '$text'"
}

# What the images show does not matter here.
mkdir idx
for part in 'train 96 140' 't10k 16 020'; do
    # shellcheck disable=SC2086
    set -- $part
    { printf "\\0\\0\\10\\3\\0\\0\\0\\$3\\0\\0\\0\\34\\0\\0\\0\\34"; head -c $(($2 * 784)) "$lockstep"; } >"idx/$1-images-idx3-ubyte"
    { printf "\\0\\0\\10\\1\\0\\0\\0\\$3"; head -c "$2" /dev/zero | tr '\000' '\003'; } >"idx/$1-labels-idx1-ubyte"
done
"$lockstep" train mnist --data idx --model small --batch 8 --steps 10 --save small.safetensors >out 2>err || complain "train: $(cat err)"
weights=$(grep '^weights ' out)

"$lockstep" export mnist:small --weights small.safetensors --output small.onnx --json report.json >out 2>err || complain "export: $(cat out err)"
grep -q "^$weights\$" out || complain "export does not say the weights that train says ($weights): $(cat out)"
grep -q 'loaded back: the same bits' out || complain "export: $(cat out)"
grep -q '"logits_sha256"' report.json || complain "the report has no logits: $(cat report.json)"
for n in 1 7; do
    expected=$(sha mnist:small --weights small.safetensors --dim batch=$n --input images=random:$n)
    for device in cpu ref; do
        found=$(sha small.onnx --dim batch=$n --input images=random:$n --device $device)
        [ -n "$found" ] && [ "$found" = "$expected" ] || complain "batch $n on $device: '$found', the network '$expected'"
    done
done
[ "$(sha mnist:small --input images=random:1)" != "$(sha mnist:small --weights small.safetensors --input images=random:1)" ] ||
    complain "training changed nothing"
"$lockstep" inspect small.onnx >out 2>err
grep -q 'images float \[batch,1,28,28\]' out && grep -q 'logits float \[batch,10\]' out || complain "ports: $(cat out err)"

"$lockstep" export mnist:cnn --output cnn.onnx --dim batch=2 >out 2>err || complain "export mnist:cnn: $(cat out err)"
"$lockstep" inspect cnn.onnx >out 2>err
grep -q 'images float \[2,1,28,28\]' out || complain "ports of a fixed batch: $(cat out err)"

if [ -d "$tree/build/data/fashion" ]; then
    "$finetune" small.onnx "$tree/build/data/fashion" further.onnx >out 2>err || complain "finetune_onnx: $(cat out err)"
    grep -q '^8 parameters; loss .*, after 200 steps' out || complain "finetune_onnx: $(cat out err)"
    "$lockstep" verify further.onnx --devices cpu >out 2>err || complain "verify further.onnx: $(cat out err)"
    [ "$(sha further.onnx --input x=random:3)" != "$(sha small.onnx --input images=random:3)" ] || complain "further training changed nothing"
else
    echo "without finetune_onnx, whose images are not here (make data)"
fi

bad 'expected a built-in network' --output x.onnx
bad 'expected --output FILE.onnx' mnist:small
bad 'no built-in network "mnist:nothing"' mnist:nothing --output x.onnx
bad 'nothing.safetensors' mnist:small --weights nothing.safetensors --output x.onnx
bad '--dim batch=0: expected batch=N' mnist:small --output x.onnx --dim batch=0
bad '--dim n=3: expected batch=N' mnist:small --output x.onnx --dim n=3
bad 'no/such/folder/x.onnx' mnist:small --output no/such/folder/x.onnx
[ ! -e x.onnx ] || complain "a refused export left a file"

if [ -d "$tree/build/data/models/peer" ] && command -v node >/dev/null; then
    mkdir kept
    [ -z "$networks" ] || LOCKSTEP_KEEP_EXPORTS=kept "$networks" >out 2>&1 || complain "$networks: $(cat out)"
    for model in small.onnx cnn.onnx kept/mlp.onnx kept/encoder.onnx kept/decoder.onnx kept/recurrent.onnx; do
        [ -e $model ] || [ -z "$networks" ] || complain "$model was not written"
        [ -e $model ] || continue
        "$lockstep" verify $model --devices cpu --peer "node $tree/tools/peers/onnxruntime.mjs" >out 2>&1
        [ $? -eq 0 ] && grep -q 'lockstep inside .*the peer inside' out || complain "ONNX Runtime on $model: $(cat out)"
    done
else
    echo "without ONNX Runtime, which is not here (make models)"
fi
[ $failures -eq 0 ] || exit 1
