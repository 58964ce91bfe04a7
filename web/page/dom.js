// Small helpers over the document. Text enters it as text, never as markup.

export const $ = (id) => document.getElementById(id);

// element('td', {class: 'number', title: '...'}, 'text', child...)
export function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value !== false && value !== undefined) made.setAttribute(name, value === true ? '' : value);
    }
    made.append(...children);
    return made;
}

export function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

// The value of the checked radio button of a group.
export const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;

export function download(name, bytes, type) {
    const url = URL.createObjectURL(new Blob([bytes], { type }));
    element('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Copies and says so on the button for a moment.
export async function copy(button, text) {
    const label = button.textContent;
    try {
        await navigator.clipboard.writeText(text);
        button.textContent = 'Copied';
    } catch {
        button.textContent = 'Not allowed here';
    }
    setTimeout(() => { button.textContent = label; }, 1500);
}

export const percent = (share) => (share >= 0.99995 ? '100 %' : `${(100 * share).toFixed(1)} %`);
export const milliseconds = (ms) => `${ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
export const thousands = (n) => n.toLocaleString('en').replaceAll(',', '\u202f');
