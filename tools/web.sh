#!/bin/sh
# web.sh BUILD PACKAGE: puts the page together in build/web/site: web/page, the package, the plotting library (npm), the digits, and
# weights that the native command trains. BUILD is a native build, PACKAGE the package's folder. What took long or came from a
# network is kept in build/npm and build/web-data.
set -eu
cd "$(dirname "$0")/.."
build=$1
package=$2
site=build/web/site
kept=build/web-data

tools/npm.sh uplot 1.6.32 4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d build/npm/uplot

if [ ! -e $kept/digits/complete ]; then
    rm -rf $kept/digits
    mkdir -p $kept/digits
    "$build/tools/web_data" digits build/data/digits $kept/digits
    gzip -9n $kept/digits/*-ubyte
    cp build/data/digits/LICENSE $kept/digits/LICENSE
    touch $kept/digits/complete
fi

# Locked arithmetic: these are the same weights on every machine.
weights() { # weights MODEL OPTIONS...
    model=$1
    shift
    file=$kept/mnist-$model.safetensors
    [ ! -e "$file" ] || return 0
    echo "web.sh: training mnist:$model once, about half a minute"
    "$build/lockstep" train mnist --model "$model" "$@" --save "$kept/$model.training" 2>/dev/null
    "$build/tools/web_data" weights "mnist:$model" "$kept/$model.training" "$file.new"
    mv "$file.new" "$file"
    rm -f "$kept/$model.training"
}
weights small --epochs 8
weights cnn

rm -rf $site.new
mkdir -p $site.new/lockstep $site.new/vendor $site.new/data $site.new/weights
cp web/page/* $site.new/
cp "$package"/*.js "$package/lockstep.wasm" "$package/LICENSE" "$package/NOTICES" $site.new/lockstep/
cp build/npm/uplot/dist/uPlot.esm.js build/npm/uplot/dist/uPlot.min.css build/npm/uplot/LICENSE $site.new/vendor/
cp $kept/digits/*.gz $kept/digits/LICENSE $site.new/data/
cp $kept/mnist-*.safetensors $site.new/weights/
rm -rf $site
mv $site.new $site
echo "web.sh: the page is in $site, $(du -sk $site | cut -f1) kB"
