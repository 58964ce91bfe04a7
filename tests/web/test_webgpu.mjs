// WebGPU in Chromium, in a worker as the page has it: web/webgpu.js alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inWorker, missing } from './chromium.mjs';

for (const [driver, name] of [['swiftshader', /swiftshader/i], ['lavapipe25', /llvmpipe/]]) {
    test(`web/webgpu.js over ${driver}: objects, commands, maps, errors and a loss`, { skip: missing(driver) || false }, async (t) => {
        const { info } = await inWorker(driver, 'host_worker.mjs');
        assert.match(info.name, name);
        t.diagnostic(`${info.name} (${info.driver}) ${info.features}`);
    });
}

test('web/webgpu.js: a browser without WebGPU', { skip: missing('none') || false }, async (t) => {
    const { info, reason } = await inWorker('none', 'host_worker.mjs');
    assert.equal(info, null);
    t.diagnostic(reason);
});
