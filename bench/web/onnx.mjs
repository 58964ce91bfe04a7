// Writes the network mnist:cnn with given weights as an ONNX model (opset 13), and reads safetensors: just enough for the benchmark.

const encoder = new TextEncoder();

// ---- protocol buffers: a message is a list of pieces ----

function varint(value) {
    const out = [];
    for (let n = BigInt.asUintN(64, BigInt(value)); ; n >>= 7n) {
        out.push(Number(n & 127n) | (n > 127n ? 128 : 0));
        if (n <= 127n) return Uint8Array.from(out);
    }
}
const join = (pieces) => {
    const out = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    pieces.reduce((at, piece) => (out.set(piece, at), at + piece.length), 0);
    return out;
};
const number = (field, value) => join([varint(field << 3), varint(value)]);
const bytes = (field, value) => join([varint((field << 3) | 2), varint(value.length), value]);
const text = (field, value) => bytes(field, encoder.encode(value));
const message = (field, ...pieces) => bytes(field, join(pieces));

// ---- ONNX: the numbers of the fields are onnx.proto's ----

const FLOAT = 1, INTS = 7, INT = 2;
const attribute = (name, value) => (Array.isArray(value)
    ? message(5, text(1, name), ...value.map((v) => number(8, v)), number(20, INTS))
    : message(5, text(1, name), number(3, value), number(20, INT)));
const node = (op, inputs, output, attributes = {}) => message(1, ...inputs.map((name) => text(1, name)), text(2, output), text(4, op),
    ...Object.entries(attributes).map(([name, value]) => attribute(name, value)));
const tensor = (name, { shape, data }) => message(5, ...shape.map((n) => number(1, n)), number(2, FLOAT), text(8, name), bytes(9, data));
const port = (field, name, shape) => message(field, text(1, name), message(2, message(1, number(1, FLOAT),
    message(2, ...shape.map((n) => (typeof n === 'string' ? message(1, text(2, n)) : message(1, number(1, n))))))));

export function mnistCnn(weights) {
    const layer = (name) => [`${name}.weight`, `${name}.bias`];
    const conv = { kernel_shape: [3, 3] }, gemm = { transB: 1 };
    const graph = message(7,
        node('Conv', ['images', ...layer('conv1')], 'a', conv), node('Relu', ['a'], 'b'),
        node('Conv', ['b', ...layer('conv2')], 'c', conv), node('Relu', ['c'], 'd'),
        node('MaxPool', ['d'], 'e', { kernel_shape: [2, 2], strides: [2, 2] }), node('Flatten', ['e'], 'f'),
        node('Gemm', ['f', ...layer('fc1')], 'g', gemm), node('Relu', ['g'], 'h'),
        node('Gemm', ['h', ...layer('fc2')], 'logits', gemm),
        text(2, 'mnist'), ...Object.entries(weights).map(([name, value]) => tensor(name, value)),
        port(11, 'images', ['batch', 1, 28, 28]), port(12, 'logits', ['batch', 10]));
    return join([number(1, 7), graph, message(8, number(2, 13))]);
}

/** The arrays of a safetensors file: { name: { shape, data } }, data being bytes. */
export function readSafetensors(file) {
    const size = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + size)));
    delete header.__metadata__;
    return Object.fromEntries(Object.entries(header).map(([name, { shape, data_offsets: [begin, end] }]) =>
        [name, { shape, data: file.subarray(8 + size + begin, 8 + size + end) }]));
}
