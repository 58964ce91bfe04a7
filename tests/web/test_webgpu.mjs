// WebGPU in Chromium, in a worker as the page has it. LOCKSTEP_WEB=all: over both drivers, every golden, a network, and a GPU process
// that crashes. LOCKSTEP_WEB=museum: over lavapipe, every case of the museum and every planted fault, which takes long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inWorker, missing } from './chromium.mjs';

const all = process.env.LOCKSTEP_WEB === 'all';
const golden = '060a04826da6f4c8688a995ba28347d4eb3b189639df316b1d732d1085bb1768'; // of tests/golden/test_hashes.c, `trained`
const drivers = [['swiftshader', /swiftshader/i], ...(all ? [['lavapipe25', /llvmpipe/]] : [])];

function right({ failures, said, printed = '' }) {
    assert.deepEqual(failures, []);
    assert.deepEqual(said, []); // by the console: no error, no warning
    assert.equal(printed, '');
}

for (const [driver, name] of drivers) {
    test(`web/webgpu.js over ${driver}: objects, commands, maps, errors and a loss`, { skip: missing(driver) || false }, async (t) => {
        const answer = await inWorker(driver, 'host_worker.mjs');
        right(answer);
        assert.match(answer.info.name, name);
        t.diagnostic(`${answer.info.name} (${answer.info.driver}) ${answer.info.features}`);
    });

    test(`the library on WebGPU over ${driver}`, { skip: missing(driver) || false }, async (t) => {
        const answer = await inWorker(driver, 'reactor_worker.mjs',
            { goldens: all ? 'all' : [2, 3, 12], infer: all ? [0, 1, 2] : [], steps: all ? 6 : 0, rows: all ? [0, 200] : [0, 4], losses: all ? ['lose', 'crash'] : ['lose'] });
        t.diagnostic(answer.lines.join('\n'));
        right(answer);
        assert.equal(answer.certified, true, answer.why);
        assert.ok(answer.rows.right >= (all ? 170 : 3), JSON.stringify(answer.rows));
        assert.match(answer.lost, /the device is lost: ./);
        assert.deepEqual(answer.left, { hosts: 0, buffers: 0, pipelines: 0, groups: 0, pending: 0 });
        if (all) {
            assert.equal(answer.differs[1], 0); // locked
            assert.ok(answer.differs[2] < 1e-6, `fast: ${answer.differs[2]}`);
            assert.equal(answer.trained, golden);
            assert.deepEqual(answer.after, answer.before); // a step leaves nothing behind
        }
    });
}

test('the museum on WebGPU over lavapipe25', { skip: process.env.LOCKSTEP_WEB !== 'museum' && 'by LOCKSTEP_WEB=museum' }, async (t) => {
    const answer = await inWorker('lavapipe25', 'reactor_worker.mjs', { museum: [0, 1] });
    t.diagnostic(answer.lines.join('\n'));
    right(answer);
    assert.ok(answer.cases[0] > 20 && answer.cases[1] > 25, answer.cases.join());
});

test('web/webgpu.js: a browser without WebGPU', { skip: missing('none') || false }, async (t) => {
    const answer = await inWorker('none', 'host_worker.mjs');
    right(answer);
    assert.equal(answer.info, null);
    t.diagnostic(answer.reason);
});
