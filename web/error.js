/** What goes wrong in the library: `code` is the name of its status ("shape", "format", "device", ...). */
export class LockstepError extends Error {
    constructor(code, message) {
        super(message);
        this.name = 'LockstepError';
        this.code = code;
    }
}
