// The npm package in Node: what it computes equals what the native command prints, bit for bit; bad input is refused by name and the
// instance goes on working; the package holds what it says. LOCKSTEP_PACKAGE: its folder.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, existsSync, mkdtempSync, writeFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { after, before, test } from 'node:test';
import { digits, randomImages } from './digits.mjs';

const folder = resolve(process.env.LOCKSTEP_PACKAGE ?? 'build/web/package');
const { Lockstep, LockstepError, ...others } = await import(pathToFileURL(join(folder, 'lockstep.js')));
const native = resolve('build/release/lockstep');
// `lockstep train mnist --model small --steps 30 --batch 16 --seed 1`
const TRAINED = 'd88b218b91f5c85b1770201c3cefc313df7dc7745e731be22cff35a16196ceef';
const data = digits('build/data/digits');
const plan = { network: 'mnist:small', batch: 16, steps: 30, schedule: 'cosine', seed: 1, ...data.train };

let ls;
before(async () => { ls = await Lockstep.open(); });
after(() => ls.close());

async function fails(promise, code, words) {
    await assert.rejects(promise, (error) => {
        assert.ok(error instanceof LockstepError, `${error}`);
        assert.equal(error.code, code, error.message);
        assert.match(error.message, words);
        return true;
    });
}

async function drain(steps) {
    let last = null;
    for await (const step of steps) last = step;
    return last;
}

test('devices: the CPU is certified with SIMD, WebGPU says why it is not there', async () => {
    const devices = Object.fromEntries((await ls.devices()).map((device) => [device.id, device]));
    assert.deepEqual(Object.keys(devices), ['cpu', 'webgpu', 'ref']);
    assert.equal(devices.cpu.locked, 'certified');
    assert.equal(devices.cpu.caps.isa, 'simd128');
    assert.ok(devices.cpu.caps.dtypes.includes('f32'));
    assert.equal(devices.webgpu.available, false);
    assert.match(devices.webgpu.reason, /no WebGPU/);
});

test('run: the bits of the native command, for one image and three', async () => {
    // `lockstep run NETWORK --dim batch=N --input images=random:SEED`
    const goldens = [
        ['mnist:small', 1, 0, '847bc82cbd4143e72268d8514fba34381b6a573a83920dcc8bd2f934279fc93f'],
        ['mnist:small', 3, 7, 'bcf89beaa7aa893133925076ba9a11aab4bbdea6bb81a4d4095ae57cb9a3c7de'],
        ['mnist:cnn', 1, 0, '1a74c1c32ef9710127b0edf5dc403c6c868a75aa3eb519cf4a29b5b533fea251'],
        ['mnist:cnn', 3, 7, '2d0c6067b70e67dbb4a04ecb73072011deaef8f3b998f94130628df7f4098328'],
    ];
    for (const [network, batch, seed, sha256] of goldens) {
        const net = await ls.load(network, null), images = randomImages(batch, seed);
        for (let again = 0; again < 2; again++) {
            const out = await net.run(images);
            assert.equal(out.sha256, sha256, `${network} [${batch}]`);
            assert.deepEqual(out.shape, [batch, 10]);
            assert.equal(out.data.length, 10 * batch);
            assert.ok(out.milliseconds > 0);
        }
        await net.close();
        await fails(net.run(images), 'invalid', /closed/);
    }
});

test('many sizes of batch: the programs that are forgotten come back the same', async () => {
    const net = await ls.load('mnist:small', null), first = [];
    for (let batch = 1; batch <= 6; batch++) first.push((await net.run(randomImages(batch, batch))).sha256);
    for (let batch = 1; batch <= 6; batch++) assert.equal((await net.run(randomImages(batch, batch))).sha256, first[batch - 1]);
    await net.close();
});

test('compare: devices side by side', async () => {
    const image = randomImages(1, 3);
    const [cpu, ref, other] = await Promise.all([ls.load('mnist:small', null), ls.load('mnist:small', null, { device: 'ref' }),
        ls.load('mnist:small', null, { seed: 2 })]);
    const same = await ls.compare([cpu, ref], image);
    assert.equal(same.verdict, 'same');
    assert.deepEqual(same.outputs.map(({ device }) => device), ['cpu', 'ref']);
    assert.equal(same.outputs[0].sha256, same.outputs[1].sha256);
    assert.equal(same.pairs[0].difference, 0);
    assert.ok(same.pairs[0].bound > 0 && same.pairs[0].bound < 0.01, `${same.pairs[0].bound}`);
    const wrong = await ls.compare([cpu, other], image); // other weights: as wrong as a device can be
    assert.equal(wrong.verdict, 'differs');
    const [pair] = wrong.pairs, [a, b] = wrong.outputs;
    assert.equal(pair.difference, Math.max(...a.data.map((x, i) => Math.abs(x - b.data[i]))));
    assert.equal(Math.abs(a.data[pair.index] - b.data[pair.index]), pair.difference);
    assert.ok(pair.worst_of_bound > 1 && pair.outside > 0);
    await fails(ls.compare([cpu], image), 'invalid', /two/);
    const { middle, radius } = await cpu.oracle(image);
    a.data.forEach((x, i) => assert.ok(Math.abs(x - middle[i]) <= radius[i]));
    await Promise.all([cpu, ref, other].map((net) => net.close()));
});

test('verify: every kernel against the references', async () => {
    const [locked, fast] = await Promise.all(['locked', 'fast'].map((math) => ls.load('mnist:small', null, { math })));
    const exact = await locked.verify(randomImages(2, 1)), near = await fast.verify(randomImages(2, 1));
    assert.notEqual(exact.verdict, 'differs');
    assert.equal(exact.table.length, exact.kernels);
    assert.ok(exact.kernels > 3);
    for (const row of exact.table) assert.equal(row.ref.verdict, 'same', row.kernel);
    for (const row of near.table) assert.equal(row.ref, null);
    assert.ok(near.worst_of_bound <= 1);
    assert.equal(exact.first_divergence, null);
    await Promise.all([locked.close(), fast.close()]);
});

test('training: 30 locked steps are the native ones, and a broken run goes on exactly', async () => {
    const training = await ls.train(plan), losses = [];
    assert.equal(training.total, 30);
    let state = null;
    for await (const { step, loss } of training.steps()) {
        losses.push(loss);
        assert.equal(step, losses.length);
        if (step === 13) state = await training.state();
    }
    assert.equal(losses.length, 30);
    assert.ok(losses.at(-1) < losses[0]);
    assert.equal(await training.sha256(), TRAINED);
    await fails(training.next(), 'invalid', /30 steps are done/);
    assert.equal(await training.accuracy(data.test.images, data.test.labels), 0.411); // what the command prints

    const resumed = await ls.train({ state, ...data.train });
    assert.equal(resumed.step, 13);
    assert.equal(resumed.network, 'mnist:small');
    const last = await drain(resumed.steps());
    assert.deepEqual([last.step, last.loss], [30, losses.at(-1)]);
    assert.equal(await resumed.sha256(), TRAINED);

    const weights = await training.weights(), net = await ls.load('mnist:small', weights.buffer);
    assert.equal(await net.sha256(), TRAINED);
    if (existsSync(native)) { // the command reads what was written here, and goes on with it
        const scratch = mkdtempSync(join(tmpdir(), 'lockstep-'));
        try {
            writeFileSync(join(scratch, 'weights'), weights);
            writeFileSync(join(scratch, 'state'), state);
            const run = JSON.parse(execFileSync(native, ['run', 'mnist:small', '--weights', join(scratch, 'weights'), '--json', join(scratch, 'json')])
                && readFileSync(join(scratch, 'json')));
            assert.equal(run.outputs[0].sha256, (await net.run(randomImages(1, 0))).sha256);
            execFileSync(native, ['train', 'mnist', '--resume', join(scratch, 'state'), '--json', join(scratch, 'json')], { stdio: 'ignore' });
            assert.equal(JSON.parse(readFileSync(join(scratch, 'json'))).weights_sha256, TRAINED);
        } finally {
            rmSync(scratch, { recursive: true });
        }
    }
    await fails(ls.train({ state, lr: 1, ...data.train }), 'invalid', /lr: the saved run has 0.002/);
    await fails(ls.train({ state: weights, ...data.train }), 'format', /the state/);
    await Promise.all([training.close(), resumed.close(), net.close()]);
});

test('lockstep-cpu.wasm: the same bits, verified and trained; what it lacks is refused by name', async () => {
    const cpu = await Lockstep.open({ wasm: readFileSync(join(folder, 'lockstep-cpu.wasm')) });
    assert.deepEqual((await cpu.devices()).map((device) => device.id), ['cpu', 'ref']);
    for (const [network, math] of [['mnist:small', 'locked'], ['mnist:small', 'fast'], ['mnist:cnn', 'locked'], ['mnist:cnn', 'fast']]) {
        const nets = await Promise.all([ls, cpu].map((one) => one.load(network, null, { math })));
        for (const batch of [1, 3, 17]) {
            const [all, alone] = await Promise.all(nets.map((net) => net.run(randomImages(batch, batch))));
            assert.equal(alone.sha256, all.sha256, `${network} ${math} ${batch}`);
        }
        if (network === 'mnist:small') {
            const verified = await nets[1].verify(randomImages(2, 1));
            assert.notEqual(verified.verdict, 'differs');
            assert.ok(verified.worst_of_bound <= 1);
        }
        await Promise.all(nets.map((net) => net.close()));
    }
    const onRef = await cpu.load('mnist:small', null, { device: 'ref' }), onCpu = await cpu.load('mnist:small', null);
    assert.equal((await onRef.run(randomImages(1, 5))).sha256, (await onCpu.run(randomImages(1, 5))).sha256);
    for (const optimizer of ['sgd', 'adam', 'adamw']) {
        const hashes = await Promise.all([ls, cpu].map(async (one) => {
            const training = await one.train({ ...plan, optimizer });
            await drain(training.steps(5));
            await training.accuracy(data.test.images.subarray(0, 784 * 20), data.test.labels.subarray(0, 20));
            const hash = await training.sha256();
            await training.close();
            return hash;
        }));
        assert.equal(hashes[0], hashes[1], optimizer);
    }
    const training = await cpu.train(plan);
    await drain(training.steps());
    assert.equal(await training.sha256(), TRAINED);
    await fails(cpu.check({}), 'unsupported', /load lockstep.wasm/);
    await cpu.close();
});

test('bad input is refused by name, and the instance goes on', async () => {
    const net = await ls.load('mnist:small', null), good = (await net.run(randomImages(1, 0))).sha256;
    await fails(ls.load('mnist:large'), 'invalid', /"mnist:large": expected mnist:cnn or mnist:small/);
    await fails(ls.load('model.onnx'), 'unsupported', /ONNX models are not read yet/);
    await fails(ls.load('mnist:small', new Uint8Array(1000)), 'format', /the weights/);
    await fails(ls.load('mnist:small', readFileSync('README.md')), 'format', /the weights/);
    await fails(ls.load('mnist:small', 'no/such/file.safetensors'), 'io', /no\/such\/file/);
    await fails(ls.load('mnist:small', 7), 'invalid', /weights: expected a URL/);
    await fails(ls.load('mnist:small', null, { device: 'cuda' }), 'device', /"cuda"/);
    await fails(ls.load('mnist:small', null, { device: 'webgpu' }), 'device', /no WebGPU/);
    await fails(ls.load('mnist:small', null, { math: 'exact' }), 'invalid', /"exact": expected locked/);
    const small = await ls.train({ ...plan, steps: 1 }), weights = await small.weights();
    await fails(ls.load('mnist:cnn', weights), 'shape', /conv1.weight/);
    weights[weights.length - 5] ^= 1;
    await fails(ls.load('mnist:small', weights), 'format', /SHA-256/);
    await fails(ls.load('mnist:small', weights.subarray(0, 5000)), 'format', /the weights/);
    await fails(net.run(new Float32Array(783)), 'shape', /783 numbers/);
    await fails(net.run(new Float32Array(0)), 'shape', /0 numbers/);
    await fails(net.run(new Uint8Array(784)), 'dtype', /Float32Array/);
    await fails(net.run(new Float32Array(784 * 5000)), 'shape', /5000 images/);
    await fails(ls.train({ ...plan, network: 'mnist:large' }), 'invalid', /mnist:large/);
    await fails(ls.train({ ...plan, rate: 1 }), 'invalid', /"rate"/);
    await fails(ls.train({ ...plan, batch: 1.5 }), 'invalid', /batch/);
    await fails(ls.train({ ...plan, batch: '16' }), 'invalid', /batch/);
    await fails(ls.train({ ...plan, optimizer: 'rmsprop' }), 'invalid', /sgd, adam or adamw/);
    await fails(ls.train({ ...plan, steps: 0 }), 'invalid', /steps/);
    await fails(ls.train({ ...plan, labels: data.test.labels }), 'shape', /images/);
    await fails(ls.train({ ...plan, images: new Uint8Array(784), labels: new Uint8Array(1) }), 'shape', /a batch of 16/);
    await fails(ls.train({ ...plan, labels: data.train.labels.map((x) => x + 5) }), 'range', /labels/);
    await fails(ls.check({ plant: 'nothing' }), 'invalid', /"nothing"/);
    await fails(Lockstep.open({ wasm: new Uint8Array(8) }), 'format', /lockstep.wasm/);
    assert.equal((await net.run(randomImages(1, 0))).sha256, good);
    await Promise.all([small.close(), net.close()]);
});

test('nothing is kept of what was closed but the records of its variables', async () => {
    const once = async () => {
        const net = await ls.load('mnist:small', null), training = await ls.train(plan);
        await net.run(randomImages(2, 0));
        await drain(training.steps(2));
        await training.accuracy(data.test.images, data.test.labels);
        await Promise.all([net.close(), training.close()]);
        return ls.memory();
    };
    const first = await once(), second = await once(), third = await once();
    assert.ok(second - first < 20e3, `${second - first} bytes`); // 33 of 448 bytes, and the weights are 83 kB
    assert.equal(third - second, second - first);
});

test('check: a case passes, and its planted fault is caught', async () => {
    const rows = [];
    const good = await ls.check({ cases: ['0-fc1-zeros'], functions: false, onRow: (row) => rows.push(row) });
    assert.deepEqual([good.failed, good.skipped], [0, 0]);
    assert.equal(good.passed, 3); // certification; the case, locked and fast
    assert.deepEqual(rows.map(({ kind, ...row }) => row), good.cases);
    assert.equal(good.device.locked, 'certified');
    const conform = await ls.check({ cases: [], rows: 12 });
    assert.deepEqual(conform.rows.map(({ math, passed, failed, skipped }) => [math, passed + skipped, failed]), [['locked', 12, 0], ['fast', 3, 0]]);
    assert.ok(conform.rows[0].passed > 6 && conform.rows[0].seconds > 0);
    assert.equal(conform.passed + conform.skipped, 16);
    const bad = await ls.check({ plant: 'matmul-writes-nothing' });
    assert.ok(bad.failed > 0);
    const caught = bad.cases.find(({ status }) => status === 'failed');
    assert.equal(caught.name, '0-fc1-zeros');
    assert.match(caught.detail, /cpu/);
    assert.equal((await ls.check({ cases: ['0-fc1-zeros'], functions: false })).failed, 0); // the fault is gone
    const controller = new AbortController();
    await assert.rejects(ls.check({ signal: controller.signal, onRow: () => controller.abort() }), { name: 'AbortError' });
});

test('the whole check passes, and every planted fault is caught by its case', {
    skip: process.env.LOCKSTEP_WEB === 'all' ? false : 'takes a minute: LOCKSTEP_WEB=all',
}, async () => {
    const report = await ls.check();
    assert.equal(report.failed, 0, JSON.stringify(report));
    assert.ok(report.passed > 300 && report.skipped < 20);
    assert.ok(report.functions.length > 40);
    assert.ok(ls.faults.length > 30);
    for (const { name, case: by } of ls.faults) {
        const { cases } = await ls.check({ plant: name });
        assert.ok(cases.some((row) => row.name === by && row.status === 'failed'), name);
    }
});

test('in a worker: the same bits, the same errors', async () => {
    const other = await Lockstep.open({ worker: true });
    const net = await other.load('mnist:small', null);
    assert.equal((await net.run(randomImages(1, 0))).sha256, '847bc82cbd4143e72268d8514fba34381b6a573a83920dcc8bd2f934279fc93f');
    await fails(other.load('mnist:small', new Uint8Array(9)), 'format', /the weights/);
    const training = await other.train(plan);
    await drain(training.steps(2));
    assert.equal((await training.weights()).constructor, Uint8Array);
    other.close();
    await fails(net.run(randomImages(1, 0)), 'invalid', /closed/);
});

test('the package holds what it lists, and declares what it exports', () => {
    const about = JSON.parse(readFileSync(join(folder, 'package.json')));
    assert.deepEqual(readdirSync(folder).sort(), [...about.files, 'package.json'].sort());
    assert.equal(about.version, ls.version);
    assert.equal(about.dependencies, undefined);
    for (const path of [about.main, about.types, about.exports['.'].default, about.exports['./lockstep.wasm']]) assert.ok(existsSync(join(folder, path)));
    for (const name of ['cJSON', 'zlib', 'wasi-libc']) assert.ok(readFileSync(join(folder, 'NOTICES'), 'utf8').includes(`---- ${name}`), name);
    const code = readdirSync(folder).filter((name) => /\.(js|wasm)$/.test(name)).map((name) => readFileSync(join(folder, name)));
    console.log(`${Math.round(code.reduce((sum, bytes) => sum + gzipSync(bytes, { level: 9 }).length, 0) / 1000)} kB gzipped`);
    const types = readFileSync(join(folder, 'lockstep.d.ts'), 'utf8');
    const declared = (name, body) => {
        assert.match(types, new RegExp(`export class ${name}\\b`));
        const text = types.slice(types.search(new RegExp(`export class ${name}\\b`))).split('\n}')[0];
        for (const member of body) assert.match(text, new RegExp(`\\b${member}\\b`), `${name}.${member}`);
    };
    for (const [name, type] of Object.entries({ Lockstep, LockstepError, ...others })) {
        declared(name, Object.getOwnPropertyNames(type.prototype));
        declared(name, Object.getOwnPropertyNames(type).filter((member) => !['length', 'name', 'prototype'].includes(member)));
    }
    declared('Lockstep', Object.keys(ls));
});
