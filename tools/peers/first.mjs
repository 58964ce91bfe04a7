// first.mjs MODEL.onnx LIBRARY: the first logits of a network by onnxruntime-node, for bench/start: a byte to descriptor 3 when they are there, and the most
// memory resident, in KiB, to standard output.
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';

const [model, runtime] = process.argv.slice(2); // the library's path says where the package is
const folder = join(dirname(resolve(runtime)), '../../../..');
const ort = createRequire(join(folder, '../'))(folder);
const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1, interOpNumThreads: 1 });
const x = new ort.Tensor('float32', new Float32Array(784), [1, 1, 28, 28]);
await session.run({ [session.inputNames[0]]: x });
writeSync(3, 'x');
console.log(process.resourceUsage().maxRSS);
