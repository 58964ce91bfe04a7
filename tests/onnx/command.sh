#!/bin/sh
# command.sh LOCKSTEP WRITE_MODELS [EXAMPLE]: run, verify, inspect and conform on .onnx files: outputs, reports, exit codes, and one clear line for
# everything that is wrong.
set -u
lockstep=$1
write_models=$2
example=${3:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C LOCKSTEP_THREADS=1
unset LOCKSTEP_LOG LOCKSTEP_CHECK LOCKSTEP_DATA LOCKSTEP_ISA
cd "$tmp" || exit 1
failures=0
cases=0
"$write_models" . || exit 1

complain() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# bad CODE TEXT ARGUMENTS...: exit code, nothing on stdout, a last line on stderr that holds TEXT.
bad() {
    code=$1
    text=$2
    shift 2
    cases=$((cases + 1))
    "$lockstep" "$@" >out 2>err
    got=$?
    [ $got -eq "$code" ] || complain "lockstep $*: exit code $got, expected $code: $(cat err)"
    [ ! -s out ] || complain "lockstep $*: wrote to stdout: $(head -1 out)"
    tail -1 err | grep -qF -- "$text" || complain "lockstep $*: '$(cat err)' does not say '$text'"
}

# good TEXT ARGUMENTS...: exit code 0; stdout holds TEXT.
good() {
    text=$1
    shift
    cases=$((cases + 1))
    "$lockstep" "$@" >out 2>err || complain "lockstep $*: exit code $?: $(cat err)"
    grep -qF -- "$text" out || complain "lockstep $*: '$(cat out)' does not say '$text'"
}

# ---- run ----
good 'out/sum f32 [1,3]  sha256 ' run add.onnx --input a/left=zeros --input b=zeros
good '0 0 0' run add.onnx --input a/left=zeros --input b=zeros
good 'out/sum f32 [5,3]' run add.onnx --dim n=5 --output o --json report.json --repeat 3
[ -s o/out_sum.npy ] || complain "--output wrote no o/out_sum.npy: $(ls o)"
grep -q '"name":	"out/sum"' report.json || complain "the report does not name the output: $(cat report.json)"
if [ -n "$example" ]; then # examples/onnx_model says the hash that the command says
    expected=$("$lockstep" run add.onnx --input a/left=o/out_sum.npy --input b=o/out_sum.npy | grep -o 'sha256 [0-9a-f]*' | cut -d' ' -f2)
    [ "$("$example" cpu add.onnx o/out_sum.npy o/out_sum.npy)" = "$expected  out/sum" ] || complain "$example: expected $expected"
    "$example" cpu add.onnx o/out_sum.npy >out 2>err
    [ $? -eq 2 ] && [ "$(cat err)" = 'add.onnx: input "b" is not given' ] || complain "$example without an input: $(cat out err)"
fi
good 'out/sum f32 [5,3]' run add.onnx --input a/left=o/out_sum.npy # b takes n from the file
first=$("$lockstep" run add.onnx --dim n=700 --input a/left=random:3 --device cpu 2>/dev/null | grep -o 'sha256 [0-9a-f]*')
second=$("$lockstep" run add.onnx --dim n=700 --input a/left=random:3 --device ref 2>/dev/null | grep -o 'sha256 [0-9a-f]*')
other=$("$lockstep" run add.onnx --dim n=700 --input a/left=random:4 --device ref 2>/dev/null | grep -o 'sha256 [0-9a-f]*')
[ -n "$first" ] && [ "$first" = "$second" ] || complain "cpu gives $first, ref $second"
[ "$first" != "$other" ] || complain "seeds 3 and 4 give the same numbers"
good 'y bool [4]' run not.onnx --input x=random:1
bad 2 'cannot open missing.onnx' run missing.onnx
bad 2 "the model's inputs are a/left, b" run add.onnx --input left=zeros
bad 2 'given twice' run add.onnx --input b=zeros --input b=random
bad 2 'expected a whole number' run add.onnx --input b=random:x
bad 2 "the model's named dimensions are n" run add.onnx --dim batch=2
bad 2 'expected NAME=N' run add.onnx --dim n=many
bad 2 'n is 2 by --dim' run add.onnx --dim n=2 --input b=o/out_sum.npy
bad 2 'the file has f32 [5,3], the model wants bool [4]' run not.onnx --input x=o/out_sum.npy
bad 2 'has its own' run add.onnx --weights some.safetensors
bad 2 'input "x" is string' run strings.onnx
bad 2 "the model's named dimensions are none" run not.onnx --dim n=4
bad 2 'output twins: outputs "a/b" and "a:b" would both be a_b.npy' run twins.onnx --output twins
[ ! -e twins ] || complain "a refused run left $(ls twins)"
good 'a:b f32 [2,3]' run twins.onnx
bad 2 'Frobnicate' run unknown.onnx
bad 3 'no-such' run add.onnx --device no-such
for command in run inspect verify; do
    bad 2 'input "x": too large: f32 [2147483648,2147483648] takes 1.84e+19 bytes' $command huge.onnx
    bad 2 'input "x": too large: f32 [2147483648,2147483648]' $command huge.onnx --input x=zeros
done
printf 'this is no model' >text.onnx
bad 2 'text.onnx' run text.onnx
head -c 40 add.onnx >short.onnx
bad 2 'short.onnx' run short.onnx

# ---- pictures and scores: two pixels beside each other, (255,0,51) and (0,102,204), in two rows ----
printf 'P6\n2 2\n255\n\377\000\063\000\146\314\377\000\063\000\146\314' >two.ppm
printf 'one\ntwo\n' >labels.txt
good '1 0 1 0 0 0.4 0 0.4 0.2 0.8 ...' run planes.onnx --input x=two.ppm
good '  255 0 255 0 0 102 0 102 51 204 ...' run planes.onnx --input x=two.ppm --scale 1
good '1 -1 1 -1 -0.5 -0.1 -0.5 -0.1 -0.4 0.2 ...' run planes.onnx --input x=two.ppm --mean 0.5,0.5,0.6 --std 0.5,1,1
good '255 0 51 0 102 204 255 0 51 0 ...' run pixels.onnx --input x=two.ppm
good '3 3 3 3 3 3 3 3 3 3 ...' run pixels.onnx --input x=3
bad 2 'expected a whole number of at most 64 bits: the input is' run pixels.onnx --input x=0.5
bad 2 'expected NAME=FILE|random[:SEED]|zeros|NUMBER' run pixels.onnx --input x=
good '1.5 1.5 1.5' run add.onnx --input a/left=1.5 --input b=zeros
printf 'P6\n26000 26000\n255\n' >large.ppm
bad 2 'asks for more pixels than its 19 bytes can hold' run planes.onnx --input x=large.ppm
bad 2 'std 0.5,0,1: expected numbers above 0' run planes.onnx --input x=two.ppm --std 0.5,0,1
bad 2 'is no picture by --layout NHWC: expected' run planes.onnx --input x=two.ppm --layout NHWC
good '      0  1            one' run planes.onnx --input x=two.ppm --top 1 --labels labels.txt
good '      1  0            two' run planes.onnx --input x=two.ppm --top 2 --labels labels.txt
bad 2 'labels .: cannot be read: Is a directory' run planes.onnx --input x=missing.ppm --top 1 --labels .
bad 2 'labels none.txt: cannot be read: No such file' run planes.onnx --input x=missing.ppm --top 1 --labels none.txt
bad 2 'expected 1 or 3 numbers' run planes.onnx --input x=two.ppm --mean 1,2
bad 2 'expected 1 or 3 numbers' run planes.onnx --input x=two.ppm --std 1,2,3,4
bad 2 'is no picture' run add.onnx --input b=two.ppm
bad 2 'text.png' run planes.onnx --input x=text.png
cp text.onnx text.png
bad 2 'text.png' run planes.onnx --input x=text.png

# ---- sounds ----
# wav FILE CHANNELS BYTES SAMPLES: 16 bits, 8000 a second; so many channels, bytes a frame, and bytes of samples, in octal
wav() {
    printf "RIFF\0\0\0\0WAVEfmt \020\0\0\0\001\0\00$2\0\100\037\0\0\0\0\0\0\00$((2 * $2))\0\020\0data\0$3\0\0\0$4" >"$1"
}
wav mono.wav 1 12 '\0\100\0\300\001\0\0\200\377\177'
wav stereo.wav 2 14 '\0\100\0\300\0\100\0\100\0\200\0\0'
good 'y f32 [1,1,5]' run clip.onnx --input x=mono.wav
good '  0.5 -0.5 3.05176e-05 -1 0.999969' run clip.onnx --input x=mono.wav
grep -qF 'mono.wav: 8000 samples a second, 5 of them, 1 channel' err || complain "no word of the rate: $(cat err)"
good '  0 0.5 -0.5' run clip.onnx --input x=stereo.wav
grep -qF '2 channels: their mean' err || complain "no word of the mean: $(cat err)"
good '  -0.5 0.5 0' run clip.onnx --input x=stereo.wav --channel 1
good '  -0.5 3.05176e-05' run clip.onnx --input x=mono.wav --offset 1 --samples 2
good '  -16384 1 -32768' run frame.onnx --input x=mono.wav --offset 1
good 'y i16 [1,3]' run frame.onnx --input x=stereo.wav
good 'y f32 [1,1,10]' run clip.onnx --input x=mono.wav --rate 16000
good '  0.5 ' run clip.onnx --input x=mono.wav --rate 16000 # every second sample is one that was there
good 'y f32 [1,1,3]' run clip.onnx --input x=mono.wav --rate 4000
good 'cpu: same' verify clip.onnx --input x=mono.wav
constant=$(printf '%.0s\\0\\100' $(seq 200))
swings=$(printf '%.0s\\0\\100\\0\\300' $(seq 100))
for file in constant swings; do # 400 bytes of samples
    eval "samples=\$$file"
    printf "RIFF\0\0\0\0WAVEfmt \020\0\0\0\001\0\001\0\100\037\0\0\0\0\0\0\002\0\020\0data\220\001\0\0$samples" >$file.wav
done
good '  0.5 0.5 0.5' run clip.onnx --input x=constant.wav --rate 11025 --offset 130 --samples 3
good '  0.5 -0.5 0.5' run clip.onnx --input x=swings.wav --samples 3
"$lockstep" run clip.onnx --input x=swings.wav --rate 5000 --offset 60 --samples 4 2>err | sed -n 2p | tr ' ' '\n' | awk '$1 { n++; if ($1 > 1e-3 || $1 < -1e-3) exit 1 } END { exit n != 4 }' ||
    complain "half of the rate goes below the rate that it is resampled to"
cases=$((cases + 1))
bad 2 'takes 3: --offset 0 takes the first' run frame.onnx --input x=mono.wav
bad 2 '2 samples from 3 on are there; input "x" takes 3' run frame.onnx --input x=mono.wav --offset 3
bad 2 'input "x" takes 3' run frame.onnx --input x=mono.wav --samples 2
bad 2 'is no sound' run planes.onnx --input x=mono.wav
bad 2 '--channel 1: expected a whole number from 0 to 0' run clip.onnx --input x=mono.wav --channel 1
bad 2 '--rate 0' run clip.onnx --input x=mono.wav --rate 0
bad 2 'none.wav' run clip.onnx --input x=none.wav
cp text.onnx text.wav
bad 2 'no WAVE file' run clip.onnx --input x=text.wav

# ---- verify, inspect ----
good 'cpu: same' verify add.onnx --dim n=4
bad 2 'Frobnicate' verify unknown.onnx
good 'same bits' verify add.onnx --dim n=4 --worst 1 --html page.html --json verify.json
grep -q '"operations":	"add"' verify.json || complain "the report does not say what a kernel computes: $(cat verify.json)"
grep -q '"name":	"a/left"' verify.json || complain "the report does not say what a kernel reads: $(cat verify.json)"
grep -q '"origins":	\["it"\]' verify.json || complain "the report does not name the node: $(cat verify.json)"
good 'it ' verify add.onnx --devices cpu
good 'markup' verify markup.onnx --dim n=2 --html markup.html --json -
[ "$(grep -o '<script' markup.html | wc -l)" -eq "$(grep -o '<script' page.html | wc -l)" ] || complain "a name of the model became markup in the page"
"$lockstep" verify add.onnx --devices ref --html nowhere/page.html >out 2>err
[ $? -eq 2 ] && grep -q -- '--html nowhere/page.html: cannot be written' err || complain "a page that cannot be written: $(cat err)"
bad 3 'no device "foo"' verify add.onnx --dim n=4 --devices cpu,foo
"$lockstep" verify add.onnx --dim n=4 --devices cpu --peer 'exit 3;' >out 2>err
[ $? -eq 2 ] && grep -q 'ended with status 3$' err || complain "a peer that fails: $(cat err)"
bytes=$(printf 'a\377b\355\240\200c\303\251.onnx') # no UTF-8 but for its end
cp add.onnx "$bytes"
good 'cpu: same' verify "$bytes" --dim n=4 --json bytes.json --html bytes.html
for file in bytes.json bytes.html; do
    grep -q "$(printf 'a\357\277\275b\357\277\275\357\277\275\357\277\275c\303\251.onnx')" $file || complain "$file does not replace bytes that are no UTF-8"
    ! grep -q "$(printf '\377')" $file || complain "$file holds bytes that are no UTF-8"
done
bad 2 'no fault is called "nothing"; lockstep check --plant list lists them' verify add.onnx --plant nothing
bad 2 'expected a whole number' verify add.onnx --worst -1
"$lockstep" verify add.onnx --dim n=4 --plant second-operand-dropped --html planted.html >out 2>err
[ $? -eq 1 ] || complain "verify with a fault: exit code is not 1"
grep -q 'DIFFERS' out && grep -q "^ref: output out/sum is not cpu's" out || complain "verify with a fault says: $(cat out)"
good 'a/left float [n,3]' inspect add.onnx
good 'all operators are supported' inspect add.onnx --json inspect.json
grep -q '"kernels":	1' inspect.json || complain "the report of inspect does not say how many kernels: $(cat inspect.json)"
good 'a run on a/left f32 [7,3], b f32 [7,3]' inspect add.onnx --dim n=7
good '1 kernels, 0 MFLOP in contractions' inspect add.onnx
bad 2 'named dimensions are n' inspect add.onnx --dim m=7
good 'Frobnicate (org.example 3)  NOT SUPPORTED: ' inspect unknown.onnx
good '1 operators are not supported' inspect unknown.onnx
good 'it serves all extents up to --max' inspect add.onnx --max n=64 --json inspect.json
grep -q '"symbolic":	true' inspect.json || complain "the report of inspect does not say that n is a symbol: $(cat inspect.json)"
bad 2 'named dimensions are n' inspect add.onnx --max m=64
bad 2 'expected NAME=N with N from 1' run add.onnx --max n=0
good 'out/sum f32 [5,3]' run add.onnx --dim n=5 --max n=64
good 'add' inspect add.onnx --graph --strategies --json parts.json
grep -q '"graph":	"%0 = input f32' parts.json && grep -q '"strategy":	"naive"' parts.json || complain "the report of inspect --graph --strategies: $(cat parts.json)"

# ---- conform ----
bad 2 'expected --onnx DIR' conform
bad 2 'not a folder' conform --onnx missing
mkdir -p empty
bad 2 'no folder with a model.onnx' conform --onnx empty
mkdir -p cases/test_it/test_data_set_0 cases/test_other/test_data_set_0
cp unknown.onnx cases/test_other/model.onnx
cp strings.onnx cases/test_it/model.onnx
for file in input_0 output_0; do
    printf '\010\004\020\001\112\020\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000' >cases/test_other/test_data_set_0/$file.pb # float [4]
done
"$lockstep" conform --onnx cases --devices cpu --json conform.json >out 2>err
[ $? -eq 1 ] || complain "conform with a case that fails: exit code is not 1"
grep -q '0 passed, 1 failed, 1 unsupported, 0 random' out || complain "conform says: $(cat out)"
good '0 passed, 0 failed, 1 unsupported, 0 random' conform --onnx cases --devices cpu --filter '*_o[a-z]her'
bad 2 'whose name fits nothing' conform --onnx cases --filter nothing
bad 3 'no-such' conform --onnx cases --devices cpu,no-such

echo "$cases cases, $failures failed"
[ $failures -eq 0 ]
