// Measures the figures of docs/console.md on generated tables, with the program that FREESTONE names: build it as it is shipped (`make build`),
// and leave the machine alone meanwhile. Each run starts a server and a browser's profile of their own, so that nothing is cached. Prints a table of
// medians: `npm run figures`, or `node tests/figures.mjs RUNS`.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endAll, execute, MANY, memoryOf, metric, missing, SEGMENTS, SIX, start } from './program.mjs';
import { goTo, launch, openPage, write } from './watch.mjs';

const RUNS = Number(process.argv[2] ?? 9);
/** How long the reader pauses, in seconds. */
const PAUSE_S = 10;

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const whole = (value) => Math.round(value).toLocaleString('en-US');

/** Milliseconds from the key that runs the script to the frame with its first row. */
async function firstRows(page, sql) {
  await write(page, sql);
  await page.evaluate(() => {
    window.took = new Promise((resolve) => {
      let began = 0;
      addEventListener('keydown', (event) => { if (event.key === 'Enter') began = event.timeStamp; }, { capture: true });
      const look = () => {
        const cell = document.querySelector('.grid [data-row="0"]');
        if (began > 0 && cell) {
          // After the frame is drawn.
          requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
          seen.disconnect();
        }
      };
      const seen = new MutationObserver(look);
      seen.observe(document.body, { subtree: true, childList: true });
    });
  });
  await page.keyboard.press('Control+Shift+Enter');
  return page.evaluate(() => window.took);
}

/** Milliseconds from the choice of a table to the frame with its picture. */
async function drawn(page, table) {
  await goTo(page, 'layout/six');
  await page.getByRole('heading', { name: 'six', exact: true }).waitFor();
  await page.waitForTimeout(1500);
  return page.evaluate((name) => new Promise((resolve) => {
    const began = performance.now();
    location.hash = `layout/${name}`;
    const look = () => {
      const canvas = document.querySelector('.cut canvas');
      const isShown = canvas?.getAttribute('aria-label').startsWith(`${name}: `) && canvas.width > 300;
      const colour = isShown && canvas.getContext('2d').getImageData(canvas.width * 0.6, canvas.height * 0.8, 1, 1).data[3];
      if (colour) setTimeout(() => resolve(performance.now() - began));
      else requestAnimationFrame(look);
    };
    look();
  }), table);
}

/** How much the server's memory changes while a result of six million rows waits for its reader, and how many rows were sent by then. */
async function paused(page, server) {
  await page.getByText('the query waits until you scroll').waitFor();
  await page.waitForTimeout(2000);
  const sizes = [];
  for (let second = 0; second <= PAUSE_S; second++) {
    sizes.push(memoryOf(server.pid));
    await page.waitForTimeout(1000);
  }
  return { most: Math.max(...sizes), change: Math.max(...sizes) - Math.min(...sizes), sent: await metric(server.address, 'rows_sent_total') };
}

async function measure(database, found) {
  const put = (name, value) => (found[name] ??= []).push(value);
  const server = await start(database);
  const browser = await launch();
  const faults = [];
  const page = await openPage(browser, server.address, { faults });
  await page.locator('.cm-content').waitFor();
  const ready = await page.evaluate(() => performance.now());
  put('paint', await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
  put('ready', ready);
  // The page reads the catalog.
  await page.waitForTimeout(1500);
  put('cold', await firstRows(page, 'SELECT * FROM six'));
  const { most, change, sent } = await paused(page, server);
  put('most', most / 1e6);
  put('change', change / 1e6);
  put('sent', sent);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.keyboard.press('Alt+T');
  put('warm', await firstRows(page, 'SELECT * FROM six'));
  put('segments', await drawn(page, 'many'));
  await browser.close();
  await server.stop();
  if (faults.length > 0) throw new Error(faults.join('\n'));
}

const NAMES = [
  ['paint', 'first paint', 'ms', 300], ['ready', 'until the editor takes keys', 'ms'], ['cold', 'first rows of 6 million, the first query of a server', 'ms', 200],
  ['warm', 'first rows of 6 million, again', 'ms', 200], ['most', 'memory of the server while the reader pauses', 'MB'], ['change', `its change in ${PAUSE_S} seconds`, 'MB'],
  ['sent', 'rows that were sent to the reader who pauses', ''], ['segments', `${whole(SEGMENTS)} segments drawn`, 'ms', 1000],
];

const lacking = missing();
if (lacking) throw new Error(`${lacking}: build it (make build), or set FREESTONE to it`);
const folder = await mkdtemp(join(tmpdir(), 'freestone-console-'));
try {
  const database = join(folder, 'shop');
  await writeFile(join(folder, 'many.sql'), `${SIX};\n${MANY}`);
  execute(database, '-f', join(folder, 'many.sql'));
  const found = {};
  for (let run = 0; run < RUNS; run++) await measure(database, found);
  console.log(`| | median of ${RUNS} | least to most | goal |\n|---|---|---|---|`);
  for (const [name, title, unit, goal] of NAMES) {
    const values = found[name];
    console.log(`| ${title} | ${whole(middle(values))} ${unit} | ${whole(Math.min(...values))} to ${whole(Math.max(...values))} | ${goal ? `${whole(goal)} ${unit}` : ''} |`);
  }
} finally {
  endAll();
  await rm(folder, { recursive: true, force: true });
}
