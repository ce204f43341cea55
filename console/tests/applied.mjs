// Advice that is applied and reverted: its picture, bytes and times, as predicted and as they are.
import { run } from './program.mjs';
import { drawnColours, equal, goTo, holds, runAll } from './watch.mjs';

// Primes: so columns do not repeat together.
const PRIMES = [10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079, 10091, 10093, 10099, 10103, 10111, 10133, 10139, 10141, 10151, 10159, 10163, 10169, 10177, 10181];
/** Rows of 24 columns, of which queries read two: the advice is to convert. The day tells the order in which they arrived. */
export const WIDE = `CREATE TABLE wide WITH (preset = 'row') AS SELECT DATE '2020-01-01' + CAST(g / 4000 AS INT) AS day, g AS id, ${PRIMES.map((prime, at) => `(g * ${7919 + at}) % ${prime} AS c${at}`).join(', ')} FROM generate_series(1, 4000000) AS s(g)`;
const QUERY = 'SELECT sum(c1) FROM wide WHERE c2 < 500';
const RUNS = 20;

/** How far the bytes of an applied advice may be from the predicted ones. */
const BYTES_TOLERANCE = 0.1;

const bytesOf = (database) => Number(run(database, "SELECT bytes FROM freestone_tables() WHERE name = 'wide'")[0].bytes);
const sorted = (group) => group.split(', ').toSorted().join(', ');
const groupsOf = (database) => run(database, `SELECT DISTINCT "columns" FROM freestone_pages('wide')`).map((row) => sorted(row.columns)).sort();
const designOf = (database) => run(database, `SELECT design, (SELECT count(*) FROM freestone_copies() WHERE "table" = 'wide') AS copies FROM freestone_tables() WHERE name = 'wide'`);
/** Where the rows are: a digest of the ranges of their days and keys in each zone. */
const zonesOf = (database) => run(database, `SELECT md5(string_agg(concat_ws(' ', "column", segment, zone, "rows", min, max), ';' ORDER BY "column", segment, zone)) AS zones
 FROM freestone_zones('wide') WHERE "column" IN ('day', 'id')`);

/** The number in `167 MB`. */
function bytesIn(text) {
  const [, number, unit] = /^([\d.]+) (B|kB|MB|GB)$/.exec(text);
  return Number(number) * { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 }[unit];
}

/** The picture of the table by its page formats: its colours, and the format and the columns of the pages in its first part. */
async function pictureOf(page, before = null) {
  await goTo(page, 'layout/wide');
  await page.getByRole('heading', { name: 'wide', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Page format' }).click();
  // The place that keys have reached is outlined, and stays so when the page comes back.
  await page.locator('.cut canvas').focus();
  await page.keyboard.press('Home');
  const colours = await drawnColours(page, '.cut canvas', before?.colours ?? null);
  const said = await page.locator('.cut [aria-live]', { hasText: / pages of / }).textContent();
  const [, format, columns] = /; (\w+) pages, [\d,]+ pages? of (its own|\([^)]*\));/.exec(said);
  return { colours, pages: `${format}: ${columns}` };
}

/** The shortest time of three runs, as the page shows it. */
async function timeOf(page) {
  await goTo(page, 'sql');
  const found = [];
  for (let time = 0; time < 3; time++) {
    await page.keyboard.press('Alt+T');
    await runAll(page, QUERY);
    found.push((await page.getByText(/^1 row in /).textContent()).replace('1 row in ', ''));
    await page.keyboard.press('Alt+W');
  }
  return found.toSorted((a, b) => millisecondsIn(a) - millisecondsIn(b))[0];
}

/** Milliseconds of `850 µs`, `12.3 ms` or `4.56 s`. */
function millisecondsIn(text) {
  const [, number, unit] = /^([\d.]+) (µs|ms|s)$/.exec(text);
  return Number(number) * { µs: 0.001, ms: 1, s: 1000 }[unit];
}

/** Asks for advice of the table alone, and returns the column groups of the proposed layout. */
async function advised(page) {
  await goTo(page, 'advice/wide');
  await page.getByLabel('Copies at most').fill('1');
  // A busy machine may measure no gain; then it is asked again.
  for (let time = 0; time < 3 && await page.getByRole('button', { name: 'Apply…' }).count() === 0; time++) {
    await page.getByRole('button', { name: /^Advise/ }).click();
    await page.locator('.verdict').waitFor({ timeout: 90_000 });
    await page.getByRole('button', { name: 'Cancel' }).waitFor({ state: 'detached', timeout: 90_000 });
  }
  const [verdict, reason] = await page.locator('.verdict, .verdict + p').allTextContents();
  holds(verdict.startsWith('Convert'), `rows of 24 columns are converted for queries of two: ${verdict}, ${reason}`);
  const said = await page.getByRole('img', { name: /^Proposed: / }).getAttribute('aria-label');
  return [...said.matchAll(/\(([^)]*)\)/g)].map(([, group]) => sorted(group)).sort();
}

/** Shows the statement, and runs it. */
async function confirm(page, button, statement) {
  await page.getByRole('button', { name: button }).first().click();
  holds(statement.test(await page.locator('dialog .statement').textContent()), 'the statement is shown first');
  await page.getByRole('button', { name: 'Run it' }).click();
}

/** Picture, bytes and time change as predicted, and the revert restores them. Times are printed only. */
export async function applyAndRevert(page, database) {
  await goTo(page, 'sql');
  // The first runs read the table from the medium.
  await runAll(page, Array.from({ length: RUNS }, () => QUERY).join(';\n'));
  await page.locator('.picks button').nth(RUNS - 1).waitFor();
  await page.getByText('1 row', { exact: true }).waitFor();
  const [time, bytes, picture] = [await timeOf(page), bytesOf(database), await pictureOf(page)];
  const stored = () => [designOf(database), groupsOf(database), zonesOf(database)];
  const before = stored();

  const proposed = await advised(page);
  await confirm(page, 'Apply…', /^ALTER TABLE "?wide"? SET DESIGN/);
  await page.getByRole('button', { name: 'Revert…' }).waitFor({ timeout: 90_000 });
  const tiles = (name) => page.getByRole('group', { name, exact: true }).locator('b').allTextContents();
  await page.getByRole('group', { name: 'Bytes', exact: true }).getByText('…', { exact: true }).waitFor({ state: 'detached' });
  const [sizes, times] = [await tiles('Bytes'), await tiles('Time')];
  console.log(`       applied: bytes ${sizes.join(' → ')}, time of the scans ${times.join(' → ')} (before, predicted, now)`);
  const [, predicted, now] = sizes.map(bytesIn);
  holds(Math.abs(now - predicted) <= BYTES_TOLERANCE * predicted, `there are ${now} bytes, ${predicted} were predicted`);
  holds(Math.abs(bytesOf(database) - now) <= 0.005 * now, `the page shows ${now} bytes, and there are ${bytesOf(database)}`);
  equal(groupsOf(database), proposed, 'the column groups, as proposed');
  const [faster, other] = [await timeOf(page), await pictureOf(page, picture)];
  holds(other.pages !== picture.pages, `the picture shows other pages: ${other.pages}`);

  await goTo(page, 'advice/wide');
  await confirm(page, 'Revert…', /^ALTER TABLE "?wide"? SET DESIGN/);
  await page.getByRole('button', { name: 'Revert…' }).waitFor({ state: 'detached', timeout: 90_000 });
  const [again, restored] = [await timeOf(page), await pictureOf(page, other)];
  console.log(`       a query: ${time} → ${faster} → ${again}; bytes ${bytes} → ${now} → ${bytesOf(database)} (before, applied, reverted)`);
  equal(stored(), before, 'the design, the copies, the column groups and the places of the rows after the revert');
  equal([restored, bytesOf(database)], [picture, bytes], 'the picture and the bytes after the revert');
}
