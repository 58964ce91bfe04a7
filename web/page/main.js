// Puts the page together: the library is opened, the tabs and the theme work, each part gets what it needs.

import { createCheck } from './check.js';
import { $, setText } from './dom.js';
import { createDraw } from './draw.js';
import { openEngine } from './library.js';
import { createState } from './state.js';
import { createTrain } from './train.js';

const state = createState({
    devices: [], // {id, label, name, state: 'certified' | 'refused' | 'missing' | 'lost', reason}
    trained: null, // weights from the second part: {network, bytes, about}
    notice: null, // {text, bad}
    tab: 'draw',
});

// ---- tabs: arrows move between them, the address remembers which ----

const tabs = ['draw', 'train', 'check'];

function show(tab) {
    state.set({ tab: tabs.includes(tab) ? tab : 'draw' });
}

for (const tab of tabs) $(`tab-${tab}`).addEventListener('click', () => { location.hash = tab; });
$('tab-draw').parentElement.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], at = tabs.indexOf(state.get('tab'));
    const next = event.key === 'Home' ? 0 : event.key === 'End' ? tabs.length - 1 : step && (at + step + tabs.length) % tabs.length;
    if (next === undefined) return;
    event.preventDefault();
    location.hash = tabs[next];
    $(`tab-${tabs[next]}`).focus();
});
addEventListener('hashchange', () => show(location.hash.slice(1)));
state.watch(['tab'], ({ tab }) => {
    for (const each of tabs) {
        $(each).hidden = each !== tab;
        $(`tab-${each}`).setAttribute('aria-selected', String(each === tab));
        $(`tab-${each}`).tabIndex = each === tab ? 0 : -1;
    }
});

// ---- theme ----

const themes = { system: 'System', light: 'Light', dark: 'Dark' };

function useTheme(name) {
    if (name === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    setText($('theme-name'), themes[name]);
    $('theme').setAttribute('aria-label', `Colours: ${name === 'system' ? 'as the system' : name}`);
    try { localStorage.setItem('lockstep.theme', name); } catch { /* not kept, then */ }
    state.set({ theme: name });
}

function keptTheme() {
    try { return localStorage.getItem('lockstep.theme'); } catch { return null; }
}
useTheme(keptTheme() in themes ? keptTheme() : 'system');
$('theme').addEventListener('click', () => {
    const names = Object.keys(themes);
    useTheme(names[(names.indexOf(state.get('theme')) + 1) % names.length]);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => state.set({ scheme: Date.now() }));

// ---- what the whole page has to say ----

state.watch(['notice'], ({ notice }) => {
    $('notice').hidden = !notice;
    $('notice').classList.toggle('bad', Boolean(notice?.bad));
    setText($('notice'), notice?.text ?? '');
});

show(location.hash.slice(1));
const draw = createDraw(state);
createTrain(state, () => {
    location.hash = 'draw';
    draw.useTrained();
});
createCheck(state);

try {
    const engine = await openEngine();
    setText($('about'), `Lockstep ${engine.version}, contract ${engine.contract}. Everything runs on this machine; nothing is sent anywhere.`);
    await draw.start(engine);
} catch (error) {
    state.set({ notice: { text: `The library cannot run here: ${error.message}`, bad: true } });
    draw.fail();
}
