/** Lockstep in a page or in Node: run, verify and train neural networks with the same bits on every device. */

/** Name of the library's status: what kind of thing went wrong. */
export type ErrorCode =
    | 'invalid' | 'shape' | 'dtype' | 'device' | 'memory' | 'io' | 'format' | 'unsupported' | 'differs' | 'range' | 'cancelled' | 'internal';

export class LockstepError extends Error {
    constructor(code: ErrorCode, message: string);
    readonly code: ErrorCode;
}

/** locked: the same bits on every device. fast: inside a derived bound. reduced: also lower precision, inside its own. */
export type Arithmetic = 'locked' | 'fast' | 'reduced';
export type Verdict = 'same' | 'within bound' | 'differs';

/** A URL (in Node also a path), an answer of fetch, a Blob or File, or bytes. */
export type Source = string | URL | Response | Blob | ArrayBuffer | ArrayBufferView;

export interface OpenOptions {
    /** Where lockstep.wasm is, its bytes, or the compiled module; by default beside lockstep.js. */
    wasm?: Source | WebAssembly.Module;
    /** Compute in a worker; by default true in a page and false in Node. */
    worker?: boolean;
}

export interface Device {
    /** "cpu", "webgpu", "ref". */
    id: string;
    name: string;
    available: boolean;
    /** Whether it may claim locked arithmetic. */
    locked: 'certified' | 'refused' | 'missing';
    /** Why it is not there, or why it was refused; else empty. */
    reason: string;
    caps: {
        isa: string;
        driver: string;
        uuid: string;
        /** What the device gets wrong or lacks, and the library does another way. */
        arithmetic: string;
        threads: number;
        subgroup: number;
        shared_bytes: number;
        memory_bytes: number;
        dtypes: string[];
    };
}

export interface Port {
    name: string;
    dtype: string;
    shape: (number | 'batch')[];
}

export interface LoadOptions {
    device?: string;
    math?: Arithmetic;
    /** Of the first values, when there are no weights. */
    seed?: number;
}

export interface Output {
    data: Float32Array;
    shape: number[];
    /** Of the bytes, NaNs canonical. */
    sha256: string;
    /** From the call into the library to its answer. */
    milliseconds: number;
}

/** A comparison with a reference. */
export interface Report {
    verdict: Verdict;
    elements: number;
    different: number;
    worst_of_bound: number;
    /** Share of elements whose bound is too wide to show anything. */
    blind: number;
    message: string;
}

export interface Verification {
    id: string;
    kernels: number;
    verdict: Verdict;
    worst_of_bound: number;
    blind: number;
    first_divergence: null | { kernel: string; node: string; index: number[]; expected: string; got: string };
    end_to_end: Report;
    /** In execution order; `ref` is null in other arithmetic than locked. */
    table: { kernel: string; node: string; ref: Report | null; oracle: Report }[];
}

/** A network with weights on a device. */
export class Net {
    private constructor();
    readonly network: string;
    readonly device: string;
    readonly math: Arithmetic;
    readonly inputs: Port[];
    readonly outputs: Port[];
    /** Images [n,1,28,28] to logits [n,10]. Compiled once for each n; later runs replay that. */
    run(input: Float32Array | number[]): Promise<Output>;
    /** The exact logits in float64 with a radius that a right device stays inside. */
    oracle(input: Float32Array | number[]): Promise<{ middle: Float64Array; radius: Float64Array }>;
    /** Every kernel on its own inputs against the references, as `lockstep verify` does. */
    verify(input: Float32Array | number[]): Promise<Verification>;
    /** Of the weights, as `lockstep train` prints it. */
    sha256(): Promise<string>;
    close(): Promise<void>;
}

export interface Comparison {
    /** same: all of them are equal bit for bit. differs: a bound is exceeded, or locked bits are not equal. */
    verdict: Verdict;
    outputs: (Output & { device: string; math: Arithmetic })[];
    /** Each network but the first, against the first. */
    pairs: {
        devices: [string, string];
        /** The largest, and the number of the element that has it. */
        difference: number;
        index: number;
        /** What the difference of that element may be; null when bounds were not asked for. */
        bound: number | null;
        /** The largest share of its bound that any element's difference takes; null as above. */
        worst_of_bound: number | null;
        /** Elements that are not equal, and those that should be nearer. */
        different: number;
        outside: number;
    }[];
}

export interface TrainOptions {
    /** "mnist:small" or "mnist:cnn"; a state brings its own, as all that follows down to `data`. */
    network?: string;
    optimizer?: 'sgd' | 'adam' | 'adamw';
    /** By default 0.002, for SGD 0.05. */
    lr?: number;
    /** By default constant; the others need `steps`. */
    schedule?: 'constant' | 'cosine' | 'step';
    /** Of the whole run; 0, the default: no end. */
    steps?: number;
    /** Images a step; by default 64. */
    batch?: number;
    /** Of the first weights and the order of the images; by default 1. */
    seed?: number;
    /** Move each image by up to so many pixels; by default 1. */
    shift?: number;
    /** Of pixels in 0..1; by default MNIST's 0.1307 and 0.3081. */
    mean?: number;
    deviation?: number;
    /** What the images are, as the command's --data; by default "digits". Only kept with the state. */
    data?: string;
    device?: string;
    math?: Arithmetic;
    /** u8 [n,28,28] and u8 [n]. */
    images: Uint8Array | Uint8ClampedArray;
    labels: Uint8Array | Uint8ClampedArray;
    /** What `state()` gave or `lockstep train --save` wrote: goes on from there, bit for bit. */
    state?: Source | null;
}

export interface Step {
    /** Number of steps taken, this one included. */
    step: number;
    loss: number;
    milliseconds: number;
}

/** A training run. */
export class Training {
    private constructor();
    readonly network: string;
    readonly device: string;
    readonly math: Arithmetic;
    readonly optimizer: string;
    readonly schedule: string;
    readonly lr: number;
    readonly batch: number;
    readonly seed: number;
    readonly shift: number;
    /** Steps taken. */
    readonly step: number;
    /** Steps of the whole run; null: no end. */
    readonly total: number | null;
    /** One step. */
    next(): Promise<Step>;
    /** Up to `count` steps, or to the end of the run. */
    steps(count?: number): AsyncGenerator<Step, void, undefined>;
    /** The share of images that are told right. */
    accuracy(images: Uint8Array | Uint8ClampedArray, labels: Uint8Array | Uint8ClampedArray): Promise<number>;
    /** The weights as a safetensors file. */
    weights(): Promise<Uint8Array>;
    /** All that `train({ state })` or `lockstep train --resume` needs to go on. */
    state(): Promise<Uint8Array>;
    /** Of the weights: equal to the command's after the same locked steps. */
    sha256(): Promise<string>;
    close(): Promise<void>;
}

export interface CheckRow {
    /** A case of the museum (certification and functions too), or a conformance row. */
    kind: 'case' | 'row';
    name: string;
    about: string;
    math: Arithmetic;
    status: 'passed' | 'failed' | 'skipped';
    detail: string;
    seconds: number;
}

export interface CheckReport {
    version: string;
    contract: number;
    /** The browser. */
    system: { name: string };
    device: Omit<Device, 'available' | 'reason'>;
    plant: string | null;
    passed: number;
    failed: number;
    skipped: number;
    cases: Omit<CheckRow, 'kind'>[];
    /** Conformance, locked and fast. `blind`: the share of elements whose bound is too wide to show anything. */
    rows: {
        math: Arithmetic;
        passed: number;
        failed: number;
        skipped: number;
        blind: number;
        seconds: number;
        failures: { number: number; name: string; math: Arithmetic; detail: string }[];
        skips: { number: number; name: string; reason: string }[];
    }[];
    /** Measured errors in ULPs of f32; null stands for infinite. */
    functions: { function: string; math: Arithmetic; ulps: number | null; at: number | null; bound: number | null; inputs: number }[];
}

export interface CheckOptions {
    device?: string;
    /** A fault to plant, by its name in `faults`: the case that catches it must fail. */
    plant?: string | null;
    /** Names of the museum's cases to run; by default all, or the planted fault's. */
    cases?: string[] | null;
    /** Conformance rows: operations over awkward data; by default `rows` of the library in a whole check, else 0. */
    rows?: number;
    /** Also measure elementary functions; by default only in a whole check. */
    functions?: boolean;
    /** Gets each row as it comes. */
    onRow?: (row: CheckRow, report: CheckReport) => void;
    /** Stops the check between two cases. */
    signal?: AbortSignal | null;
}

/** One instance of the library. */
export class Lockstep {
    private constructor();
    static open(options?: OpenOptions): Promise<Lockstep>;
    readonly version: string;
    /** Version of the contract of locked arithmetic. */
    readonly contract: number;
    readonly networks: string[];
    /** Conformance rows of a whole check; a quarter of them are computed fast as well. */
    readonly rows: number;
    readonly cases: { name: string; about: string }[];
    readonly faults: { name: string; about: string; case: string }[];
    devices(): Promise<Device[]>;
    load(network: string, weights?: Source | null, options?: LoadOptions): Promise<Net>;
    compare(nets: Net[], input: Float32Array | number[], options?: { bound?: boolean }): Promise<Comparison>;
    train(options: TrainOptions): Promise<Training>;
    check(options?: CheckOptions): Promise<CheckReport>;
    /** Bytes that the library holds, apart from a GPU's. */
    memory(): Promise<number>;
    /** Ends the instance and all that was opened in it. */
    close(): void;
}
