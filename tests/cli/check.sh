#!/bin/sh
# check.sh LOCKSTEP TREE: what lockstep check prints, reports and exits with; that a failed row's command repeats it.
set -u
lockstep=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C LOCKSTEP_THREADS=1
unset LOCKSTEP_LOG LOCKSTEP_CHECK LOCKSTEP_ISA LOCKSTEP_SIM
cd "$tmp" || exit 1
failures=0

complain() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# check CODE ARGUMENTS...: exit code; stdout in out, stderr in err.
check() {
    code=$1
    shift
    "$lockstep" check "$@" >out 2>err
    got=$?
    [ $got -eq "$code" ] || complain "check $*: exit code $got, expected $code: $(tail -n 3 out) $(cat err)"
}
says() {
    grep -q -- "$1" "${2:-out}" || complain "${2:-out} does not say '$1': $(cat "${2:-out}")"
}

check 0 --filter 3-one-device --rows 40 --json report
says '^passed   locked  certification'
says '^passed   fast    3-one-device'
says '^passed   locked  40 conformance rows: [34][0-9] passed, 0 failed, [0-9]* skipped; blind'
says '^passed   fast    10 conformance rows: '
says '^cpu: [0-9]* passed, 0 failed'
[ -s err ] && complain "check speaks on stderr: $(cat err)"
if command -v python3 >/dev/null; then
    python3 - <<'END' || complain "the report is not as it should be: $(cat report)"
import json
r = json.load(open("report"))
assert r["device"]["id"] == "cpu" and r["device"]["locked"] == "certified" and r["version"] and r["contract"] == 1
assert r["system"]["machine"]
locked, fast = r["rows"]
assert locked["math"] == "locked" and locked["passed"] + locked["skipped"] == 40 and locked["failures"] == []
assert fast["math"] == "fast" and fast["passed"] + fast["failed"] + fast["skipped"] == 10
assert sum(s["count"] for s in fast["skips"]) == fast["skipped"]
assert r["passed"] == 3 + locked["passed"] + fast["passed"]
END
fi

# A row is its number, whatever else runs.
check 0 --row 7
says '^passed   locked  row 7  '
says '^cpu: 2 passed, 0 failed, 0 skipped$'
first=$(grep -o 'row 7 .* n=.* ' out)
check 0 --row 7 --device ref
[ "$(grep -o 'row 7 .* n=.* ' out | sed 's/  *[0-9.]* $//')" = "$(echo "$first" | sed 's/  *[0-9.]* $//')" ] ||
    complain "row 7 is another on ref: $(cat out)"

# A planted fault is caught, by its case alone, and by rows if they are asked for; the command of a failed row repeats it.
check 1 --plant short-depth
says '^failed   locked  0b-ones .*kernel 0'
says '^cpu: 1 passed, 2 failed, 0 skipped'
grep -q conformance out && complain "rows ran that were not asked for"
check 1 --plant zero-matmul --rows 40 --json report
says '^failed   locked  40 conformance rows: '
again=$(sed -n 's/^ *again: lockstep check //p' out | head -1)
failed=$(grep '^failed   locked  row' out | head -1)
check 1 $again # several words
for part in "$(echo "$failed" | sed 's/  *[0-9.]* s .*//')" "$(echo "$failed" | sed 's/.* against/against/')"; do
    grep -qF -- "$part" out || complain "'$again' does not repeat '$part': $(cat out)"
done
grep -qF "lockstep check $again" report || complain "the report does not say how to repeat a row: $(cat report)"

check 0 --filter list
says '^3-one-device '
check 2 --filter no-such-case
says 'no case is called "no-such-case"; lockstep check --filter list lists them' err

# Usage.
for bad in "--rows -1" "--rows many" "--row -1" "--row 2000000" "--filter no-such-case" "--plant no-such-fault"; do
    check 2 $bad # two words
    [ "$(wc -l <err)" -eq 1 ] || complain "check $bad: $(cat err)"
done
check 3 --device cuda:77
echo "$failures failures"
[ $failures -eq 0 ]
