// The page with the real server, on a generated database. CONSOLE_WITHOUT_SERVER=1 leaves this out where the program is not built.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { applyAndRevert, WIDE } from './applied.mjs';
import { pictures } from './pictures.mjs';
import { endAll, execute, MANY, memoryOf, metric, missing, run, SEGMENTS, SIX, start } from './program.mjs';
import { equal, goTo, holds, openPage, runAll, tells, write } from './watch.mjs';

const ROWS = 1_500_000;
const HOSTILE = '<img src=x onerror=alert(1)>';
const MAKE = `${WIDE};
${SIX};
CREATE TABLE sales WITH (preset = 'row') AS
SELECT g AS id, DATE '2020-01-01' + CAST(g % 1000 AS INT) AS day, CAST(g % 97 AS INT) AS shop, CAST((g * 7919) % 100000 AS DECIMAL(12, 2)) AS price,
 CASE WHEN g % 10 = 0 THEN NULL ELSE 'item ' || (g % 500) END AS item FROM generate_series(1, ${ROWS}) AS s(g);
CREATE TABLE by_day WITH (preset = 'column', sort = 'day') AS SELECT * FROM sales;
ALTER TABLE by_day ADD COPY by_shop (shop, price) WITH (sort = 'shop');
CREATE TABLE broad AS SELECT ${Array.from({ length: 2000 }, (_, at) => `g + ${at} AS c${at}`).join(', ')} FROM generate_series(1, 3000) AS s(g);
CREATE TABLE "${HOSTILE}" AS SELECT '<script>alert(1)</script>' AS "<i>y</i>"`;
const QUERY = "SELECT shop, sum(price) AS revenue FROM by_day WHERE day < DATE '2020-02-01' GROUP BY shop ORDER BY shop";

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
  await runAll(page, `SELECT CAST(9007199254740993 AS BIGINT) AS a, CAST(1.5 AS DECIMAL(38, 4)) AS b, CAST(NULL AS VARCHAR) AS c, '' AS d, [1, 2] AS e, * FROM "${HOSTILE}"`);
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
  await scan.getByText('where it read').click();
  const usage = page.locator('.usage');
  await usage.waitFor();
  const text = await usage.textContent();
  const figure = (name) => (told[name] ?? 0).toLocaleString('en-US');
  for (const expected of [`${figure('zones_pruned')} pruned`, `${figure('zones_aggregated')} answered from aggregates`, `${figure('pages_used')} used of ${figure('pages_total')} of the columns read`]) {
    holds(text.includes(expected), `the layout shows ${expected}: ${text}`);
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
  const pages = page.locator('table.plain', { has: page.locator('caption', { hasText: 'Pages of segment 0' }) }).locator('tbody tr');
  const drawn = await pages.evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent.replaceAll(',', ''))));
  const listed = run(database, 'SELECT "group", page, "format", first_row, "rows", bytes FROM freestone_pages(\'by_day\', segment => 0) ORDER BY "group", page LIMIT 300');
  equal(drawn, listed.map((row) => [row.group, row.page, row.format, row.first_row, row.rows, row.bytes].map(String)), 'the pages of a segment');
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
  await page.locator('.curves canvas').first().waitFor();
  equal(await page.locator('.problem b').count(), 0, 'errors in the views');
}

/** The server's memory while the reader of a large result pauses, and the picture of 1,000 segments. Times are printed only. */
async function large(page, server) {
  await goTo(page, 'sql');
  await write(page, 'SELECT * FROM six');
  const began = Date.now();
  await page.keyboard.press('Control+Shift+Enter');
  await page.locator('.grid-row').first().waitFor();
  tells('first rows of 6 million', Date.now() - began, 200);
  await page.getByText('the query waits until you scroll').waitFor();
  await page.waitForTimeout(1000);
  const sizes = [];
  for (let time = 0; time < 8; time++) {
    sizes.push(memoryOf(server.pid));
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
  tells(`${SEGMENTS} segments`, Date.now() - drew, 1000);
  const alpha = await page.evaluate(() => {
    const canvas = document.querySelector('.cut canvas');
    return canvas.getContext('2d').getImageData(canvas.width * 0.6, canvas.height * 0.8, 1, 1).data[3];
  });
  holds(alpha > 0, 'the segments are in the picture');
  await page.getByText(`${SEGMENTS.toLocaleString('en-US')} segments`).waitFor();
}

/** Names and values that look like HTML are texts in every view. */
async function hostile(page) {
  const quoted = `"${HOSTILE}"`;
  await goTo(page, 'sql');
  await page.locator('.side li button', { hasText: HOSTILE }).first().waitFor();
  await write(page, `SELECT "<i>y</i>", count(*) FROM ${quoted} GROUP BY 1`);
  await page.keyboard.press('Control+Shift+E');
  await page.locator('.plan .name', { hasText: HOSTILE }).first().waitFor();
  for (const view of ['layout', 'advice']) {
    await goTo(page, `${view}/${encodeURIComponent(HOSTILE)}`);
    await page.getByText(view === 'layout' ? '<i>y</i>' : HOSTILE).first().waitFor({ state: 'attached' });
  }
  await page.getByRole('button', { name: 'Advise', exact: true }).waitFor();
  equal(await page.locator('img[src="x"], i:has-text("y"), main script').count(), 0, 'elements that names and values have made');
}

/** The widest and the longest of results, and a table of 2,000 columns. */
async function wideAndLong(page) {
  await goTo(page, 'sql');
  await runAll(page, "SELECT repeat('x', 100000000) AS long");
  await page.getByText('1 row', { exact: true }).waitFor();
  holds((await page.locator('.grid [data-row="0"]').textContent()).length < 1000, 'a long text is cut in the grid');
  await runAll(page, 'SELECT * FROM broad');
  await page.getByText('3,000 rows').waitFor();
  await page.locator('.grid').focus();
  await page.keyboard.press('Control+End');
  equal(await page.locator('.grid [data-row="2999"][data-column="1999"]').textContent(), '4999', 'the last cell of 2,000 columns');
  await goTo(page, 'layout/broad');
  await page.getByRole('heading', { name: 'broad', exact: true }).waitFor();
  await page.locator('.cut canvas').focus();
  await page.keyboard.press('Home');
  await page.locator('.cut [aria-live]', { hasText: 'segment 0' }).waitFor();
}

/** Waits until so many statements run at most. */
async function runAtMost(address, most) {
  for (let time = 0; time < 100 && await metric(address, 'statements_running') > most; time++) await new Promise((resolve) => setTimeout(resolve, 100));
  const running = await metric(address, 'statements_running');
  holds(running <= most, `${running} statements run, at most ${most} may`);
}

/** Ten tabs of one window, each with a large result: each is a session of its own, four results are open at most, and none when the window has gone. */
async function tenTabs(browser, server, faults) {
  const page = await openPage(browser, await server.next(), { faults });
  await page.locator('.cm-content').waitFor();
  for (let at = 0; at < 10; at++) {
    if (at > 0) await page.keyboard.press('Alt+T');
    await runAll(page, `CREATE TEMPORARY TABLE own AS SELECT ${at} AS number`);
    await page.locator('.status b', { hasText: 'CREATE TABLE' }).waitFor();
    await runAll(page, 'SELECT * FROM six');
    await page.getByText('rows so far').waitFor();
    await runAtMost(server.address, 4);
  }
  for (let at = 9; at >= 0; at--) {
    await runAll(page, 'SELECT number FROM own');
    await page.getByText('1 row', { exact: true }).waitFor();
    equal(await page.locator('.grid [data-row="0"]').textContent(), String(at), `the table of tab ${at}`);
    await page.keyboard.press('Alt+PageUp');
  }
  await runAll(page, 'SELECT * FROM six');
  await page.getByText('rows so far').waitFor();
  await page.context().close();
  await runAtMost(server.address, 0);
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
  execute(join(folder, 'other'), '-c', 'CREATE TABLE t (a INT)');
  const other = await start(join(folder, 'other'), ['--port', new URL(again.address).port]);
  const third = await context.newPage();
  await third.goto(other.address);
  await third.locator('.cm-content').waitFor();
  equal(await third.getByText('kept over a restart').count(), 0, 'scripts of another database at the same address');
  await third.close();
  await other.stop();
}

/** The page with the real server. `isWanted` chooses among the checks, by their names. */
export async function real(browser, faults, isWanted = () => true) {
  const lacking = missing();
  if (lacking && process.env.CONSOLE_WITHOUT_SERVER) return console.log(`       left out: ${lacking}`);
  if (lacking) throw new Error(`${lacking}: build it (make build), set FREESTONE to it, or leave these tests out with CONSOLE_WITHOUT_SERVER=1`);
  const folder = await mkdtemp(join(tmpdir(), 'freestone-console-'));
  const database = join(folder, 'shop');
  try {
    await writeFile(join(folder, 'make.sql'), `${MAKE};\n${MANY}`);
    execute(database, '-f', join(folder, 'make.sql'));
    const server = await start(database);
    const page = await openPage(browser, server.address, { faults });
    await page.locator('.cm-content').waitFor();
    equal(new URL(page.url()).hash, '', 'the code does not stay in the address');
    tells('the first paint', await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime), 300);
    const checks = {
      compare, pagesAndZones, everyView, progressing, explained, hostile, wideAndLong, large: () => large(page, server), applyAndRevert, tenTabs: () => tenTabs(browser, server, faults),
      restarting: () => restarting(page, server, folder, database),
    };
    for (const [name, check] of Object.entries(checks)) {
      if (!isWanted(name)) continue;
      const began = Date.now();
      await check(page, database);
      console.log(`       ${name}: ${Date.now() - began} ms`);
    }
    await server.stop();
    await page.context().close();
  } finally {
    endAll();
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
    execute(database, '-c', ILLUSTRATED);
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
    endAll();
    await rm(data, { recursive: true, force: true });
  }
}
