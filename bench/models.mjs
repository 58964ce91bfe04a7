// Real models by Lockstep and by ONNX Runtime, on the same inputs: do they agree, and how fast is each. `make bench-models` runs it.
//
//   node bench/models.mjs [--lockstep FILE] [--rounds N] [--threads N] [--device D] [--math M] [--only TEXT]
//
// A round runs each engine in a process of its own, one after the other; times are medians of a round's runs, and the ratio printed is the
// median over rounds of ONNX Runtime's time by Lockstep's, with its range. "apart" is the largest difference of an output by its RMS.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readArray, readNpz, writeArray, writeNpz } from '../tools/peers/npz.mjs';

const root = new URL('..', import.meta.url).pathname, models = 'build/data/models/';
const options = { lockstep: 'build/release/lockstep', rounds: '3', threads: '1', device: 'cpu', math: 'locked', only: '', runs: '20' };
for (let i = 2; i + 1 < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];

// name: file, inputs by name as dims, or [dims, values]
const zoo = {
    'expression (DenseNet)': ['faceplugin/model/fr_expression.onnx', { input: [1, 3, 224, 224] }],
    'face features': ['faceplugin/model/fr_feature.onnx', {}],
    'face liveness': ['faceplugin/model/fr_liveness.onnx', {}],
    'BlazeFace 128': ['blazeface/ONNX/face_detection_front_128x128_barracuda.onnx', {}],
    'BlazeFace 256': ['blazeface/ONNX/face_detection_back_256x256_barracuda.onnx', {}],
    'wake word features': ['openwakeword/models/embedding_model.onnx', { input_1: [1, 76, 32, 1] }],
    'mel spectrogram': ['openwakeword/models/melspectrogram.onnx', { input: [1, 16000] }],
    'PP-OCRv4 detection': ['ocr/assets/ch_PP-OCRv4_det_infer.onnx', { x: [1, 3, 320, 320] }],
    'PP-OCRv4 recognition': ['ocr/assets/ch_PP-OCRv4_rec_infer.onnx', { x: [1, 3, 48, 320] }],
    'PP-OCRv4 direction': ['ocr/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx', { x: [1, 3, 48, 192] }],
};

function random(dims, seed) {
    const data = new Float32Array(dims.reduce((a, b) => a * b, 1));
    let state = seed >>> 0 || 1;
    for (let i = 0; i < data.length; i++) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        data[i] = (state >>> 8) / 8388608 - 1;
    }
    return { type: 'float32', dims, data };
}

function ports(file, folder) { // what lockstep inspect says of the inputs
    const report = join(folder, 'inspect.json');
    execFileSync(options.lockstep, ['inspect', file, '--json', report], { stdio: ['ignore', 'ignore', 'pipe'] });
    return JSON.parse(readFileSync(report, 'utf8')).inputs;
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

function apart(ours, theirs) {
    let worst = 0;
    for (const [name, a] of Object.entries(ours)) {
        const b = theirs[name];
        if (!b || b.data.length !== a.data.length) return NaN;
        let sum = 0, most = 0;
        for (let i = 0; i < a.data.length; i++) {
            sum += Number(b.data[i]) ** 2;
            most = Math.max(most, Math.abs(Number(a.data[i]) - Number(b.data[i])));
        }
        worst = Math.max(worst, most / (Math.sqrt(sum / a.data.length) || 1));
    }
    return worst;
}

function once(file, folder, arrays) {
    const env = { ...process.env, LOCKSTEP_THREADS: options.threads, NODEVICE_SELECT: '1' }, report = join(folder, 'run.json');
    const inputs = Object.keys(arrays).flatMap((name, i) => ['--input', `${name}=${join(folder, `${i}.npy`)}`]);
    execFileSync(options.lockstep, ['run', file, ...inputs, '--device', options.device, '--math', options.math, '--repeat', options.runs, '--json', report,
        '--output', folder], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    const mine = JSON.parse(readFileSync(report, 'utf8'));
    const text = execFileSync(process.execPath, [join(root, 'tools/peers/onnxruntime.mjs'), file, join(folder, 'inputs.npz'), join(folder, 'outputs.npz'),
        '--threads', options.threads, '--repeat', options.runs], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return [mine, JSON.parse(text.trim().split('\n').pop())];
}

console.log(`${'model'.padEnd(24)} lockstep ms  onnxruntime ms  ratio (range)        apart`);
const ratios = [];
for (const [name, [path, given]] of Object.entries(zoo)) {
    const file = join(root, models, path);
    if (!name.includes(options.only) || !existsSync(file)) continue;
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-bench-'));
    try {
        const arrays = {};
        for (const port of ports(file, folder)) arrays[port.name] = random(given[port.name] ?? port.shape.map((d) => (d > 0 ? d : 1)), 7);
        Object.values(arrays).forEach((a, i) => writeFileSync(join(folder, `${i}.npy`), writeArray(a)));
        writeNpz(join(folder, 'inputs.npz'), arrays);
        const rounds = [];
        for (let r = 0; r < Number(options.rounds); r++) rounds.push(once(file, folder, arrays));
        const theirs = readNpz(join(folder, 'outputs.npz')), ours = {};
        for (const o of rounds[0][0].outputs) {
            const npy = join(folder, `${o.name.replace(/[/\\:]/g, "_")}.npy`);
            ours[o.name] = readArray(readFileSync(npy), o.name);
        }
        const each = rounds.map(([a, b]) => b.median_ms / a.median_ms);
        ratios.push(median(each));
        console.log(`${name.padEnd(24)} ${median(rounds.map((r) => r[0].median_ms)).toFixed(3).padStart(11)}  ` +
            `${median(rounds.map((r) => r[1].median_ms)).toFixed(3).padStart(14)}  ` +
            `${median(each).toFixed(2)} (${Math.min(...each).toFixed(2)} to ${Math.max(...each).toFixed(2)})`.padEnd(21) + ` ${apart(ours, theirs).toExponential(1)}`);
    } catch (error) {
        console.log(`${name.padEnd(24)} ${String(error.stderr || error.message).trim().split('\n').pop()}`);
    } finally {
        rmSync(folder, { recursive: true });
    }
}
if (ratios.length) console.log(`geometric mean of the ratios: ${Math.exp(ratios.reduce((a, r) => a + Math.log(r), 0) / ratios.length).toFixed(2)}`);
