// Runs reactor.wasm on the page's WebGPU, in a worker: opening, certification, goldens, a network, a loss.
import { WebGPU } from '/web/webgpu.js';

const AGAIN = 13; // LS_ERR_AGAIN
const DEVICE = 4, UNSUPPORTED = 8, RANGE = 10;

/** What a WASI module asks of a system: a clock and random bytes; no files, no environment; what it prints is kept. */
function wasi(module, memory, printed) {
    const known = {
        clock_time_get(id, precision, out) {
            new DataView(memory().buffer).setBigUint64(out, BigInt(Math.round(performance.now() * 1e6)), true);
            return 0;
        },
        random_get(at, size) { crypto.getRandomValues(new Uint8Array(memory().buffer, at, size)); return 0; },
        environ_sizes_get(count, size) {
            const view = new DataView(memory().buffer);
            view.setUint32(count, 0, true);
            view.setUint32(size, 0, true);
            return 0;
        },
        environ_get: () => 0,
        fd_write(fd, at, count, out) {
            const view = new DataView(memory().buffer);
            let size = 0;
            for (let i = 0; i < count; i++) {
                const [from, length] = [view.getUint32(at + 8 * i, true), view.getUint32(at + 8 * i + 4, true)];
                printed.push(new TextDecoder().decode(new Uint8Array(memory().buffer, from, length)));
                size += length;
            }
            view.setUint32(out, size, true);
            return 0;
        },
        proc_exit(code) { throw new Error(`the module exits with ${code}`); },
    };
    const wanted = WebAssembly.Module.imports(module).filter((i) => i.module === 'wasi_snapshot_preview1');
    return Object.fromEntries(wanted.map(({ name }) => [name, known[name] ?? (() => 8)])); // EBADF
}

self.onmessage = async ({ data: { goldens, rows, museum, only, infer, steps, losses } }) => {
    const printed = [], out = { failures: [], lines: [], ms: {}, differs: {}, cases: [0, 0] };
    try {
        const gpu = new WebGPU();
        const module = await WebAssembly.compileStreaming(fetch('/build/tests/web/reactor.wasm'));
        let instance = null;
        const memory = () => instance.exports.memory;
        instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi(module, memory, printed), lockstep: gpu.imports });
        gpu.attach(memory());
        const { exports } = instance;
        exports._initialize?.();
        const text = () => {
            const bytes = new Uint8Array(memory().buffer, exports.t_text());
            return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
        };
        async function call(name, ...args) {
            const start = performance.now();
            let status, rounds = 0;
            while ((status = exports[name](...args)) === AGAIN) {
                rounds++;
                const asked = performance.now();
                await gpu.answers();
                console.debug(`${name} ${args}: again, waited ${(performance.now() - asked).toFixed(0)} ms, ${(asked - start).toFixed(0)} in all`);
            }
            const key = `${name.slice(2)}${args.length ? ' ' + args : ''}`;
            const line = `${key}: ${status} in ${(out.ms[key] = performance.now() - start).toFixed(0)} ms, ${rounds} rounds: ${text()}`;
            out.lines.push(line);
            console.debug(line);
            return status;
        }
        out.info = await gpu.requestDevice();
        if (await call('t_open') !== 0) throw new Error(text());
        out.certified = await call('t_certify') === 0;
        out.why = text();
        for (const i of goldens === 'all' ? Array(exports.t_goldens()).keys() : goldens ?? []) {
            const status = await call('t_golden', i);
            if (status !== 0 && status !== UNSUPPORTED) out.failures.push(`golden ${i}: ${status}: ${text()}`);
        }
        out.rows = { right: 0, skipped: 0 };
        for (let row = rows?.[0]; row < rows?.[1]; row++) {
            const status = await call('t_row', row);
            if (status === UNSUPPORTED) out.rows.skipped++;
            else if (status === 0) out.rows.right++;
            else out.failures.push(`row ${row}: ${status}: ${text()}`);
        }
        for (const planted of museum ?? []) {
            for (let number = only ?? 0; number <= (only ?? Infinity); number++) {
                const status = await call('t_museum', number, planted);
                if (status === RANGE) break;
                out.cases[planted]++;
                if (status !== 0 && status !== UNSUPPORTED) out.failures.push(`museum ${number} ${planted}: ${status}: ${text()}`);
            }
        }
        for (const which of infer ?? []) {
            for (let i = 0; i < 3; i++) {
                if (await call('t_infer', which) !== 0) out.failures.push(text());
            }
            out.differs[which] = exports.t_difference(which);
        }
        if (steps) {
            if (await call('t_train_open') !== 0) throw new Error(text());
            for (let i = 0; i < steps; i++) {
                if (await call('t_train_step') !== 0) throw new Error(text());
                if (i === 2) {
                    if (await call('t_train_hash') !== 0) throw new Error(text());
                    out.trained = text();
                    await gpu.answers();
                    out.before = gpu.counts;
                }
            }
            await gpu.answers();
            out.after = gpu.counts;
        }
        for (const loss of losses ?? []) {
            if (loss === 'crash') {
                postMessage('crash');
                while (gpu.info) await new Promise((resolve) => setTimeout(resolve, 10));
            } else {
                exports.t_lose();
            }
            for (const [name, ...args] of [['t_golden', 0], ['t_infer', 2], ['t_open']]) {
                const status = await call(name, ...args);
                if (status !== (name === 't_open' ? 0 : DEVICE)) out.failures.push(`${name} on a lost device (${loss}): ${status}: ${text()}`);
            }
            exports.t_close();
            if (await call('t_open') !== DEVICE) out.failures.push('a lost device was opened');
            out.lost = text();
            exports.t_close();
            if (!await gpu.requestDevice()) out.failures.push(`after ${loss}: ${gpu.reason}`);
            else if (await call('t_open') !== 0 || await call('t_golden', 2) !== 0) out.failures.push(`after ${loss}: ${text()}`);
        }
        exports.t_close();
        await gpu.answers();
        out.left = gpu.counts; // nothing but what never settled
    } catch (error) {
        out.failures.push(error.stack);
    }
    out.printed = printed.join('');
    postMessage(out);
};
