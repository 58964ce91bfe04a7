#!/bin/sh
# install.sh TREE BUILD VERSION: installs under a PREFIX and under a DESTDIR, builds a user's program with pkg-config
# (shared and static) and with find_package (all targets), runs them, uninstalls, and checks that nothing is left.
set -eu
tree=$1
build=$2
version=$3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C

run() { # run PROGRAM: it must say the version
    said=$("$@") || { echo "$* failed"; exit 1; }
    [ "$said" = "$version" ] || { echo "$* said '$said', expected '$version'"; exit 1; }
}

consume() { # consume ROOT: builds and runs users of the tree installed in ROOT
    root=$1
    pc=$(dirname "$(find "$root" -name lockstep.pc)")
    libdir=$(dirname "$(find "$root" -name liblockstep.a)")
    export PKG_CONFIG_PATH="$pc"
    [ "$(pkg-config --modversion lockstep)" = "$version" ] || { echo "pkg-config has another version"; exit 1; }
    out=$tmp/out
    rm -rf "$out"
    mkdir "$out"
    # shellcheck disable=SC2046
    gcc -std=c17 -Wall -Werror "$tree/tests/house/consumer/main.c" -o "$out/shared" \
        $(pkg-config --cflags --libs lockstep) -Wl,-rpath,"$libdir"
    readelf -d "$out/shared" | grep -q 'NEEDED.*liblockstep\.so\.' || { echo "not linked by soname"; exit 1; }
    run "$out/shared"
    # shellcheck disable=SC2046
    gcc -std=c17 -Wall -Werror "$tree/tests/house/consumer/main.c" -o "$out/static" \
        $(pkg-config --static --cflags --libs lockstep | sed 's/-llockstep/-l:liblockstep.a/')
    readelf -d "$out/static" | grep -q liblockstep && { echo "the static consumer needs the shared library"; exit 1; }
    run "$out/static"

    cmake -G Ninja -S "$tree/tests/house/consumer" -B "$out/cmake" -DCMAKE_PREFIX_PATH="$root" \
        -DCMAKE_BUILD_TYPE=Release >"$out/log" 2>&1 && cmake --build "$out/cmake" >>"$out/log" 2>&1 ||
        { cat "$out/log"; exit 1; }
    for kind in lockstep shared static; do run "$out/cmake/consumer_$kind"; done
    command=$(find "$root" -path '*/bin/lockstep')
    if [ -n "$command" ]; then
        "$command" --version >"$out/version" || { echo "the installed command does not run"; exit 1; }
        grep -q "$version" "$out/version" || { echo "the command says: $(cat "$out/version")"; exit 1; }
    fi
}

# PREFIX
cmake --install "$build" --prefix "$tmp/prefix" >/dev/null
consume "$tmp/prefix"
mv "$tmp/prefix" "$tmp/moved" # a moved tree works as well
consume "$tmp/moved"
mv "$tmp/moved" "$tmp/prefix"
touch "$tmp/prefix/include/theirs.h"
sh "$tree/tools/uninstall.sh" "$build" "$tmp/prefix"
left=$(cd "$tmp/prefix" && find . ! -type d -o -name 'lockstep*' | sort)
[ "$left" = ./include/theirs.h ] || { echo "left after uninstall (only ./include/theirs.h may be): $left"; exit 1; }

# DESTDIR
DESTDIR="$tmp/stage" cmake --install "$build" --prefix /usr >/dev/null
[ -e "$tmp/stage/usr/include/lockstep/lockstep.h" ] || { echo "DESTDIR was not used"; exit 1; }
if grep -rlI "$tmp\|$build" "$tmp/stage" >"$tmp/leaks"; then
    echo "installed files name the build folder:"
    cat "$tmp/leaks"
    exit 1
fi
consume "$tmp/stage/usr"
sh "$tree/tools/uninstall.sh" "$build" /usr "$tmp/stage"
left=$(cd "$tmp/stage" && find . ! -type d -o -name 'lockstep*')
[ -z "$left" ] || { echo "left after uninstall under DESTDIR: $left"; exit 1; }
echo "installed, consumed 14 times, uninstalled"
