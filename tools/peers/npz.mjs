// Arrays (.npy) and archives of them (.npz) for the peers' adapters: {name: {type: "float32", dims: [2, 3], data: Float32Array}}. Types are ONNX's names.
import { readFileSync, writeFileSync } from 'node:fs';
import { inflateRawSync } from 'node:zlib';

const types = {
    float32: ['<f4', Float32Array], float64: ['<f8', Float64Array], float16: ['<f2', Uint16Array], int8: ['|i1', Int8Array], uint8: ['|u1', Uint8Array],
    int16: ['<i2', Int16Array], uint16: ['<u2', Uint16Array], int32: ['<i4', Int32Array], uint32: ['<u4', Uint32Array],
    int64: ['<i8', BigInt64Array], uint64: ['<u8', BigUint64Array], bool: ['|b1', Uint8Array],
};

export function readArray(bytes, name) {
    const long = bytes[6] > 1;
    const start = (long ? 12 : 10) + (long ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
    const header = bytes.subarray(0, start).toString('latin1');
    const descr = /'descr': *'([^']+)'/.exec(header)?.[1];
    const type = Object.keys(types).find((t) => types[t][0] === descr);
    if (!type || /'fortran_order': *True/.test(header)) throw new Error(`${name}: expected a row-major array of numbers, got ${descr}`);
    const dims = /'shape': *\(([^)]*)\)/.exec(header)[1].split(',').filter((d) => d.trim()).map(Number);
    const count = dims.reduce((a, b) => a * b, 1), Typed = types[type][1];
    const copy = new Uint8Array(count * Typed.BYTES_PER_ELEMENT); // aligned
    copy.set(bytes.subarray(start, start + copy.length));
    return { type, dims, data: new Typed(copy.buffer) };
}

export function readNpz(path) {
    const file = readFileSync(path), arrays = {};
    let at = file.lastIndexOf(Buffer.from('PK\x05\x06'));
    const n = file.readUInt16LE(at + 10);
    at = file.readUInt32LE(at + 16);
    for (let i = 0; i < n; i++) {
        const packed = file.readUInt16LE(at + 10), size = file.readUInt32LE(at + 20), nameSize = file.readUInt16LE(at + 28);
        const skip = file.readUInt16LE(at + 30) + file.readUInt16LE(at + 32), local = file.readUInt32LE(at + 42);
        const name = file.toString('utf8', at + 46, at + 46 + nameSize).replace(/\.npy$/, '');
        const first = local + 30 + file.readUInt16LE(local + 26) + file.readUInt16LE(local + 28), bytes = file.subarray(first, first + size);
        arrays[name] = readArray(packed ? inflateRawSync(bytes) : bytes, name);
        at += 46 + nameSize + skip;
    }
    return arrays;
}

const crcTable = Uint32Array.from({ length: 256 }, (_, i) => {
    for (let k = 0; k < 8; k++) i = i & 1 ? (i >>> 1) ^ 0xedb88320 : i >>> 1;
    return i;
});
function crc32(bytes) {
    let c = ~0;
    for (const b of bytes) c = crcTable[(c ^ b) & 255] ^ (c >>> 8);
    return ~c >>> 0;
}

export function writeArray({ type, dims, data }) {
    const shape = dims.length === 1 ? `${dims[0]},` : dims.join(', ');
    let header = `{'descr': '${types[type][0]}', 'fortran_order': False, 'shape': (${shape}), }`;
    header = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + '\n';
    const head = Buffer.alloc(10);
    head.write('\x93NUMPY\x01\x00', 'latin1');
    head.writeUInt16LE(header.length, 8);
    return Buffer.concat([head, Buffer.from(header, 'latin1'), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]);
}

export function writeNpz(path, arrays) {
    const parts = [], directory = [];
    let offset = 0;
    for (const [key, array] of Object.entries(arrays)) {
        const name = Buffer.from(`${key}.npy`), bytes = writeArray(array), common = Buffer.alloc(26);
        common.writeUInt16LE(20, 0);
        common.writeUInt32LE(crc32(bytes), 10);
        common.writeUInt32LE(bytes.length, 14);
        common.writeUInt32LE(bytes.length, 18);
        common.writeUInt16LE(name.length, 22);
        const end = Buffer.alloc(14);
        end.writeUInt32LE(offset, 10);
        parts.push(Buffer.from('PK\x03\x04'), common, name, bytes);
        directory.push(Buffer.from('PK\x01\x02\x14\x00'), common, end, name);
        offset += 30 + name.length + bytes.length;
    }
    const listed = Buffer.concat(directory), end = Buffer.alloc(22), n = Object.keys(arrays).length;
    end.write('PK\x05\x06', 'latin1');
    end.writeUInt16LE(n, 8);
    end.writeUInt16LE(n, 10);
    end.writeUInt32LE(listed.length, 12);
    end.writeUInt32LE(offset, 16);
    writeFileSync(path, Buffer.concat([...parts, listed, end]));
}
