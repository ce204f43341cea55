// The page with the real server, on a generated database. CONSOLE_WITHOUT_SERVER=1 leaves this out where the program is not built.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pictures } from './pictures.mjs';
import { equal, goTo, holds, openPage, runAll, write } from './watch.mjs';

const PROGRAM = process.env.FREESTONE ?? join(process.env.CARGO_TARGET_DIR ?? join(homedir(), '.cache/freestone/target'), 'release/freestone');
const ROWS = 1_500_000;
// Primes: so columns do not repeat together, and take as many bytes in any order of the rows.
const PRIMES = [10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079, 10091, 10093, 10099, 10103, 10111, 10133, 10139, 10141, 10151, 10159, 10163, 10169, 10177, 10181, 10193, 10211];
const WIDE = PRIMES.map((prime, at) => `(g * ${7919 + at}) % ${prime} AS c${at}`).join(', ');
/** Segments of one table: each insert is too large for the commit log. */
const SEGMENTS = 1000;
const MANY = `CREATE TABLE many (id INT, day INT);\nBEGIN;\n${Array.from({ length: SEGMENTS }, (_, at) => `INSERT INTO many SELECT ${at} * 17000 + value, ${at} FROM range(17000);`).join('\n')}\nCOMMIT;`;
const MAKE = `CREATE TABLE wide WITH (preset = 'row') AS SELECT ${WIDE} FROM generate_series(1, 4000000) AS s(g);
CREATE TABLE six AS SELECT g AS id, DATE '2020-01-01' + CAST(g % 1000 AS INT) AS day, CAST((g * 7919) % 100000 AS DECIMAL(12, 2)) AS price, 'item ' || (g % 500) AS item
 FROM generate_series(1, 6000000) AS s(g);
CREATE TABLE sales WITH (preset = 'row') AS
SELECT g AS id, DATE '2020-01-01' + CAST(g % 1000 AS INT) AS day, CAST(g % 97 AS INT) AS shop, CAST((g * 7919) % 100000 AS DECIMAL(12, 2)) AS price,
 CASE WHEN g % 10 = 0 THEN NULL ELSE 'item ' || (g % 500) END AS item FROM generate_series(1, ${ROWS}) AS s(g);
CREATE TABLE by_day WITH (preset = 'column', sort = 'day') AS SELECT * FROM sales;
ALTER TABLE by_day ADD COPY by_shop (shop, price) WITH (sort = 'shop');
CREATE TABLE "<b>x</b>" AS SELECT '<script>alert(1)</script>' AS "<i>y</i>"`;
const QUERY = "SELECT shop, sum(price) AS revenue FROM by_day WHERE day < DATE '2020-02-01' GROUP BY shop ORDER BY shop";

function hasConsole() {
  if (!existsSync(PROGRAM)) return `there is no ${PROGRAM}`;
  const { stdout } = spawnSync(PROGRAM, ['--help'], { encoding: 'utf8' });
  return /^\s+ui\b/m.test(stdout) ? null : `${PROGRAM} has no command ui`;
}

/** The rows of a statement, as the program gives them. */
const run = (database, sql) => JSON.parse(execFileSync(PROGRAM, [database, '--format', 'json', '-c', sql], { encoding: 'utf8' }));

/** Starts the server and returns its address and how to stop it. */
async function start(database, options = []) {
  const child = spawn(PROGRAM, ['ui', database, '--no-open', '--write', ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
  let [said, used] = ['', ''];
  child.stderr.on('data', (chunk) => { said += chunk; });
  /** The address that was printed last, with a code that no page has used yet. */
  const next = () => new Promise((resolve, reject) => {
    const look = () => {
      const last = said.match(/http:\/\/\S+(?=\n)/g)?.at(-1);
      if (!last || last === used) return;
      child.stderr.off('data', look);
      used = last;
      resolve(last);
    };
    child.stderr.on('data', look);
    child.on('exit', (code) => reject(new Error(`freestone ui ended with ${code}: ${said}`)));
    look();
  });
  const address = await next();
  return { address, next, pid: child.pid, stop: () => new Promise((resolve) => { child.on('exit', resolve); child.kill('SIGTERM'); }) };
}

/** The counters of the native scan of a plan. */
function scanOf(node) {
  return node['Relation Name'] && node.Counters ? node.Counters : node.Plans?.map(scanOf).find((found) => found);
}

async function compare(page, database) {
  await runAll(page, QUERY);
  await page.getByText('97 rows').waitFor();
  const expected = run(database, QUERY.replace('sum(price)', 'CAST(sum(price) AS VARCHAR)'));
  const shown = await page.locator('.grid [data-row="0"]').allTextContents();
  equal(shown, [String(expected[0].shop), expected[0].revenue], 'the first row');
  await runAll(page, 'SELECT CAST(9007199254740993 AS BIGINT) AS a, CAST(1.5 AS DECIMAL(38, 4)) AS b, CAST(NULL AS VARCHAR) AS c, \'\' AS d, [1, 2] AS e, * FROM "<b>x</b>"');
  await page.locator('.grid [data-row="0"][data-column="5"]').waitFor();
  equal(await page.locator('.grid [data-row="0"]').allTextContents(), ['9007199254740993', '1.5000', 'NULL', '', '[1, 2]', '<script>alert(1)</script>'], 'types');
}

async function pagesAndZones(page, database) {
  await write(page, QUERY);
  await page.keyboard.press('Control+Shift+E');
  const scan = page.locator('.node', { hasText: 'Scan' }).last();
  await scan.waitFor();
  const shown = await scan.locator('.counters').textContent();
  const told = scanOf(JSON.parse(run(database, `EXPLAIN (ANALYZE, FORMAT json) ${QUERY}`)[0].plan)[0].Plan);
  for (const name of ['pages_total', 'pages_used', 'zones', 'zones_pruned', 'rows_selected']) {
    holds(told[name] !== undefined, `EXPLAIN ANALYZE tells no ${name}: ${JSON.stringify(told)}`);
    holds(`${shown},`.includes(` ${name} ${told[name].toLocaleString('en-US')},`), `${name} is ${told[name]}, and the page shows ${shown}`);
  }
}

/** The parts of a segment's file are those of the table function, and add up to its bytes. */
async function partsAsRows(page, database) {
  await page.locator('.cut canvas').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'by_day, segment 0' }).waitFor();
  await page.getByRole('button', { name: 'As a table' }).click();
  const shown = page.locator('table.plain', { has: page.locator('caption', { hasText: 'Parts of the file' }) }).locator('tbody tr');
  await shown.first().waitFor();
  const told = run(database, 'SELECT "columns", encoding, bytes FROM freestone_parts(\'by_day\', segment => 0) WHERE part = \'column\' ORDER BY "group"');
  const number = (text) => Number(text.replaceAll(',', ''));
  const rows = await shown.evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
  equal(rows.slice(0, told.length).map(([name, encoding, bytes]) => [name, encoding, number(bytes)]), told.map((row) => [row.columns, row.encoding, Number(row.bytes)]), 'the columns of a segment');
  const all = Number(run(database, "SELECT bytes FROM freestone_segments('by_day') WHERE segment = 0")[0].bytes);
  equal(rows.reduce((sum, row) => sum + number(row.at(-1)), 0), all, 'the bytes of all parts');
  await page.getByRole('button', { name: 'As a picture' }).click();
  await page.getByRole('button', { name: 'All segments' }).click();
}

/** A statement that runs for long tells how much of its tables it has read. */
async function progressing(page) {
  await goTo(page, 'sql');
  await runAll(page, 'SELECT max(x.price * y.id) FROM six AS x, (SELECT id FROM six WHERE id < 3000) AS y WHERE x.price + y.id > 7');
  await page.locator('.status .meter').waitFor();
  const said = await page.locator('.status').first().textContent();
  holds(/\d % read/.test(said), `the status is ${said}`);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('cancelled').waitFor();
}

async function everyView(page, database) {
  await goTo(page, 'layout/by_day');
  await page.getByRole('heading', { name: 'by_day', exact: true }).waitFor();
  await page.locator('.ranges canvas').waitFor();
  await page.locator('.cutting aside .problem').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'As a table' }).click();
  await page.locator('table.plain caption', { hasText: 'Segments of by_day' }).waitFor({ state: 'attached' });
  await page.getByRole('button', { name: 'As a picture' }).click();
  await partsAsRows(page, database);
  await goTo(page, 'layout/by_day/by_shop');
  await page.getByRole('heading', { name: 'by_day, copy by_shop' }).waitFor();
  await page.locator('.ranges canvas').waitFor();
  await page.getByText('Why this encoding').waitFor();
  await goTo(page, 'machine');
  await page.getByRole('heading', { name: 'This machine' }).waitFor();
  equal(await page.locator('.problem b').count(), 0, 'errors in the views');
}

/** Bytes of a table as the program tells them. */
const bytesOf = (database, table) => Number(run(database, `SELECT bytes FROM freestone_tables() WHERE name = '${table}'`)[0].bytes);

/** Milliseconds of `850 µs`, `12.3 ms` or `4.56 s`. */
function milliseconds(text) {
  const [, number, unit] = /^([\d.]+) (µs|ms|s)/.exec(text);
  return Number(number) * { µs: 0.001, ms: 1, s: 1000 }[unit];
}

/** Rows of 24 columns, of which queries read two: the advice is to convert. Bytes and time then change as predicted. */
async function applyAndRevert(page, database) {
  await goTo(page, 'sql');
  // The first runs read the table from the medium.
  const queries = Array.from({ length: 20 }, () => 'SELECT sum(c1) FROM wide WHERE c2 < 500');
  await runAll(page, queries.join(';\n'));
  await page.locator('.picks button').nth(queries.length - 1).waitFor();
  await page.getByText('1 row', { exact: true }).waitFor();
  await runAll(page, queries[0]);
  await page.locator('.picks').waitFor({ state: 'detached' });
  await page.getByText('1 row', { exact: true }).waitFor();
  const before = bytesOf(database, 'wide');
  await goTo(page, 'advice/wide');
  // A busy machine may measure no gain; then it is asked again.
  for (let time = 0; time < 3 && await page.getByRole('button', { name: 'Apply…' }).count() === 0; time++) {
    await page.getByRole('button', { name: /^Advise/ }).click();
    await page.locator('.verdict').waitFor({ timeout: 90_000 });
    await page.getByRole('button', { name: 'Cancel' }).waitFor({ state: 'detached', timeout: 90_000 });
  }
  const verdict = await page.locator('.verdict').textContent();
  holds(!verdict.startsWith('Keep'), `rows of 24 columns are advised for queries of two: ${verdict}`);
  await page.getByRole('button', { name: 'Apply…' }).first().click();
  await page.getByRole('button', { name: 'Run it' }).click();
  await page.getByRole('button', { name: 'Revert…' }).waitFor({ timeout: 60_000 });
  const tiles = async (name) => page.getByRole('group', { name, exact: true }).locator('b').allTextContents();
  await page.getByRole('group', { name: 'Bytes', exact: true }).getByText('…', { exact: true }).waitFor({ state: 'detached' });
  const [sizes, times] = [await tiles('Bytes'), await tiles('Time')];
  console.log(`       applied: bytes ${sizes.join(' → ')} (before, predicted, now); time ${times.join(' → ')}`);
  const [was, expected, is] = times.map(milliseconds);
  holds(expected < was && is < was, `the scans take less time, as predicted: ${times.join(', ')}`);
  const told = run(database, "SELECT coalesce((SELECT sum(bytes) FROM freestone_copies() WHERE \"table\" = 'wide'), 0) AS copied")[0].copied;
  holds(Number(told) > 0 || bytesOf(database, 'wide') !== before, 'the advice is applied');
  await page.getByRole('button', { name: 'Revert…' }).click();
  await page.getByRole('button', { name: 'Run it' }).click();
  await page.getByRole('button', { name: 'Revert…' }).waitFor({ state: 'detached', timeout: 60_000 });
  const after = bytesOf(database, 'wide');
  // Rows stay in the order that the design gave them, in which the column of the order takes less.
  holds(Math.abs(after - before) / before < 0.1, `reverting leads to ${after} bytes, before there were ${before}`);
  equal(run(database, "SELECT count(*) AS copies FROM freestone_copies() WHERE \"table\" = 'wide'")[0].copies, 0, 'copies after the revert');
}

/** The memory of a process in bytes, where the system tells it. */
function memoryOf(pid) {
  const status = `/proc/${pid}/status`;
  return existsSync(status) ? Number(/VmRSS:\s+(\d+)/.exec(readFileSync(status, 'utf8'))[1]) * 1024 : null;
}

/** First rows of 6 million, the server's memory while the reader waits, and the picture of 1,000 segments: times are printed only. */
async function large(page, pid) {
  await goTo(page, 'sql');
  await write(page, 'SELECT * FROM six');
  const began = Date.now();
  await page.keyboard.press('Control+Shift+Enter');
  await page.locator('.grid-row').first().waitFor();
  console.log(`       first rows of 6 million: ${Date.now() - began} ms`);
  await page.getByText('the query waits until you scroll').waitFor();
  await page.waitForTimeout(1000);
  const sizes = [];
  for (let time = 0; time < 8; time++) {
    sizes.push(memoryOf(pid));
    await page.waitForTimeout(500);
  }
  if (sizes[0] !== null) {
    const megabytes = sizes.map((size) => Math.round(size / 1e6));
    console.log(`       the server's memory while the reader waits, each half second, in MB: ${megabytes.join(', ')}`);
    holds(Math.max(...sizes) - sizes[0] < 32e6, `the memory grows while nobody reads: ${megabytes.join(', ')} MB`);
  }
  await goTo(page, 'layout/by_day');
  await page.getByRole('heading', { name: 'by_day', exact: true }).waitFor();
  const drew = Date.now();
  await goTo(page, 'layout/many');
  await page.getByRole('heading', { name: 'many', exact: true }).waitFor();
  // A canvas gets its size when it is drawn.
  await page.waitForFunction(() => document.querySelector('.cut canvas')?.width > 300);
  console.log(`       ${SEGMENTS} segments drawn: ${Date.now() - drew} ms`);
  const alpha = await page.evaluate(() => {
    const canvas = document.querySelector('.cut canvas');
    return canvas.getContext('2d').getImageData(canvas.width * 0.6, canvas.height * 0.8, 1, 1).data[3];
  });
  holds(alpha > 0, 'the segments are in the picture');
  await page.getByText(`${SEGMENTS.toLocaleString('en-US')} segments`).waitFor();
}

/** A statement with a parameter is explained with its value. */
async function explained(page) {
  await goTo(page, 'sql');
  await write(page, 'SELECT count(*) FROM by_day WHERE shop < $1');
  await page.getByLabel('$1').fill('3');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.locator('.plan .node', { hasText: 'shop < 3' }).first().waitFor();
}

/** A database has the same address after a restart, so that its scripts are there, but not those of another database. */
async function restarting(page, server, folder, database) {
  const context = page.context();
  await goTo(page, 'sql');
  await write(page, "SELECT 'kept over a restart'");
  await page.close();
  await server.stop();
  const again = await start(database);
  equal(new URL(again.address).origin, new URL(server.address).origin, 'the address after a restart');
  const second = await context.newPage();
  await second.goto(again.address);
  await second.getByText("SELECT 'kept over a restart'").waitFor();
  await second.close();
  await again.stop();
  execFileSync(PROGRAM, [join(folder, 'other'), '-c', 'CREATE TABLE t (a INT)']);
  const other = await start(join(folder, 'other'), ['--port', new URL(again.address).port]);
  const third = await context.newPage();
  await third.goto(other.address);
  await third.locator('.cm-content').waitFor();
  equal(await third.getByText('kept over a restart').count(), 0, 'scripts of another database at the same address');
  await third.close();
  await other.stop();
}

export async function real(browser, faults) {
  const missing = hasConsole();
  if (missing && process.env.CONSOLE_WITHOUT_SERVER) return console.log(`       left out: ${missing}`);
  if (missing) throw new Error(`${missing}: build it (make build), set FREESTONE to it, or leave these tests out with CONSOLE_WITHOUT_SERVER=1`);
  const folder = await mkdtemp(join(tmpdir(), 'freestone-console-'));
  const database = join(folder, 'shop');
  try {
    execFileSync(PROGRAM, [database, '-c', MAKE]);
    await writeFile(join(folder, 'many.sql'), MANY);
    execFileSync(PROGRAM, [database, '-f', join(folder, 'many.sql')]);
    const server = await start(database);
    const page = await openPage(browser, server.address, { faults });
    await page.locator('.cm-content').waitFor();
    equal(new URL(page.url()).hash, '', 'the code does not stay in the address');
    const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
    console.log(`       the first paint: ${Math.round(paint)} ms`);
    await compare(page, database);
    await pagesAndZones(page, database);
    await everyView(page, database);
    await progressing(page);
    await explained(page);
    await large(page, server.pid);
    await applyAndRevert(page, database);
    const context = page.context();
    await restarting(page, server, folder, database);
    await context.close();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const LINEITEM = `SELECT CAST(g / 4 + 1 AS BIGINT) AS l_orderkey, CAST(g * 7919 % 20000 + 1 AS BIGINT) AS l_partkey, CAST(g * 104729 % 1000 + 1 AS BIGINT) AS l_suppkey,
 CAST(g % 4 + 1 AS INT) AS l_linenumber, CAST(g * 31 % 50 + 1 AS DECIMAL(15, 2)) AS l_quantity, CAST(901 + (g * 7907 % 10400000) / 100.0 AS DECIMAL(15, 2)) AS l_extendedprice,
 CAST((g * 17 % 11) / 100.0 AS DECIMAL(15, 2)) AS l_discount, CAST((g * 19 % 9) / 100.0 AS DECIMAL(15, 2)) AS l_tax,
 CASE g * 7 % 4 WHEN 0 THEN 'A' WHEN 1 THEN 'R' ELSE 'N' END AS l_returnflag, CASE WHEN g * 5003 % 2526 < 1263 THEN 'F' ELSE 'O' END AS l_linestatus,
 DATE '1992-01-02' + CAST(g * 5003 % 2526 AS INT) AS l_shipdate, DATE '1992-01-31' + CAST((g * 5003 % 2526 + g * 13 % 60) AS INT) AS l_commitdate,
 DATE '1992-01-04' + CAST((g * 5003 % 2526 + g * 11 % 30) AS INT) AS l_receiptdate,
 ['COLLECT COD', 'DELIVER IN PERSON', 'NONE', 'TAKE BACK RETURN'][g % 4 + 1] AS l_shipinstruct, ['AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK'][g * 3 % 7 + 1] AS l_shipmode,
 'deposits ' || (g * 7919 % 100003) || ' sleep furiously ' || (g % 977) AS l_comment FROM generate_series(1, 600572) AS s(g)`;
const ILLUSTRATED = `CREATE TABLE lineitem WITH (preset = 'column', sort = 'l_shipdate, l_orderkey') AS ${LINEITEM};
ALTER TABLE lineitem ADD COPY by_part (l_partkey, l_quantity, l_extendedprice) WITH (sort = 'l_partkey');
CREATE TABLE as_rows WITH (preset = 'row') AS ${LINEITEM};
CREATE TABLE big AS SELECT g - 1 AS row, DATE '1991-11-27' + CAST(g % 2500 AS INT) AS day, round(100 + 40 * sin(g / 90.0), 2) AS price, ['Oslo', 'Rome', NULL, '', 'Lima', 'Bern'][g % 6 + 1] AS city
 FROM generate_series(1, 1000000) AS s(g)`;
const WORKLOAD = ["SELECT sum(l_extendedprice * l_discount) FROM as_rows WHERE l_shipdate < DATE '1993-01-01'", 'SELECT l_shipmode, sum(l_quantity) FROM as_rows GROUP BY l_shipmode', 'SELECT max(l_commitdate) FROM as_rows WHERE l_quantity < 5'];

/** Takes the pictures of the documentation: all views, with the real server. */
export async function illustrate(browser, folder, faults, widths) {
  const data = await mkdtemp(join(tmpdir(), 'freestone-console-'));
  const database = join(data, 'shop');
  try {
    execFileSync(PROGRAM, [database, '-c', ILLUSTRATED]);
    const server = await start(database);
    const page = await openPage(browser, server.address, { faults });
    await page.locator('.cm-content').waitFor();
    // Most runs find the table in memory.
    const runs = Array.from({ length: 15 }, () => WORKLOAD).flat();
    await runAll(page, runs.join(';\n'));
    await page.locator('.picks button').nth(runs.length - 1).waitFor();
    await page.getByText('1 row', { exact: true }).waitFor();
    await pictures(browser, server.next, folder, faults, widths);
    await page.context().close();
    await server.stop();
  } finally {
    await rm(data, { recursive: true, force: true });
  }
}
