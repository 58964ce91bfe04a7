// node order.mjs MODULE: puts the functions of a WebAssembly module into an order of which deflate, which sees 32 KB back, makes more:
// next comes the one that shares most with what was put last. Nothing else changes but their numbers. Which measure of sharing serves a module
// best is a matter of chance (some 0.1 %), so several are tried; what the order was decides ties (1 %), so the best of them are tried again from
// what came of that, and from the best order as long as that gains.
import { readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const SECTION = { import: 2, function: 3, export: 7, start: 8, element: 9, code: 10 };
const RUN = 6; // bytes that make a match worth while
const COMMON = [12, 15, 20, 25, 30]; // what so many functions have is in reach anyway
const MOST = Math.max(...COMMON);
const EXPONENTS = [0.7, 0.75, 0.8, 0.85]; // of a function's length: what it shares counts by that
const REACH = 30000;
const ROUNDS = 3, KEPT = 3; // so many measures after the first round: all six times would save 60 bytes of 340 kB, and take 40 s

class Reader {
    constructor(bytes, at) { this.bytes = bytes; this.at = at; }
    number() {
        for (let value = 0, scale = 1; ; scale *= 128) {
            const byte = this.bytes[this.at++];
            value += (byte & 127) * scale;
            if (byte < 128) return value;
        }
    }
    numbers(count) { while (count--) this.number(); }
    signed() { while (this.bytes[this.at++] & 128); }
}

function number(n) {
    const out = [];
    for (; n > 127; n = Math.floor(n / 128)) out.push(n % 128 + 128);
    return Uint8Array.from([...out, n]);
}

// Goes past what follows an opcode of one byte; `found` gets [from, to, function] of a call.
function operands(r, op, found) {
    if (op === 0x10 || op === 0xd2) { const from = r.at, index = r.number(); found.push([from, r.at, index]); }
    else if (op >= 0x02 && op <= 0x04 || op === 0x41 || op === 0x42 || op === 0xd0) r.signed();
    else if (op === 0x0c || op === 0x0d || op >= 0x20 && op <= 0x26) r.number();
    else if (op === 0x0e) r.numbers(r.number() + 1);
    else if (op === 0x11 || op >= 0x28 && op <= 0x3e) r.numbers(2);
    else if (op === 0x1c) r.numbers(r.number());
    else if (op === 0x3f || op === 0x40) r.at++;
    else if (op === 0x43 || op === 0x44) r.at += op === 0x43 ? 4 : 8;
    else if (op === 0xfc) { // saturating conversions, bulk memory
        const sub = r.number();
        r.numbers(sub < 8 ? 0 : sub === 8 || sub === 10 || sub === 12 || sub === 14 ? 2 : 1);
    } else if (op === 0xfd) { // SIMD
        const sub = r.number(), lane = sub >= 84 && sub <= 91;
        if (sub <= 11 || lane || sub === 92 || sub === 93) r.numbers(2);
        r.at += sub === 12 || sub === 13 ? 16 : lane || sub >= 21 && sub <= 34 ? 1 : 0;
    } else if (op > 0xc4) throw Error(`an instruction that is not known: ${op}`);
}

function parse(bytes) {
    const r = new Reader(bytes, 8), sections = [], m = { bytes, sections, imports: 0 };
    while (r.at < bytes.length) {
        const id = bytes[r.at++], size = r.number();
        sections.push({ id, from: r.at, to: r.at += size });
    }
    for (const { id, from, to } of sections) {
        r.at = from;
        if (id === SECTION.import) {
            for (let n = r.number(); n; n--, m.imports++) {
                for (let k = 0; k < 2; k++) { const length = r.number(); r.at += length; }
                if (bytes[r.at++] !== 0) throw Error('an import that is no function');
                r.number();
            }
        } else if (id === SECTION.function) m.types = Array.from({ length: r.number() }, () => r.number());
        else if (id === SECTION.code) {
            m.bodies = Array.from({ length: r.number() }, () => {
                const size = r.number(), body = { from: r.at, to: r.at + size, calls: [] };
                for (let n = r.number(); n; n--) { r.number(); r.at++; }
                while (r.at < body.to) operands(r, bytes[r.at++], body.calls);
                if (r.at !== body.to) throw Error('a function that does not end where it should');
                return body;
            });
        }
        if (id === SECTION.code && r.at !== to) throw Error('code that does not end where it should');
    }
    return m;
}

// The runs of bytes that more than one and at most MOST functions have. Of run k users[starts[k]] to users[starts[k + 1] - 1] are the functions;
// has[i] are the runs of function i.
function runsOf({ bytes, bodies }) {
    const keys = new Float64Array(bytes.length), HASH = 2 ** 21; // a hash, then a function: 53 bits
    let n = 0;
    bodies.forEach((body, i) => {
        for (let at = body.from; at + RUN <= body.to; at++) {
            let hash = 2166136261;
            for (let k = 0; k < RUN; k++) hash = Math.imul(hash ^ bytes[at + k], 16777619);
            keys[n++] = (hash >>> 0) * HASH + i;
        }
    });
    const sorted = keys.subarray(0, n).sort(), users = [], starts = [0], has = bodies.map(() => []);
    for (let at = 0; at < n;) {
        const first = users.length, hash = Math.floor(sorted[at] / HASH);
        for (; at < n && Math.floor(sorted[at] / HASH) === hash; at++) if (sorted[at] !== sorted[at - 1]) users.push(sorted[at] % HASH);
        if (users.length - first < 2 || users.length - first > MOST) users.length = first;
        else {
            for (let k = first; k < users.length; k++) has[users[k]].push(starts.length - 1);
            starts.push(users.length);
        }
    }
    return { users: Int32Array.from(users), starts: Int32Array.from(starts), has: has.map((runs) => Int32Array.from(runs)) };
}

function choose({ bodies }, { users, starts, has }, common, exponent) {
    const shared = new Int32Array(bodies.length), near = new Int32Array(starts.length - 1), length = bodies.map((body) => body.to - body.from);
    const weight = Float64Array.from(length, (n) => n ** exponent), left = new Set(bodies.keys()), order = [];
    const share = (i, step) => { // step 1: function i comes into reach; -1: it leaves
        for (const run of has[i]) {
            const from = starts[run], to = starts[run + 1];
            if (to - from > common) continue;
            near[run] += step;
            if (near[run] === (step + 1) / 2) for (let k = from; k < to; k++) shared[users[k]] += step;
        }
    };
    for (let reach = 0, first = 0; left.size;) {
        let best = -1, most = -1;
        for (const i of left) if (shared[i] / weight[i] > most) { most = shared[i] / weight[i]; best = i; }
        left.delete(best);
        order.push(best);
        reach += length[best];
        share(best, 1);
        for (; reach > REACH && first < order.length - 1; first++) {
            reach -= length[order[first]];
            share(order[first], -1);
        }
    }
    return order;
}

function write({ bytes, sections, imports, types, bodies }, order) {
    const place = [], out = [bytes.subarray(0, 8)];
    order.forEach((old, now) => { place[old] = now; });
    const renumbered = (index) => number(index < imports ? index : imports + place[index - imports]);
    for (const { id, from, to } of sections) {
        const r = new Reader(bytes, from), parts = [];
        const keep = (end) => { parts.push(bytes.subarray(r.at, end)); r.at = end; };
        const count = () => { const n = r.number(); parts.push(number(n)); return n; };
        if (id === SECTION.function) parts.push(number(order.length), ...order.map((i) => number(types[i])));
        else if (id === SECTION.code) {
            parts.push(number(order.length));
            for (const i of order) {
                r.at = bodies[i].from;
                const body = [];
                for (const [start, end, index] of bodies[i].calls) { body.push(bytes.subarray(r.at, start), renumbered(index)); r.at = end; }
                body.push(bytes.subarray(r.at, bodies[i].to));
                parts.push(number(body.reduce((n, part) => n + part.length, 0)), ...body);
            }
        } else if (id === SECTION.export) {
            for (let n = count(); n; n--) {
                const name = new Reader(bytes, r.at), length = name.number();
                keep(name.at + length + 1);
                parts.push(bytes[r.at - 1] === 0 ? renumbered(r.number()) : number(r.number()));
            }
        } else if (id === SECTION.start) parts.push(renumbered(r.number()));
        else if (id === SECTION.element) {
            for (let n = count(); n; n--) {
                if (bytes[r.at] !== 0 || bytes[r.at + 1] !== 0x41) throw Error('a table that is filled in another way');
                const offset = new Reader(bytes, r.at + 2);
                offset.signed();
                keep(offset.at + 1);
                for (let k = count(); k; k--) parts.push(renumbered(r.number()));
            }
        } else keep(to);
        out.push(Uint8Array.of(id), number(parts.reduce((n, part) => n + part.length, 0)), ...parts);
    }
    return Buffer.concat(out);
}

const file = process.argv[2], sizeOf = (bytes) => gzipSync(bytes, { level: 9 }).length;
let best = readFileSync(file), measures = COMMON.flatMap((common) => EXPONENTS.map((exponent) => [common, exponent]));
for (let before = Infinity; sizeOf(best) < before;) {
    let last = best;
    before = sizeOf(best);
    for (let round = 0; round < ROUNDS; round++) {
        const module = parse(last), all = runsOf(module);
        const tried = measures.map(([common, exponent]) => write(module, choose(module, all, common, exponent)));
        const sizes = tried.map(sizeOf), bySize = [...sizes.keys()].sort((a, b) => sizes[a] - sizes[b]);
        last = tried[bySize[0]];
        best = sizeOf(last) < sizeOf(best) ? last : best;
        measures = bySize.slice(0, KEPT).map((i) => measures[i]);
    }
}
writeFileSync(file, best);
