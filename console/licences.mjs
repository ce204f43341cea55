// Collects the licences of the packages whose code is in dist into LICENSES.txt; with `--check` compares them with it.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const here = fileURLToPath(new URL('.', import.meta.url));
const folders = new Set();
const collector = {
  name: 'packages',
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle)) {
      for (const id of chunk.moduleIds ?? []) {
        const found = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0];
        if (found) folders.add(found);
      }
    }
  },
};
await build({ root: here, logLevel: 'warn', plugins: [collector], build: { write: false } });
const parts = [];
for (const folder of [...folders].sort((a, b) => (a.split('/node_modules/').at(-1) < b.split('/node_modules/').at(-1) ? -1 : 1))) {
  const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const files = (await readdir(folder)).filter((file) => /^(licen[cs]e|notice)/i.test(file) && !/\.(js|md5)$/.test(file)).sort();
  const texts = [];
  const others = files.includes('licenses') ? (await readdir(join(folder, 'licenses'))).sort().map((file) => join('licenses', file)) : [];
  for (const file of [...files.filter((file) => file !== 'licenses'), ...others]) texts.push((await readFile(join(folder, file), 'utf8')).replaceAll('\r\n', '\n').trim());
  if (texts.length === 0) throw new Error(`${name} ${version} has no file with its licence`);
  const title = `${name} ${version} (${license})`;
  if (!parts.some((part) => part.startsWith(`${title}\n`))) parts.push(`${title}\n${'='.repeat(title.length)}\n\n${texts.join('\n\n')}\n`);
}
const file = join(here, 'LICENSES.txt');
const text = `The console is built from its own sources and from these packages.\n\n${parts.join('\n\n')}`;
if (!process.argv.includes('--check')) await writeFile(file, text);
else if ((await readFile(file, 'utf8')) !== text) throw new Error("console/LICENSES.txt lacks licences of what is in dist: 'npm run licences' in console/ makes it again");
console.log(`the licences of ${parts.length} packages are in LICENSES.txt`);
