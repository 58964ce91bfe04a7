#!/bin/sh
# bad_input.sh LOCKSTEP TREE: bad input to the command is one clear line on stderr and the right exit code, and
# overwrites nothing; good input keeps reports apart from what is meant for people.
set -u
lockstep=$1
tree=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C LOCKSTEP_THREADS=1
unset LOCKSTEP_LOG LOCKSTEP_CHECK LOCKSTEP_DATA LOCKSTEP_ISA
cd "$tmp" || exit 1
failures=0
cases=0

complain() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# bad CODE TEXT ARGUMENTS...: exit code, nothing on stdout, one line on stderr that holds TEXT.
bad() {
    code=$1
    text=$2
    shift 2
    cases=$((cases + 1))
    "$lockstep" "$@" >out 2>err
    got=$?
    [ $got -eq "$code" ] || complain "lockstep $*: exit code $got, expected $code: $(cat err)"
    [ ! -s out ] || complain "lockstep $*: wrote to stdout: $(head -1 out)"
    [ "$(wc -l <err)" -eq 1 ] || complain "lockstep $*: $(wc -l <err) lines on stderr: $(cat err)"
    grep -qF -- "$text" err || complain "lockstep $*: '$(cat err)' does not say '$text'"
    grep -q '^lockstep: ' err || complain "lockstep $*: '$(cat err)' does not say who speaks"
}

# good ARGUMENTS...: exit code 0; stdout in out.
good() {
    cases=$((cases + 1))
    "$lockstep" "$@" >out 2>err || complain "lockstep $*: exit code $?: $(cat err)"
}

# parses FILE: is JSON.
if command -v python3 >/dev/null; then
    parses() { python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$1" 2>/dev/null || complain "$1 is not JSON: $(head -2 "$1")"; }
elif command -v jq >/dev/null; then
    parses() { jq -e . "$1" >/dev/null || complain "$1 is not JSON: $(head -2 "$1")"; }
else
    parses() { grep -q '^{' "$1" || complain "$1 does not begin like JSON"; }
fi

# ---- usage ----
bad 2 'no command "trian"' trian mnist
bad 2 'unknown option --modle' train mnist --modle cnn
bad 2 'unknown option --batch' run mnist:small --batch 3
bad 2 'run: unknown option -x; see lockstep run --help' run mnist:small -x
good run -h
grep -q '^usage: lockstep run MODEL' out || complain "run -h prints $(head -1 out)"
bad 2 '--lr needs a value' train mnist --lr
bad 2 '--no-fusion takes no value' train mnist --no-fusion=1
bad 2 'unexpected "fashion"' train mnist fashion
bad 2 'expected what to train' train
bad 2 'expected what to train' train imagenet
bad 2 'expected a network' run
bad 2 'expected mnist:cnn or mnist:small' run mnist:large
bad 2 'expected mnist:cnn or mnist:small' verify mnist:large --devices ref
bad 2 '--epochs x: expected a whole number' train mnist --epochs x
bad 2 '--epochs 0: expected a whole number from 1' train mnist --epochs 0
bad 2 '--epochs 1e3: expected a whole number' train mnist --epochs 1e3
bad 2 '--steps -5: expected a whole number' train mnist --steps -5
bad 2 '--steps 99999999999999999999: expected' train mnist --steps 99999999999999999999
bad 2 '--batch 65537: expected' train mnist --batch 65537
bad 2 '--lr nan: expected a number' train mnist --lr nan
bad 2 '--lr 1,5: expected a number' train mnist --lr 1,5
bad 2 '--lr : expected a number' train mnist --lr=
bad 2 '--model tiny: expected small, cnn' train mnist --model tiny
bad 2 '--optimizer lion: expected sgd, adam, adamw' train mnist --optimizer lion
bad 2 '--math exact: expected locked, fast, reduced' run mnist:small --math exact
bad 2 '--epochs and --steps' train mnist --epochs 1 --steps 1
bad 2 '--repeat 0: expected' run mnist:small --repeat 0
export LOCKSTEP_CHECK=BITS
bad 2 'LOCKSTEP_CHECK is "BITS", expected bits, oracle or none' devices
unset LOCKSTEP_CHECK
export LOCKSTEP_TUNE=fast
bad 2 'LOCKSTEP_TUNE is "fast", expected on or off' devices
unset LOCKSTEP_TUNE
LOCKSTEP_LOG=debug "$lockstep" devices 2>&1 >out | grep -q '^lockstep: debug: ' || complain "devices: LOCKSTEP_LOG=debug prints nothing of the log"
bad 2 '--dim batch=0: expected' run mnist:small --dim batch=0
bad 2 '--dim n=2: expected' run mnist:small --dim n=2
bad 2 '--input x=zeros: expected' run mnist:small --input x=zeros
bad 2 'after random:' run mnist:small --input images=random:7x
bad 2 'after random:' run mnist:small --input images=random:
bad 2 'input images=random:5: given twice' run mnist:small --input images=zeros --input images=random:5
bad 2 'dim batch=3: given twice' run mnist:small --dim batch=2 --dim batch=3
bad 2 'none.npy' run mnist:small --input images=none.npy
bad 2 'row: expected without --filter' check --row 5 --filter X
bad 2 'row: expected without --rows' check --row 5 --rows 3
bad 2 'at least one' verify mnist:small --devices ''
bad 2 'devices "cpu,,ref": expected at least one name' verify mnist:small --devices cpu,,ref
bad 2 'devices "cpu,": expected' verify mnist:small --devices cpu,
bad 2 'html no/such/page.html: cannot be written: No such file' verify mnist:small --html no/such/page.html
bad 2 'html -: expected the path of a file' verify mnist:small --html -
bad 2 'json no/such/report.json: cannot be written: No such file' run mnist:small --json no/such/report.json
bad 2 'output no/such/folder: cannot be written: No such file' run mnist:small --output no/such/folder
bad 2 'output "": expected the path of a folder' run mnist:small --output ''
bad 2 'json "": expected the path of a file' run mnist:small --json ''
bad 2 'save "": expected the path of a file' train mnist --save ''
bad 2 'save no/such/w: cannot be written: No such file' train mnist --data none --save no/such/w
bad 2 'save .: cannot be written: Is a directory' train mnist --data none --save .
bad 2 'none/t' train mnist --data none --save /dev/null
bad 2 'output no/such/x.onnx: cannot be written: No such file' export mnist:small --output no/such/x.onnx --weights none
bad 2 'output x.txt: expected a name that ends in .onnx' export mnist:small --output x.txt
bad 2 'export x.onnx: expected a built-in network' export x.onnx --output y.onnx
good verify mnist:small --plant scan-exclusive
grep -q '^scan-exclusive is planted, and nothing differs' out || complain "a fault that changes nothing: $(tail -1 out)"
good check --rows 5 --filter '1b*' --json few.json # of the fast ones too few can tell
parses few.json
"$lockstep" run mnist:small --output new/ >out 2>err || complain "run --output new/: $(cat err)"
bad 2 'labels: expected --top with it' run mnist:small --labels names.txt
bad 2 'network.pb: expected a file whose name ends in .onnx, or a built-in network' run network.pb
bad 2 'no command "nothing"' help nothing
"$lockstep" help verify >out 2>err || complain "help verify: $(cat err)"
grep -q '^usage: lockstep verify MODEL' out || complain "help verify prints $(head -1 out)"
bad 2 '--peer: expected an .onnx file' verify mnist:small --peer true
bad 2 '--max: expected an .onnx file' run mnist:small --max batch=3
bad 2 '--rate: expected an .onnx file' verify mnist:small --rate 16000
bad 2 '--strategy contract: expected OP=NAME' run mnist:small --strategy contract

# ---- devices ----
bad 3 'nosuch' run mnist:small --device nosuch
bad 3 'nosuch' train mnist --device nosuch --steps 1
bad 3 'nosuch' verify mnist:small --devices nosuch
bad 3 'nosuch' verify mnist:small --devices cpu,nosuch
for threads in 0 1025 many; do
    LOCKSTEP_THREADS=$threads bad 2 "LOCKSTEP_THREADS is \"$threads\": expected a whole number from 1 to 1024" run mnist:small
done
LOCKSTEP_THREADS=1

# ---- data ----
bad 2 'none/t' train mnist --data none
bad 2 'run "make data"' train mnist --data digits
mkdir idx
printf '\0\0\10\3\0\0\0\2\0\0\0\34\0\0\0\34xyz' >idx/train-images-idx3-ubyte
bad 2 'idx/train-images-idx3-ubyte: expected as many elements' train mnist --data idx --steps 1
mkdir digits
printf '{"data":[0.5' >digits/0.json
export LOCKSTEP_DATA="$tmp"
bad 2 'digits/0.json: at byte 12: expected' train mnist --steps 1
unset LOCKSTEP_DATA

# ---- reports and outputs ----
good run mnist:small --dim batch=2 --output outputs --json report.json
parses report.json
grep -q '^logits f32 \[2,10\]' out || complain "run says nothing for people: $(head -1 out)"
sha=$(sed -n 's/.*"sha256":[[:space:]]*"\([0-9a-f]*\)".*/\1/p' report.json)
[ ${#sha} -eq 64 ] || complain "no sha256 in $(cat report.json)"
grep -q "$sha" out || complain "the report's hash is not the one printed"
good run mnist:small --dim batch=2 --json -
parses out
grep -q "$sha" out || complain "another hash on another run"
grep -q 'logits f32' err || complain "with --json - the text for people goes to stderr"
good devices --json -
parses out
good verify mnist:small --devices cpu --json -
parses out
grep -q '"verdict":[[:space:]]*"same"' out || complain "verify: $(cat out)"
good inspect mnist:small --json inspect.json
parses inspect.json
for part in graph groups specs memory; do
    grep -q "\"$part\":	\"[^\"]" inspect.json || complain "the report of inspect has no $part"
done
good --version
good --help
good train --help
grep -q -- '--resume' out || complain "train --help does not list --resume"

# ---- files ----
cp outputs/logits.npy keep.npy
{ # an .npy header takes 128 bytes
    printf '\223NUMPY\1\0v\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 28, 28), }"
    head -c 6272 /dev/zero
} >two.npy
good run mnist:small --input images=random:3 --output other
bad 2 'the file has f32 [2,1,28,28], but batch is 7 by --dim' run mnist:small --input images=two.npy --dim batch=7
good run mnist:small --input images=two.npy --dim batch=2
bad 2 'expected f32 [N,1,28,28]' run mnist:small --input images=outputs/logits.npy
head -c 100 outputs/logits.npy >cut.npy
bad 2 'cut.npy' run mnist:small --input images=cut.npy
bad 2 'outputs/logits.npy: expected an .npz or .safetensors' run mnist:small --weights outputs/logits.npy
bad 2 'none.safetensors' run mnist:small --weights none.safetensors
bad 2 'none.safetensors' verify mnist:small --weights none.safetensors --devices cpu
bad 2 'none.safetensors' train mnist --resume none.safetensors

# ---- a full disk, a folder in the way: the old file stays ----
echo old >report.json
if [ -w /dev/full ]; then
    "$lockstep" run mnist:small --json /dev/full >out 2>err
    [ $? -eq 2 ] || complain "a report on a full disk: exit code is not 2"
    grep -q '/dev/full' err || complain "a report on a full disk: $(cat err)"
    "$lockstep" devices >/dev/full 2>err
    [ $? -eq 2 ] || complain "standard output on a full disk: exit code is not 2"
    for words in --help --version 'train --help' 'inspect mnist:small' 'inspect mnist:cnn --specs'; do
        "$lockstep" $words >/dev/full 2>err # several words
        [ $? -eq 2 ] || complain "$words: standard output on a full disk: exit code is not 2"
        grep -q 'standard output cannot be written' err || complain "$words: standard output on a full disk: $(cat err)"
    done
fi
(ulimit -f 0; trap '' XFSZ; "$lockstep" run mnist:small --output outputs --json report.json >/dev/null 2>&1)
[ $? -eq 2 ] || complain "outputs on a full disk: exit code is not 2"
cmp -s keep.npy outputs/logits.npy || complain "a full disk changed the old logits.npy"
[ "$(cat report.json)" = old ] || complain "a full disk changed the old report"
[ "$(ls outputs)" = logits.npy ] || complain "left behind: $(ls outputs)"
bad_out=$("$lockstep" run mnist:small --json outputs 2>&1 >/dev/null)
case $bad_out in *outputs*) ;; *) complain "a report onto a folder: $bad_out" ;; esac

"$lockstep" devices --json - >&- 2>err
[ $? -eq 2 ] && grep -q 'expected standard output and standard error to be open' err || complain "a report on a closed standard output: $(cat err)"
[ ! -e - ] || complain "a report on a closed standard output went to a file named -"

# ---- weights: only with the digits ----
if [ -e "$tree/build/data/digits/9.json" ]; then
    export LOCKSTEP_DATA="$tree/build/data"
    good train mnist --model small --steps 3 --batch 8 --save w.safetensors
    size=$(wc -c <w.safetensors)
    cp w.safetensors whole
    for n in 0 7 100 3000 $((size - 1)); do
        head -c "$n" whole >w.safetensors
        bad 2 'w.safetensors' run mnist:small --weights w.safetensors
        bad 2 'w.safetensors' train mnist --resume w.safetensors
    done
    cp whole w.safetensors
    printf '\377' | dd of=w.safetensors bs=1 seek=$((size - 5)) conv=notrunc 2>/dev/null
    bad 2 'the file is damaged' train mnist --resume w.safetensors
    cp whole w.safetensors
    bad 2 '"conv1.weight" is f32[8,1,3,3]: expected f32[32,1,3,3]' run mnist:cnn --weights w.safetensors
    bad 2 'the run in w.safetensors has adam' train mnist --resume w.safetensors --optimizer sgd
    bad 2 'the run in w.safetensors has 8' train mnist --resume w.safetensors --batch 9
    bad 2 'the run in w.safetensors has small' train mnist --resume w.safetensors --model cnn
    good train mnist --resume w.safetensors --batch 8 --lr 2e-3 --json -
    parses out
    (ulimit -f 8; trap '' XFSZ; "$lockstep" train mnist --model small --steps 1 --batch 4 --save w.safetensors >out 2>err)
    [ $? -eq 2 ] || complain "saving on a full disk: exit code is not 2"
    grep -q 'w.safetensors' err || complain "saving on a full disk: $(cat err)"
    cmp -s whole w.safetensors || complain "a full disk changed the old weights"
    bad 2 'no/such/w' run mnist:small --weights no/such/w
else
    echo "without build/data/digits: weights are not tried (make data)"
fi
echo "$cases cases, $failures failures"
[ $failures -eq 0 ] && [ $cases -gt 50 ]
