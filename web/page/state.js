// The page's state: one flat object. `set` merges a change and tells those who watch any of the keys that changed.

export function createState(initial) {
    const values = { ...initial };
    const watchers = [];
    return {
        get: (key) => values[key],
        set(change) {
            const changed = new Set(Object.keys(change).filter((key) => !Object.is(values[key], change[key])));
            Object.assign(values, change);
            for (const { keys, react } of watchers) {
                if (keys.some((key) => changed.has(key))) react(values);
            }
        },
        // Calls react(values) now, and after every change to one of the keys.
        watch(keys, react) {
            watchers.push({ keys, react });
            react(values);
        },
    };
}
