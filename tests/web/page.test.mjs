// The page in Debian's Chromium. LOCKSTEP_WEB=all also runs what a GPU of software takes minutes for. Screenshots go to
// build/web/screenshots.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { serve } from '../../web/serve.mjs';
import { launch, missing, root } from './chromium.mjs';

const site = join(root, 'build/web/site'), pictures = join(root, 'build/web/screenshots');
const native = join(root, 'build/release/lockstep');
const why = (driver) => (existsSync(join(site, 'index.html')) ? missing(driver) : 'the page is not built; run make web') || false;
const all = process.env.LOCKSTEP_WEB === 'all';
mkdirSync(pictures, { recursive: true });

// Digits as a hand draws them, in 0..1.
const curve = (x, y, rx, ry, from, to) => Array.from({ length: 9 }, (_, i) => {
    const at = (from + (to - from) * i / 8) * Math.PI / 180;
    return [x + rx * Math.cos(at), y + ry * Math.sin(at)];
});
const DRAWN = [
    [curve(0.5, 0.5, 0.2, 0.32, -90, 270)],
    [[[0.52, 0.16], [0.5, 0.5], [0.48, 0.84]]],
    [[...curve(0.5, 0.34, 0.19, 0.17, 190, 390), [0.33, 0.82], [0.5, 0.8], [0.72, 0.82]]],
    [[...curve(0.47, 0.32, 0.18, 0.15, 200, 440), ...curve(0.47, 0.65, 0.21, 0.18, -80, 160)]],
    [[[0.36, 0.18], [0.31, 0.52], [0.7, 0.5]], [[0.63, 0.2], [0.6, 0.5], [0.58, 0.86]]],
    [[[0.68, 0.18], [0.38, 0.19], [0.36, 0.45], ...curve(0.48, 0.63, 0.19, 0.19, -110, 150)]],
    [[[0.6, 0.15], [0.42, 0.36], [0.34, 0.6], ...curve(0.5, 0.66, 0.16, 0.17, 180, -170)]],
    [[[0.28, 0.2], [0.7, 0.2], [0.56, 0.5], [0.46, 0.84]]],
    [[...curve(0.5, 0.33, 0.15, 0.15, 90, -270), ...curve(0.5, 0.66, 0.18, 0.18, -90, 270)]],
    [[...curve(0.5, 0.35, 0.17, 0.17, 20, -330), [0.66, 0.4], [0.63, 0.62], [0.56, 0.86]]],
];

let site_server, browsers = {}, tabs = {};
before(async () => { if (existsSync(site)) site_server = await serve(site); });
after(async () => {
    for (const browser of Object.values(browsers)) await (await browser).close();
    site_server?.server.close();
});

// A page that was opened and can compute. `said` collects what the console must not say. Pages that look alike follow each other in one tab.
async function open(driver = 'swiftshader', { width = 1280, height = 860, scheme = 'light', scale = 1, random = [], hash = '', ready = true, prepare } = {}) {
    browsers[driver] ??= launch(driver);
    const alike = [driver, width, height, scale].join(), kept = !prepare && tabs[alike];
    const context = kept?.context ?? await (await browsers[driver]).newContext({ viewport: { width, height }, deviceScaleFactor: scale, acceptDownloads: true, hasTouch: width < 500 });
    await prepare?.(context);
    const page = kept?.page ?? await context.newPage(), said = kept?.said ?? [];
    if (!kept) {
        page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) said.push(message.text()); });
        page.on('pageerror', (error) => said.push(error.stack));
    }
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto('about:blank'); // what differs in its hash alone is no new page
    await page.goto(`${site_server.address}${hash}`);
    await page.evaluate((numbers) => {
        const real = Math.random;
        Math.random = () => (numbers.length ? numbers.shift() : real());
    }, random);
    if (ready) await page.waitForSelector('#random:not([disabled])', { state: 'attached' });
    if (!prepare) tabs[alike] = { context, page, said };
    return { page, said, close: () => (prepare ? context.close() : page.goto('about:blank')) };
}

async function draw(page, strokes) {
    const box = await page.locator('#pad').boundingBox();
    for (const stroke of strokes) {
        const points = stroke.map(([x, y]) => [box.x + x * box.width, box.y + y * box.height]);
        await page.mouse.move(...points[0]);
        await page.mouse.down();
        for (const point of points.slice(1)) await page.mouse.move(...point);
        await page.mouse.up();
    }
}

const answer = (page) => page.textContent('#answer');
const text = (page, selector) => page.textContent(selector);
const choose = (page, name, value) => page.locator(`label:has(input[name="${name}"][value="${value}"])`).click();
// The cells of a column of the scores: 'a' the first logits, 'b' the second.
const column = (page, kind) => page.$$eval(`#rows td.${kind}`, (cells) => cells.map((cell) => cell.textContent));

// Waits until the scores are those after the change.
async function settled(page, change) {
    const old = await page.textContent('#facts');
    await change();
    await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
    await page.waitForFunction((facts) => document.getElementById('facts').textContent !== facts
        && document.getElementById('scores').getAttribute('aria-busy') === 'false', old, { timeout: 60000 });
}

function labels() {
    return gunzipSync(readFileSync(join(site, 'data/t10k-labels-idx1-ubyte.gz'))).subarray(8);
}

describe('drawing, on the CPU', { skip: why('swiftshader') }, () => {
    test('the first answer, and when the page was ready for it', async (t) => {
        const { page, said, close } = await open('swiftshader', { ready: false });
        await page.waitForSelector('#random:not([disabled])');
        await settled(page, () => page.click('#random'));
        t.diagnostic(`ready after ${Math.round(await page.evaluate(() => performance.getEntriesByName('ready')[0].startTime))} ms`);
        assert.match(await text(page, '#facts'), /WebAssembly CPU[\d.]+ ms[0-9a-f]{64}/);
        assert.deepEqual(said, []);
        await close();
    });

    test('ten digits drawn with the mouse are read', async () => {
        const { page, said, close } = await open();
        const read = [];
        for (const strokes of DRAWN) {
            await settled(page, () => draw(page, strokes));
            read.push(await answer(page));
            await page.click('#clear');
            await page.waitForFunction(() => document.getElementById('answer').textContent === '?');
        }
        assert.equal(read.join(' '), '0 1 2 3 4 5 6 7 8 9');
        assert.deepEqual(said, []);
        await close();
    });

    test('ten test digits give ten rows of scores, each with its label', async () => {
        const known = labels(), first = Array.from({ length: 10 }, (_, digit) => known.indexOf(digit));
        const { page, said, close } = await open('swiftshader', { random: first.map((index) => (index + 0.5) / known.length) });
        const rows = new Set();
        for (let digit = 0; digit < 10; digit++) {
            await settled(page, () => page.click('#random'));
            assert.equal(await answer(page), String(digit));
            assert.match(await text(page, '#truth'), new RegExp(`label is ${digit}\\.`));
            rows.add((await column(page, 'a')).join(' '));
        }
        assert.equal(rows.size, 10);
        assert.deepEqual(said, []);
        await close();
    });

    test('undo, clear, and the keyboard alone', async () => {
        const { page, said, close } = await open();
        await settled(page, () => draw(page, DRAWN[4].slice(0, 1)));
        const one = await text(page, '#facts');
        await settled(page, () => draw(page, DRAWN[4].slice(1)));
        await settled(page, () => page.click('#undo'));
        assert.equal((await text(page, '#facts')).slice(-64), one.slice(-64));
        await page.click('#clear');
        await page.focus('#pad');
        for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowUp');
        await settled(page, async () => {
            await page.keyboard.press(' ');
            for (let i = 0; i < 16; i++) await page.keyboard.press('ArrowDown');
            await page.keyboard.press(' ');
        });
        assert.equal(await answer(page), '1');
        await page.keyboard.press('Delete');
        await page.waitForFunction(() => document.getElementById('answer').textContent === '?');
        await page.focus('#tab-draw');
        await page.keyboard.press('ArrowRight');
        assert.equal(await page.evaluate(() => document.activeElement.id), 'tab-train');
        await page.waitForSelector('#train:not([hidden])');
        assert.deepEqual(said, []);
        await close();
    });

    test('a file that is no model is told, and the page goes on', async () => {
        const { page, said, close } = await open();
        await page.setInputFiles('#file', { name: 'holiday.safetensors', mimeType: 'application/octet-stream', buffer: Buffer.from('not a model at all') });
        await page.waitForSelector('#notice:not([hidden])');
        assert.match(await text(page, '#notice'), /^holiday\.safetensors is no model that fits here: .*safetensors/);
        await settled(page, () => draw(page, DRAWN[7]));
        assert.equal(await answer(page), '7');
        await page.setInputFiles('#file', join(site, 'weights/mnist-small.safetensors'));
        await page.waitForFunction(() => document.getElementById('network').value === 'kept');
        assert.ok(!await page.isVisible('#notice'));
        assert.deepEqual(said, []);
        await close();
    });
});

describe('no WebGPU at all', { skip: why('none') }, () => {
    test('is said in plain words, and the CPU computes', async () => {
        const { page, said, close } = await open('none');
        await choose(page, 'device', 'both');
        await page.waitForFunction(() => /no WebGPU here/.test(document.getElementById('device-words').textContent));
        await settled(page, () => draw(page, DRAWN[3]));
        assert.equal(await answer(page), '3');
        await page.click('#tab-check');
        await page.waitForSelector('#check:not([hidden])');
        assert.ok(await page.isDisabled('input[name="check-device"][value="webgpu"]'));
        assert.deepEqual(said, []);
        await close();
    });
});

describe('no SIMD', { skip: why('swiftshader') }, () => {
    test('is said in plain words', async () => {
        const { page, said, close } = await open('swiftshader', { ready: false,
            prepare: (context) => context.addInitScript(() => { WebAssembly.validate = () => false; }) });
        await page.waitForSelector('#notice:not([hidden])');
        assert.match(await text(page, '#notice'), /^The library cannot run here: .*SIMD/);
        assert.deepEqual(said, []);
        await close();
    });
});

describe('training', { skip: why('swiftshader') }, () => {
    test('lowers the loss, stops and resumes, and gives the bits of the native command', async () => {
        const { page, said, close } = await open('swiftshader', { hash: '#train' });
        await page.fill('#batch', '32');
        await page.fill('#steps', '20');
        await page.click('#train-go');
        await page.waitForSelector('#train-proof:not([hidden])', { timeout: 60000 });
        assert.equal(await text(page, '#at-step'), '20');
        const early = Number(await text(page, '#at-loss'));
        await page.fill('#steps', '60');
        await page.click('#train-go');
        await page.waitForFunction(() => document.getElementById('at-step').textContent === '60' && !document.getElementById('train-proof').hidden, null, { timeout: 60000 });
        const late = Number(await text(page, '#at-loss'));
        assert.ok(early < 2.31 && late < 0.8 * early, `loss ${early} after 20 steps, ${late} after 60`);
        const accuracy = parseFloat(await text(page, '#at-accuracy'));
        assert.ok(accuracy > 60, `${accuracy} %`);
        const hash = await text(page, '#train-hash'), command = await text(page, '#train-command');
        if (existsSync(native)) {
            const [name, ...options] = command.split(' ');
            assert.equal(name, 'lockstep');
            const told = execFileSync(native, [...options, '--json', '-'], { cwd: root, stdio: ['ignore', 'pipe', 'ignore'] }).toString();
            assert.equal(JSON.parse(told.slice(told.indexOf('{'))).weights_sha256, hash);
        }
        const [download] = await Promise.all([page.waitForEvent('download'), page.click('#train-save')]);
        assert.equal(download.suggestedFilename(), 'mnist-small.safetensors');
        const size = readFileSync(await download.path()).length;
        assert.ok(size > 110000 && size < 120000, `${size} bytes`);
        await page.click('#train-use');
        await page.waitForSelector('#draw:not([hidden])');
        await settled(page, () => draw(page, DRAWN[0]));
        assert.equal(await answer(page), '0');
        assert.deepEqual(said, []);
        await close();
    });
});

describe('the check', { skip: why('swiftshader') }, () => {
    test('catches the planted zero product, and reports it', async () => {
        const { page, said, close } = await open('swiftshader', { hash: '#check' });
        await choose(page, 'check-device', 'cpu');
        await page.locator('.switch').click();
        await page.click('#check-go');
        await page.waitForSelector('#report-buttons:not([hidden])', { timeout: 60000 });
        assert.match(await text(page, '#check-words'), /^Caught: 0\S+ found the planted fault/);
        assert.match(await text(page, '#cases tr.failed .detail'), /kernel \d+ .*expected -?\d.*got 0/);
        const [download] = await Promise.all([page.waitForEvent('download'), page.click('#report-save')]);
        const report = JSON.parse(readFileSync(await download.path()));
        assert.equal(report.plant, 'zero-matmul');
        assert.equal(report.failed, report.cases.filter(({ status }) => status === 'failed').length);
        assert.ok(report.failed > 0 && report.version && report.browser);
        await page.screenshot({ path: join(pictures, 'desktop-light-caught.png'), fullPage: true });
        assert.deepEqual(said, []);
        await close();
    });
});

// A finger, by the browser's own protocol.
async function touch(page, strokes) {
    const box = await page.locator('#pad').boundingBox(), session = await page.context().newCDPSession(page);
    const send = (type, touchPoints) => session.send('Input.dispatchTouchEvent', { type, touchPoints });
    for (const stroke of strokes) {
        const points = stroke.map(([x, y]) => [{ x: box.x + x * box.width, y: box.y + y * box.height }]);
        await send('touchStart', points[0]);
        for (const point of points.slice(1)) await send('touchMove', point);
        await send('touchEnd', []);
    }
}

// A GPU of software that may claim locked arithmetic.
const patient = !all && 'minutes; LOCKSTEP_WEB=all runs it';
describe('both devices, over lavapipe 25', { skip: why('lavapipe25') }, () => {
    test('the same bits for ten digits; a lost GPU is survived', async (t) => {
        const known = labels(), first = Array.from({ length: 10 }, (_, digit) => known.indexOf(digit));
        const { page, said, close } = await open('lavapipe25', { random: first.map((index) => (index + 0.5) / known.length) });
        await choose(page, 'device', 'both');
        const hashes = new Set();
        for (let digit = 0; digit < 10; digit++) {
            await settled(page, () => page.click('#random'));
            await page.waitForSelector('.verdict.same', { timeout: 300000 });
            assert.equal(await answer(page), String(digit));
            assert.deepEqual(await column(page, 'a'), (await column(page, 'b')).filter((_, i) => i % 2 === 0));
            const both = (await page.$$eval('#facts .hash', (nodes) => nodes.map((node) => node.textContent)));
            assert.equal(both[0], both[1]);
            hashes.add(both[0]);
        }
        assert.equal(hashes.size, 10);
        assert.match(await text(page, '#difference'), /^0 /);
        t.diagnostic((await text(page, '#facts')).replace(/[0-9a-f]{64}/g, ' '));
        await page.screenshot({ path: join(pictures, 'desktop-light-both.png'), fullPage: true });

        const session = await (await browsers.lavapipe25).newBrowserCDPSession();
        await session.send('Browser.crashGpuProcess');
        await settled(page, () => draw(page, DRAWN[5]));
        await page.waitForFunction(() => /went away/.test(document.getElementById('device-words').textContent), null, { timeout: 60000 });
        assert.equal(await answer(page), '5');
        await page.click('#device-words button');
        await page.waitForSelector('.verdict.same', { timeout: 300000 });
        assert.deepEqual(said, []);
        await close();
    });

    test('training on the GPU gives the bits of the CPU', { skip: patient }, async () => {
        const { page, said, close } = await open('lavapipe25', { hash: '#train' }), hashes = [];
        for (const device of ['cpu', 'webgpu']) {
            await choose(page, 'train-device', device);
            await page.fill('#batch', '16');
            await page.fill('#steps', '5');
            await page.click('#train-go');
            await page.waitForSelector('#train-proof:not([hidden])', { timeout: 600000 });
            hashes.push(await text(page, '#train-hash'));
            await page.click('#train-reset');
        }
        assert.equal(hashes[0], hashes[1]);
        assert.deepEqual(said, []);
        await close();
    });

    test('a GPU that gets an operation wrong is refused by name, and the CPU computes', async (t) => {
        const { page, said, close } = await open('lavapipe25', { prepare: (context) => context.route('**/lockstep/webgpu.js', async (route) => {
            const body = await (await route.fetch()).text();
            await route.fulfill({ contentType: 'text/javascript', body: `${body}
                const make = GPUDevice.prototype.createShaderModule;
                GPUDevice.prototype.createShaderModule = function (what) {
                    return make.call(this, { ...what, code: what.code.replaceAll(' ^ ', ' | ') });
                };` });
        }) });
        await choose(page, 'device', 'both');
        await page.waitForFunction(() => /may not claim locked/.test(document.getElementById('device-words').textContent), null, { timeout: 100000 });
        const words = await text(page, '#device-words');
        t.diagnostic(words);
        assert.match(words, /probe came out wrong: .* gives \w+, not \w+/);
        await settled(page, () => draw(page, DRAWN[8]));
        assert.equal(await answer(page), '8');
        assert.deepEqual(said, []);
        await close();
    });

    test('the planted fault is caught on the GPU', async () => {
        const { page, said, close } = await open('lavapipe25', { hash: '#check' });
        await page.locator('.switch').click();
        await page.click('#check-go');
        await page.waitForSelector('#report-buttons:not([hidden])', { timeout: 600000 });
        assert.match(await text(page, '#check-words'), /^Caught: 0/);
        assert.match(await text(page, '#cases tr.failed .detail'), /^webgpu.*got 0/);
        assert.deepEqual(said, []);
        await close();
    });
});

describe('both devices, over SwiftShader', { skip: why('swiftshader') || patient }, () => {
    test('the same bits, or locked arithmetic is refused with the reason; fast lies inside its bound', async (t) => {
        const { page, said, close } = await open('swiftshader');
        await settled(page, () => draw(page, DRAWN[6]));
        await choose(page, 'device', 'both');
        await page.waitForFunction(() => /may not claim locked/.test(document.getElementById('device-words').textContent)
            || document.querySelector('.verdict.same, .verdict.differs'), null, { timeout: 300000 });
        t.diagnostic(await text(page, '#verdict') || await text(page, '#device-words'));
        assert.ok(!await page.isVisible('.verdict.differs'));
        assert.equal(await answer(page), '6');
        await choose(page, 'math', 'fast');
        await page.waitForFunction(() => /by the oracle/.test(document.getElementById('difference')?.textContent), null, { timeout: 300000 });
        t.diagnostic(`${await text(page, '#verdict')} ${await text(page, '#difference')}`);
        assert.ok(await page.isVisible('.verdict.within, .verdict.same'));
        assert.equal(await answer(page), '6');
        assert.deepEqual(said, []);
        await close();
    });
});

describe('the look', { skip: why('swiftshader') }, () => {
    for (const [name, width, height, scale] of [['desktop', 1280, 860, 1], ['phone', 360, 780, 2]]) {
        for (const scheme of ['light', 'dark']) {
            test(`${name}, ${scheme}`, async () => {
                const { page, said, close } = await open('swiftshader', { width, height, scheme, scale });
                await settled(page, () => (name === 'phone' ? touch : draw)(page, DRAWN[2]));
                assert.equal(await answer(page), '2');
                for (const tab of ['draw', 'train', 'check']) {
                    await page.click(`#tab-${tab}`);
                    await page.waitForSelector(`#${tab}:not([hidden])`);
                    if (tab === 'train') await page.waitForSelector('#plot canvas');
                    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
                    assert.ok(wide <= width, `${tab}: ${wide} pixels wide`);
                    await page.screenshot({ path: join(pictures, `${name}-${scheme}-${tab}.png`), fullPage: true });
                }
                assert.deepEqual(said, []);
                await close();
            });
        }
    }
});
