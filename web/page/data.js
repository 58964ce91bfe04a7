// The digits and the weights that came with the page. The digits are in the IDX files of MNIST, gzipped.

import { PIXELS } from './digit.js';

const kept = new Map();

async function get(path) {
    const response = await fetch(new URL(path, import.meta.url));
    if (!response.ok) throw new Error(`${path}: the server answers ${response.status} ${response.statusText}`);
    return response;
}

async function unzip(path) {
    const response = await get(path);
    return new Uint8Array(await new Response(response.body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer());
}

function once(key, make) {
    if (!kept.has(key)) {
        const made = make();
        made.catch(() => kept.delete(key)); // the next one tries again
        kept.set(key, made);
    }
    return kept.get(key);
}

// The bytes behind the header of an IDX file of u8.
function idx(bytes, path) {
    const view = new DataView(bytes.buffer), rank = bytes[3];
    let count = 1;
    for (let i = 0; i < rank; i++) count *= view.getUint32(4 + 4 * i);
    const start = 4 + 4 * rank;
    if (view.getUint16(0) !== 0 || bytes[2] !== 8 || bytes.length !== start + count) throw new Error(`${path}: not an IDX file of bytes`);
    return bytes.subarray(start);
}

// part: 't10k', 1,000 digits to test with, or 'train', 9,000. Gives {images, labels, count}.
export function digits(part) {
    return once(part, async () => {
        const paths = [`data/${part}-images-idx3-ubyte.gz`, `data/${part}-labels-idx1-ubyte.gz`];
        const [images, labels] = (await Promise.all(paths.map(unzip))).map((bytes, i) => idx(bytes, paths[i]));
        if (images.length !== labels.length * PIXELS) throw new Error(`${paths[0]}: not as many images as labels`);
        return { images, labels, count: labels.length };
    });
}

export const image = (set, index) => set.images.subarray(index * PIXELS, (index + 1) * PIXELS);

// 'mnist:small' or 'mnist:cnn': the safetensors file of its weights.
export function weights(network) {
    return once(network, async () => new Uint8Array(await (await get(`weights/${network.replace(':', '-')}.safetensors`)).arrayBuffer()));
}
