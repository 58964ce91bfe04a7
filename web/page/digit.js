// From strokes to what the network sees, as MNIST was made: the drawing is cropped, its longer side scaled to 20 pixels, drawn with soft
// edges, and moved by whole pixels until its centre of mass is the centre of 28 by 28. Strokes are lists of [x, y] in 0..1.

export const SIDE = 28;
export const PIXELS = SIDE * SIDE;
const BOX = 20;
const PEN = 2.2; // width of a line of MNIST's, in pixels of the network
const SMALLEST = 0.1; // drawings below it are not scaled up to the box: a dot stays a dot
const MEAN = Math.fround(0.1307), DEVIATION = Math.fround(0.3081); // of MNIST's training pixels

function bounds(strokes) {
    const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    for (const stroke of strokes) {
        for (const [x, y] of stroke) {
            box.left = Math.min(box.left, x);
            box.right = Math.max(box.right, x);
            box.top = Math.min(box.top, y);
            box.bottom = Math.max(box.bottom, y);
        }
    }
    return box;
}

function distance(x, y, [ax, ay], [bx, by]) {
    const dx = bx - ax, dy = by - ay, length = dx * dx + dy * dy;
    const t = length > 0 ? Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / length)) : 0;
    return Math.hypot(x - ax - t * dx, y - ay - t * dy);
}

// Ink of one line on a grid of values 0..1: the darkest of what is there and what the line adds, with an edge one pixel soft.
function line(grid, a, b) {
    const reach = PEN / 2 + 0.5;
    const from = (p, q) => Math.max(0, Math.floor(Math.min(p, q) - reach));
    const to = (p, q) => Math.min(SIDE - 1, Math.ceil(Math.max(p, q) + reach));
    for (let row = from(a[1], b[1]); row <= to(a[1], b[1]); row++) {
        for (let column = from(a[0], b[0]); column <= to(a[0], b[0]); column++) {
            const ink = reach - distance(column + 0.5, row + 0.5, a, b);
            grid[row * SIDE + column] = Math.max(grid[row * SIDE + column], Math.min(1, Math.max(0, ink)));
        }
    }
}

// Moves the ink so that its centre of mass comes to the middle, but never out of the picture.
function centre(grid) {
    let mass = 0, x = 0, y = 0, left = SIDE, right = -1, top = SIDE, bottom = -1;
    for (let i = 0; i < PIXELS; i++) {
        if (grid[i] > 0) {
            const column = i % SIDE, row = (i - column) / SIDE;
            mass += grid[i];
            x += grid[i] * (column + 0.5);
            y += grid[i] * (row + 0.5);
            left = Math.min(left, column);
            right = Math.max(right, column);
            top = Math.min(top, row);
            bottom = Math.max(bottom, row);
        }
    }
    const move = (at, low, high) => Math.max(-low, Math.min(SIDE - 1 - high, Math.round(SIDE / 2 - at)));
    const right_by = move(x / mass, left, right), down_by = move(y / mass, top, bottom);
    const moved = new Float64Array(PIXELS);
    for (let row = top; row <= bottom; row++) {
        for (let column = left; column <= right; column++) {
            moved[(row + down_by) * SIDE + column + right_by] = grid[row * SIDE + column];
        }
    }
    return moved;
}

// 784 bytes, 0 where there is no ink; null when there are no strokes.
export function rasterize(strokes) {
    const drawn = strokes.filter((stroke) => stroke.length > 0);
    if (drawn.length === 0) return null;
    const { left, top, right, bottom } = bounds(drawn);
    const scale = (BOX - PEN) / Math.max(right - left, bottom - top, SMALLEST);
    const place = ([x, y]) => [SIDE / 2 + (x - (left + right) / 2) * scale, SIDE / 2 + (y - (top + bottom) / 2) * scale];
    const grid = new Float64Array(PIXELS);
    for (const stroke of drawn) {
        const points = stroke.map(place);
        if (points.length === 1) line(grid, points[0], points[0]);
        for (let i = 1; i < points.length; i++) line(grid, points[i - 1], points[i]);
    }
    return Uint8Array.from(centre(grid), (ink) => Math.round(ink * 255));
}

// What the network is given: (byte/255 - mean)/deviation, each operation rounded to f32, as the library's own loader computes it.
const NORMAL = Float32Array.from({ length: 256 },
    (_, byte) => Math.fround(Math.fround(Math.fround(byte / 255) - MEAN) / DEVIATION));

export function normalize(bytes) {
    return Float32Array.from(bytes, (byte) => NORMAL[byte]);
}

export function softmax(logits) {
    const most = Math.max(...logits);
    const powers = Array.from(logits, (logit) => Math.exp(logit - most));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
}
