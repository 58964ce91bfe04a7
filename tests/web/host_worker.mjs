// web/webgpu.js alone, in a worker: its imports are called as src/host.c calls them, on a memory of this test's.
import { WebGPU } from '/web/webgpu.js';

const STORAGE = 0, STAGING = 1, READBACK = 2;
const memory = new WebAssembly.Memory({ initial: 4 });
const gpu = new WebGPU();
gpu.attach(memory);
const f = Object.fromEntries(Object.entries(gpu.imports).map(([name, value]) => [name.slice('webgpu_'.length), value]));

const failures = [];
const check = (what, good, seen) => { if (!good) failures.push(`${what}: ${JSON.stringify(seen)}`); };
const text = (at) => {
    const bytes = new Uint8Array(memory.buffer, at);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
};
const put = (at, words) => { new TextEncoder().encodeInto(words, new Uint8Array(memory.buffer, at)); return words.length; };
function look(host) {
    f.look(host, 4096);
    const v = new DataView(memory.buffer, 4096);
    const [unsettled, mapping, lost, error] = [8, 12, 16, 20].map((at) => v.getUint32(at, true));
    return { completed: v.getFloat64(0, true), unsettled, mapping, lost, error, message: error ? text(4096 + 24) : '' };
}
function pipeline(host, wgsl, nStorage, uniformSize) {
    return f.pipeline_new(host, 0, put(0, 'a kernel'), 8192, put(8192, wgsl), nStorage, 0, uniformSize);
}
function group(host, p, places, uniform) {
    places.flat().forEach((value, i) => new DataView(memory.buffer).setFloat64(2048 + 8 * i, value, true));
    return f.group_new(host, p, 2048, uniform);
}
const times = `@group(0) @binding(0) var<storage, read_write> a: array<u32>;
@group(0) @binding(1) var<uniform> p: vec4<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { a[id.x] = a[id.x] * p.x + p.y; }`;

async function computes() {
    const host = f.open(0);
    check('a host', host > 0, text(320));
    const view = new DataView(memory.buffer);
    check('limits', view.getFloat64(0, true) >= 2 ** 28 && view.getUint32(16, true) >= 16 && view.getUint32(20, true) >= 8, [...new Uint32Array(memory.buffer, 16, 12)]);
    check('a name', text(64).length > 3 && text(192).length > 3, [text(64), text(192)]);
    const a = f.buffer_new(host, 1024, STORAGE), staging = f.buffer_new(host, 1024, STAGING);
    const back = [f.buffer_new(host, 1024, READBACK), f.buffer_new(host, 1024, READBACK)];
    const good = pipeline(host, times, 1, 16), bad = pipeline(host, times.replace('a[id.x] * p.x', 'b * p.x'), 1, 16);
    check('two pipelines are unsettled', look(host).unsettled === 2, look(host));
    await gpu.answers();
    check('none is unsettled', look(host).unsettled === 0, look(host));
    check('the good one has no error', f.pipeline_error(host, good, 0, 512) === 0, text(0));
    check('the bad one has', f.pipeline_error(host, bad, 0, 512) > 0 && text(0).includes("'b'"), text(0));
    f.pipeline_free(host, bad);

    const words = new Uint32Array(memory.buffer, 32768, 256);
    for (let i = 0; i < 256; i++) words[i] = i;
    f.write(host, a, 0, 32768, 1024);
    words.set([3, 1, 0, 0]);
    words.set([5, 2, 0, 0], 64);
    f.write(host, staging, 0, 32768, 1024);
    const g = group(host, good, [[a, 0, 1024]], staging);
    f.dispatch(host, good, g, 0, 4, 1, 1);
    f.copy(host, back[0], 0, a, 0, 1024);
    f.dispatch(host, good, g, 256, 2, 1, 1); // the first half again
    f.copy(host, back[1], 0, a, 0, 1024);
    f.submit(host);
    for (const b of back) f.map(host, b, 1024);
    check('two maps are under way', look(host).mapping === 2, look(host));
    check('which give nothing yet', f.mapped(host, back[0], 32768, 1024) === 0, 1);
    await gpu.answers();
    const after = look(host);
    check('all has come', after.mapping === 0 && after.completed === 1 && after.error === 0, after);
    for (const [i, b] of back.entries()) {
        check('mapped', f.mapped(host, b, 32768, 1024) === 1, i);
        const wrong = [...words].findIndex((word, k) => word !== (i && k < 128 ? (3 * k + 1) * 5 + 2 : 3 * k + 1));
        check(`the bytes of map ${i}`, wrong === -1, [wrong, words[wrong]]);
        f.unmap(host, b);
    }
    f.map(host, back[0], 1024);
    f.unmap(host, back[0]); // before it is there: no error
    await gpu.answers();
    check('an abandoned map', look(host).mapping === 0 && look(host).error === 0, look(host));
    f.group_free(host, g);
    f.pipeline_free(host, good);
    for (const b of [a, staging, ...back]) f.buffer_free(host, b);
    return host;
}

async function errs(host) {
    const huge = f.buffer_new(host, 2 ** 52, STORAGE);
    await gpu.answers();
    const seen = look(host);
    check('a buffer beyond the limit', seen.error !== 0 && seen.message.length > 10, seen);
    check('is said once', look(host).error === 0, look(host));
    f.buffer_free(host, huge);
    f.copy(host, 99, 0, 98, 0, 4); // numbers of nothing
    check('what throws is noted', look(host).error !== 0, look(host));
}

async function loses(host) {
    const back = f.buffer_new(host, 1024, READBACK);
    f.map(host, back, 1024);
    pipeline(host, times, 1, 16);
    f.lose(host);
    const seen = look(host);
    check('lost at once', seen.lost === 1 && seen.error === 2 && seen.message.includes('lost'), seen);
    await gpu.answers(); // must not hang
    check('a lost map gives nothing', f.mapped(host, back, 32768, 1024) === 0, 1);
    check('no second host on it', f.open(0) === 0 && text(320).includes('lost'), text(320));
    f.buffer_free(host, back);
    f.buffer_new(host, 64, STORAGE);
    f.submit(host);
    await gpu.answers();
    f.close(host);
    check('another device', (await gpu.requestDevice()) !== null, gpu.reason);
}

self.onmessage = async () => {
    try {
        check('no host before a device', f.open(0) === 0 && text(320).includes('requestDevice'), text(320));
        const info = await gpu.requestDevice();
        if (!info) {
            check('no host without one', f.open(0) === 0 && text(320) === gpu.reason, text(320));
            postMessage({ failures, info, reason: gpu.reason });
            return;
        }
        const host = await computes();
        await errs(host);
        await loses(host);
        f.close(await computes()); // on the new device
        const { pending, ...counts } = gpu.counts;
        check('nothing is left but what the lost device had', JSON.stringify(counts) === '{"hosts":0,"buffers":1,"pipelines":1,"groups":0}', counts);
        gpu.release();
        postMessage({ failures, info, reason: '' });
    } catch (error) {
        postMessage({ failures: [...failures, error.stack] });
    }
};
