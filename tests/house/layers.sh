#!/bin/sh
# layers.sh TREE: fails on any #include in TREE that layers.txt does not allow. First it checks itself: planted
# breaches in a small tree must all be found, and its one clean file must pass.
set -eu
table=$(dirname "$0")/layers.txt

check() { # check TREE: prints one line a breach
    (cd "$1" && find src include examples \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.inc' \
        -o -name '*.def' \) -type f 2>/dev/null | sort | xargs -r grep -nE '^[[:space:]]*#[[:space:]]*include' \
        /dev/null) | awk -v table="$table" '
    BEGIN {
        n = split("assert ctype errno float inttypes limits signal stdalign stdarg stdatomic stdbool stddef" \
                  " stdint stdio stdlib stdnoreturn string time", plain, " ")
        for (i = 1; i <= n; i++) standard["<" plain[i] ".h>"] = 1
        while ((getline line < table) > 0) {
            if (line ~ /^#/ || line !~ /:/) continue
            key = line; sub(/:.*/, "", key)
            rest = line; sub(/^[^:]*:/, "", rest)
            if (key ~ /^</) { system_header[key] = " " rest " " } else { may[key] = " " rest " "; rules++ }
        }
        if (!rules) { print "no rules in " table; exit 1 }
    }
    function folder_of(path,   parts, n) { # the layer a path from src/ belongs to; "" if it names no folder
        n = split(path, parts, "/")
        if (n < 2) return ""
        if (n > 2 && (parts[1] == "backend" || (parts[1] "/" parts[2]) in may)) return parts[1] "/" parts[2]
        return parts[1]
    }
    function listed(list, word) { return index(list, " " word " ") > 0 }
    function breach(why) { print where ": " what ": " why }
    {
        split($0, field, ":")
        file = field[1]; where = file ":" field[2]
        what = $0; sub(/^[^:]*:[^:]*:[ \t]*#[ \t]*include[ \t]*/, "", what)
        quoted = substr(what, 1, 1) == "\""
        if (!quoted && substr(what, 1, 1) != "<") next # a macro
        name = what; sub(/^["<]/, "", name); sub(/[">].*/, "", name)
        what = quoted ? "\"" name "\"" : "<" name ">"
        public = 0
        if (file ~ /^include\//) { layer = "include"; public = 1 }
        else if (file ~ /^examples\//) layer = "examples"
        else { layer = folder_of(substr(file, 5)) }
        if (layer != "include" && !(layer in may)) { breach("the folder " layer " is not in layers.txt"); next }
        if (quoted) {
            if (name ~ /\.\.?\// ) { breach("write the path from src/"); next }
            target = folder_of(name)
            if (target == "") { breach("write the path from src/"); next }
            if (public) { breach("a public header may include <lockstep/...> and standard headers only"); next }
            if (target == layer || listed(may[layer], target)) next
            breach(layer " may not include " target)
        } else if (name ~ /^lockstep\//) {
            next
        } else if (!(what in standard)) {
            if (layer == "examples") next
            family = "<" name; sub(/\/.*/, "/*>", family)
            if (what in system_header) allowed = system_header[what]
            else if (family in system_header) allowed = system_header[family]
            else { breach("this system header is not in layers.txt"); next }
            if (!listed(allowed, layer)) breach(layer " may not include it")
        }
    }'
}

plant=$(mktemp -d)
trap 'rm -rf "$plant"' EXIT
mkdir -p "$plant/src/base" "$plant/src/graph" "$plant/src/backend/cpu/isa" "$plant/src/cli" "$plant/src/new" \
    "$plant/include/lockstep"
printf '#include "graph/node.h"\n' >"$plant/src/base/up.c"                   # base includes upwards
printf '#include "backend/ref/ref.h"\n' >"$plant/src/backend/cpu/isa/sib.c"  # a sibling
printf '  #  include "engine/session.h"\n' >"$plant/src/backend/cpu/eng.c"   # the engine
printf '#include "base/alloc.h"\n' >"$plant/src/cli/internal.c"             # public headers only
printf '#include "../graph/node.h"\n' >"$plant/src/base/dots.h"              # a way around
printf '#include "node.h"\n' >"$plant/src/graph/short.c"
printf '#include <math.h>\n' >"$plant/src/graph/libm.c"
printf '#include <sys/mman.h>\n' >"$plant/src/graph/map.c"
printf '#include <stdint.h>\n' >"$plant/src/new/unknown.c"                   # a folder without a rule
printf '#include "base/alloc.h"\n' >"$plant/include/lockstep/leak.h"
printf '#include "base/alloc.h"\n#include "graph/op.def"\n#include <lockstep/status.h>\n#include <stdint.h>\n' \
    >"$plant/src/graph/clean.c"
check "$plant" >"$plant/found"
for file in base/up.c backend/cpu/isa/sib.c backend/cpu/eng.c cli/internal.c base/dots.h graph/short.c \
    graph/libm.c graph/map.c new/unknown.c lockstep/leak.h; do
    grep -q "$file:1:" "$plant/found" || { echo "self-check: the planted breach in $file was not found"; exit 1; }
done
if grep -q clean.c "$plant/found" || [ "$(wc -l <"$plant/found")" != 10 ]; then
    echo "self-check: a clean include was called a breach:"
    cat "$plant/found"
    exit 1
fi

check "$1" >"$plant/found"
if [ -s "$plant/found" ]; then
    cat "$plant/found"
    echo "$(wc -l <"$plant/found") breaches of tests/house/layers.txt"
    exit 1
fi
checked=$(cd "$1" && find src include -name '*.[ch]' | wc -l)
[ "$checked" -gt 0 ] || { echo "no files to check in $1"; exit 1; }
echo "$checked files keep the layers"
