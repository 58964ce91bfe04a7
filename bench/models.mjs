// Real models by Lockstep and by ONNX Runtime, on the same inputs: do they agree, and how fast is each. `make bench-models` runs it.
//
//   node bench/models.mjs [--lockstep FILE] [--rounds N] [--runs N] [--threads N] [--device D] [--only TEXT]
//
// A round runs Lockstep locked, Lockstep fast and ONNX Runtime, each in a process of its own, one after the other. A time is the median of a
// round's runs; a ratio is ONNX Runtime's time by Lockstep's, its median over the rounds with its range. "first" is the time from the file to the first outputs, compilation
// included, and "MB" the most memory resident: of the whole process for Lockstep, of what came on top of Node for ONNX Runtime. "apart" is the
// largest difference of an output by its RMS.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readArray, readNpz, writeArray, writeNpz } from '../tools/peers/npz.mjs';

const root = new URL('..', import.meta.url).pathname;
const folders = [join(root, 'build/data/models'), process.env.LOCKSTEP_ONNX_MODELS ?? join(root, '../shared/models')];
const options = { lockstep: 'build/release/lockstep', rounds: '5', threads: '1', device: 'cpu', only: '', runs: '20' };
for (let i = 2; i + 1 < process.argv.length; i += 2) options[process.argv[i].slice(2)] = process.argv[i + 1];

// name: file, and of inputs whose extents the model leaves open, or whose numbers matter: extents, or an array
const rate = { type: 'int64', dims: [], data: BigInt64Array.of(16000n) };
const tokens = (value, n) => ({ type: 'int32', dims: [1, n], data: new Int32Array(n).fill(value) });
const past = Object.fromEntries([0, 1, 2, 3, 4].map((i) => [`past_${i}`, [2, 1, 4, 16, 8]]));
const zoo = {
    'digits (wonnx)': ['wonnx-opt-mnist.onnx', {}],
    'digits (Burn)': ['burn-onnx-mnist.onnx', {}],
    'ResNet block': ['polygraphy-residual-block.onnx', {}],
    'expression (DenseNet)': ['faceplugin/model/fr_expression.onnx', { input: [1, 3, 224, 224] }],
    'age': ['faceplugin/model/fr_age.onnx', {}],
    'eyes': ['faceplugin/model/fr_eye.onnx', {}],
    'face detection': ['faceplugin/model/fr_detect.onnx', {}],
    'face features': ['faceplugin/model/fr_feature.onnx', {}],
    'gender': ['faceplugin/model/fr_gender.onnx', {}],
    'landmarks': ['faceplugin/model/fr_landmark.onnx', {}],
    'pose': ['faceplugin/model/fr_pose.onnx', {}],
    'face liveness': ['faceplugin/model/fr_liveness.onnx', {}],
    'BlazeFace 128': ['blazeface/ONNX/face_detection_front_128x128_barracuda.onnx', {}],
    'BlazeFace 256': ['blazeface/ONNX/face_detection_back_256x256_barracuda.onnx', {}],
    'wake word features': ['openwakeword/models/embedding_model.onnx', { input_1: [1, 76, 32, 1] }],
    'alexa': ['openwakeword/models/alexa_v0.1.onnx', {}],
    'hey jarvis': ['openwakeword/models/hey_jarvis_v0.1.onnx', {}],
    'hey mycroft': ['openwakeword/models/hey_mycroft_v0.1.onnx', {}],
    'hey rhasspy': ['openwakeword/models/hey_rhasspy_v0.1.onnx', {}],
    'timer': ['openwakeword/models/timer_v0.1.onnx', {}],
    'weather': ['openwakeword/models/weather_v0.1.onnx', {}],
    'mel spectrogram': ['openwakeword/models/melspectrogram.onnx', { input: [1, 16000] }],
    'PP-OCRv4 detection': ['ocr/assets/ch_PP-OCRv4_det_infer.onnx', { x: [1, 3, 320, 320] }],
    'PP-OCRv4 recognition': ['ocr/assets/ch_PP-OCRv4_rec_infer.onnx', { x: [1, 3, 48, 320] }],
    'PP-OCRv4 direction': ['ocr/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx', { x: [1, 3, 48, 192] }],
    'Silero VAD': ['silero/weights/silero_vad_half.onnx', { input: [1, 576], state: [2, 1, 128] }],
    'Silero VAD 16k': ['silero/weights/silero_vad_16k_op15.onnx', { input: [1, 576], state: [2, 1, 128], sr: rate }],
    'Silero VAD, no If': ['silero/weights/silero_vad_op18_ifless.onnx', { input: [1, 576], state: [2, 1, 128], sr: rate }],
    'Silero VAD 5': ['silero/weights/silero_vad.onnx', { input: [1, 576], state: [2, 1, 128], sr: rate }],
    'Silero VAD 4': ['openwakeword/models/silero_vad.onnx', { input: [1, 512], h: [2, 1, 64], c: [2, 1, 64], sr: rate }],
    'GPT-2, tiny': ['genai-tiny-random-gpt2-past.onnx', { input_ids: tokens(7, 1), position_ids: tokens(16, 1), attention_mask: tokens(1, 17), ...past }],
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

function lockstep(math, file, folder, arrays) {
    const env = { ...process.env, LOCKSTEP_THREADS: options.threads, NODEVICE_SELECT: '1' }, report = join(folder, 'run.json');
    const inputs = Object.keys(arrays).flatMap((name, i) => ['--input', `${name}=${join(folder, `${i}.npy`)}`]);
    execFileSync(options.lockstep, ['run', file, ...inputs, '--device', options.device, '--math', math, '--repeat', options.runs, '--json', report,
        '--output', folder], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    return JSON.parse(readFileSync(report, 'utf8'));
}

function onnxruntime(file, folder) {
    const text = execFileSync(process.execPath, [join(root, 'tools/peers/onnxruntime.mjs'), file, join(folder, 'inputs.npz'), join(folder, 'outputs.npz'),
        '--threads', options.threads, '--repeat', options.runs], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return JSON.parse(text.trim().split('\n').pop());
}

const table = [['model', 22], ['locked ms', 9], ['fast ms', 8], ['ORT ms', 8], ['locked ratio (range)', 21], ['fast ratio (range)', 21],
    ['first ms', 8], ['ORT', 7], ['MB', 6], ['ORT', 6], ['apart', 8]];
const print = (cells) => console.log(cells.map((c, i) => (i ? c.padStart(table[i][1]) : c.padEnd(table[i][1]))).join(' '));
print(table.map(([title]) => title));
const ratios = { locked: [], fast: [] };
for (const [name, [path, given]] of Object.entries(zoo)) {
    const file = folders.map((folder) => join(folder, path)).find(existsSync);
    if (!name.includes(options.only) || !file) continue;
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-bench-'));
    try {
        const arrays = {};
        for (const port of ports(file, folder).filter((p) => !p.has_default)) {
            const is = given[port.name];
            arrays[port.name] = is?.data ? is : random(is ?? port.shape.map((d) => (d > 0 ? d : 1)), 7);
        }
        Object.values(arrays).forEach((a, i) => writeFileSync(join(folder, `${i}.npy`), writeArray(a)));
        writeNpz(join(folder, 'inputs.npz'), arrays);
        const rounds = [];
        for (let r = 0; r < Number(options.rounds); r++) { // fast first: the outputs that stay are locked ones
            const fast = lockstep('fast', file, folder, arrays), locked = lockstep('locked', file, folder, arrays);
            rounds.push({ fast, locked, ort: onnxruntime(file, folder) });
        }
        const theirs = readNpz(join(folder, 'outputs.npz')), ours = {};
        for (const o of rounds[0].locked.outputs) {
            ours[o.name] = readArray(readFileSync(join(folder, `${o.name.replace(/[/\\:]/g, '_')}.npy`)), o.name);
        }
        const middle = (engine, what) => median(rounds.map((r) => r[engine][what]));
        const ratio = (math) => {
            const each = rounds.map((r) => r.ort.median_ms / r[math].median_ms);
            ratios[math].push(median(each));
            return `${median(each).toFixed(2)} (${Math.min(...each).toFixed(2)} to ${Math.max(...each).toFixed(2)})`;
        };
        print([name, middle('locked', 'median_ms').toFixed(3), middle('fast', 'median_ms').toFixed(3), middle('ort', 'median_ms').toFixed(3), ratio('locked'), ratio('fast'),
            middle('locked', 'first_ms').toFixed(0), middle('ort', 'first_ms').toFixed(0), middle('locked', 'peak_mb').toFixed(0),
            middle('ort', 'peak_mb').toFixed(0), apart(ours, theirs).toExponential(1)]);
    } catch (error) {
        console.log(`${name.padEnd(22)} ${String(error.stderr || error.message).trim().split('\n').pop()}`);
    } finally {
        rmSync(folder, { recursive: true });
    }
}
for (const [math, list] of Object.entries(ratios)) {
    if (list.length) console.log(`geometric mean of the ratios, ${math}: ${Math.exp(list.reduce((a, r) => a + Math.log(r), 0) / list.length).toFixed(2)}`);
}
