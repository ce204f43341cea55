// Builds the page into a folder (dist unless another is named): every file compressed by gzip, with the licences of the packages in it, and nothing else.
import { copyFile, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';

const here = fileURLToPath(new URL('.', import.meta.url));
export const BYTES_MAX = 600 * 1024;

/** The files of a folder, with their paths in it, sorted. */
export async function filesOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return paths.map((path) => path.slice(folder.length + 1)).sort();
}

/** Builds into `folder` and returns the bytes of all its files. */
export async function buildInto(folder) {
  await build({ root: here, logLevel: 'warn', build: { outDir: folder, emptyOutDir: true } });
  await copyFile(join(here, 'LICENSES.txt'), join(folder, 'LICENSES.txt'));
  let bytes = 0;
  for (const name of await filesOf(folder)) {
    const path = join(folder, name);
    const packed = gzipSync(await readFile(path), { level: 9 });
    // The system on which it was packed is not part of it.
    packed[9] = 255;
    await rm(path);
    await writeFile(`${path}.gz`, packed);
    bytes += packed.length;
  }
  if (bytes > BYTES_MAX) throw new Error(`the page has ${bytes} bytes compressed, more than ${BYTES_MAX}`);
  return bytes;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2] ?? join(here, 'dist');
  console.log(`${folder}: ${await buildInto(folder)} bytes`);
}
