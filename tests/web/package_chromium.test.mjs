// The npm package in Debian's Chromium, as a page uses it. LOCKSTEP_WEB=all: also training and checking on its WebGPU, which takes a GPU of
// software a minute.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launch, missing, root, serve } from './chromium.mjs';

const why = (existsSync(join(root, 'build/web/package/lockstep.js')) ? missing('swiftshader') : 'the package is not built; run make web') || false;

describe('the package in Chromium', { skip: why }, () => {
    let server, browser;
    before(async () => {
        server = await serve({ '/package/': 'build/web/package', '/tests/': 'tests/web' });
        browser = await launch('swiftshader');
    });
    after(async () => {
        await browser?.close();
        server?.close();
    });

    async function inPage(script, argument) {
        const page = await browser.newPage(), said = [];
        page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) said.push(message.text()); });
        page.on('pageerror', (error) => said.push(error.stack));
        try {
            await page.goto(`${server.url}/tests/empty.html`);
            return { ...await page.evaluate(script, argument), said };
        } finally {
            await page.close();
        }
    }

    test('the CPU in a worker: the native bits, soon after the page is there', async () => {
        const { sha256, first, lacks, closed, said } = await inPage(async () => {
            const start = performance.now();
            const { Lockstep } = await import('/package/lockstep.js');
            const ls = await Lockstep.open(), net = await ls.load('mnist:cnn', null), images = new Float32Array(784);
            let state = 1n; // `lockstep run --input images=random:0`
            for (let i = 0; i < 784; i++) {
                state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
                images[i] = Number(state >> 40n) / 8388608 - 1;
            }
            const { sha256 } = await net.run(images), first = performance.now() - start;
            const error = async (promise) => promise.then(() => null, ({ code, message }) => ({ code, message }));
            const lacks = await error(ls.load('mnist:cnn', 'no/such.safetensors'));
            ls.close();
            return { sha256, first, lacks, closed: await error(net.run(images)) };
        });
        assert.equal(sha256, '1a74c1c32ef9710127b0edf5dc403c6c868a75aa3eb519cf4a29b5b533fea251');
        console.log(`first inference ${Math.round(first)} ms after the import began`);
        assert.equal(lacks.code, 'io');
        assert.match(lacks.message, /no\/such.safetensors: the server answers 404/);
        assert.equal(closed.code, 'invalid');
        assert.deepEqual(said.filter((line) => !line.includes('404')), []);
    });

    test('on the thread of the page, and without SIMD', async () => {
        const { here, refused, code, message } = await inPage(async () => {
            const { Lockstep } = await import('/package/lockstep.js');
            const ls = await Lockstep.open({ worker: false, wasm: await (await fetch('/package/lockstep.wasm')).arrayBuffer() });
            const here = (await (await ls.load('mnist:small', null)).run(new Float32Array(784))).data.length;
            ls.close();
            globalThis.Worker = class { constructor() { throw new DOMException('not from this origin', 'SecurityError'); } };
            const refused = await Lockstep.open().then(() => null, (e) => e.message);
            WebAssembly.validate = () => false;
            const error = await Lockstep.open().then(() => null, (e) => e);
            return { here, refused, code: error.code, message: error.message };
        });
        assert.equal(here, 10);
        assert.match(refused, /worker.js: no worker .*not from this origin.*worker: false/);
        assert.equal(code, 'unsupported');
        assert.match(message, /no SIMD/);
    });

    test('WebGPU: the bits of the CPU in running, training and testing; a planted fault is caught', {
        skip: process.env.LOCKSTEP_WEB === 'all' ? false : 'takes a minute: LOCKSTEP_WEB=all',
    }, async () => {
        const { gpu, verdict, sums, accuracies, failed, detail, said } = await inPage(async () => {
            const { Lockstep } = await import('/package/lockstep.js');
            const ls = await Lockstep.open(), gpu = (await ls.devices()).find(({ id }) => id === 'webgpu');
            const images = new Uint8Array(784 * 64).map((_, i) => i * 7), labels = new Uint8Array(64).map((_, i) => i % 10);
            const math = gpu.locked === 'certified' ? 'locked' : 'fast', nets = [], sums = [], accuracies = [];
            for (const device of ['cpu', 'webgpu']) {
                nets.push(await ls.load('mnist:small', null, { device, math }));
                const training = await ls.train({ network: 'mnist:small', batch: 8, device, math, images, labels });
                for (let i = 0; i < 3; i++) await training.next();
                sums.push(await training.sha256());
                accuracies.push(await training.accuracy(images, labels));
            }
            const { verdict } = await ls.compare(nets, Float32Array.from({ length: 784 }, (_, i) => Math.sin(i)));
            const { cases } = await ls.check({ device: 'webgpu', plant: 'matmul-writes-nothing' });
            const failed = cases.filter(({ status }) => status === 'failed');
            ls.close();
            return { gpu, verdict, sums, accuracies, failed: failed.map(({ name }) => name), detail: failed[0]?.detail };
        });
        assert.ok(gpu.available, gpu.reason);
        assert.equal(gpu.locked, 'certified', gpu.reason); // both drivers of these tests are
        assert.equal(verdict, 'same');
        assert.equal(sums[0], sums[1]);
        assert.equal(accuracies[0], accuracies[1]);
        assert.ok(failed.includes('0-fc1-zeros'));
        assert.match(detail, /webgpu: kernel/);
        assert.deepEqual(said, []);
    });
});
