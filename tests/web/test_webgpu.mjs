// WebGPU in Chromium, in a worker as the page has it: web/webgpu.js alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launch, missing, serve } from './chromium.mjs';

/** What a worker of tests/web answers in a Chromium of the driver; fails on any console error. */
async function inWorker(driver, script, message = {}) {
    const server = await serve({ '/web/': 'web', '/tests/': 'tests/web', '/build/': 'build/web' });
    const browser = await launch(driver);
    const said = [];
    try {
        const page = await browser.newPage();
        page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) said.push(m.text()); });
        page.on('pageerror', (error) => said.push(error.stack));
        await page.goto(`${server.url}/tests/empty.html`);
        const answer = await page.evaluate(([url, data]) => new Promise((resolve) => {
            const worker = new Worker(url, { type: 'module' });
            worker.onmessage = (event) => resolve(event.data);
            worker.onerror = (event) => resolve({ failures: [event.message ?? 'the worker did not load'] });
            worker.postMessage(data);
        }), [`/tests/${script}`, message]);
        assert.deepEqual(answer.failures, []);
        assert.deepEqual(said, []);
        return answer;
    } finally {
        await browser.close();
        server.close();
    }
}

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
