// What the page asks of Lockstep. The CPU and the GPU each have an instance of the library in a worker of their own, so that drawing goes
// on while a GPU compiles, and a GPU that was lost is opened anew without the rest noticing.

import { Lockstep } from './lockstep/lockstep.js';

// Errors of a GPU that went away carry `lost`.
async function marked(promise) {
    try {
        return await promise;
    } catch (error) {
        error.lost = error.code === 'device' && /\blost\b/.test(error.message);
        throw error;
    }
}

// A device as the page shows it.
function described(device) {
    const state = !device.available ? 'missing' : device.locked;
    return { id: device.id, name: device.name, state, reason: device.reason };
}

class Model {
    constructor(net) {
        this.net = net;
    }

    async run(pixels) {
        const { data, sha256, milliseconds } = await marked(this.net.run(pixels));
        return { logits: data, sha256, milliseconds };
    }

    // What two devices may differ by, for each logit: both lie within the oracle's radius.
    async bounds(pixels) {
        return (await this.net.oracle(pixels)).radius.map((radius) => 2 * radius);
    }

    close() {
        this.net.close().catch(() => {});
    }
}

// A training run. `step` counts what was done.
class Run {
    constructor(training) {
        this.training = training;
    }
    get step() { return this.training.step; }
    async next() { return (await marked(this.training.next())).loss; }
    accuracy(set) { return marked(this.training.accuracy(set.images, set.labels)); }
    weights() { return marked(this.training.weights()); }
    sha256() { return marked(this.training.sha256()); }
    close() { this.training.close().catch(() => {}); }
}

class Engine {
    #parts = new Map(); // 'cpu', 'webgpu' and 'oracle', each opened when it is first needed

    constructor(cpu) {
        this.#parts.set('cpu', Promise.resolve(cpu));
        this.version = cpu.version;
        this.contract = cpu.contract;
    }

    #part(name) {
        if (!this.#parts.has(name)) {
            const opened = Lockstep.open();
            opened.catch(() => this.#parts.delete(name));
            this.#parts.set(name, opened);
        }
        return this.#parts.get(name);
    }

    async devices() {
        const all = await (await this.#part('webgpu')).devices();
        return ['cpu', 'webgpu'].map((id) => described(all.find((device) => device.id === id || device.id.startsWith(`${id}:`))
            ?? { id, available: false, name: id, reason: 'the library does not list it' }));
    }

    // Forgets a device that was lost; the next use opens it anew.
    async forget(device) {
        const old = this.#parts.get(device);
        this.#parts.delete(device);
        (await old)?.close();
    }

    async load(network, bytes, { device, math, part = device }) {
        return new Model(await marked((await this.#part(part)).load(network, bytes, { device, math })));
    }

    async train({ device, network, math, batch, rate, seed, images, labels }) {
        const options = { device, network, math, batch, lr: rate, seed, schedule: 'constant', images, labels };
        return new Run(await marked((await this.#part(device)).train(options)));
    }

    // onRow(row, {done, total, next}): how many of all are done, and what is tried next. Certification is the first; a planted fault
    // is looked for by its own case alone.
    async check({ device, plant, onRow, signal }) {
        const library = await this.#part(device), fault = library.faults.find(({ name }) => name === plant);
        const cases = ['certification', ...(fault ? [fault.case] : library.cases.map(({ name }) => name))];
        const total = cases.length + (fault ? 0 : library.rows + Math.floor(library.rows / 4) + 1);
        let rows = 0;
        const told = (row) => {
            rows += row.kind === 'row';
            const done = row.kind === 'row' ? cases.length + rows : cases.indexOf(row.name) + 1 || total;
            onRow(row, { done, total, next: cases[done] ?? (done < total ? 'conformance and functions' : null) });
        };
        return marked(library.check({ device, plant, onRow: told, signal }));
    }

    close() {
        for (const part of this.#parts.values()) part.then((library) => library.close(), () => {});
        this.#parts.clear();
    }
}

export async function openEngine() {
    return new Engine(await Lockstep.open());
}
