// verify.test.mjs LOCKSTEP WRITE_MODELS: the page of lockstep verify --html in Debian's Chromium. Screenshots go to build/verify.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launch, missing, root } from './chromium.mjs';

const [lockstep, writeModels] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'lockstep-verify-')), pictures = join(root, 'build/verify');
mkdirSync(pictures, { recursive: true });

function verify(name, ...args) {
    const page = join(folder, `${name}.html`), json = join(folder, `${name}.json`);
    const run = spawnSync(lockstep, ['verify', ...args, '--html', page, '--json', json], { cwd: folder, encoding: 'utf8' });
    return { page, code: run.status, said: run.stdout + run.stderr, report: () => JSON.parse(readFileSync(json, 'utf8')) };
}

let browser, tab, said = [];
async function open(page, { scheme = 'light', picture } = {}) { // one tab for all
    browser ??= await launch('none');
    if (!tab) {
        tab = await (await browser.newContext({ viewport: { width: 1280, height: 900 }, offline: true })).newPage();
        tab.on('console', (message) => said.push(message.text()));
        tab.on('pageerror', (error) => said.push(error.stack));
        tab.on('request', (request) => { if (!request.url().startsWith('file:')) said.push(`asked for ${request.url()}`); });
    }
    said = [];
    await tab.emulateMedia({ colorScheme: scheme });
    await tab.goto(`file://${page}`);
    await tab.waitForSelector('#details h2');
    if (picture) await tab.screenshot({ path: join(pictures, `${picture}.png`), fullPage: true });
    return { tab, said };
}
const colour = (tab, selector) => tab.$eval(selector, (e) => getComputedStyle(e).fill);
const names = (tab) => tab.$$eval('#kernels tbody .name', (list) => list.map((e) => e.textContent));

describe('the page of lockstep verify', { skip: missing('none') || false }, () => {
    before(() => { assert.equal(spawnSync(writeModels, ['.'], { cwd: folder }).status, 0); });
    after(async () => { await browser?.close(); rmSync(folder, { recursive: true }); });

    test('a right network, light and dark', async () => {
        const v = verify('right', 'mnist:small', '--devices', 'cpu,ref');
        assert.equal(v.code, 0, v.said);
        const grounds = [];
        for (const scheme of ['light', 'dark']) {
            const { tab, said } = await open(v.page, { scheme, picture: `right-${scheme}` });
            const [cpu, ref] = v.report().devices.map((d) => d.by_kernel.map((k) => `${k.kernel} ${k.node}`));
            const n = cpu.length, either = new Set([...cpu, ...ref]).size; // `cpu` fuses what comes before a pooling into the convolution
            assert.equal(await tab.textContent('#verdict'), 'Right, bit for bit');
            assert.equal((await names(tab)).length, either);
            assert.equal(await tab.locator('#graph .node:not(.port)').count(), n);
            assert.equal(await tab.getByText('fused otherwise').count(), 2 * either - cpu.length - ref.length);
            assert.equal(await tab.locator('#graph .wrong').count(), 0);
            assert.deepEqual(await tab.$$eval('#graph .port text', (list) => list.map((e) => e.textContent)), ['images', 'logits']);
            assert.ok(await tab.locator('#graph .edge').count() >= n);
            assert.equal(await tab.locator('#kernels .mini').count(), 2 * n);
            assert.equal(await tab.textContent('#outputs tbody tr:last-child td:last-child'), 'same bits as cpu');
            grounds.push(await tab.$eval('body', (e) => getComputedStyle(e).backgroundColor));
            assert.deepEqual(said, []);
        }
        assert.notEqual(...grounds);
    });

    test('a fault: what is wrong is red, chosen, and alone', async () => {
        const v = verify('planted', 'mnist:small', '--devices', 'cpu,ref', '--plant', 'reduced-along-another-axis');
        assert.equal(v.code, 1, v.said);
        const report = v.report(), wrong = report.devices[0].by_kernel.filter((k) => k.ref.verdict === 'differs');
        assert.ok(wrong.length > 0 && wrong.length < report.devices[0].kernels, v.said);
        for (const scheme of ['light', 'dark']) {
            const { tab, said } = await open(v.page, { scheme, picture: `planted-${scheme}` });
            assert.match(await tab.textContent('#verdict'), new RegExp(`^${wrong.length} kernels? wrong$`));
            assert.equal(await tab.locator('#graph .wrong').count(), wrong.length);
            assert.notEqual(await colour(tab, '#graph .wrong rect'), await colour(tab, '#graph .node:not(.wrong):not(.port) rect'));
            assert.equal(await tab.textContent('#details h2'), wrong[0].node);
            assert.match(await tab.textContent('#details .why'), /elements differ, first at \[/);
            assert.ok(await tab.locator('#details .histogram .beyond').count() > 0);
            assert.equal(await tab.$eval('#details .histogram .beyond', (e) => getComputedStyle(e).fill), await colour(tab, '#graph .wrong rect'));
            await tab.selectOption('#which', 'wrong');
            assert.deepEqual(await names(tab), wrong.map((k) => k.node));
            await tab.locator('#choose label', { hasText: 'ref' }).click();
            assert.equal(await tab.locator('#graph .wrong').count(), 0);
            assert.deepEqual(said, []);
        }
    });

    test('sorting, filtering, choosing by hand and by keys', async () => {
        const v = verify('small', 'mnist:small', '--devices', 'cpu');
        const { tab, said } = await open(v.page);
        const kernels = v.report().devices[0].by_kernel, all = kernels.map((k) => k.node);
        assert.deepEqual(await names(tab), all);
        await tab.locator('#kernels th button', { hasText: 'Of the bound' }).click();
        assert.deepEqual(await names(tab), [...kernels].sort((a, b) => b.oracle.worst_of_bound - a.oracle.worst_of_bound || a.number - b.number).map((k) => k.node));
        assert.equal(await tab.getAttribute('#kernels th[aria-sort]', 'aria-sort'), 'descending');
        await tab.fill('#filter', 'CONTRACT');
        assert.deepEqual((await names(tab)).sort(), kernels.filter((k) => k.operations.includes('contract')).map((k) => k.node).sort());
        await tab.fill('#filter', '');
        await tab.locator('#kernels tbody tr', { hasText: all[1] }).click();
        assert.equal(await tab.textContent('#details h2'), all[1]);
        await tab.locator('#graph .node.on').focus();
        await tab.keyboard.press('ArrowDown');
        assert.equal(await tab.textContent('#details h2'), kernels.find((k) => k.reads.some((r) => r.kernel === 1)).node);
        const view = () => tab.getAttribute('#graph', 'viewBox').then((text) => text.split(' ').map(Number));
        const [, , wide] = await view();
        await tab.click('#in');
        assert.ok((await view())[2] < wide);
        const box = await tab.locator('#graph').boundingBox(), [x0] = await view();
        await tab.mouse.move(box.x + 30, box.y + 60);
        await tab.mouse.down();
        await tab.mouse.move(box.x + 130, box.y + 60, { steps: 4 });
        await tab.mouse.up();
        assert.ok((await view())[0] < x0);
        await tab.click('#fit');
        assert.deepEqual(said, []);
    });

    test('names that are markup stay names', async () => {
        const v = verify('markup', 'markup.onnx', '--dim', 'n=2');
        assert.equal(v.code, 0, v.said);
        const { tab, said } = await open(v.page, { picture: 'markup' });
        const name = '</script><script>document.title=\'taken\'</script><!--"\'&amp;\\u003c';
        assert.equal(await tab.textContent('#details h2'), name);
        assert.deepEqual(await tab.$$eval('#graph .port title', (list) => list.map((e) => e.textContent)), ['x"><img src=x onerror="document.title=\'taken\'">', 'b', '<!--<script>out']);
        assert.equal(await tab.locator('img').count(), 0);
        assert.match(await tab.title(), /^markup\.onnx/);
        assert.deepEqual(said, []);
    });

    test('600 kernels stay usable', async () => {
        const v = verify('large', 'mnist:small', '--devices', 'cpu'), html = readFileSync(v.page, 'utf8'), report = v.report();
        const one = report.devices[0].by_kernel[0];
        report.devices[0].by_kernel = Array.from({ length: 600 }, (_, i) => ({ ...one, node: `add #${i}`, number: i,
            reads: [1, 2, 7, 40].filter((back) => i >= back && i % back < 2).map((back) => ({ kernel: i - back, name: '', type: one.type })) }));
        report.devices[0].outputs[0].kernel = 599;
        writeFileSync(v.page, html.replace(/(<script type="application\/json" id="data">)[^<]*/, (_, tag) => tag + JSON.stringify(report).replaceAll('<', '\\u003c')));
        const begin = Date.now(), { tab, said } = await open(v.page, { picture: 'large' }), took = Date.now() - begin;
        assert.equal(await tab.locator('#graph .node:not(.port)').count(), 600);
        assert.equal((await names(tab)).length, 600);
        const chose = await tab.evaluate(() => { const at = performance.now(); document.querySelectorAll('#kernels tbody tr')[300].click(); return performance.now() - at; });
        assert.equal(await tab.textContent('#details h2'), 'add #300');
        assert.ok(took < 20000 && chose < 1000, `opened in ${took} ms, chose in ${chose} ms`);
        const boxes = await tab.$$eval('#graph .node rect', (list) => list.map((e) => [e.x.baseVal.value, e.y.baseVal.value, e.width.baseVal.value, e.height.baseVal.value]));
        const inRow = Map.groupBy?.(boxes, (b) => b[1]) ?? boxes.reduce((m, b) => m.set(b[1], [...(m.get(b[1]) ?? []), b]), new Map());
        for (const row of inRow.values()) row.sort((a, b) => a[0] - b[0]).forEach((b, i) => assert.ok(i === 0 || b[0] >= row[i - 1][0] + row[i - 1][2], 'boxes overlap'));
        assert.deepEqual(said, []);
    });
});
