// The first part: a drawing or a test digit, the network's ten scores, and two devices side by side.

import { digits, image, weights } from './data.js';
import { normalize, PIXELS, rasterize, softmax } from './digit.js';
import { $, chosen, element, milliseconds, percent, setText } from './dom.js';
import { createPad } from './pad.js';

const LABEL = { cpu: 'WebAssembly CPU', webgpu: 'WebGPU' };
const fixed = (value) => value.toFixed(5).replace('-', '\u2212');
const small = (value) => (value === 0 ? '0' : value.toExponential(1).replace('-', '\u2212').replace('e\u2212', 'e-'));

export function createDraw(state) {
    let engine = null;
    let input = null; // what the network is to see: 784 bytes
    let label = null; // of a test digit
    let file = null; // chosen or dropped: {network, bytes, name}
    const models = new Map();
    let busy = false, again = false;
    let looking = null; // for devices

    // ---- the table ----

    const rows = Array.from({ length: 10 }, (_, digit) => {
        const bar = element('i'), share = element('td', { class: 'number share' });
        const [a, b, difference] = ['a', 'b', 'b'].map((kind) => element('td', { class: `number ${kind}` }));
        const row = element('tr', {}, element('th', { scope: 'row' }, String(digit)),
            element('td', {}, element('div', { class: 'bar' }, bar)), share, a, b, difference);
        return { row, bar, share, a, b, difference };
    });
    $('rows').append(...rows.map(({ row }) => row));

    // ---- the drawing ----

    const pad = createPad($('pad'), (drawing, finished) => {
        if (drawing.digit === null) label = null;
        input = drawing.digit ?? rasterize(drawing.strokes);
        $('pad-hint').hidden = input !== null;
        $('undo').disabled = !pad.canUndo;
        $('clear').disabled = input === null;
        preview();
        update(finished);
    });
    $('undo').addEventListener('click', () => pad.undo());
    $('clear').addEventListener('click', () => pad.clear());
    $('random').addEventListener('click', async () => {
        try {
            const set = await digits('t10k'), index = Math.floor(Math.random() * set.count);
            label = set.labels[index];
            pad.show(image(set, index));
        } catch (error) {
            state.set({ notice: { text: `The test digits cannot be read: ${error.message}`, bad: true } });
        }
    });
    state.watch(['theme', 'scheme', 'tab'], () => pad.resize());

    function preview() {
        const context = $('preview').getContext('2d'), picture = context.createImageData(28, 28);
        for (let i = 0; i < PIXELS; i++) picture.data.set([input?.[i] ?? 0, input?.[i] ?? 0, input?.[i] ?? 0, 255], 4 * i);
        context.putImageData(picture, 0, 0);
    }

    // ---- choices ----

    function usable(id) {
        return state.get('devices').find((device) => device.id === id);
    }

    // Why a device does not run in this arithmetic; null when it does.
    function obstacle(id, math) {
        const device = usable(id);
        if (id === 'cpu') return null;
        if (!device || device.state === 'missing' || device.state === 'lost') return device?.reason ?? 'it is still being looked for';
        return math === 'locked' && device.state === 'refused' ? device.reason : null;
    }

    function words() {
        const device = chosen('device'), math = chosen('math'), gpu = usable('webgpu'), node = $('device-words');
        const reason = device === 'cpu' ? null : obstacle('webgpu', math);
        node.hidden = !reason;
        node.className = gpu ? 'words warn' : 'words';
        if (!reason) return node.replaceChildren();
        node.replaceChildren(!gpu ? 'Looking for WebGPU, and probing its arithmetic\u2026'
            : gpu.state === 'refused' ? `${LABEL.webgpu} (${gpu.name}) may not claim locked arithmetic, because its probe came out wrong: ${reason}. In fast arithmetic it runs.`
                : gpu.state === 'lost' ? `The GPU went away: ${reason}. The CPU goes on. `
                    : `There is no WebGPU here: ${reason}. The CPU computes everything.`);
        if (gpu?.state === 'lost') {
            const button = element('button', { type: 'button', class: 'small' }, 'Open it again');
            button.addEventListener('click', reopen);
            node.append(button);
        }
    }

    $('draw-controls').addEventListener('submit', (event) => event.preventDefault());
    $('draw-controls').addEventListener('change', async (event) => {
        if (event.target.id === 'file') return;
        if (event.target.id === 'network' && event.target.value === 'file') {
            event.target.value = event.target.dataset.last ?? 'mnist:cnn';
            $('file').click();
            return;
        }
        $('network').dataset.last = $('network').value;
        words();
        update(true);
        if (event.target.name === 'device' && event.target.value !== 'cpu') look().catch(fail);
    });

    // ---- weights from elsewhere ----

    $('file').addEventListener('change', () => {
        if ($('file').files.length) take($('file').files[0]);
        $('file').value = '';
    });
    addEventListener('dragover', (event) => event.preventDefault());
    addEventListener('drop', (event) => {
        event.preventDefault();
        if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
    });

    async function take(chosenFile) {
        if (!engine) return;
        const reasons = [];
        try {
            const bytes = new Uint8Array(await chosenFile.arrayBuffer());
            for (const network of ['mnist:cnn', 'mnist:small']) {
                try {
                    (await engine.load(network, bytes, { device: 'cpu', math: 'locked' })).close();
                    file = { network, bytes, name: chosenFile.name };
                    drop('file');
                    $('network').querySelector('[value="kept"]')?.remove();
                    $('network').append(element('option', { value: 'kept' }, chosenFile.name));
                    $('network').value = $('network').dataset.last = 'kept';
                    state.set({ notice: null });
                    return update(true);
                } catch (error) {
                    reasons.push(error.message);
                }
            }
        } catch (error) {
            reasons.push(error.message);
        }
        state.set({ notice: { text: `${chosenFile.name} is no model that fits here: ${reasons[0]}. The page goes on with the weights it has.`, bad: true } });
    }

    function source() {
        const value = $('network').value, trained = state.get('trained');
        if (value === 'kept') return { key: 'file', network: file.network, bytes: file.bytes };
        if (value === 'trained') return { key: 'trained', network: trained.network, bytes: trained.bytes };
        return { key: value, network: value, bytes: null };
    }

    // ---- models: each is loaded once, on each device and in each arithmetic; while it loads, the others go on ----

    function drop(part) {
        for (const [key, { loading }] of models) {
            if (key.split(' ').includes(part)) {
                models.delete(key);
                loading.then((loaded) => loaded.close(), () => {});
            }
        }
    }

    // {loading, model}: `model` is null until it is there.
    function entry(device, math, part = device) {
        const { key, network, bytes } = source(), name = `${key} ${part} ${math}`;
        if (!models.has(name)) {
            const made = { model: null };
            made.loading = load(network, bytes, { device, math, part });
            models.set(name, made);
            made.loading.then((loaded) => {
                made.model = loaded;
                update(true);
            }, (error) => {
                if (models.get(name) === made && !lost(device, error)) fail(error);
            });
        }
        return models.get(name);
    }

    // Runs it once, on an empty picture: kernels are compiled then, and not under the first stroke.
    async function load(network, bytes, where) {
        const made = await engine.load(network, bytes ?? await weights(network), where);
        if (where.part !== 'oracle') await made.run(normalize(new Uint8Array(PIXELS)));
        return made;
    }

    const fail = (error) => state.set({ notice: { text: error.message, bad: true } });

    async function reopen() {
        drop('webgpu');
        looking = null;
        state.set({ devices: [] });
        words();
        await engine.forget('webgpu');
        await look().catch(fail);
    }

    // Whether an error means that the GPU went away; then the state says so and the CPU goes on.
    function lost(device, error) {
        if (device !== 'webgpu' || !error.lost) return false;
        drop('webgpu');
        state.set({ devices: state.get('devices').map((each) => (each.id === 'webgpu' ? { ...each, state: 'lost', reason: error.message } : each)) });
        words();
        return true;
    }

    // ---- computing: one run at a time, always of the newest drawing ----

    async function update(finished) {
        if (!engine) return;
        if (busy) {
            again = again === 'finished' || finished ? 'finished' : 'drawing';
            return;
        }
        busy = true;
        $('scores').setAttribute('aria-busy', 'true');
        try {
            await compute(finished);
        } catch (error) {
            fail(error);
        }
        busy = false;
        if (again) {
            const next = again === 'finished';
            again = false;
            update(next);
        } else {
            $('scores').setAttribute('aria-busy', 'false');
        }
    }

    async function compute(finished) {
        const device = chosen('device'), math = chosen('math'), bytes = input, about = label;
        const wanted = (device === 'both' ? ['cpu', 'webgpu'] : [device]).filter((id) => obstacle(id, math) === null);
        if (wanted.length === 0) wanted.push('cpu');
        const there = wanted.map((id) => [id, entry(id, math).model]).filter(([, model]) => model), results = [];
        $('scores').classList.toggle('stale', there.length === 0);
        if (there.length < wanted.length) say(wanted.includes('webgpu') && !entry('webgpu', math).model ? 'Preparing the GPU…' : 'Loading the network…');
        if (bytes === null) return there.length && showNothing();
        const pixels = normalize(bytes);
        for (const [id, model] of there) {
            try {
                results.push({ id, ...(await model.run(pixels)) });
            } catch (error) {
                if (!lost(id, error)) throw error;
                return update(true);
            }
        }
        if (results.length === 0) return;
        const comparison = results.length === 2 ? compare(results, math, null) : null;
        const shown = { results, comparison, math, about, finished };
        render(shown, there.length < wanted.length);
        if (comparison && math === 'fast' && finished) bound(shown, pixels, bytes);
    }

    // The largest difference and what it may be: nothing in locked arithmetic; in fast, a bound for each logit, null while unknown.
    function compare([a, b], math, bounds) {
        const apart = Array.from(a.logits, (value, i) => Math.abs(value - b.logits[i])), most = Math.max(...apart);
        const limits = math === 'locked' ? apart.map(() => 0) : bounds;
        return { most, bound: limits && limits[apart.indexOf(most)], outside: apart.map((value, i) => Boolean(limits) && value > limits[i]), same: a.sha256 === b.sha256 };
    }

    // The oracle computes in a worker of its own, after the scores are shown.
    async function bound(shown, pixels, bytes) {
        try {
            const bounds = await (await entry('cpu', 'fast', 'oracle').loading).bounds(pixels);
            if (bytes === input && chosen('device') === 'both' && chosen('math') === 'fast') render({ ...shown, comparison: compare(shown.results, 'fast', bounds) });
        } catch (error) {
            fail(error);
        }
    }

    // ---- showing ----

    function showNothing() {
        for (const { row, bar, share, a, b, difference } of rows) {
            row.className = '';
            bar.style.transform = 'scaleX(0)';
            for (const cell of [share, a, b, difference]) setText(cell, '');
        }
        $('answer').className = 'digit none';
        setText($('answer'), '?');
        say('Draw a digit, or take one of the test set.');
        setText($('truth'), '');
        $('proof').hidden = true;
    }

    function say(text) {
        setText($('saying'), text);
    }

    function render({ results, comparison, math, about, finished }, waiting = false) {
        const [first, second] = results, both = results.length === 2, shares = softmax(first.logits);
        const best = shares.indexOf(Math.max(...shares));
        $('scores').classList.toggle('both', both);
        setText($('head-a'), both ? 'CPU' : 'Logit');
        rows.forEach(({ row, bar, share, a, b, difference }, digit) => {
            row.className = digit === best ? 'best' : '';
            bar.style.transform = `scaleX(${shares[digit].toFixed(4)})`;
            setText(share, percent(shares[digit]));
            setText(a, fixed(first.logits[digit]));
            setText(b, both ? fixed(second.logits[digit]) : '');
            const apart = both ? Math.abs(first.logits[digit] - second.logits[digit]) : 0;
            setText(difference, both ? small(apart) : '');
            difference.classList.toggle('differs', both && comparison.outside[digit]);
        });
        $('answer').className = 'digit';
        setText($('answer'), String(best));
        say(`It reads ${best}, with ${percent(shares[best])} of the softmax.`);
        setText($('truth'), about === null ? '' : about === best ? `A test digit; its label is ${about}.` : `A test digit; its label is ${about}, so the network is wrong here.`);
        if (waiting) setText($('truth'), 'The GPU is still being prepared\u2026');
        const verdict = prove(results, comparison, math);
        if (finished) setText($('spoken'), `${best}, ${percent(shares[best])}. ${verdict}`);
    }

    function prove(results, comparison, math) {
        $('proof').hidden = false;
        const facts = results.map((result) => {
            const hash = element('code', { class: 'hash' }, result.sha256);
            return element('div', {}, element('dt', {}, LABEL[result.id]), element('dd', {}, milliseconds(result.milliseconds),
                element('small', {}, result.id === 'webgpu' ? `  on ${usable('webgpu').name}` : ''), hash));
        });
        let text = '', kind = 'alone';
        if (comparison) {
            const { same, most, bound, outside } = comparison, within = bound !== null && !outside.includes(true);
            kind = same ? 'same' : within ? 'within' : bound === null ? 'open' : 'differs';
            text = same ? 'The same bits on both devices.'
                : math === 'locked' ? 'The bits differ, in locked arithmetic. The check of this browser says where.'
                    : within ? 'Within the bound of fast arithmetic.' : bound === null ? 'Computing the bound\u2026' : 'Beyond the bound of fast arithmetic.';
            facts.push(element('div', {}, element('dt', {}, 'Largest difference'), element('dd', { id: 'difference' }, small(most),
                element('small', {}, math === 'locked' ? '  (bound 0: locked arithmetic allows none)' : bound === null ? '' : `  (bound ${small(bound)}, by the oracle)`))));
        }
        $('verdict').className = `verdict ${kind}`;
        $('verdict').hidden = !comparison;
        setText($('verdict'), text);
        $('facts').replaceChildren(...facts);
        return text;
    }

    state.watch(['trained'], ({ trained }) => {
        const option = $('network').querySelector('[value="trained"]');
        option.disabled = !trained;
        setText(option, trained ? `Trained on this page, ${trained.about}` : 'Trained on this page');
        drop('trained');
    });

    // The GPU is looked at when it is first wanted, since probing its arithmetic takes a while; at once where there is none to probe.
    async function look() {
        if (!looking) {
            looking = engine.devices();
            looking.catch(() => { looking = null; });
            state.set({ devices: await looking });
        }
        words();
        update(true);
    }

    weights($('network').value).catch(() => {}); // while the library is fetched
    return {
        async start(opened) {
            engine = opened;
            $('random').disabled = false;
            update(true);
            await entry('cpu', chosen('math')).loading.catch(() => {});
            performance.mark('ready'); // the first inference is done
            if (chosen('device') !== 'cpu' || !navigator.gpu) await look();
        },
        useTrained() {
            drop('trained');
            $('network').value = $('network').dataset.last = 'trained';
            update(true);
        },
        fail() {
            say('Nothing can be computed here.');
        },
    };
}
