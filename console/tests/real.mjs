// The page with the real server, on a generated database. Left out, and said so, where the program is missing or has no `ui`.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { equal, goTo, holds, openPage, runAll, write } from './watch.mjs';

const PROGRAM = process.env.FREESTONE ?? join(process.env.CARGO_TARGET_DIR ?? join(homedir(), '.cache/freestone/target'), 'release/freestone');
const ROWS = 1_500_000;
const MAKE = `CREATE TABLE sales WITH (preset = 'row') AS
SELECT g AS id, DATE '2020-01-01' + CAST(g % 1000 AS INT) AS day, CAST(g % 97 AS INT) AS shop, CAST((g * 7919) % 100000 AS DECIMAL(12, 2)) AS price,
 CASE WHEN g % 10 = 0 THEN NULL ELSE 'item ' || (g % 500) END AS item FROM generate_series(1, ${ROWS}) AS s(g);
CREATE TABLE by_day WITH (preset = 'column', sort = 'day') AS SELECT * FROM sales;
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
async function start(database) {
  const child = spawn(PROGRAM, ['ui', database, '--no-open', '--write'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  const address = await new Promise((resolve, reject) => {
    child.stderr.on('data', (chunk) => {
      said += chunk;
      const found = /http:\/\/\S+/.exec(said);
      if (found) resolve(found[0]);
    });
    child.on('exit', (code) => reject(new Error(`freestone ui ended with ${code}: ${said}`)));
  });
  return { address, stop: () => new Promise((resolve) => { child.on('exit', resolve); child.kill('SIGTERM'); }) };
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
    holds(`${shown},`.includes(` ${name} ${told[name]},`), `${name} is ${told[name]}, and the page shows ${shown}`);
  }
}

async function everyView(page) {
  await goTo(page, 'layout/by_day');
  await page.getByRole('heading', { name: 'by_day', exact: true }).waitFor();
  await page.locator('.ranges canvas').waitFor();
  await page.locator('.cutting aside .problem').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'As a table' }).click();
  await page.locator('table.plain caption', { hasText: 'Segments of by_day' }).waitFor({ state: 'attached' });
  await goTo(page, 'machine');
  await page.getByRole('heading', { name: 'This machine' }).waitFor();
  equal(await page.locator('.problem b').count(), 0, 'errors in the views');
}

/** Bytes of a table as the program tells them. */
const bytesOf = (database, table) => Number(run(database, `SELECT bytes FROM freestone_tables() WHERE name = '${table}'`)[0].bytes);

async function applyAndRevert(page, database) {
  await goTo(page, 'sql');
  for (let time = 0; time < 3; time++) {
    await runAll(page, "SELECT sum(price) FROM sales WHERE day < DATE '2020-02-01'");
    await page.getByText('1 row', { exact: true }).waitFor();
  }
  const before = bytesOf(database, 'sales');
  await goTo(page, 'advice/sales');
  await page.getByRole('button', { name: 'Advise', exact: true }).click();
  await page.locator('.verdict').waitFor({ timeout: 90_000 });
  if ((await page.locator('.verdict').textContent()).startsWith('Keep')) return console.log('       the advice is to keep the design: nothing to apply');
  await page.getByRole('button', { name: 'Apply…' }).first().click();
  await page.getByRole('button', { name: 'Run it' }).click();
  await page.getByRole('button', { name: 'Revert…' }).waitFor({ timeout: 60_000 });
  holds(bytesOf(database, 'sales') !== before, 'the applied design has other bytes');
  await page.getByRole('button', { name: 'Revert…' }).click();
  await page.getByRole('button', { name: 'Run it' }).click();
  await page.getByRole('button', { name: 'Revert…' }).waitFor({ state: 'detached', timeout: 60_000 });
  const after = bytesOf(database, 'sales');
  holds(Math.abs(after - before) / before < 0.02, `reverting leads to ${after} bytes, before there were ${before}`);
}

export async function real(browser, faults) {
  const missing = hasConsole();
  if (missing) return console.log(`       left out: ${missing}; set FREESTONE to the program`);
  const folder = await mkdtemp(join(tmpdir(), 'freestone-console-'));
  const database = join(folder, 'shop');
  try {
    execFileSync(PROGRAM, [database, '-c', MAKE]);
    const server = await start(database);
    const page = await openPage(browser, server.address, { faults });
    await page.locator('.cm-content').waitFor();
    equal(new URL(page.url()).hash, '', 'the code does not stay in the address');
    await compare(page, database);
    await pagesAndZones(page, database);
    await everyView(page);
    await applyAndRevert(page, database);
    await page.context().close();
    await server.stop();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
