#!/bin/sh
# train.sh LOCKSTEP TREE [INFER]: a run that is saved and taken up again ends in the bits of an unbroken one, on any
# device and for any number of threads; Ctrl-C and other signals save; what was saved can be run, verified and used by an example.
set -u
lockstep=$1
infer=${3:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C
unset LOCKSTEP_LOG LOCKSTEP_CHECK LOCKSTEP_ISA LOCKSTEP_DATA
export LOCKSTEP_THREADS=1
cd "$tmp" || exit 1
failures=0

complain() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# images NAME COUNT: images and labels as IDX; what the pixels show does not matter here.
images() {
    count=$(printf '\\%03o' "$2")
    { printf "\\0\\0\\10\\3\\0\\0\\0$count\\0\\0\\0\\34\\0\\0\\0\\34"; head -c $(($2 * 784)) "$lockstep"; } >"idx/$1-images-idx3-ubyte"
    { printf "\\0\\0\\10\\1\\0\\0\\0$count"; seq -w 0 399 | tr -d '\n' | tr 0123456789 '\000\001\002\003\004\005\006\007\010\011' |
        head -c "$2"; } >"idx/$1-labels-idx1-ubyte"
}
mkdir idx
images train 96
images t10k 16

# train ARGUMENTS...: prints the hash of the weights.
train() {
    "$lockstep" train mnist --data idx --model small --batch 8 "$@" >out 2>err || complain "train $*: exit code $?: $(cat err)"
    sed -n 's/^weights //p' out
}
same() { # same WHAT A B
    [ -n "$2" ] && [ "$2" = "$3" ] || complain "$1: $2 and $3"
}

# ---- a profile tells of every kernel, and changes no bit ----
plain=$(train --steps 3)
same "the weights of a profiled run" "$plain" "$(train --steps 3 --profile --json report.json)"
grep -q 'kernels, .* ms by the host' out || complain "train --profile prints no profile: $(cat out)"
grep -q 'contract' out || complain "the profile names no contraction: $(cat out)"
grep -q '"nanoseconds"' report.json || complain "the report has no profile"
"$lockstep" run mnist:small --profile --repeat 3 >out 2>err || complain "run --profile: $(cat err)"
grep -q 'launches' out || complain "run --profile prints no profile: $(cat out)"

"$lockstep" bench compile --json report.json >out 2>err || complain "bench compile: $(cat err)"
[ "$(grep -c '^mnist:cnn\|^encoder' out)" = 4 ] || complain "bench compile prints no rows: $(cat out)"
[ "$(grep -c '"driver_p90_ms"' report.json)" = 4 ] || complain "the report of bench compile has no rows"

# ---- 10 steps are 5 and 5 ----
for optimizer in sgd adam adamw; do
    whole=$(train --optimizer $optimizer --schedule constant --steps 10)
    train --optimizer $optimizer --schedule constant --steps 5 --save half >/dev/null
    same "$optimizer taken up again" "$whole" "$(train --resume half --steps 10)"
done
same "taken up again on ref" "$whole" "$(train --resume half --steps 10 --device ref)"
same "3 threads" "$whole" "$(LOCKSTEP_THREADS=3 train --optimizer adamw --schedule constant --steps 10)"
same "checked" "$whole" "$(LOCKSTEP_CHECK=bits train --optimizer adamw --schedule constant --steps 10)"
other=$(train --optimizer adamw --schedule constant --steps 10 --seed 2)
[ "$whole" != "$other" ] || complain "another seed gave the same weights"
train --steps 5 --save cosine >/dev/null
"$lockstep" train mnist --resume cosine --steps 10 >out 2>err
[ $? -eq 2 ] && grep -q 'the cosine schedule of the run in cosine is for 5 steps' err || complain "more cosine steps: $(cat err)"

# ---- what a file may say of its run ----
train --steps 3 --math fast --save quick >/dev/null
same "fast taken up again without a word" "$(train --steps 6 --schedule constant --math fast)" "$(
    train --steps 3 --schedule constant --math fast --save quick >/dev/null
    train --resume quick --steps 6 --json report.json)"
grep -q '"math":	"fast"' report.json || complain "a fast run was taken up again in $(grep math report.json)"
# refused TEXT ARGUMENTS...: of train --resume
refused() {
    text=$1
    shift
    "$lockstep" train mnist "$@" >out 2>err
    [ $? -eq 2 ] && grep -qF -- "$text" err && [ "$(wc -l <err)" -eq 1 ] || complain "train $*: '$(cat err)' does not say '$text'"
}
refused '--math locked: the run in quick has fast' --resume quick --math locked
for change in 'shift":"1 shift":"9' 'shift":"1 shift":"x' 'batch":"8 batch":"0' 'seed":"1 seed":"-' 'step":"5 step":"a' 'steps":"5 steps":"-' \
    'epochs":"5 epochs":"0' 'lr":"0.00 lr":"-.00' 'lr":"0.00 lr":"1e90' 'optimizer":"a optimizer":"b' 'schedule":"c schedule":"d' 'math":"l math":"f'; do
    sed "s/${change% *}/${change#* }/" half >changed
    cmp -s half changed && complain "half has no ${change% *}"
    refused "--resume changed: its ${change%%\"*} is \"${change##*\"}" --resume changed
done
sed 's/"math":"locked"/"mess":"locked"/' half >older
same "taken up again from a file that does not say its arithmetic" "$whole" "$(train --resume older --steps 10)"

# ---- data that is no images of digits ----
cp -r idx odd
{ printf '\0\0\10\3\0\0\0\020\0\0\0\70\0\0\0\16'; head -c 12544 "$lockstep"; } >odd/t10k-images-idx3-ubyte
refused '--data odd: t10k-images-idx3-ubyte has images of 56 by 14: expected 28 by 28 pixels' --data odd
printf '\0\0\10\3\0\0\0\0\0\0\0\34\0\0\0\34' >odd/t10k-images-idx3-ubyte
printf '\0\0\10\1\0\0\0\0' >odd/t10k-labels-idx1-ubyte
refused '--data odd: t10k-images-idx3-ubyte has no images' --data odd
rm -r odd
cp -r idx odd
printf '\012' | dd of=odd/train-labels-idx1-ubyte bs=1 seek=$((8 + 70)) conv=notrunc 2>/dev/null
refused '--data odd: train-labels-idx1-ubyte: label 70 is 10: expected 0 to 9' --data odd
refused 'a smaller --lr may help' --data idx --model small --batch 8 --optimizer sgd --lr 1e6

# ---- a reader of the messages that has gone: the weights are saved ----
{
    "$lockstep" train mnist --data idx --model small --batch 8 --schedule constant --optimizer adamw --steps 40 --save piped 2>&1 >out
    echo $? >code
} | head -n 1 >/dev/null
[ "$(cat code)" -eq 0 ] || complain "a broken pipe: exit code $(cat code)"
same "saved though the pipe broke" "$(train --resume piped --steps 41)" "$(train --optimizer adamw --schedule constant --steps 41)"

# ---- Ctrl-C, and what ends a program otherwise ----
steps=400
whole=$(train --steps $steps)
for signal in INT TERM HUP; do
    rm -f cut err report.json
    "$lockstep" train mnist --data idx --model small --batch 8 --steps $steps --save cut --json report.json >out 2>err &
    job=$!
    waited=0 # a job of a shell ignores SIGINT until the run itself listens
    until grep -qs step err || [ $waited -eq 600 ]; do
        sleep 0.05
        waited=$((waited + 1))
    done
    kill -$signal $job
    wait $job
    code=$?
    if [ $code -eq 130 ]; then
        grep -q "of $steps; saved to cut" err || complain "SIG$signal says: $(cat err)"
        grep -q '"interrupted":	true' report.json || complain "SIG$signal: the report is $(cat report.json)"
        same "after SIG$signal ($(sed -n 's/interrupted //p' err))" "$whole" "$(train --resume cut)"
    elif [ $code -ne 0 ]; then
        complain "SIG$signal: exit code $code: $(cat err)"
    else
        echo "not tried: all $steps steps were done before SIG$signal"
    fi
done

# ---- what was saved ----
"$lockstep" verify mnist:small --weights half --devices cpu,ref >out 2>err || complain "verify: $(cat out err)"
[ "$(grep -c '^cpu: same' out)" -eq 1 ] || complain "verify says: $(head -1 out)"
"$lockstep" run mnist:small --weights half --device cpu --dim batch=3 --output cpu >/dev/null 2>&1
"$lockstep" run mnist:small --weights half --device ref --dim batch=3 --output ref >/dev/null 2>&1
cmp -s cpu/logits.npy ref/logits.npy || complain "run: cpu and ref differ"
if [ -n "$infer" ]; then
    "$infer" >/dev/null 2>&1 && "$infer" half images.npy >out 2>err || complain "the example with trained weights: $(cat err)"
    [ "$(grep -c '^image [0-3] shows a [0-9]$' out)" -eq 4 ] || complain "the example says: $(cat out)"
fi
echo "$failures failures"
[ $failures -eq 0 ]
