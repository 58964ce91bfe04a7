#!/bin/sh
# symbols.sh LIBRARY.a LIBRARY.so: no object of the library needs a function of libm, a function that ends the
# process or prints, or one that reads numbers by the locale; the shared library needs only the declared libraries.
set -eu
export LC_ALL=C
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

libm=$(gcc -print-file-name=libm.so.6)
[ -e "$libm" ] || { echo "libm.so.6 was not found by gcc"; exit 1; }
nm -D --defined-only "$libm" | awk '$2 ~ /[TWi]/ { sub(/@.*/, "", $NF); print $NF " libm" }' >"$tmp/denied"
grep -q '^expf libm$' "$tmp/denied" && grep -q '^floor libm$' "$tmp/denied" || { echo "libm's list is wrong"; exit 1; }
for name in abort exit _exit _Exit quick_exit; do echo "$name ends-the-process"; done >>"$tmp/denied"
for name in printf vprintf puts putchar perror stdout stderr __printf_chk __vprintf_chk; do
    echo "$name prints"
done >>"$tmp/denied"
for name in strtod strtof strtold atof sscanf __isoc99_sscanf __isoc99_fscanf setlocale localeconv; do
    echo "$name locale"
done >>"$tmp/denied"
for name in rand srand random srandom drand48; do echo "$name global-state"; done >>"$tmp/denied"

undefined() { # undefined ARCHIVE: "symbol object" for what each object needs
    nm -A -u "$1" | awk '{ split($1, where, ":"); sub(/@.*/, "", $NF); print $NF, where[2] }' | sort
}
judge() { # judge ARCHIVE: prints the denied symbols; base/text.c calls strtod in the "C" locale, by uselocale
    undefined "$1" | awk 'NR == FNR { why[$1] = $2; next } $1 in why { print $2 " needs " $1 " (" why[$1] ")" }' \
        "$tmp/denied" - | grep -vxF 'text.c.o needs strtod (locale)' || true
}
strangers() { # strangers LIBRARY.so: the libraries that it needs and that are not declared
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libcjson\.so|libprotobuf-c\.so|libpcre2-8\.so|libz\.so|libc\.so|libpthread\.so|libdl\.so|ld-linux)' |
        sed 's/^/the shared library needs /'
}

# Self-check: planted uses must be found.
printf '#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\nfloat p(float x);\nfloat p(float x)\n{\n' \
    >"$tmp/p.c"
printf '    if (x > 9) abort();\n    printf("%%f", (double)x);\n    return sinf(x) + floorf(x) + strtof("1", 0);\n}\n' \
    >>"$tmp/p.c"
gcc -O0 -fno-builtin -c "$tmp/p.c" -o "$tmp/p.o"
ar rc "$tmp/p.a" "$tmp/p.o"
for name in sinf floorf abort printf strtof; do
    judge "$tmp/p.a" | grep -q "needs $name " || { echo "self-check: planted $name was not found"; exit 1; }
done
gcc -shared -fPIC -fno-builtin "$tmp/p.c" -o "$tmp/p.so" -Wl,--no-as-needed -lm
strangers "$tmp/p.so" | grep -q 'needs libm\.so' || { echo "self-check: a planted library was not found"; exit 1; }

objects=$(ar t "$1" | wc -l)
[ "$objects" -gt 0 ] || { echo "$1 is empty"; exit 1; }
judge "$1" >"$tmp/found"
strangers "$2" >>"$tmp/found"
readelf -d "$2" | grep -q 'SONAME.*liblockstep\.so\.[0-9]' || echo "no soname" >>"$tmp/found"
if [ -s "$tmp/found" ]; then
    cat "$tmp/found"
    exit 1
fi
echo "$objects objects need nothing that is denied"
