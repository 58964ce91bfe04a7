// node size.mjs FILE LIMIT [FILE LIMIT]...: each file, gzipped, is at most so many bytes.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

let over = 0;
for (let i = 2; i + 1 < process.argv.length; i += 2) {
    const [file, limit] = [process.argv[i], Number(process.argv[i + 1])];
    const bytes = readFileSync(file), packed = gzipSync(bytes, { level: 9 }).length;
    console.log(`${file}: ${bytes.length} bytes, ${packed} gzipped, at most ${limit}`);
    over += !(packed <= limit);
}
process.exitCode = over || process.argv.length < 4 ? 1 : 0;
