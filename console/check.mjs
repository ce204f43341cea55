// Builds the page into a temporary folder and compares every file with dist. Compressed bytes depend on the version of zlib, so
// what they contain is compared.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { buildInto, filesOf } from './build.mjs';

const committed = fileURLToPath(new URL('dist', import.meta.url));
const temporary = await mkdtemp(join(tmpdir(), 'freestone-console-'));
let status = 0;
const fault = (text) => {
  console.error(text);
  status = 1;
};
try {
  const bytes = await buildInto(temporary);
  const [built, known] = [await filesOf(temporary), await filesOf(committed)];
  for (const name of known.filter((name) => !built.includes(name))) fault(`console/dist/${name} is not made by a build`);
  for (const name of built) {
    if (!known.includes(name)) fault(`console/dist lacks ${name}`);
    else {
      const [one, other] = [temporary, committed].map(async (folder) => gunzipSync(await readFile(join(folder, name))));
      if (!(await one).equals(await other)) fault(`console/dist/${name} differs from what the sources build`);
    }
  }
  if (status === 0) console.log(`console/dist is what the sources build: ${built.length} files, ${bytes} bytes compressed`);
  else console.error("'npm run build' in console/ makes it again");
} finally {
  await rm(temporary, { recursive: true, force: true });
}
process.exit(status);
