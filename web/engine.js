// One instance of lockstep.wasm: plain requests in, plain answers out, so that it runs in a worker or in place. lockstep.js is the API.
//
// Nothing in WebAssembly blocks. A function whose device has not answered yet returns the status "again"; we wait for the
// answers and call it again with the same arguments (src/page.h). Requests are served one after another, because a call that waits
// must find the instance as it left it.

import { LockstepError } from './error.js';
import { Exit, wasiImports } from './wasi.js';
import { WebGPU } from './webgpu.js';

const HEX = 65;

export class Engine {
    #exports = null;
    #again = -1;
    #names = [];
    #reports = [];
    #webgpu = new WebGPU();
    #last = Promise.resolve(); // the request before
    #dead = null;
    #handles = new Map();
    #next = 1;

    /** `module`: the WebAssembly.Module of lockstep.wasm. */
    static async create(module) {
        const engine = new Engine();
        const memory = () => engine.#exports.memory;
        const text = (at, size) => new TextDecoder().decode(new Uint8Array(memory().buffer, at, size));
        const instance = await WebAssembly.instantiate(module, {
            lockstep: engine.#webgpu.imports,
            wasi_snapshot_preview1: wasiImports(module, memory),
            page: {
                report: (at, size) => { engine.#reports.push(JSON.parse(text(at, size))); },
                log: (level, at, size) => { if (level < 2) console.warn(`lockstep: ${text(at, size)}`); },
            },
        });
        engine.#exports = instance.exports;
        engine.#webgpu.attach(instance.exports.memory);
        engine.#exports._initialize?.();
        for (let i = 0; i < 64; i++) engine.#names.push(engine.#string(engine.#exports.page_status_name(i)));
        engine.#again = engine.#names.indexOf('again');
        await engine.#call('page_open');
        return engine;
    }

    /** Serves a request, after those before it: `method` is the name of one of the functions below. */
    request(method, args) {
        const answer = this.#last.then(() => requests[method].call(this, ...args));
        this.#last = answer.catch(() => {});
        return answer;
    }

    /** Ends it, after what was asked before, and gives the GPU back. */
    close() {
        this.#last = this.#last.then(() => {
            this.#dead ??= 'it was closed';
            this.#webgpu.release();
        });
    }

    // ---- memory ----

    #string(at) {
        const bytes = new Uint8Array(this.#exports.memory.buffer);
        return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
    }

    /** Room in the instance's memory for the time of `use`. */
    async with(use) {
        const blocks = [];
        const room = (size) => {
            const at = this.#exports.page_alloc(size);
            if (!at) throw new LockstepError('memory', `out of memory for ${size} bytes`);
            blocks.push(at);
            return at;
        };
        const bytes = (data) => {
            const source = data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
            const at = room(source.length);
            new Uint8Array(this.#exports.memory.buffer, at, source.length).set(source);
            return at;
        };
        const string = (value) => bytes(new TextEncoder().encode(`${value}\0`));
        try {
            this.#alive();
            return await use({ room, bytes, string });
        } finally {
            if (!this.#dead) for (const at of blocks) this.#exports.page_free(at);
        }
    }

    copy(Type, at, length) { return new Type(this.#exports.memory.buffer.slice(at, at + length * Type.BYTES_PER_ELEMENT)); }
    hex(at) { return this.#string(at); }
    number(Type, at) { return new Type(this.#exports.memory.buffer.slice(at, at + Type.BYTES_PER_ELEMENT))[0]; }

    // ---- calls ----

    #alive() {
        if (this.#dead) throw new LockstepError('internal', `this instance of the library is dead: ${this.#dead}`);
    }

    /** What a function does that neither fails nor waits. */
    plain(name, ...args) {
        this.#alive();
        try {
            return this.#exports[name](...args);
        } catch (error) {
            this.#dead = error instanceof Exit ? error.message : `it trapped in ${name}: ${error.message}`;
            return this.#alive();
        }
    }

    /** Calls a function that returns a status until it has its answer; gives what it reported. */
    async #call(name, ...args) {
        for (;;) {
            this.#reports = [];
            const status = this.plain(name, ...args);
            if (status === 0) return this.#reports;
            if (status !== this.#again) throw new LockstepError(this.#names[status] ?? 'internal', this.#string(this.#exports.page_message()));
            await this.#webgpu.answers();
        }
    }
    call(name, ...args) { return this.#call(name, ...args); }

    /** Asks for the GPU before a device of that name is opened. */
    async prepare(device) {
        if (`${device}`.startsWith('webgpu')) await this.#webgpu.requestDevice();
    }

    // ---- handles ----

    keep(at) {
        this.#handles.set(this.#next, at);
        return this.#next++;
    }
    handle(id, what) {
        const at = this.#handles.get(id);
        if (!at) throw new LockstepError('invalid', `this ${what} was closed`);
        return at;
    }
    forget(id, close) {
        const at = this.#handles.get(id);
        this.#handles.delete(id);
        if (at && !this.#dead) this.plain(close, at);
    }
}

/** Each request, with the engine as `this`. What they give may be sent between threads. */
const requests = {
    async about() { return (await this.call('page_about'))[0]; },

    async devices() {
        await this.prepare('webgpu');
        return (await this.call('page_devices'))[0].devices;
    },

    memory() { return this.plain('page_memory'); },

    // ---- networks ----

    async netOpen({ network, weights, device, math, seed }) {
        await this.prepare(device);
        return this.with(async ({ room, bytes, string }) => {
            const out = room(4);
            const [about] = await this.call('page_net_open', string(network), weights ? bytes(weights) : 0, weights?.byteLength ?? 0,
                string(device), string(math), seed, out);
            return { ...about, id: this.keep(this.number(Uint32Array, out)) };
        });
    },

    netRun(id, images, batch, classes) {
        return this.with(async ({ room, bytes }) => {
            const net = this.handle(id, 'network'), input = bytes(images), output = room(4 * batch * classes), hex = room(HEX);
            const start = performance.now();
            await this.call('page_net_run', net, batch, input, output, hex);
            const milliseconds = performance.now() - start;
            return { data: this.copy(Float32Array, output, batch * classes), shape: [batch, classes], sha256: this.hex(hex), milliseconds };
        });
    },

    netOracle(id, images, batch, classes) {
        return this.with(async ({ room, bytes }) => {
            const n = batch * classes, middle = room(8 * n), radius = room(8 * n);
            await this.call('page_net_oracle', this.handle(id, 'network'), batch, bytes(images), middle, radius);
            return { middle: this.copy(Float64Array, middle, n), radius: this.copy(Float64Array, radius, n) };
        });
    },

    netVerify(id, images, batch) {
        return this.with(async ({ bytes }) => (await this.call('page_net_verify', this.handle(id, 'network'), batch, bytes(images)))[0]);
    },

    netSha256(id) { return this.with(async ({ room }) => {
        const hex = room(HEX);
        await this.call('page_net_sha256', this.handle(id, 'network'), hex);
        return this.hex(hex);
    }); },

    netClose(id) { this.forget(id, 'page_net_close'); },

    // ---- training ----

    async trainOpen(options, images, labels, state) {
        await this.prepare(options.device);
        return this.with(async ({ room, bytes, string }) => {
            const out = room(4);
            const [about] = await this.call('page_train_open', string(JSON.stringify(options)), bytes(images), bytes(labels),
                labels.length, state ? bytes(state) : 0, state?.byteLength ?? 0, out);
            return { ...about, id: this.keep(this.number(Uint32Array, out)) };
        });
    },

    trainStep(id) {
        return this.with(async ({ room }) => {
            const loss = room(8), start = performance.now();
            await this.call('page_train_step', this.handle(id, 'training'), loss);
            return { loss: this.number(Float64Array, loss), milliseconds: performance.now() - start };
        });
    },

    testOpen(images, labels) {
        return this.with(async ({ room, bytes }) => {
            const out = room(4);
            await this.call('page_test_open', bytes(images), bytes(labels), labels.length, out);
            return this.keep(this.number(Uint32Array, out));
        });
    },

    trainTest(id, test, batch) {
        return this.with(async ({ room }) => {
            const count = room(4), right = room(4);
            await this.call('page_train_test', this.handle(id, 'training'), this.handle(test, 'set of images'), batch, count, right);
            return { count: this.number(Int32Array, count), right: this.number(Int32Array, right) };
        });
    },

    testClose(id) { this.forget(id, 'page_test_close'); },

    trainEncode(id, whole) {
        return this.with(async ({ room }) => {
            const bytes = room(4), size = room(4);
            await this.call('page_train_encode', this.handle(id, 'training'), whole ? 1 : 0, bytes, size);
            return this.copy(Uint8Array, this.number(Uint32Array, bytes), this.number(Uint32Array, size));
        });
    },

    trainSha256(id) { return this.with(async ({ room }) => {
        const hex = room(HEX);
        await this.call('page_train_sha256', this.handle(id, 'training'), hex);
        return this.hex(hex);
    }); },

    trainClose(id) { this.forget(id, 'page_train_close'); },

    // ---- checking ----

    async checkCertify(device) {
        await this.prepare(device);
        return this.with(async ({ string }) => this.call('page_check_certify', string(device)));
    },
    checkCase(device, name, plant) {
        return this.with(async ({ string }) => this.call('page_check_case', string(device), string(name), string(plant)));
    },
    checkRow(device, number, math, plant) {
        return this.with(async ({ string }) => this.call('page_check_row', string(device), number, string(math), string(plant)));
    },
    checkFunctions(device) {
        return this.with(async ({ string }) => this.call('page_check_functions', string(device)));
    },
};
