// The second part: training, with its plot, on the digits that came with the page.

import { digits } from './data.js';
import { $, chosen, copy, download, element, percent, setText, thousands } from './dom.js';
import { openEngine } from './library.js';

const LOOK = 250; // milliseconds between two changes of the figures
const EVERY = 2500; // milliseconds between two looks at the test digits
const MODEL = { small: 'mnist:small', cnn: 'mnist:cnn' };

export function createTrain(state, onUse) {
    let engine = null; // of its own, so that drawing goes on meanwhile
    let trainer = null, settings = null;
    let running = false, stopping = false;
    let steps = [], losses = [], accuracies = []; // accuracies: null where none was measured
    let plot = null;

    // ---- the plot ----

    // The computed colour, since a canvas does not know light-dark().
    function shade(name) {
        const probe = document.createElement('i');
        probe.style.color = `var(${name})`;
        $('plot').append(probe);
        const value = getComputedStyle(probe).color;
        probe.remove();
        return value;
    }

    function smooth() {
        let mean = null;
        return losses.map((loss) => (mean = mean === null ? loss : 0.9 * mean + 0.1 * loss));
    }

    const series = () => [steps, losses, smooth(), accuracies];

    async function draw() {
        const { default: uPlot } = await import('./vendor/uPlot.esm.js');
        const box = $('plot').getBoundingClientRect();
        if (!box.width) return; // not shown
        const axis = { stroke: shade('--soft'), grid: { stroke: shade('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui, sans-serif' };
        plot?.destroy();
        plot = new uPlot({
            width: box.width,
            height: box.width < 480 ? 220 : 300,
            scales: { x: { time: false }, loss: { range: (_, __, most) => [0, losses.length ? Math.max(1.05 * most, 0.5) : 2.5] }, share: { range: [0, 1] } },
            axes: [
                { ...axis, size: 30 },
                { ...axis, scale: 'loss', size: 44, values: (_, values) => values.map((value) => value.toFixed(1)) },
                { ...axis, scale: 'share', side: 1, size: 52, grid: { show: false }, values: (_, values) => values.map((value) => `${Math.round(100 * value)} %`) },
            ],
            series: [
                { label: 'Step', value: (_, value) => (value === null ? '–' : value) },
                { label: 'Loss', scale: 'loss', stroke: shade('--faint'), width: 1, points: { show: false }, value: (_, value) => value?.toFixed(4) ?? '–' },
                { label: 'Loss, smoothed', scale: 'loss', stroke: shade('--accent'), width: 2, points: { show: false }, value: (_, value) => value?.toFixed(4) ?? '–' },
                { label: 'Test accuracy', scale: 'share', stroke: shade('--second'), width: 2, spanGaps: true, points: { show: true, size: 6, fill: shade('--second') }, value: (_, value) => (value === null || value === undefined ? '–' : percent(value)) },
            ],
        }, series(), $('plot'));
    }

    let frame = 0;
    function redraw() {
        frame ||= requestAnimationFrame(() => {
            frame = 0;
            plot?.setData(series());
        });
    }
    state.watch(['theme', 'scheme', 'tab'], ({ tab }) => { if (tab === 'train') draw(); });
    let width = 0;
    new ResizeObserver(([entry]) => {
        if (Math.abs(entry.contentRect.width - width) > 1 && entry.contentRect.width > 0) {
            width = entry.contentRect.width;
            draw();
        }
    }).observe($('plot'));

    // ---- the form ----

    function read() {
        const number = (id) => Number($(id).value);
        return { device: chosen('train-device'), network: chosen('train-network'), math: chosen('train-math'),
            batch: number('batch'), rate: number('rate'), seed: number('seed') };
    }

    const missing = () => state.get('devices').some(({ id, state: kind }) => id === 'webgpu' && kind === 'missing');

    function lock() {
        for (const input of $('train-form').elements) {
            if (input.id !== 'steps' && input.tagName === 'INPUT') input.disabled = trainer !== null || running || (input.value === 'webgpu' && missing());
        }
        $('steps').disabled = running;
        $('train-reset').disabled = running || trainer === null;
        setText($('train-go'), running ? (stopping ? 'Stopping…' : 'Stop') : trainer ? 'Resume' : 'Start');
        $('train-go').disabled = stopping;
    }

    function say(text, bad = false) {
        $('train-words').hidden = !text;
        $('train-words').className = bad ? 'words bad' : 'words';
        setText($('train-words'), text);
    }

    $('train-form').addEventListener('submit', (event) => {
        event.preventDefault();
        if (running) {
            stopping = true;
            lock();
        } else if (trainer && Number($('steps').value) <= trainer.step) {
            say(`Step ${thousands(trainer.step)} is reached; a larger number of steps goes on.`);
            $('steps').focus();
        } else {
            run();
        }
    });
    $('train-reset').addEventListener('click', () => {
        forget();
        steps = []; losses = []; accuracies = [];
        redraw();
        for (const id of ['at-loss', 'at-accuracy', 'at-speed']) setText($(id), '–');
        setText($('at-step'), '0');
        $('train-proof').hidden = true;
        say('');
        lock();
    });

    function forget() {
        trainer?.close();
        trainer = null;
    }

    // ---- the run ----

    async function prepare() {
        say('Fetching the digits…');
        const set = await digits('train');
        say(chosen('train-device') === 'webgpu' ? 'Compiling a training step for the GPU…' : 'Compiling a training step…');
        engine ??= await openEngine();
        settings = read();
        trainer = await engine.train({ ...settings, network: MODEL[settings.network], images: set.images, labels: set.labels });
    }

    async function measure() {
        const set = await digits('t10k');
        if (losses.length === 0) return;
        accuracies[accuracies.length - 1] = await trainer.accuracy(set);
        setText($('at-accuracy'), percent(accuracies.at(-1)));
        redraw();
    }

    async function run() {
        running = true;
        stopping = false;
        lock();
        try {
            if (!trainer) await prepare();
            say('');
            $('train-proof').hidden = true;
            await train(Number($('steps').value));
            await measure();
            await prove();
        } catch (error) {
            say(`Training stopped: ${error.message}`, true);
            if (error.lost) {
                forget();
                engine.close();
                engine = null;
            }
        }
        running = stopping = false;
        lock();
    }

    async function train(until) {
        let looked = performance.now(), counted = 0, since = looked;
        while (trainer.step < until && !stopping) {
            losses.push(await trainer.next());
            steps.push(trainer.step);
            accuracies.push(null);
            counted++;
            if (!Number.isFinite(losses.at(-1))) throw new Error(`the loss became ${losses.at(-1)} at step ${trainer.step}; a smaller rate may help`);
            const passed = performance.now() - since;
            if (passed > LOOK) {
                setText($('at-speed'), thousands(Math.round(counted * settings.batch / passed * 1000)));
                figures();
                counted = 0;
                since = performance.now();
            }
            if (performance.now() - looked > EVERY) {
                await measure();
                looked = since = performance.now();
                counted = 0;
            }
        }
        figures();
    }

    function figures() {
        setText($('at-step'), thousands(trainer.step));
        setText($('at-loss'), losses.at(-1)?.toFixed(4) ?? '–');
        redraw();
    }

    function command() {
        const { network, batch, rate, seed, math } = settings;
        return ['lockstep train mnist', `--model ${network}`, `--batch ${batch}`, `--lr ${rate}`, '--schedule constant', `--seed ${seed}`,
            `--steps ${trainer.step}`, ...(math === 'locked' ? [] : ['--math fast'])];
    }

    async function prove() {
        const hash = await trainer.sha256(), bytes = await trainer.weights(), { network, math } = settings;
        setText($('train-hash'), hash);
        $('train-command').replaceChildren(...command().flatMap((part, i) => [i ? ' ' : '', element('span', { class: 'unbroken' }, part)]));
        setText($('train-claim'), math === 'locked' ? 'The same hash, anywhere, by' : 'The same run, other bits, by');
        $('train-proof').hidden = false;
        state.set({ trained: { network: MODEL[network], bytes, about: `${trainer.step} steps` } });
        setText($('train-spoken'), `Step ${trainer.step}, loss ${losses.at(-1).toFixed(3)}, test accuracy ${$('at-accuracy').textContent}.`);
    }

    $('train-copy').addEventListener('click', () => copy($('train-copy'), $('train-command').textContent));
    $('train-use').addEventListener('click', onUse);
    $('train-save').addEventListener('click', () => {
        const { network, bytes } = state.get('trained');
        download(`${network.replace(':', '-')}.safetensors`, bytes, 'application/octet-stream');
    });
    state.watch(['devices'], lock);
}
