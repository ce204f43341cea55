// Drives the page in Chromium: against made-up answers, and against the real server.
// Pictures of all views go to a temporary folder; `--pictures FOLDER` takes those of the documentation, with the real server;
// `--only TEXT` runs the parts that have this text in their names; `--check NAME` one check with the real server; `--widths 360,1280` takes pictures of these windows only.
import { copyFile, mkdir, mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serve } from './mock.mjs';
import { pictures } from './pictures.mjs';
import { coloursOfLayout, plotsChange } from './plots.mjs';
import { everyControl } from './reach.mjs';
import { illustrate, real } from './real.mjs';
import { equal, goTo, holds, inspect, launch, openPage, parts, runAll, tells, write } from './watch.mjs';

const folder = await mkdtemp(join(tmpdir(), 'freestone-console-'));
const documented = ['sql-1280-light', 'plan-1280-light', 'layout-1280-dark', 'range-1280-light', 'advice-1280-light', 'machine-1280-light', 'layout-360-light'];
const browser = await launch();
const server = await serve();
const faults = [];
const page = await openPage(browser, server.address, { width: 1800, faults });
const grid = () => page.locator('.grid');
const cell = (row, column) => page.locator(`.grid [data-row="${row}"][data-column="${column}"]`);

async function firstPaint() {
  await page.locator('.cm-content').waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  tells('the first paint', paint, 300);
}

async function exactValues() {
  await runAll(page, 'SELECT * FROM types');
  await cell(2, 7).waitFor();
  const row = async (number) => Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map((column) => cell(number, column).textContent()));
  equal(await row(0), ['9007199254740993', `${'9'.repeat(34)}.9999`, '2023-11-14 22:13:20.123456789', '1970-01-01', '<b>bold</b><script>alert(1)</script>', 'a', '[1, 2, NULL]', "{'x': 1, 'y': 'it''s'}"], 'the first row');
  equal([await cell(1, 4).getAttribute('class'), await cell(2, 4).getAttribute('class')], ['void', 'null'], 'an empty text and NULL');
  equal(await page.locator('.grid b, .grid script').count(), 0, 'elements that cells have made');
}

/** A narrow column shows its whole name and type. */
async function headings() {
  await runAll(page, 'SELECT * FROM types');
  await cell(2, 7).waitFor();
  const cut = await page.evaluate(() => [...document.querySelectorAll('.grid-head [role=columnheader]')].flatMap((head) => [head, head.querySelector('small')]
    .filter((part) => part.scrollWidth > part.clientWidth).map((part) => `${part.textContent}: ${part.scrollWidth} in ${part.clientWidth}`)));
  equal(cut, [], 'headings that are cut');
}

async function moving() {
  await runAll(page, 'SELECT * FROM types');
  await cell(2, 7).waitFor();
  await grid().focus();
  for (const key of ['Control+Home', 'ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowUp']) await page.keyboard.press(key);
  await page.keyboard.press('Enter');
  equal(await page.locator('dialog .value').textContent(), '<b>bold</b><script>alert(1)</script>', 'the whole value');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Control+C');
  await page.locator('.toast').waitFor();
  equal(await page.evaluate(() => navigator.clipboard.readText()), 'day\tname\n1970-01-01\t<b>bold</b><script>alert(1)</script>', 'the copied cells');
}

async function downloads() {
  const save = async (kind) => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByLabel('Download').selectOption(kind)]);
    return readFile(await download.path(), 'utf8');
  };
  holds((await save('csv')).split('\n')[2].endsWith(`,"",b,[],"{'x': NULL, 'y': ''}"`), 'CSV tells NULL from an empty text');
  equal(JSON.parse(await save('json')).map((row) => row.name), ['<b>bold</b><script>alert(1)</script>', '', null], 'JSON');
  holds((await save('arrow')).length > 500, 'Arrow');
}

async function backpressure() {
  await runAll(page, 'SELECT * FROM huge');
  await page.getByText('rows so far').waitFor();
  // Sockets and the browser hold some megabytes; then nothing more is sent.
  let [before, still] = [-1, 0];
  for (let time = 0; time < 120 && still < 3; time++) {
    still = server.state.sent === before ? still + 1 : 0;
    before = server.state.sent;
    await page.waitForTimeout(500);
  }
  holds(still >= 3 && before < 6_000_000, `the server has sent ${before} rows to a page that shows 30`);
}

async function millionRows() {
  await runAll(page, 'SELECT * FROM big');
  await page.getByText('10,000 rows so far').waitFor();
  const began = Date.now();
  await page.getByRole('button', { name: 'Read all' }).click();
  await page.getByText('1,000,000 rows').waitFor({ timeout: 60_000 });
  console.log(`       a million rows in ${Date.now() - began} ms`);
  await grid().focus();
  await page.keyboard.press('Control+End');
  equal(await cell(999_999, 0).textContent(), '999999', 'the last row');
  await page.keyboard.press('Control+Home');
  equal(await cell(0, 0).textContent(), '0', 'the first row');
  // The step in the middle: a busy machine makes some of them wait.
  const usual = await page.evaluate(async () => {
    const box = document.querySelector('.grid-scroll');
    const steps = [];
    let last = performance.now();
    for (let step = 0; step < 60; step++) {
      box.dispatchEvent(new WheelEvent('wheel', { deltaY: 240, cancelable: true, bubbles: true }));
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      steps.push(now - last);
      last = now;
    }
    return steps.sort((a, b) => a - b)[30];
  });
  tells('a step of scrolling', usual, 60);
  const first = Number(await page.locator('.grid [data-column="0"]').first().textContent());
  holds(first > 550 && first < 620, `60 steps of 240 pixels lead to row ${first}`);
}

async function mistakes() {
  await runAll(page, 'SELECT 1;\nSELECT\n  mistake');
  const problem = page.locator('.results .problem');
  await problem.waitFor();
  const text = await problem.textContent();
  holds(text.includes('line 3, column 3') && text.includes('Hint: columns are'), text);
  equal(await page.locator('.cm-lintRange-error').textContent(), 'mistake', 'the marked word');
  await problem.getByRole('button').click();
  await page.keyboard.type('good_');
  equal((await page.locator('.cm-content').innerText()).split('\n').at(-1), '  good_mistake', 'the cursor is at the mistake');
}

async function cancelling() {
  await runAll(page, 'SELECT slow');
  await page.getByText(/; [1-9](\.\d)? % read/).waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('cancelled').waitFor();
  await runAll(page, 'SELECT 1');
  await page.getByText('1 row', { exact: true }).waitFor();
}

/** With all six connections of a browser in use, a request to cancel would wait for one of them. */
async function cancellingWithoutConnections() {
  const busy = await openPage(browser, server.address, { faults });
  await busy.locator('.cm-content').waitFor();
  await busy.evaluate(() => {
    for (let at = 0; at < 5; at++) {
      void fetch('/api/query', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Freestone': '1' }, body: JSON.stringify({ tab: `other-${at}`, sql: 'SELECT * FROM huge' }) });
    }
  });
  await runAll(busy, 'SELECT slow');
  await busy.getByRole('button', { name: 'Cancel' }).click();
  await runAll(busy, 'SELECT 1');
  await busy.getByText('1 row', { exact: true }).waitFor({ timeout: 15_000 });
  await busy.context().close();
}

/** Windows share their connections: one more result ends the oldest that waits, in the other window. */
async function manyWindows() {
  const first = await openPage(browser, server.address, { faults });
  for (let at = 0; at < 4; at++) {
    if (at > 0) await first.keyboard.press('Alt+T');
    await runAll(first, 'SELECT * FROM huge');
    await first.getByText('rows so far').waitFor();
  }
  const second = await first.context().newPage();
  await second.goto(server.address);
  await second.locator('.cm-content').waitFor();
  await runAll(second, 'SELECT * FROM huge');
  await second.getByText('rows so far').waitFor({ timeout: 15_000 });
  await first.keyboard.press('Alt+PageDown');
  await first.getByText('cancelled, after').waitFor();
  await first.keyboard.press('Alt+PageDown');
  await first.getByText('rows so far').waitFor();
  await first.context().close();
}

async function completing() {
  await write(page, '');
  await page.keyboard.type('SELECT l_ship');
  await page.locator('.cm-tooltip-autocomplete li').first().waitFor();
  const offered = await page.locator('.cm-tooltip-autocomplete li').allTextContents();
  holds(offered.some((text) => text.startsWith('l_shipdate')), `completions are ${offered.join(', ')}`);
  await page.keyboard.press('Escape');
}

async function parametersAndTabs() {
  await page.keyboard.press('Alt+T');
  await runAll(page, 'SELECT $1, $2');
  await page.getByLabel('$2').fill('9007199254740993');
  const [request] = await Promise.all([page.waitForRequest('**/api/query'), page.getByRole('button', { name: 'Run', exact: true }).click()]);
  equal(request.postDataJSON().parameters, ['', '9007199254740993'], 'parameters');
  await page.keyboard.press('Alt+W');
  equal(await page.locator('.tabs .tab').count(), 1, 'tabs');
}

async function keysOfTabs() {
  await goTo(page, 'sql');
  await runAll(page, 'SELECT * FROM types');
  await cell(2, 7).waitFor();
  await page.keyboard.press('F2');
  await page.getByLabel('Name', { exact: true }).fill('<b>months</b>');
  await page.keyboard.press('Enter');
  equal(await page.locator('.tabs .tab.on button').first().textContent(), '<b>months</b>', 'the name of the tab');
  await page.keyboard.press('F2');
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await grid().focus();
  const width = () => cell(0, 0).evaluate((element) => element.clientWidth);
  await page.keyboard.press('Control+Home');
  const before = await width();
  for (const key of ['Alt+ArrowRight', 'Alt+ArrowRight', 'Alt+ArrowLeft']) await page.keyboard.press(key);
  holds(await width() > before && await width() < before + 40, `the column is ${await width()} pixels wide, before ${before}`);
}

/** Waits until the editor has this text. */
async function shows(text) {
  const now = () => page.locator('.cm-content').innerText();
  for (let time = 0; time < 50 && await now() !== text; time++) await page.waitForTimeout(100);
  equal(await now(), text, 'the text of the editor');
}

/** Scripts are plain files, and what ran is found again. */
async function scriptsAndHistory() {
  await goTo(page, 'sql');
  await page.keyboard.press('Alt+T');
  await runAll(page, "SELECT 42 AS kept -- an 'odd' text");
  await page.getByText('1 row', { exact: true }).waitFor();
  const [saved] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('Control+S')]);
  holds(saved.suggestedFilename().endsWith('.sql'), saved.suggestedFilename());
  equal(await readFile(await saved.path(), 'utf8'), "SELECT 42 AS kept -- an 'odd' text", 'the saved script');
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.keyboard.press('Control+O')]);
  await chooser.setFiles({ name: 'report.sql', mimeType: 'application/sql', buffer: Buffer.from('SELECT 7;\nSELECT 8') });
  await page.locator('.tabs .tab.on', { hasText: 'report.sql' }).waitFor();
  await shows('SELECT 7;\nSELECT 8');
  await page.keyboard.press('Alt+H');
  await page.getByLabel('Search').fill('as KEPT');
  equal(await page.locator('.past button').count(), 1, 'found statements');
  await page.locator('.past button').click();
  await shows("SELECT 42 AS kept -- an 'odd' text");
  for (let tab = 0; tab < 3; tab++) await page.keyboard.press('Alt+W');
}

/** Every view, and every region of the first one, by keys alone. */
async function keysOfThePage() {
  for (const [at, title] of ['SQL', 'Plan', 'Layout', 'Advice', 'Machine'].entries()) {
    await page.keyboard.press(`Alt+${at + 1}`);
    await page.locator('.views [aria-current]', { hasText: title }).waitFor();
  }
  await page.keyboard.press('F1');
  await page.getByRole('dialog', { name: 'Keys and colours' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('Alt+1');
  await runAll(page, 'SELECT * FROM types');
  await cell(2, 7).waitFor();
  const focused = () => page.evaluate(() => (document.activeElement.closest('.editor') ? 'editor' : document.activeElement.closest('.grid') ? 'grid' : document.activeElement.closest('.side') ? 'side' : document.activeElement.tagName));
  const seen = [await focused()];
  for (let press = 0; press < 3; press++) {
    await page.keyboard.press('F6');
    seen.push(await focused());
  }
  equal(seen, ['editor', 'grid', 'side', 'editor'], 'the regions');
}

async function whatIf() {
  await goTo(page, 'advice/lineitem');
  const asked = page.waitForRequest((each) => (each.postData() ?? '').includes('WHATIF'));
  await page.getByLabel('Query', { exact: true }).fill('SELECT max(l_tax) FROM lineitem;');
  await page.getByRole('button', { name: 'Compare' }).click();
  equal((await asked).postDataJSON().sql, "WHATIF lineitem DESIGN (preset = 'row') FOR SELECT max(l_tax) FROM lineitem", 'the question');
  const rows = page.locator('table.plain', { has: page.locator('caption', { hasText: 'What if' }) }).locator('tbody tr');
  await rows.nth(1).waitFor();
  equal((await rows.nth(1).locator('td').allTextContents()).slice(3, 6), ['12.2 ms', '11.7 ms', '13.9 MB'], 'predicted, measured and read');
}

async function plans() {
  await goTo(page, 'sql');
  await write(page, 'SELECT l_shipmode FROM lineitem WHERE l_quantity < $1');
  await page.getByLabel('$1').fill('7');
  const asked = page.waitForRequest((each) => (each.postData() ?? '').includes('EXPLAIN'));
  await page.getByRole('button', { name: 'Explain' }).click();
  equal((await asked).postDataJSON().parameters, [7], 'the values of an explained statement');
  await page.locator('.tag', { hasText: 'heaviest' }).waitFor();
  await goTo(page, 'sql');
  await write(page, 'SELECT l_shipmode FROM lineitem');
  await page.keyboard.press('Control+Shift+E');
  await page.locator('.tag', { hasText: 'heaviest' }).waitFor();
  equal(await page.locator('.node.heavy .name').textContent(), 'Scan lineitem', 'the heaviest operator');
  holds((await page.locator('.counters').first().textContent()).includes('bytes_total 1,021,952'), 'counters are exact');
  holds((await page.locator('.off').first().textContent()).startsWith('×85 more'), 'the estimate that is off');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as HTML' }).click()]);
  holds((await readFile(await download.path(), 'utf8')).includes('Scan lineitem'), 'the saved plan');
  const whereItRead = async (at) => {
    await goTo(page, 'plan');
    await page.getByText('where it read').nth(at).click();
  };
  await whereItRead(0);
  await page.getByText('251 pruned').waitFor();
  await page.getByText('6 used of 33').waitFor();
  // The second scan of a join of the table with itself, and the scan of a copy.
  await whereItRead(1);
  await page.getByText('21 used of 21').waitFor();
  await page.getByLabel('Scan', { exact: true }).selectOption('0');
  await page.getByText('6 used of 33').waitFor();
  await whereItRead(2);
  await page.getByRole('heading', { name: 'lineitem, copy by_part' }).waitFor();
  await page.getByText('293 pruned').waitFor();
  equal(new URL(page.url()).hash, '#layout/lineitem/by_part', 'the address of a copy');
}

async function reasons() {
  await goTo(page, 'layout/lineitem');
  const row = page.locator('table.plain', { has: page.locator('caption', { hasText: 'Candidate encodings' }) }).locator('tr', { hasText: 'not weighed' });
  await row.first().waitFor();
  equal((await row.locator('td').allTextContents()).slice(3), ['–', '–'], 'time and score of an encoding that was not weighed');
}

/** A column has the encoding of each segment, and what is no page of a column is in the picture, too. */
async function partsOfSegments() {
  await goTo(page, 'layout/lineitem');
  await page.getByRole('heading', { name: 'lineitem', exact: true }).waitFor();
  const canvas = page.locator('.cut canvas');
  await page.waitForFunction(() => document.querySelector('.cut canvas')?.width > 300);
  await canvas.focus();
  await page.keyboard.press('Home');
  for (let row = 0; row < 14; row++) await page.keyboard.press('ArrowDown');
  const said = () => page.locator('.cut [aria-live]').textContent();
  holds((await said()).includes('fsst'), `the first segment: ${await said()}`);
  await page.keyboard.press('End');
  holds((await said()).includes('dictionary'), `the last segment: ${await said()}`);
  for (let row = 0; row < 8; row++) await page.keyboard.press('ArrowDown');
  holds(/^[^:]*footer: segment 5, /.test(await said()), `the lowest part: ${await said()}`);
  equal(await page.locator('.rest .legend span').allTextContents(), ['dictionary of l_orderkey 110 kB', 'index (l_orderkey) 82.7 kB', 'zones 55.2 kB', 'footer 27.6 kB'], 'what is no page of a column');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'lineitem, segment 5' }).waitFor();
  await page.getByText('in segment 5').waitFor();
  holds((await page.locator('.about').textContent()).includes('in segment 5dictionary, '), 'the encoding of the segment');
  await page.getByRole('button', { name: 'As a table' }).click();
  const shown = page.locator('table.plain', { has: page.locator('caption', { hasText: 'Parts of the file of segment 5' }) });
  equal(await shown.locator('tr', { hasText: 'index' }).locator('td').first().textContent(), 'index (l_orderkey)', 'parts as a table');
  await page.getByRole('button', { name: 'As a picture' }).click();
  await canvas.focus();
  await page.keyboard.press('Escape');
  await page.getByText('Of segment 0').waitFor();
}

async function copies() {
  await goTo(page, 'layout/lineitem');
  await page.getByRole('heading', { name: 'lineitem', exact: true }).waitFor();
  await page.getByRole('button', { name: 'copy by_part' }).click();
  await page.getByRole('heading', { name: 'lineitem, copy by_part' }).waitFor();
  equal(await page.getByRole('button', { name: 'copy by_part' }).getAttribute('aria-pressed'), 'true', 'the copy is chosen');
  await page.getByRole('button', { name: 'As a table' }).click();
  const shown = page.locator('table.plain', { has: page.locator('caption', { hasText: 'Columns of lineitem' }) });
  equal(await shown.locator('tbody tr').count(), 3, 'columns of the copy');
  await page.getByRole('button', { name: 'As a picture' }).click();
  await goTo(page, 'layout/lineitem/none');
  await page.getByText('There is no copy none of lineitem').waitFor();
}

async function thousandSegments() {
  await goTo(page, 'layout/lineitem');
  await page.locator('.cut canvas').waitFor();
  await page.evaluate(() => { window.began = performance.now(); location.hash = 'layout/events'; });
  await page.getByRole('heading', { name: 'events', exact: true }).waitFor();
  // A canvas gets its size when it is drawn.
  await page.waitForFunction(() => document.querySelector('.cut canvas')?.width > 300);
  const took = await page.evaluate(() => performance.now() - window.began);
  holds(await page.evaluate(() => {
    const canvas = document.querySelector('.cut canvas');
    return canvas.getContext('2d').getImageData(canvas.width * 0.6, canvas.height * 0.8, 1, 1).data[3] > 0;
  }), 'the segments are in the picture');
  tells('1,000 segments', took, 1000);
}

/** Sizes at the ends: the page answers to keys, whatever it shows. */
async function longAndWide() {
  await goTo(page, 'sql');
  await runAll(page, "SELECT 'hundred megabytes'");
  await page.getByText('1 row', { exact: true }).waitFor();
  await grid().focus();
  await page.keyboard.press('End');
  holds((await cell(0, 1).textContent()).length < 1000, 'a long text is cut in the grid');
  await page.keyboard.press('Enter');
  await page.getByText('the first 200,000 letters').waitFor();
  holds((await page.locator('dialog .value').textContent()).length <= 200_001, 'letters in the dialog');
  await page.keyboard.press('Escape');
  await runAll(page, 'SELECT * FROM wide');
  await page.getByText('2 rows', { exact: true }).waitFor();
  await grid().focus();
  await page.keyboard.press('End');
  equal(await cell(0, 1999).textContent(), '1999', 'the last of 2,000 columns');
  holds(await page.locator('.grid [data-row="0"]').count() < 60, 'columns that are not seen are not in the page');
  await goTo(page, 'layout/wide');
  await page.getByRole('heading', { name: 'wide', exact: true }).waitFor();
  await page.locator('.cut canvas').focus();
  // The second picture's part: four segments are read together.
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowDown']) await page.keyboard.press(key);
  holds((await page.locator('.cut [aria-live]').textContent()).includes(' more: segment'), 'thin columns are drawn together, and say so');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'wide, segment 4' }).waitFor();
  await goTo(page, 'layout/events');
  await page.getByRole('heading', { name: 'events', exact: true }).waitFor();
  await page.getByText('1,000,000 zones').waitFor();
}

async function walkingTheLayout() {
  await goTo(page, 'layout/lineitem');
  await page.getByRole('heading', { name: 'lineitem', exact: true }).waitFor();
  await page.locator('.cut canvas').focus();
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown']) await page.keyboard.press(key);
  equal(await page.locator('.cutting aside h2').textContent(), 'l_partkey', 'the column under the cursor');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'lineitem, segment 1' }).waitFor();
  await page.locator('.cut canvas').focus();
  await page.keyboard.press('Escape');
  await page.getByRole('heading', { name: 'lineitem', exact: true }).waitFor();
  await page.locator('.ranges canvas').focus();
  for (const key of ['End', 'Home', 'ArrowRight']) await page.keyboard.press(key);
  await page.locator('.ranges [aria-live]', { hasText: /^segment \d+, from zone \d+: \d+ zones?, / }).waitFor();
  await page.keyboard.press('Escape');
  equal(await page.locator('.ranges [aria-live]').textContent(), '', 'no zone is chosen');
  await page.getByRole('button', { name: 'As a table' }).click();
  equal(await page.locator('table.plain caption', { hasText: 'Segments of lineitem' }).count(), 1, 'the table instead of the picture');
  await page.getByRole('button', { name: 'As a picture' }).click();
}

/** Keys may come before the browser has told the page how large its parts are, and while tables are read again. */
async function earlyKeys() {
  const early = await openPage(browser, server.address, { width: 1800, faults });
  await early.addInitScript(() => {
    const Own = ResizeObserver;
    window.ResizeObserver = class extends Own {
      constructor(call) {
        super((...sizes) => setTimeout(() => call(...sizes), 2000));
      }
    };
  });
  await early.reload();
  await goTo(early, 'layout/lineitem');
  await early.getByRole('heading', { name: 'lineitem', exact: true }).waitFor();
  await early.locator('.cut canvas').focus();
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'Enter']) await early.keyboard.press(key);
  await early.getByRole('heading', { name: /^lineitem, segment/ }).waitFor();
  const opened = () => early.locator('.card h2').nth(1).textContent();
  equal(await opened(), 'lineitem, segment 1', 'the segment that keys lead to');
  const read = early.waitForResponse(async (response) => (response.request().postData() ?? '').includes('freestone_parts') && (await response.finished()) === null);
  await early.getByRole('button', { name: 'Read again' }).click();
  await read;
  await early.waitForTimeout(300);
  equal(await opened(), 'lineitem, segment 1', 'the segment stays open');
  await early.context().close();
}

async function advising() {
  // One query of the log, with its literals, from the history of this browser.
  await goTo(page, 'sql');
  await runAll(page, "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate BETWEEN DATE '1994-01-01' AND DATE '1995-01-01'");
  await page.getByText('1 row', { exact: true }).waitFor();
  await goTo(page, 'advice/lineitem');
  await page.getByLabel('Copies at most').fill('3');
  await page.getByLabel('Bytes at most').fill('2GB');
  const asked = page.waitForRequest((each) => (each.postData() ?? '').includes('ADVISE'));
  await page.getByRole('button', { name: 'Advise', exact: true }).click();
  equal((await asked).postDataJSON().sql, "ADVISE lineitem COPIES 3 BUDGET '2GB'", 'the limits');
  await page.getByText('Convert: scans take').waitFor();
  const costs = page.locator('table.plain', { has: page.locator('caption', { hasText: 'Winners and losers' }) });
  equal(await costs.locator('td:last-child').allTextContents(), ['12.9 times faster', '4.40 times faster', '1.30 times slower'], 'winners and losers');
  await page.getByRole('button', { name: 'Apply…' }).click();
  holds((await page.locator('dialog .statement').textContent()).startsWith('ALTER TABLE lineitem SET DESIGN'), 'the statement is shown first');
  const [request] = await Promise.all([page.waitForRequest((each) => (each.postData() ?? '').includes('ALTER')), page.getByRole('button', { name: 'Run it' }).click()]);
  holds(request.postDataJSON().sql.startsWith('ALTER TABLE lineitem SET DESIGN'), 'the statement runs');
  await page.getByRole('button', { name: 'Revert…' }).waitFor();
  await page.getByText('Time of the scans of 1 query').waitFor();
  await page.getByText('1 query more could not be run again here').waitFor();
  const reverted = page.waitForRequest((each) => (each.postData() ?? '').includes('ALTER'));
  await page.getByRole('button', { name: 'Revert…' }).click();
  await page.getByRole('button', { name: 'Run it' }).click();
  equal((await reverted).postDataJSON().sql, "ALTER TABLE lineitem SET DESIGN (preset = 'row')", 'the statement that reverts');
  await page.getByRole('button', { name: 'Revert…' }).waitFor({ state: 'detached' });
}

/** Copies are added, unused ones are dropped, and each has the statement that undoes it. */
async function advisingCopies() {
  await goTo(page, 'advice/events');
  await page.getByRole('button', { name: 'Advise', exact: true }).click();
  await page.getByText('Add 1 copy').waitFor();
  const sent = () => page.waitForRequest((each) => (each.postData() ?? '').includes('ALTER TABLE'));
  for (const [at, apply, revert] of [[0, 'ADD COPY "copy_1"', 'DROP COPY "copy_1"'], [1, 'DROP COPY "old"', 'ADD COPY "old"']]) {
    await page.getByRole('button', { name: 'Apply…' }).nth(at).click();
    const [applied] = await Promise.all([sent(), page.getByRole('button', { name: 'Run it' }).click()]);
    holds(applied.postDataJSON().sql.includes(apply), `${applied.postDataJSON().sql} has ${apply}`);
    await page.getByRole('button', { name: 'Revert…' }).click();
    const [reverted] = await Promise.all([sent(), page.getByRole('button', { name: 'Run it' }).click()]);
    holds(reverted.postDataJSON().sql.includes(revert), `${reverted.postDataJSON().sql} has ${revert}`);
    await page.getByRole('button', { name: 'Revert…' }).waitFor({ state: 'detached' });
  }
}

async function loggingIn() {
  const guarded = await serve({ code: 'secret', write: false });
  const first = await openPage(browser, `${guarded.address}`, { faults });
  await first.getByLabel('Code').fill('wrong');
  await first.getByRole('button', { name: 'Log in' }).click();
  await first.locator('.problem').waitFor();
  await inspect(first, 'login', faults);
  holds(await first.locator('.login').evaluate((card) => card.clientHeight) < 320, 'the card is as high as what is in it');
  // The browser reports the refused login by itself.
  faults.splice(0, faults.length, ...faults.filter((fault) => !fault.includes('401')));
  await first.goto(`${guarded.address}#code=secret`);
  await first.reload();
  await first.getByText('read only').waitFor();
  equal(new URL(first.url()).hash, '', 'the code does not stay in the address');
  await goTo(first, 'advice');
  await first.getByRole('button', { name: 'Advise', exact: true }).click();
  holds(await first.getByRole('button', { name: 'Apply…' }).isDisabled(), 'a database that is open for reading cannot be changed');
  await first.context().close();
  await guarded.stop();
}

/** What the browser keeps is of one user and database, and ends with the login. */
async function keeping() {
  const kept = await openPage(browser, server.address, { faults });
  const keys = () => kept.evaluate(() => Object.keys(localStorage).sort());
  await write(kept, 'SELECT kept');
  await kept.reload();
  await kept.getByText('SELECT kept').waitFor();
  await runAll(kept, 'SELECT 1');
  await kept.getByText('1 row', { exact: true }).waitFor();
  await kept.getByLabel('Colours', { exact: true }).selectOption('dark');
  equal(await keys(), ['freestone.theme', 'freestone/ann/f00d/history', 'freestone/ann/f00d/tabs'], 'the keys');
  // Texts are kept after a pause.
  await kept.waitForTimeout(700);
  const other = await kept.context().newPage();
  await other.goto(server.address);
  await other.getByText('SELECT 1').waitFor();
  await Promise.all([kept.waitForEvent('load'), other.waitForEvent('load'), kept.getByRole('button', { name: 'Log out' }).click()]);
  await kept.locator('.cm-content').waitFor();
  await other.locator('.cm-content').waitFor();
  equal(await kept.locator('.cm-content').innerText(), await other.locator('.cm-content').innerText(), 'both windows begin anew');
  equal(await keys(), ['freestone.theme'], 'the keys after the login has ended');
  await kept.context().close();
}

const option = (name) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : null);
const only = option('--only') ?? '';
const check = option('--check');
const widths = option('--widths')?.split(',').map(Number);
const failed = await parts([
  ['first paint', firstPaint], ['values are exact', exactValues], ['headings are not cut', headings], ['keys in the grid', moving], ['downloads', downloads], ['a page that waits stops the server', backpressure],
  ['a million rows', millionRows], ['errors at their place', mistakes], ['cancel', cancelling], ['cancel without a connection', cancellingWithoutConnections], ['results in several windows', manyWindows], ['completion', completing], ['parameters and tabs', parametersAndTabs],
  ['names of tabs and widths of columns', keysOfTabs], ['scripts and history', scriptsAndHistory], ['keys of the page', keysOfThePage], ['plans', plans], ['copies', copies], ['encodings of segments', partsOfSegments], ['an encoding that was not weighed', reasons], ['a thousand segments', thousandSegments], ['long values, many columns and zones', longAndWide], ['keys in the layout', walkingTheLayout], ['keys before sizes are known', earlyKeys], ['advice', advising], ['advice of copies', advisingCopies], ['what if', whatIf], ['login', loggingIn], ['scripts stay until the login ends', keeping],
  ['plots can be changed', () => plotsChange(page)], ['colours of the layout', () => coloursOfLayout(page)], ['every control by keys', () => everyControl(browser, server.address, faults)],
  ['names and widths', async () => { for (const view of ['sql', 'plan', 'layout', 'advice', 'machine']) { await goTo(page, view); await page.waitForTimeout(250); await inspect(page, view, faults); } }],
  ['pictures', () => pictures(browser, () => server.address, folder, faults, widths)],
  ['the real server', () => real(browser, faults, (name) => check === null || name === check)],
].filter(([name]) => name.includes(only)), faults);
const wanted = option('--pictures');
if (wanted) {
  await mkdir(wanted, { recursive: true });
  const own = join(folder, 'real');
  await illustrate(browser, own, faults, [1280, 360]);
  for (const name of documented) await copyFile(join(own, `${name}.png`), join(wanted, `${name}.png`));
}
await browser.close();
await server.stop();
console.log(failed === 0 ? `pictures: ${folder}` : `${failed} parts failed; pictures: ${folder}`);
process.exit(failed === 0 ? 0 : 1);
