// What openWakeWord's networks get of a recording: `clip.mjs sound IN.wav OUT.npy` makes the samples at 16 kHz (of 16-bit PCM at 48 kHz, one
// channel), f32 [1, samples] in the range of i16; `clip.mjs window MEL.npy OUT.npy` the first 76 frames of a spectrogram, x/10 + 2, f32 [1, 76, 32, 1].
import { readFileSync, writeFileSync } from 'node:fs';
import { readArray, writeArray } from '../../tools/peers/npz.mjs';

const [what, from, to] = process.argv.slice(2);
const file = readFileSync(from);
if (what === 'sound') {
    const start = file.indexOf('data') + 8, at = (i) => file.readInt16LE(start + 2 * i);
    if (file.readUInt32LE(24) !== 48000 || file.readUInt16LE(22) !== 1 || file.readUInt16LE(34) !== 16) throw new Error(`${from}: expected 48 kHz, one channel, 16 bits`);
    const n = Math.floor(((file.length - start) / 2 - 4) / 3), data = new Float32Array(n);
    for (let i = 0; i < n; i++) data[i] = (at(3 * i) + 2 * at(3 * i + 1) + 3 * at(3 * i + 2) + 2 * at(3 * i + 3) + at(3 * i + 4)) / 9;
    writeFileSync(to, writeArray({ type: 'float32', dims: [1, n], data }));
} else {
    const mel = readArray(file, from), frames = mel.dims[mel.dims.length - 2];
    if (frames < 76) throw new Error(`${from}: ${frames} frames, expected 76`);
    writeFileSync(to, writeArray({ type: 'float32', dims: [1, 76, 32, 1], data: mel.data.slice(0, 76 * 32).map((x) => x / 10 + 2) }));
}
