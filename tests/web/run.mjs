// node run.mjs PROGRAM.wasm [ARGUMENT...]: runs a WASI command with this process's environment, the working folder as "." and the
// temporary folder as "/tmp", and exits as it does.
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { WASI } from 'node:wasi';

const [, , program, ...args] = process.argv;
const wasi = new WASI({
    version: 'preview1', args: [program, ...args], env: process.env, preopens: { '.': process.cwd(), '/tmp': tmpdir() }, returnOnExit: true,
});
// Node 20 crashes when optimised code calls its WASI functions directly, so they are wrapped.
const calls = Object.fromEntries(Object.entries(wasi.wasiImport).map(([name, f]) => [name, (...a) => f(...a)]));
const { instance } = await WebAssembly.instantiate(await readFile(program), { wasi_snapshot_preview1: calls });
process.exitCode = wasi.start(instance);
