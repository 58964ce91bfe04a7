// Debian's Chromium for tests: `launch(driver)` opens it headless on a WebGPU driver, `serve(folders)` gives it files on 127.0.0.1.
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { extname, join, normalize, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = resolve(fileURLToPath(import.meta.url), '../../..');

/** Flags and environment of each driver that WebGPU can have there (docs/devices.md). */
const preload = join(root, 'build/browser/liblavapipe.so'), lavapipe = join(root, 'build/drivers/lavapipe25/libvulkan_lvp.so');
export const drivers = {
    swiftshader: { args: ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'], env: {} },
    lavapipe25: { // tests/web/lavapipe.c; the second flag for its name to be told
        args: ['--enable-unsafe-webgpu', '--enable-webgpu-developer-features', '--use-webgpu-adapter=swiftshader'],
        env: { LD_PRELOAD: preload, LAVAPIPE: lavapipe },
        missing: () => (existsSync(preload) && existsSync(lavapipe) ? '' : 'no lavapipe 25; run tools/drivers.sh, then tools/browser.sh'),
    },
    none: { args: ['--disable-gpu', '--disable-software-rasterizer'], env: {} },
};

/** Why the browser tests cannot run here, or ''. */
export function missing(driver = 'swiftshader') {
    if (!existsSync('/usr/bin/chromium')) return 'no Chromium; run tools/deps.sh web';
    if (!existsSync(join(root, 'build/browser/node_modules/playwright-core'))) return 'no playwright-core; run tools/browser.sh';
    return drivers[driver].missing?.() ?? '';
}

export async function launch(driver = 'swiftshader', args = []) {
    const { chromium } = createRequire(join(root, 'build/browser/'))('playwright-core');
    const chosen = drivers[driver];
    return chromium.launch({
        executablePath: '/usr/bin/chromium',
        args: ['--no-sandbox', ...chosen.args, ...args],
        env: { ...process.env, ...chosen.env },
    });
}

const types = {
    '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
    '.wasm': 'application/wasm', '.svg': 'image/svg+xml', '.png': 'image/png',
};

/** Serves folders, { '/web/': 'web', '/': 'build/web' } say, relative to the root; the first prefix that fits counts. */
export async function serve(folders) {
    const server = createServer((request, response) => {
        const path = decodeURIComponent(new URL(request.url, 'http://x').pathname);
        const prefix = Object.keys(folders).find((p) => path.startsWith(p));
        const folder = prefix && resolve(root, folders[prefix]);
        const file = folder && join(folder, normalize(path.slice(prefix.length)));
        if (!file || !file.startsWith(folder) || !existsSync(file) || !statSync(file).isFile()) {
            response.writeHead(path === '/favicon.ico' ? 204 : 404).end();
            return;
        }
        response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream', 'cache-control': 'no-store' });
        createReadStream(file).pipe(response);
    });
    await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
    return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/**
 * What a worker of tests/web answers in a Chromium of the driver, and what the console said. A worker that posts 'crash' has
 * the process with the GPU crash.
 */
export async function inWorker(driver, script, message = {}) {
    const server = await serve({ '/web/': 'web', '/tests/': 'tests/web', '/build/': 'build/web' });
    const browser = await launch(driver);
    const said = [];
    try {
        const page = await browser.newPage();
        page.on('console', (m) => {
            if (['error', 'warning'].includes(m.type())) said.push(m.text());
            else if (process.env.LOCKSTEP_LOG) console.log(m.text());
        });
        page.on('pageerror', (error) => said.push(error.stack));
        await page.exposeFunction('crash', async () => {
            const session = await browser.newBrowserCDPSession();
            await session.send('Browser.crashGpuProcess');
        });
        await page.goto(`${server.url}/tests/empty.html`);
        const answer = await page.evaluate(([url, data]) => new Promise((resolve) => {
            const worker = new Worker(url, { type: 'module' });
            worker.onmessage = (event) => (event.data === 'crash' ? globalThis.crash() : resolve(event.data));
            worker.onerror = (event) => resolve({ failures: [event.message ?? 'the worker did not load'] });
            worker.postMessage(data);
        }), [`/tests/${script}`, message]);
        return { ...answer, said };
    } finally {
        await browser.close();
        server.close();
    }
}
