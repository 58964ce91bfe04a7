// The drawing pad: strokes by mouse, touch, pen or arrow keys, an undo history, and the picture on the canvas. What is drawn is either
// strokes or one digit of the test set, given as its bytes.

import { PIXELS, SIDE } from './digit.js';

const STEP = 1 / 28; // of an arrow key
const MOST = 200; // kept for undo

export function createPad(canvas, onChange) {
    const context = canvas.getContext('2d');
    let drawing = { strokes: [], digit: null };
    let history = [];
    let stroke = null; // under way
    let pointer = null; // its pointer's id
    const cursor = { x: 0.5, y: 0.5, down: false, shown: false };

    const now = () => (stroke ? { strokes: [...drawing.strokes, stroke], digit: null } : drawing);

    function paint() {
        const { width } = canvas, style = getComputedStyle(canvas);
        const shown = now();
        context.clearRect(0, 0, width, width);
        if (shown.digit) paintDigit(shown.digit, style.color);
        context.strokeStyle = context.fillStyle = style.color;
        context.lineWidth = width / 13;
        context.lineCap = context.lineJoin = 'round';
        for (const points of shown.strokes) {
            context.beginPath();
            points.forEach(([x, y], i) => context[i ? 'lineTo' : 'moveTo'](x * width, y * width));
            if (points.length === 1) context.lineTo(points[0][0] * width, points[0][1] * width);
            context.stroke();
        }
        if (cursor.shown) paintCursor(width, style.caretColor);
    }

    function paintDigit(bytes, ink) {
        const cell = canvas.width / SIDE;
        context.fillStyle = ink;
        for (let i = 0; i < PIXELS; i++) {
            if (bytes[i] === 0) continue;
            const column = i % SIDE, row = (i - column) / SIDE;
            const left = Math.round(column * cell), top = Math.round(row * cell);
            context.globalAlpha = bytes[i] / 255;
            context.fillRect(left, top, Math.round((column + 1) * cell) - left, Math.round((row + 1) * cell) - top);
        }
        context.globalAlpha = 1;
    }

    function paintCursor(width, accent) {
        const x = cursor.x * width, y = cursor.y * width, arm = width / 40;
        context.strokeStyle = accent;
        context.lineWidth = Math.max(2, width / 240);
        context.beginPath();
        context.moveTo(x - 2 * arm, y);
        context.lineTo(x + 2 * arm, y);
        context.moveTo(x, y - 2 * arm);
        context.lineTo(x, y + 2 * arm);
        context.stroke();
        context.beginPath();
        context.arc(x, y, arm * (cursor.down ? 1.4 : 1), 0, 2 * Math.PI);
        context.stroke();
    }

    function change(finished) {
        paint();
        onChange(now(), finished);
    }

    function remember() {
        history = [...history, drawing].slice(-MOST);
    }

    function begin(point) {
        remember();
        if (drawing.digit) drawing = { strokes: [], digit: null };
        stroke = [point];
    }

    function finish() {
        if (!stroke) return;
        drawing = now();
        stroke = null;
        change(true);
    }

    function replace(next) {
        stroke = null;
        pointer = null;
        cursor.down = false;
        remember();
        drawing = next;
        change(true);
    }

    // ---- pointers ----

    function place(event) {
        const box = canvas.getBoundingClientRect();
        const clamp = (value) => Math.max(0, Math.min(1, value));
        return [clamp((event.clientX - box.left) / box.width), clamp((event.clientY - box.top) / box.height)];
    }

    canvas.addEventListener('pointerdown', (event) => {
        if (pointer !== null || event.button !== 0) return;
        event.preventDefault();
        canvas.focus({ preventScroll: true });
        canvas.setPointerCapture(event.pointerId);
        if (stroke) finish();
        pointer = event.pointerId;
        cursor.shown = cursor.down = false;
        begin(place(event));
        change(false);
    });
    canvas.addEventListener('pointermove', (event) => {
        if (event.pointerId !== pointer) return;
        const events = event.getCoalescedEvents?.() ?? [];
        for (const part of events.length ? events : [event]) stroke.push(place(part));
        change(false);
    });
    for (const name of ['pointerup', 'pointercancel', 'lostpointercapture']) {
        canvas.addEventListener(name, (event) => {
            if (event.pointerId !== pointer) return;
            pointer = null;
            finish();
        });
    }

    // ---- keys: arrows move, space lowers and lifts the pen ----

    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    canvas.addEventListener('keydown', (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || pointer !== null) return;
        const arrow = arrows[event.key];
        if (arrow) {
            const inside = (value) => Math.max(0.04, Math.min(0.96, value));
            cursor.shown = true;
            cursor.x = inside(cursor.x + arrow[0] * STEP);
            cursor.y = inside(cursor.y + arrow[1] * STEP);
            if (stroke) {
                stroke.push([cursor.x, cursor.y]);
                change(false);
            } else {
                paint();
            }
        } else if (event.key === ' ') {
            cursor.shown = true;
            cursor.down = !stroke;
            if (stroke) {
                finish();
            } else {
                begin([cursor.x, cursor.y]);
                change(false);
            }
        } else if (event.key === 'Backspace') {
            pad.undo();
        } else if (event.key === 'Delete') {
            pad.clear();
        } else {
            return;
        }
        event.preventDefault();
    });
    canvas.addEventListener('focus', () => {
        cursor.shown = pointer === null && canvas.matches(':focus-visible');
        paint();
    });
    canvas.addEventListener('blur', () => {
        cursor.shown = cursor.down = false;
        if (pointer === null) finish();
        paint();
    });

    const pad = {
        clear() {
            if (now().strokes.length || now().digit) replace({ strokes: [], digit: null });
        },
        undo() {
            if (stroke) finish();
            if (!history.length) return;
            drawing = history.at(-1);
            history = history.slice(0, -1);
            cursor.down = false;
            change(true);
        },
        show(bytes) {
            replace({ strokes: [], digit: bytes });
        },
        get canUndo() {
            return history.length > 0;
        },
        // Keeps the canvas as sharp as the screen.
        resize() {
            const side = Math.round(canvas.clientWidth * (window.devicePixelRatio || 1));
            if (side > 0 && side !== canvas.width) canvas.width = canvas.height = side;
            paint();
        },
    };
    new ResizeObserver(() => pad.resize()).observe(canvas);
    return pad;
}
