#!/bin/sh
# rendered.sh BUILD: every kernel that the tests of emission lower, as PTX and SPIR-V, judged by ptxas and spirv-val.
set -eu
failed=0
for test in test_render_rows test_emit test_emit_cases test_emit_tiled test_emit_legal; do
    echo "$test"
    LOCKSTEP_RENDERED=all "$1/tests/unit/$test" || failed=1
done
exit $failed
