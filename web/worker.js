// An engine in a worker: of a page, or of Node. A message is a request {id, method, args}; its answer {id, result} or {id, error}.
// The first one, {id, wasm}, makes the engine.

import { Engine } from './engine.js';

let engine = null;

/** What is moved instead of copied. */
const buffers = (result) => Object.values(result ?? {}).concat(result).filter(ArrayBuffer.isView).map((view) => view.buffer);

async function answer(port, { id, wasm, method, args }) {
    try {
        if (wasm) engine = await Engine.create(wasm);
        const result = wasm ? null : await engine.request(method, args);
        port.postMessage({ id, result }, [...new Set(buffers(result))]);
    } catch (error) {
        port.postMessage({ id, error: { code: error.code ?? 'internal', message: error.message } });
    }
}

if (globalThis.WorkerGlobalScope) {
    globalThis.onmessage = (event) => answer(globalThis, event.data);
} else {
    import('node:worker_threads').then(({ parentPort }) => parentPort.on('message', (data) => answer(parentPort, data)));
}
