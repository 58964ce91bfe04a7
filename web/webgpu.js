// The JavaScript side of src/host.c: WebGPU objects by number, for one WebAssembly instance, in a worker or a page.
//
// Nothing here blocks and nothing throws into WebAssembly: errors are noted, and the C side looks at them. Promises settle between
// calls into the module; `answers` is a promise of all that is outstanding.

const FEATURES = ['shader-f16', 'subgroups'];
const LIMITS = [
    'maxBufferSize', 'maxStorageBufferBindingSize', 'maxUniformBufferBindingSize', 'maxStorageBuffersPerShaderStage',
    'maxComputeWorkgroupStorageSize', 'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupSizeY',
    'maxComputeWorkgroupSizeZ', 'maxComputeWorkgroupsPerDimension', 'minStorageBufferOffsetAlignment', 'minUniformBufferOffsetAlignment',
];
const NONE = 0, MEMORY = 1, DEVICE = 2, INVALID = 3; // errors, as src/host.c numbers them
const MAP_READ = 1, COPY_SRC = 4, COPY_DST = 8, UNIFORM = 64, STORAGE = 128; // GPUBufferUsage
const USES = [STORAGE | COPY_SRC | COPY_DST, STORAGE | UNIFORM | COPY_SRC | COPY_DST, MAP_READ | COPY_DST, COPY_SRC | COPY_DST];
const COMPUTE = 4; // GPUShaderStage.COMPUTE

/** Objects by small numbers from 1; freed numbers are used again. */
class Table {
    #items = [null];
    #free = [];
    add(item) {
        const number = this.#free.pop() ?? this.#items.length;
        this.#items[number] = item;
        return number;
    }
    get(number) { return this.#items[number]; }
    remove(number) {
        const item = this.#items[number];
        if (number && item) {
            this.#items[number] = null;
            this.#free.push(number);
        }
        return item;
    }
    get size() { return this.#items.length - 1 - this.#free.length; }
}

/** A device that was given, and all that is outstanding on it. */
class Device {
    constructor(device, about, name, driver) {
        Object.assign(this, { device, about, name, driver, lost: false, reason: '', hosts: new Set() });
        this.pending = new Set(); // promises that never reject
        this.waiters = new Set(); // called when the device is lost
        device.lost.then((info) => this.lose(`the browser took it away: ${info.message || info.reason}`));
        device.addEventListener('uncapturederror', (event) => {
            event.preventDefault(); // the C side reports it
            this.note(event.error);
        });
    }
    lose(reason) {
        if (!this.lost) {
            this.lost = true;
            this.reason = reason;
            for (const go of this.waiters) go();
        }
    }
    note(error) {
        for (const host of this.hosts) host.note(kindOf(error), error.message);
    }
}

const kindOf = (error) => {
    const name = error.constructor.name;
    return name === 'GPUOutOfMemoryError' ? MEMORY : name === 'GPUValidationError' || error instanceof TypeError ? INVALID : DEVICE;
};

/** What one opening of "webgpu" has: a command encoder and its counters. */
class Host {
    constructor(owner) {
        this.owner = owner;
        this.device = owner.device;
        this.encoder = this.pass = this.bound = null;
        this.submitted = this.completed = this.unsettled = this.mapping = 0;
        this.error = NONE;
        this.message = '';
    }
    note(kind, message) {
        if (this.error === NONE) {
            this.error = kind;
            this.message = message;
        }
    }
    endPass() {
        this.pass?.end();
        this.pass = null;
    }
    record() { return (this.encoder ??= this.device.createCommandEncoder()); }
}

export class WebGPU {
    #memory = null;
    #current = null; // the Device that opening takes
    #reason = 'no device was asked for: await requestDevice() before "webgpu" is opened';
    #hosts = new Table();
    #buffers = new Table();
    #pipelines = new Table();
    #groups = new Table();
    #asking = null;
    #decoder = new TextDecoder();
    #encoder = new TextEncoder();

    /** The functions that src/host.c imports from the module "lockstep". */
    imports = this.#makeImports();

    /** The memory of the instance that has `imports`. */
    attach(memory) { this.#memory = memory; }

    /**
     * Asks the browser for an adapter and a device, which "webgpu" is then opened on; after a loss, for another. Resolves to
     * `info`, or to null: then `reason` says why, and opening "webgpu" fails with it.
     */
    requestDevice(options) {
        this.#asking ??= this.#request(options).finally(() => { this.#asking = null; });
        return this.#asking;
    }

    // Chromium on Windows warns of the preference, which it has no use for.
    async #request(options = /Windows/.test(globalThis.navigator?.userAgent) ? {} : { powerPreference: 'high-performance' }) {
        if (this.#current && !this.#current.lost) return this.info;
        this.#current = null;
        try {
            const gpu = globalThis.navigator?.gpu;
            if (!gpu) throw new Error(globalThis.isSecureContext === false
                ? 'this page is no secure context, and WebGPU is in secure contexts only: serve it over https or from localhost'
                : 'this browser has no WebGPU (navigator.gpu)');
            const adapter = await gpu.requestAdapter(options);
            if (!adapter) throw new Error('the browser has WebGPU but gives no adapter: no GPU, or its driver is on the blocklist');
            const requiredLimits = {};
            for (const limit of LIMITS) if (adapter.limits[limit] !== undefined) requiredLimits[limit] = adapter.limits[limit];
            const requiredFeatures = FEATURES.filter((feature) => adapter.features.has(feature));
            const device = await adapter.requestDevice({ requiredFeatures, requiredLimits });
            const about = adapter.info ?? {};
            const { vendor, architecture, device: chip, description } = about;
            const named = [vendor, architecture].filter(Boolean).join(' ');
            const name = description || chip || named || 'an adapter without a name';
            const driver = [browser(), named, description].filter(Boolean).join(', ');
            this.#current = new Device(device, about, name, driver);
        } catch (error) {
            this.#reason = `no WebGPU: ${error.message}`;
        }
        return this.info;
    }

    /** The device that is there now, { name, driver, features, software }, or null. */
    get info() {
        const d = this.#current;
        if (!d || d.lost) return null;
        const features = FEATURES.filter((feature) => d.device.features.has(feature));
        return { name: d.name, driver: d.driver, features, software: Boolean(d.about.isFallbackAdapter) };
    }

    /** Why there is no device. */
    get reason() { return this.#current?.lost ? `the device is lost: ${this.#current.reason}` : this.#reason; }

    /** Resolves when all that is outstanding at this moment has its answer; also when the device is lost. Never rejects. */
    answers() {
        const d = this.#current;
        if (!d || d.lost || d.pending.size === 0) return new Promise((resolve) => setTimeout(resolve, 0)); // lets events come in
        return new Promise((resolve) => {
            const go = () => {
                d.waiters.delete(go);
                resolve();
            };
            d.waiters.add(go);
            Promise.all(d.pending).then(go);
        });
    }

    /** Numbers of objects that are alive, for tests. */
    get counts() {
        return {
            hosts: this.#hosts.size, buffers: this.#buffers.size, pipelines: this.#pipelines.size, groups: this.#groups.size,
            pending: this.#current?.pending.size ?? 0,
        };
    }

    /** Gives the device back: what is still open on it is lost. */
    release() {
        if (this.#current) {
            this.#current.lose('released');
            this.#current.device.destroy();
        }
    }

    #wait(host, promise) {
        const { pending } = host.owner;
        const settled = promise.catch(() => {}).then(() => pending.delete(settled));
        pending.add(settled);
    }

    #text(at, length) { return this.#decoder.decode(new Uint8Array(this.#memory.buffer, at >>> 0, length)); }

    /** Writes text of at most `size` bytes with the 0 that ends it; gives its length. */
    #putText(at, size, text) {
        const room = new Uint8Array(this.#memory.buffer, at >>> 0, size);
        const { written } = this.#encoder.encodeInto(text, room.subarray(0, size - 1));
        room[written] = 0;
        return written;
    }

    #open(at) {
        const owner = this.#current;
        const view = new DataView(this.#memory.buffer, at >>> 0, 576);
        if (!owner || owner.lost) {
            this.#putText(at + 320, 256, this.reason);
            return 0;
        }
        const l = owner.device.limits, has = owner.device.features, { about } = owner;
        view.setFloat64(0, l.maxBufferSize, true);
        view.setFloat64(8, l.maxStorageBufferBindingSize, true);
        [
            Math.max(l.minStorageBufferOffsetAlignment, l.minUniformBufferOffsetAlignment), l.maxStorageBuffersPerShaderStage,
            l.maxComputeWorkgroupStorageSize, l.maxComputeInvocationsPerWorkgroup, l.maxComputeWorkgroupSizeX, l.maxComputeWorkgroupSizeY,
            l.maxComputeWorkgroupSizeZ, l.maxComputeWorkgroupsPerDimension, has.has('shader-f16') ? 1 : 0, has.has('subgroups') ? 1 : 0,
            about.subgroupMinSize ?? 0, about.subgroupMaxSize ?? 0,
        ].forEach((value, i) => view.setUint32(16 + 4 * i, value, true));
        this.#putText(at + 64, 128, owner.name);
        this.#putText(at + 192, 128, owner.driver);
        const host = new Host(owner);
        owner.hosts.add(host);
        return this.#hosts.add(host);
    }

    #look(host, at) {
        const view = new DataView(this.#memory.buffer, at >>> 0, 24);
        const lost = host.owner.lost;
        if (lost) host.note(DEVICE, host.owner.reason);
        view.setFloat64(0, host.completed, true);
        [host.unsettled, host.mapping, lost ? 1 : 0, host.error].forEach((value, i) => view.setUint32(8 + 4 * i, value, true));
        if (host.error !== NONE) {
            this.#putText(at + 24, 1024, host.message);
            host.error = NONE;
        }
    }

    #bufferNew(host, size, use) {
        const { device } = host;
        device.pushErrorScope('out-of-memory');
        device.pushErrorScope('validation');
        const gpu = device.createBuffer({ size, usage: USES[use] });
        for (let i = 0; i < 2; i++) {
            this.#wait(host, device.popErrorScope().then((error) => error && host.note(kindOf(error), error.message)));
        }
        return this.#buffers.add({ gpu, map: null });
    }

    #pipelineNew(host, name, wgsl, nStorage, readOnly, uniformSize) {
        const { device } = host;
        const entries = [];
        for (let binding = 0; binding < nStorage; binding++) {
            const type = (readOnly >>> binding) & 1 ? 'read-only-storage' : 'storage';
            entries.push({ binding, visibility: COMPUTE, buffer: { type } });
        }
        if (uniformSize) {
            const buffer = { type: 'uniform', hasDynamicOffset: true, minBindingSize: uniformSize };
            entries.push({ binding: nStorage, visibility: COMPUTE, buffer });
        }
        device.pushErrorScope('validation');
        const layout = device.createBindGroupLayout({ entries });
        const pipelineLayout = device.createPipelineLayout({ bindGroupLayouts: [layout] });
        const module = device.createShaderModule({ label: name, code: wgsl });
        const scope = device.popErrorScope();
        const made = device.createComputePipelineAsync({ label: name, layout: pipelineLayout, compute: { module, entryPoint: 'main' } });
        const pipeline = { gpu: null, layout, nStorage, uniformSize, error: '' };
        host.unsettled++;
        this.#wait(host, Promise.allSettled([scope, made]).then(([scoped, done]) => {
            host.unsettled--;
            if (done.status === 'fulfilled') pipeline.gpu = done.value;
            else pipeline.error = scoped.value?.message || done.reason.message || 'the browser gave no reason';
        }));
        return this.#pipelines.add(pipeline);
    }

    #groupNew(host, pipeline, at, uniform) {
        const places = new DataView(this.#memory.buffer, at >>> 0, 24 * pipeline.nStorage);
        const entries = [];
        for (let binding = 0; binding < pipeline.nStorage; binding++) {
            const [number, offset, size] = [0, 8, 16].map((i) => places.getFloat64(24 * binding + i, true));
            entries.push({ binding, resource: { buffer: this.#buffers.get(number).gpu, offset, size } });
        }
        if (pipeline.uniformSize) {
            entries.push({ binding: entries.length, resource: { buffer: this.#buffers.get(uniform).gpu, size: pipeline.uniformSize } });
        }
        return this.#groups.add(host.device.createBindGroup({ layout: pipeline.layout, entries }));
    }

    #dispatch(host, pipeline, group, uniformOffset, x, y, z) {
        if (!pipeline.gpu) {
            host.note(INVALID, pipeline.error || 'a kernel was dispatched before its pipeline was there');
            return;
        }
        const encoder = host.record();
        if (!host.pass) {
            host.pass = encoder.beginComputePass();
            host.bound = null;
        }
        if (host.bound !== pipeline.gpu) {
            host.bound = pipeline.gpu;
            host.pass.setPipeline(pipeline.gpu);
        }
        host.pass.setBindGroup(0, group, pipeline.uniformSize ? [uniformOffset] : []);
        host.pass.dispatchWorkgroups(x, y, z);
    }

    #submit(host) {
        host.endPass();
        const commands = host.record().finish();
        host.encoder = null;
        host.device.queue.submit([commands]);
        const number = ++host.submitted;
        this.#wait(host, host.device.queue.onSubmittedWorkDone().then(() => { host.completed = Math.max(host.completed, number); }));
    }

    #map(host, buffer, size) {
        const map = (buffer.map = { done: false });
        host.mapping++;
        this.#wait(host, buffer.gpu.mapAsync(MAP_READ, 0, size).then(
            () => { map.done = true; },
            (error) => { if (!map.dropped && !host.owner.lost) host.note(DEVICE, error.message); },
        ).then(() => { host.mapping--; }));
    }

    #mapped(buffer, at, size) {
        if (!buffer.map?.done) return 0;
        new Uint8Array(this.#memory.buffer, at >>> 0, size >>> 0).set(new Uint8Array(buffer.gpu.getMappedRange(0, size)));
        return 1;
    }

    #unmap(buffer) {
        if (buffer.map) {
            buffer.map.dropped = true;
            buffer.map = null;
            buffer.gpu.unmap();
        }
    }

    #close(number) {
        const host = this.#hosts.remove(number);
        host.owner.hosts.delete(host);
        host.endPass();
    }

    #makeImports() {
        /* With its host, and what it throws noted there. */
        const on = (f) => (number, ...rest) => {
            const host = this.#hosts.get(number);
            try {
                return f(host, ...rest) ?? 0;
            } catch (error) {
                host.note(kindOf(error), error.message);
                return 0;
            }
        };
        const buffer = (number) => this.#buffers.get(number);
        const pipeline = (number) => this.#pipelines.get(number);
        return {
            webgpu_open: (at) => this.#open(at),
            webgpu_close: (number) => this.#close(number),
            webgpu_lose: on((host) => {
                host.owner.lose('lost on request');
                host.device.destroy();
            }),
            webgpu_look: on((host, at) => this.#look(host, at)),
            webgpu_buffer_new: on((host, size, use) => this.#bufferNew(host, size, use)),
            webgpu_buffer_free: on((host, b) => {
                this.#unmap(buffer(b));
                this.#buffers.remove(b).gpu.destroy(); // garbage collection does not see the memory behind it
            }),
            webgpu_pipeline_new: on((host, name, nameLength, wgsl, wgslLength, ...rest) =>
                this.#pipelineNew(host, this.#text(name, nameLength), this.#text(wgsl, wgslLength), ...rest)),
            webgpu_pipeline_free: on((host, p) => { this.#pipelines.remove(p); }),
            webgpu_pipeline_error: on((host, p, at, size) => this.#putText(at, size, pipeline(p)?.error ?? 'the browser made no pipeline')),
            webgpu_group_new: on((host, p, at, uniform) => this.#groupNew(host, pipeline(p), at, uniform)),
            webgpu_group_free: on((host, group) => { this.#groups.remove(group); }),
            webgpu_dispatch: on((host, p, group, ...rest) => this.#dispatch(host, pipeline(p), this.#groups.get(group), ...rest)),
            webgpu_copy: on((host, to, toOffset, from, fromOffset, size) => {
                host.endPass();
                host.record().copyBufferToBuffer(buffer(from).gpu, fromOffset, buffer(to).gpu, toOffset, size);
            }),
            webgpu_write: on((host, b, offset, at, size) =>
                host.device.queue.writeBuffer(buffer(b).gpu, offset, this.#memory.buffer, at >>> 0, size >>> 0)),
            webgpu_submit: on((host) => this.#submit(host)),
            webgpu_map: on((host, b, size) => this.#map(host, buffer(b), size >>> 0)),
            webgpu_mapped: on((host, b, at, size) => this.#mapped(buffer(b), at, size)),
            webgpu_unmap: on((host, b) => this.#unmap(buffer(b))),
        };
    }
}

/** "Chromium 156": what compiles the kernels. */
function browser() {
    const brands = globalThis.navigator.userAgentData?.brands?.filter((b) => !/not.?a.?brand/i.test(b.brand)) ?? [];
    const brand = brands.find((b) => b.brand !== 'Chromium') ?? brands[0];
    return brand ? `${brand.brand} ${brand.version}` : globalThis.navigator.userAgent.split(' ').pop();
}
