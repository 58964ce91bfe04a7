// Serves a folder on 127.0.0.1: `node web/serve.mjs [FOLDER [PORT]]`, for trying the page; any server of files will do.

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPES = {
    '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.mjs': 'text/javascript; charset=utf-8',
    '.css': 'text/css; charset=utf-8', '.json': 'application/json', '.svg': 'image/svg+xml', '.wasm': 'application/wasm',
};

async function answer(folder, request, response) {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://here').pathname));
    const file = join(folder, path.endsWith('/') ? `${path}index.html` : path);
    const found = await stat(file).catch(() => null);
    if (!found?.isFile() || !['GET', 'HEAD'].includes(request.method)) {
        response.writeHead(found ? 405 : 404).end();
        return;
    }
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-length': found.size, 'cache-control': 'no-cache' });
    if (request.method === 'HEAD') response.end();
    else createReadStream(file).pipe(response);
}

// Gives the server and its address; port 0 takes any that is free.
export function serve(folder, port = 0) {
    const server = createServer((request, response) => {
        answer(folder, request, response).catch(() => response.writeHead(400).end());
    });
    return new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, '127.0.0.1', () => resolve({ server, address: `http://127.0.0.1:${server.address().port}/` }));
    });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    const folder = process.argv[2] ?? fileURLToPath(new URL('../build/web/site', import.meta.url)), port = Number(process.argv[3] ?? 8080);
    const { address } = await serve(folder, port).catch((error) => (error.code === 'EADDRINUSE' ? serve(folder, 0) : Promise.reject(error)));
    console.log(address);
}
