// Lockstep in a page or in Node: run, verify and train neural networks with the same bits on every device. README.md documents this API.

import { Engine } from './engine.js';
import { LockstepError } from './error.js';

export { LockstepError };

const IMAGE = 28 * 28;

// ---- files ----

const inNode = typeof process !== 'undefined' && Boolean(process.versions?.node) && typeof window === 'undefined';

async function urlOf(source) {
    if (source instanceof URL) return source;
    if (!inNode) return new URL(source, globalThis.document?.baseURI ?? globalThis.location.href);
    const { pathToFileURL } = await import('node:url');
    return new URL(source, pathToFileURL(`${process.cwd()}/`));
}

/** A Response for a URL, an answer of 404 and the like being an error. */
async function fetched(url) {
    let response;
    try {
        response = await fetch(url);
    } catch (error) {
        throw new LockstepError('io', `${url}: ${error.message}`);
    }
    if (!response.ok) throw new LockstepError('io', `${url}: the server answers ${response.status} ${response.statusText}`.trimEnd());
    return response;
}

/** The bytes of a URL (a path in Node too), a Response, a Blob, a buffer or a view of one. */
async function bytesOf(source, what) {
    if (source instanceof Uint8Array) return source;
    if (source instanceof ArrayBuffer) return new Uint8Array(source);
    if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    if (typeof source?.arrayBuffer === 'function') return new Uint8Array(await source.arrayBuffer()); // Response, Blob
    if (typeof source !== 'string' && !(source instanceof URL)) {
        throw new LockstepError('invalid', `${what}: expected a URL, a Response, a Blob, an ArrayBuffer or a Uint8Array`);
    }
    const url = await urlOf(source);
    if (url.protocol !== 'file:' || !inNode) return new Uint8Array(await (await fetched(url)).arrayBuffer());
    const { readFile } = await import('node:fs/promises');
    return readFile(url).catch((error) => { throw new LockstepError('io', error.message); });
}

// A module whose one function has one instruction of SIMD.
const SIMD = new Uint8Array([
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11,
]);

async function moduleOf(source) {
    if (source instanceof WebAssembly.Module) return source;
    if (!WebAssembly.validate(SIMD)) {
        throw new LockstepError('unsupported', 'WebAssembly has no SIMD here, which the library needs; browsers have it since 2021 '
            + '(Chrome and Edge 91, Firefox 89) or 2023 (Safari 16.4)');
    }
    try {
        const url = typeof source === 'string' || source instanceof URL ? await urlOf(source) : null;
        if (url && url.protocol !== 'file:') {
            const response = await fetched(url);
            const streams = WebAssembly.compileStreaming && response.headers.get('content-type')?.startsWith('application/wasm');
            return await (streams ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer()));
        }
        return await WebAssembly.compile(await bytesOf(source, 'wasm'));
    } catch (error) {
        throw error instanceof LockstepError ? error : new LockstepError('format', `lockstep.wasm: ${error.message}`);
    }
}

// ---- where the engine runs ----

/** In place: on this thread. */
async function engineHere(module) {
    const engine = await Engine.create(module);
    return { request: (method, ...args) => engine.request(method, args), close: () => engine.close() };
}

/** In a worker of its own. */
async function engineInWorker(module) {
    const waiting = new Map();
    let last = 0, gone = null;
    const url = new URL('./worker.js', import.meta.url);
    let worker;
    try {
        worker = globalThis.Worker ? new Worker(url, { type: 'module' }) : new (await import('node:worker_threads')).Worker(url);
    } catch (error) { // another origin's script, or a policy
        throw new LockstepError('unsupported', `${url}: no worker of it can be started here (${error.message}); "worker: false" computes on this thread`);
    }
    const listen = (event, f) => (worker.on ? worker.on(event, f) : worker.addEventListener(event, (e) => f(event === 'message' ? e.data : e)));
    const fail = (message) => {
        gone ??= new LockstepError('internal', message);
        for (const { reject } of waiting.values()) reject(gone);
        waiting.clear();
    };
    listen('message', ({ id, result, error }) => {
        const { resolve, reject } = waiting.get(id) ?? {};
        waiting.delete(id);
        if (error) reject?.(new LockstepError(error.code, error.message));
        else resolve?.(result);
    });
    listen('error', (error) => fail(`the worker failed: ${error.message ?? 'its script could not be loaded'}`));
    const ask = (message) => new Promise((resolve, reject) => {
        if (gone) {
            reject(gone);
            return;
        }
        waiting.set(++last, { resolve, reject });
        worker.postMessage({ ...message, id: last });
    });
    const close = () => {
        fail('this instance of the library was closed');
        worker.terminate();
    };
    try {
        await ask({ wasm: module });
    } catch (error) {
        close();
        throw error;
    }
    return { request: (method, ...args) => ask({ method, args }), close };
}

// ---- networks ----

/** A batch of images as f32, and how many there are. */
function batchOf(input) {
    const data = input instanceof Float32Array ? input : Array.isArray(input) ? Float32Array.from(input) : null;
    if (!data) throw new LockstepError('dtype', 'input: expected a Float32Array of [n,1,28,28]');
    if (data.length === 0 || data.length % IMAGE !== 0) {
        throw new LockstepError('shape', `input: ${data.length} numbers: expected n*1*28*28, a multiple of ${IMAGE} and not 0`);
    }
    return [data, data.length / IMAGE];
}

/** A network with weights on a device. */
export class Net {
    #engine;
    #id;
    constructor(engine, { id, ...about }) {
        this.#engine = engine;
        this.#id = id;
        Object.assign(this, about); // network, device, math, inputs, outputs
    }
    get #classes() { return this.outputs[0].shape[1]; }

    async run(input) { return this.#engine.request('netRun', this.#id, ...batchOf(input), this.#classes); }
    async oracle(input) { return this.#engine.request('netOracle', this.#id, ...batchOf(input), this.#classes); }
    async verify(input) { return this.#engine.request('netVerify', this.#id, ...batchOf(input)); }
    async sha256() { return this.#engine.request('netSha256', this.#id); }
    async close() { return this.#engine.request('netClose', this.#id); }
}

// ---- training ----

function bytesOption(value, name) {
    if (value instanceof Uint8Array || value instanceof Uint8ClampedArray) return new Uint8Array(value.buffer, value.byteOffset, value.length);
    throw new LockstepError('dtype', `${name}: expected a Uint8Array`);
}

function imagesAndLabels(images, labels) {
    const pixels = bytesOption(images, 'images'), digits = bytesOption(labels, 'labels');
    if (pixels.length !== digits.length * IMAGE) {
        throw new LockstepError('shape', `images: ${pixels.length} bytes: expected 28*28 for each of the ${digits.length} labels, ${digits.length * IMAGE}`);
    }
    return [pixels, digits];
}

/** A training run. */
export class Training {
    #engine;
    #id;
    constructor(engine, { id, ...about }) {
        this.#engine = engine;
        this.#id = id;
        Object.assign(this, about); // network, device, math, optimizer, schedule, lr, batch, seed, shift, step, total
    }

    /** One step of the run. */
    async next() {
        const taken = await this.#engine.request('trainStep', this.#id);
        this.step++;
        return { step: this.step, ...taken };
    }

    /** Up to `count` steps, one at a time, or to the end of the run: `for await (const { step, loss } of training.steps(100))`. */
    async *steps(count = Infinity) {
        for (let i = 0; i < count && !(this.total && this.step >= this.total); i++) yield await this.next();
    }

    /** The share of images that are told right. */
    async accuracy(images, labels) {
        const test = await this.#engine.request('testOpen', ...imagesAndLabels(images, labels));
        try {
            let all = 0, rights = 0;
            for (let batch = 0; ; batch++) {
                const { count, right } = await this.#engine.request('trainTest', this.#id, test, batch);
                if (count === 0) return rights / all;
                all += count;
                rights += right;
            }
        } finally {
            await this.#engine.request('testClose', test);
        }
    }

    async weights() { return this.#engine.request('trainEncode', this.#id, false); }
    async state() { return this.#engine.request('trainEncode', this.#id, true); }
    async sha256() { return this.#engine.request('trainSha256', this.#id); }
    async close() { return this.#engine.request('trainClose', this.#id); }
}

// ---- the library ----

/** Two devices' numbers side by side: the largest difference, what it may be, and whether that is kept. */
function difference(a, b, radiusA, radiusB, locked) {
    let most = 0, index = 0, share = 0, outside = 0, differ = 0;
    for (let i = 0; i < a.length; i++) {
        const d = a[i] === b[i] || (a[i] !== a[i] && b[i] !== b[i]) ? 0 : Math.abs(a[i] - b[i]);
        const bound = radiusA ? radiusA[i] + radiusB[i] : Infinity;
        differ += d !== 0;
        if (d > most || d !== d) {
            most = d;
            index = i;
        }
        if (d !== 0) share = Math.max(share, d / bound);
        if (!(d <= bound)) outside++;
    }
    return { difference: most, index, bound: radiusA ? radiusA[index] + radiusB[index] : null, worst_of_bound: radiusA ? share : null,
        different: differ, outside: locked ? differ : outside };
}

export class Lockstep {
    #engine;
    #closed = false;

    /** `wasm`: where lockstep.wasm is, or its bytes; `worker`: whether to compute in a worker, by default in a page. */
    static async open({ wasm, worker = Boolean(globalThis.Worker) } = {}) {
        const module = await moduleOf(wasm ?? new URL('./lockstep.wasm', import.meta.url));
        const engine = await (worker ? engineInWorker : engineHere)(module);
        return new Lockstep(engine, await engine.request('about'));
    }

    constructor(engine, about) {
        this.#engine = {
            close: engine.close,
            request: (...request) => (this.#closed
                ? Promise.reject(new LockstepError('invalid', 'this instance of the library was closed')) : engine.request(...request)),
        };
        Object.assign(this, about); // version, contract, networks, cases, faults
    }

    async devices() { return this.#engine.request('devices'); }

    /** A built-in network with the weights of a .safetensors or .npz file, or null for the first values of `seed`. */
    async load(network, weights = null, { device = 'cpu', math = 'locked', seed = 1 } = {}) {
        if (typeof network !== 'string') throw new LockstepError('invalid', `network: expected a name: ${this.networks.join(' or ')}`);
        if (network.endsWith('.onnx')) {
            throw new LockstepError('unsupported', `"${network}": ONNX models are not read yet; expected ${this.networks.join(' or ')}`);
        }
        const bytes = weights === null ? null : await bytesOf(weights, 'weights');
        return new Net(this.#engine, await this.#engine.request('netOpen', { network, weights: bytes, device, math, seed }));
    }

    /** Runs networks with the same weights on the same input, and compares each with the first. */
    async compare(nets, input, { bound = true } = {}) {
        if (nets.length < 2) throw new LockstepError('invalid', 'compare: expected two networks or more');
        const outputs = [], radii = new Map();
        for (const net of nets) outputs.push({ device: net.device, math: net.math, ...await net.run(input) });
        const [first] = outputs, same = outputs.every(({ sha256 }) => sha256 === first.sha256);
        if (bound) { // the oracle asks what the arithmetic is, not where: any device will do, and "cpu" is at hand
            for (const math of new Set(nets.map((net) => net.math))) {
                const net = nets.find((n) => n.math === math && n.device === 'cpu') ?? nets.find((n) => n.math === math);
                radii.set(math, (await net.oracle(input)).radius);
            }
        }
        const pairs = outputs.slice(1).map((other) => ({
            devices: [first.device, other.device],
            ...difference(first.data, other.data, radii.get(first.math), radii.get(other.math), first.math === 'locked' && other.math === 'locked'),
        }));
        const verdict = same ? 'same' : pairs.some(({ outside }) => outside) ? 'differs' : 'within bound';
        return { verdict, outputs, pairs };
    }

    /** Begins a training run, or goes on with one. */
    async train({ images, labels, state = null, ...options }) {
        const saved = state === null ? null : await bytesOf(state, 'state');
        const [pixels, digits] = imagesAndLabels(images, labels);
        const { steps, ...about } = await this.#engine.request('trainOpen', options, pixels, digits, saved);
        return new Training(this.#engine, { ...about, total: steps });
    }

    /** Checks a device: certification, the museum of real failures, conformance, the errors of functions. A report, row by row. */
    async check({ device = 'cpu', plant = null, cases = null, rows = plant || cases ? 0 : this.rows, functions = !plant && !cases,
        onRow = () => {}, signal = null } = {}) {
        const report = { version: this.version, contract: this.contract, system: { name: globalThis.navigator?.userAgent ?? 'Node' }, device: null,
            plant, passed: 0, failed: 0, skipped: 0, cases: [], rows: [], functions: [] };
        const fault = plant === null ? null : this.faults.find(({ name }) => name === plant);
        if (fault === undefined) throw new LockstepError('invalid', `plant: no fault is named "${plant}": faults lists them`);
        const chosen = this.cases.map(({ name }) => name).filter((name) => (cases ? cases.includes(name) : !fault || name === fault.case));
        const tell = (row) => {
            report[row.status]++;
            onRow(row, report);
        };
        const add = (row) => {
            report.cases.push(row);
            tell({ kind: 'case', ...row });
        };
        const ask = (...request) => {
            signal?.throwIfAborted();
            return this.#engine.request(...request);
        };
        const [about, certified] = await ask('checkCertify', device);
        report.device = about;
        add(certified);
        for (const name of chosen) (await ask('checkCase', device, name, plant ?? '')).forEach(add);
        const conform = async (math, count) => {
            const all = { math, passed: 0, failed: 0, skipped: 0, blind: 0, seconds: 0, failures: [], skips: [] };
            let elements = 0, blind = 0;
            for (let number = 0; number < count; number++) {
                const [row] = await ask('checkRow', device, number, math, plant ?? '');
                all.math = row.math; // a device that is refused computes fast
                all[row.status]++;
                all.seconds += row.seconds;
                elements += row.elements;
                blind += row.blind;
                if (row.status === 'failed') all.failures.push({ number, name: row.name, math: row.math, detail: row.detail });
                if (row.status === 'skipped') all.skips.push({ number, name: row.name, reason: row.detail });
                tell({ kind: 'row', about: `conformance row ${number}`, ...row });
            }
            report.rows.push({ ...all, blind: elements ? blind / elements : 0 });
        };
        if (rows) await conform('locked', rows);
        if (rows && certified.status === 'passed') await conform('fast', Math.floor(rows / 4));
        if (functions) {
            const start = performance.now();
            report.functions = await ask('checkFunctions', device);
            const beyond = report.functions.filter(({ ulps, bound }) => !(ulps <= bound)); // null: infinite
            add({ name: 'functions', about: 'the largest errors seen of elementary functions, in ULPs', math: 'locked',
                status: beyond.length ? 'failed' : 'passed', seconds: (performance.now() - start) / 1000,
                detail: beyond.map((f) => `${f.function} (${f.math}): ${f.ulps ?? 'infinite'} ULPs, bound ${f.bound}`).join('; ') });
        }
        return report;
    }

    /** Bytes that the library holds, apart from a GPU's. */
    async memory() { return this.#engine.request('memory'); }

    close() {
        this.#closed = true;
        this.#engine.close();
    }
}
