// onnxruntime.mjs MODEL.onnx INPUTS.npz OUTPUTS.npz: runs a model by ONNX Runtime (npm's onnxruntime-node, which `make models` fetches), for
// `lockstep verify --peer 'node tools/peers/onnxruntime.mjs'`. With --repeat N it prints, as JSON, the median of N runs, the time from the file
// to the first outputs, and the most memory resident beyond what Node had before; --threads N (1).
import { createRequire } from 'node:module';
import { readNpz, writeNpz } from './npz.mjs';

const before = process.resourceUsage().maxRSS; // Node's own
const require = createRequire(new URL('../../build/data/models/peer/', import.meta.url));
const ort = require('onnxruntime-node');

const words = process.argv.slice(2), options = { threads: 1, repeat: 0 };
for (let i = words.findIndex((w) => w.startsWith('--')); i >= 0; i = words.findIndex((w) => w.startsWith('--'))) {
    options[words[i].slice(2)] = Number(words[i + 1]);
    words.splice(i, 2);
}
const [model, inputs, outputs] = words;
if (!outputs) {
    console.error('usage: onnxruntime.mjs MODEL.onnx INPUTS.npz OUTPUTS.npz [--threads N] [--repeat N]');
    process.exit(2);
}

const begin = performance.now();
const session = await ort.InferenceSession.create(model, { intraOpNumThreads: options.threads, interOpNumThreads: 1, logSeverityLevel: 3 });
const feeds = Object.fromEntries(Object.entries(readNpz(inputs)).map(([name, a]) => [name, new ort.Tensor(a.type, a.data, a.dims)]));
const results = await session.run(feeds);
const first = performance.now() - begin;
const times = [];
for (let i = 0; i < options.repeat; i++) {
    const start = performance.now();
    await session.run(feeds);
    times.push(performance.now() - start);
}
writeNpz(outputs, Object.fromEntries(Object.entries(results).map(([name, t]) => [name, { type: t.type, dims: [...t.dims], data: t.data }])));
if (times.length) {
    times.sort((a, b) => a - b);
    console.log(JSON.stringify({ first_ms: first, median_ms: times[times.length >> 1], peak_mb: (process.resourceUsage().maxRSS - before) * 1024e-6 }));
}
