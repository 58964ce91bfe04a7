// The third part: certification, the museum and a share of the conformance rows on a device of this machine, row by row.

import { $, chosen, copy, download, element, setText } from './dom.js';
import { openEngine } from './library.js';

const FAULT = 'zero-matmul';
const WORD = { passed: 'Passed', failed: 'Failed', skipped: 'Skipped' };
const INTRODUCTION = $('check-words').textContent;

export function createCheck(state) {
    let engine = null;
    let report = null;
    let seen = []; // its rows
    let running = false, stop = null;
    let at = null, began = 0; // of the run that is under way

    function say(text, kind = '') {
        $('check-words').className = `words ${kind}`;
        setText($('check-words'), text);
    }

    function tally(now) {
        const count = (status) => seen.filter((row) => row.status === status).length;
        const part = (status) => element('span', { class: count(status) ? status : 'skipped' }, element('b', {}, String(count(status))), ` ${status}`);
        $('tally').replaceChildren(part('passed'), part('failed'), part('skipped'), element('span', { class: 'help' }, now));
    }

    function add(row, progress) {
        seen.push(row);
        const about = element('span', {}, row.about);
        const detail = row.detail ? [element('span', { class: 'detail' }, row.detail)] : [];
        $('cases').append(element('tr', { class: row.status, role: 'row' },
            element('td', { role: 'cell' }, element('span', { class: `mark ${row.status}` }, WORD[row.status])),
            element('td', { role: 'cell' }, element('span', { class: 'name' }, row.name), about, ...detail),
            element('td', { role: 'cell' }, row.math), element('td', { class: 'number', role: 'cell' }, `${row.seconds.toFixed(2)} s`)));
        follow();
        at = progress;
        tally(underWay());
    }

    const underWay = () => `${at.done} of ${at.total}${at.next ? `, now ${at.next}` : ''}, ${Math.round((performance.now() - began) / 1000)} s`;

    // Keeps the newest row in sight, until a planted fault is caught or a reader scrolls up.
    function follow() {
        const box = $('check-scroll'), caught = $('cases').querySelector('.failed:not(:first-child)');
        if (caught) box.scrollTop = caught.offsetTop - box.clientHeight / 3;
        else if (box.scrollHeight - box.scrollTop - box.clientHeight < 160) box.scrollTop = box.scrollHeight;
    }

    async function run() {
        const device = chosen('check-device'), plant = $('plant').checked ? FAULT : null;
        running = true;
        stop = new AbortController();
        setText($('check-go'), 'Stop');
        $('cases').replaceChildren();
        report = { page: location.origin, browser: navigator.userAgent, date: new Date().toISOString(), plant };
        seen = [];
        for (const id of ['tally', 'check-scroll']) $(id).hidden = false;
        $('report-buttons').hidden = true;
        at = { done: 0, total: 1, next: 'certification' };
        began = performance.now();
        const clock = setInterval(() => tally(underWay()), 1000);
        tally(underWay());
        say(plant ? 'The fault is planted: each kernel that multiplies matrices on this device writes zeros instead. The check must find it.' : INTRODUCTION, plant ? 'warn' : '');
        try {
            engine = await openEngine();
            Object.assign(report, await engine.check({ device, plant, onRow: add, signal: stop.signal }));
        } catch (error) {
            if (!stop.signal.aborted) say(`The check stopped: ${error.message}`, 'bad');
            Object.assign(report, { error: stop.signal.aborted ? 'stopped' : error.message, cases: seen });
        }
        clearInterval(clock);
        engine?.close();
        engine = null;
        running = false;
        finish(plant);
    }

    function finish(plant) {
        const failed = seen.filter((row) => row.status === 'failed');
        setText($('check-go'), 'Run the check');
        $('report-buttons').hidden = false;
        tally(report.error ? 'stopped' : 'finished');
        if (report.error) return;
        const caught = failed.find((row) => row.name !== 'certification');
        if (plant) say(caught ? `Caught: ${caught.name} found the planted fault, and says where.` : 'The planted fault was not caught. Please report this.', caught ? 'good' : 'bad');
        else if (failed.length) say(`${failed.length} of ${seen.length} failed. The report says what was expected and what came.`, 'warn');
        else say('None failed: this device computes what the contract says.', 'good');
    }

    $('check-form').addEventListener('submit', (event) => {
        event.preventDefault();
        if (running) {
            stop.abort();
            engine?.close();
        } else {
            run();
        }
    });
    const text = () => `${JSON.stringify(report, null, 2)}\n`;
    $('report-save').addEventListener('click', () => download(`lockstep-check-${report.device?.id ?? 'device'}.json`, text(), 'application/json'));
    $('report-copy').addEventListener('click', () => copy($('report-copy'), text()));
    state.watch(['devices'], ({ devices }) => {
        const gpu = devices.find(({ id }) => id === 'webgpu'), [first, second] = document.getElementsByName('check-device');
        first.disabled = gpu?.state === 'missing';
        if (first.disabled && first.checked) second.checked = true;
    });
}
