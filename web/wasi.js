// The little of WASI that the library's C library asks for: a clock, random bytes, an empty environment, no files. What is printed
// goes to the console.

const SUCCESS = 0, BADF = 8, NOSYS = 52;

/** What proc_exit throws: the instance has ended. */
export class Exit extends Error {
    constructor(code) {
        super(`the instance ended with code ${code}`);
        this.name = 'Exit';
        this.code = code;
    }
}

/** The imports of "wasi_snapshot_preview1"; `memory()` gives the instance's memory. */
export function wasiImports(module, memory) {
    const decoder = new TextDecoder();
    const lines = ['', '', ''];
    const view = () => new DataView(memory().buffer);

    const known = {
        clock_res_get(clock, at) {
            view().setBigUint64(at, 1000n, true);
            return SUCCESS;
        },
        clock_time_get(clock, precision, at) { // 0 is the time of day; the others only rise
            const ms = clock === 0 ? Date.now() : performance.now();
            view().setBigUint64(at, BigInt(Math.round(ms * 1e6)), true);
            return SUCCESS;
        },
        environ_sizes_get(count, size) {
            view().setUint32(count, 0, true);
            view().setUint32(size, 0, true);
            return SUCCESS;
        },
        environ_get: () => SUCCESS,
        random_get(at, size) {
            for (let done = 0; done < size; done += 65536) { // the most that one call gives
                crypto.getRandomValues(new Uint8Array(memory().buffer, at + done, Math.min(65536, size - done)));
            }
            return SUCCESS;
        },
        fd_write(fd, vectors, count, out) {
            if (fd !== 1 && fd !== 2) return BADF;
            const v = view();
            let size = 0;
            for (let i = 0; i < count; i++) {
                const at = v.getUint32(vectors + 8 * i, true), length = v.getUint32(vectors + 8 * i + 4, true);
                lines[fd] += decoder.decode(new Uint8Array(memory().buffer, at, length));
                size += length;
            }
            for (let end = lines[fd].indexOf('\n'); end >= 0; end = lines[fd].indexOf('\n')) {
                console[fd === 1 ? 'log' : 'error'](lines[fd].slice(0, end));
                lines[fd] = lines[fd].slice(end + 1);
            }
            v.setUint32(out, size, true);
            return SUCCESS;
        },
        fd_close: () => BADF,
        fd_seek: () => BADF,
        fd_fdstat_get: () => BADF,
        fd_prestat_get: () => BADF, // there are no folders
        sched_yield: () => SUCCESS,
        proc_exit(code) {
            throw new Exit(code);
        },
    };
    const imports = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
        if (from === 'wasi_snapshot_preview1') imports[name] = known[name] ?? (() => NOSYS);
    }
    return imports;
}
