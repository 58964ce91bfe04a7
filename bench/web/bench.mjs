// The network mnist:cnn in WebAssembly on one thread, beside onnxruntime-web: interleaved rounds, medians, their ratio with its range.
// `node bench.mjs [ROUNDS]`, from the root; LOCKSTEP_PACKAGE and ORT say where the packages are. `make bench-web` does it all.

import { resolve, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { mnistCnn, readSafetensors } from './onnx.mjs';

const folder = resolve(process.env.LOCKSTEP_PACKAGE ?? 'build/web/package');
const peer = resolve(process.env.ORT ?? 'build/bench-web/node_modules/onnxruntime-web');
const rounds = Number(process.argv[2] ?? 21), NETWORK = 'mnist:cnn';

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const random = (n) => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 1.7) * 2);
async function timed(f) {
    const start = performance.now();
    const result = await f();
    return [performance.now() - start, result];
}

const image = random(784);
const { Lockstep } = await import(pathToFileURL(join(folder, 'lockstep.js')));

// One run in a training of no step gives the weights that seed 1 begins with.
const maker = await Lockstep.open();
const training = await maker.train({ network: NETWORK, batch: 1, images: new Uint8Array(784), labels: new Uint8Array(1) });
const weights = await training.weights();
maker.close();

const [started, lockstep] = await timed(async () => {
    const ls = await Lockstep.open();
    const net = await ls.load(NETWORK, weights);
    return { ls, net, out: await net.run(image) };
});
const fast = await lockstep.ls.load(NETWORK, weights, { math: 'fast' });

const [peerStarted, onnx] = await timed(async () => {
    const ort = await import(pathToFileURL(join(peer, 'dist/ort.node.min.mjs')));
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmPaths = `${pathToFileURL(join(peer, 'dist'))}/`;
    const session = await ort.InferenceSession.create(mnistCnn(readSafetensors(weights)), { executionProviders: ['wasm'] });
    const run = async (data, n) => (await session.run({ images: new ort.Tensor('float32', data, [n, 1, 28, 28]) })).logits.data;
    return { run, version: ort.env.versions.web, out: await run(image, 1) };
});

const { middle, radius } = await fast.oracle(image);
const share = Math.max(...onnx.out.map((x, i) => Math.abs(x - middle[i]) / radius[i]));
console.log(`onnxruntime-web ${onnx.version}: the same network (its logits are ${share.toFixed(3)} of the fast bound from the oracle's)`);
console.log(`open, load and first inference: lockstep ${started.toFixed(0)} ms, onnxruntime-web ${peerStarted.toFixed(0)} ms`);

const size = (path) => gzipSync(readFileSync(path), { level: 9 }).length;
const loaded = readdirSync(folder).filter((name) => /\.(js|wasm)$/.test(name) && name !== 'lockstep-cpu.wasm');
const ours = loaded.reduce((sum, name) => sum + size(join(folder, name)), 0);
const theirs = ['ort.wasm.min.mjs', 'ort-wasm-simd-threaded.mjs', 'ort-wasm-simd-threaded.wasm'].reduce((sum, name) => sum + size(join(peer, 'dist', name)), 0);
console.log(`gzipped: lockstep ${(ours / 1e3).toFixed(0)} kB, onnxruntime-web ${(theirs / 1e3).toFixed(0)} kB`);

for (const batch of [1, 32]) {
    const input = random(784 * batch), repeat = batch === 1 ? 25 : 3;
    const ways = {
        locked: () => lockstep.net.run(input),
        fast: () => fast.run(input),
        'onnxruntime-web': () => onnx.run(input, batch),
    };
    const times = Object.fromEntries(Object.keys(ways).map((name) => [name, []]));
    for (let round = -1; round < rounds; round++) { // one to warm up
        for (const [name, run] of Object.entries(ways)) {
            const each = [];
            for (let i = 0; i < repeat; i++) each.push((await timed(run))[0]);
            if (round >= 0) times[name].push(median(each));
        }
    }
    console.log(`\n${NETWORK}, batch ${batch}, median ms of ${rounds} interleaved rounds of ${repeat} runs`);
    for (const name of Object.keys(ways)) {
        const ratios = times[name].map((time, i) => times['onnxruntime-web'][i] / time);
        const [low, high] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2));
        const beside = name === 'onnxruntime-web' ? '' : `  ${median(ratios).toFixed(2)} of its speed (${low} to ${high})`;
        console.log(`  ${name.padEnd(16)} ${median(times[name]).toFixed(3).padStart(9)}${beside}`);
    }
}
lockstep.ls.close();
