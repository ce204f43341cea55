// A browser whose pages may reach one server only, and whose errors, violations and strange requests are kept.
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
// Names resolve to loopback only, so that nothing is looked up elsewhere, either.
const ARGUMENTS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
];

export async function launch() {
  if (!existsSync(CHROMIUM)) throw new Error(`${CHROMIUM} is missing: install Debian's package chromium, or set CHROMIUM to a browser's path`);
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

/** A page of `address` with everything that must not happen collected in `faults`. */
export async function openPage(browser, address, { width = 1280, height = 860, theme = 'light', faults }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, acceptDownloads: true, permissions: ['clipboard-read', 'clipboard-write'] });
  const origin = new URL(address).origin;
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
  });
  const page = await context.newPage();
  page.setDefaultTimeout(Number(process.env.CONSOLE_TIMEOUT ?? 60_000));
  page.on('console', (message) => { if (message.type() === 'error' || message.type() === 'warning') faults.push(`console: ${message.text()}`); });
  page.on('pageerror', (error) => faults.push(`error: ${error.stack ?? error}`));
  page.on('dialog', (dialog) => { faults.push(`a dialog says: ${dialog.message()}`); void dialog.dismiss(); });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('blob:') && !url.startsWith('data:')) faults.push(`a request goes to ${url}`);
  });
  await page.goto(address);
  return page;
}

/** What screen readers and narrow screens would miss. */
export async function inspect(page, what, faults) {
  const found = await page.evaluate(() => {
    const wrong = [];
    const isSeen = (element) => element.checkVisibility();
    for (const element of document.querySelectorAll('button, a[href], input, select, textarea, canvas, [role=img], [role=grid]')) {
      // What draws a picture is named by the picture.
      if (!isSeen(element) || element.parentElement.closest('[role=img]')) continue;
      const name = element.getAttribute('aria-label') || element.textContent.trim() || element.getAttribute('title') || element.labels?.[0]?.textContent.trim();
      if (!name) wrong.push(`without a name: ${element.outerHTML.slice(0, 160)}`);
    }
    const wide = document.scrollingElement.scrollWidth - innerWidth;
    if (wide > 0) wrong.push(`the page is ${wide} pixels wider than the window`);
    for (const card of document.querySelectorAll('.card, .sheet, .bar, .status')) {
      if (isSeen(card) && card.scrollWidth > card.clientWidth + 1) wrong.push(`cut off at the right, by ${card.scrollWidth - card.clientWidth} pixels: ${card.textContent.slice(0, 60)}`);
    }
    return wrong;
  });
  for (const each of found) faults.push(`${what}: ${each}`);
}

/** Runs named parts one after the other, and tells which failed. */
export async function parts(all, faults) {
  let failed = 0;
  for (const [name, run] of all) {
    const before = faults.length;
    const began = Date.now();
    try {
      await run();
    } catch (error) {
      faults.push(error.stack ?? String(error));
    }
    const own = faults.slice(before);
    console.log(`${own.length === 0 ? 'ok    ' : 'FAILED'} ${name}, ${Date.now() - began} ms`);
    for (const fault of own) console.log(`       ${fault}`);
    failed += own.length > 0 ? 1 : 0;
  }
  return failed;
}

export function equal(found, expected, what) {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what}: ${one} instead of ${other}`);
}

export function holds(condition, what) {
  if (!condition) throw new Error(what);
}

/** Tells a time, in milliseconds, and its goal. A time fails no test, because others may use the machine: `npm run figures` measures. */
export function tells(what, ms, goal) {
  console.log(`       ${what}: ${Math.round(ms)} ms; the goal is ${goal} ms`);
}

/** Types a script into the editor of the shown tab, in place of what is there. */
export async function write(page, text) {
  await page.locator('.editor .cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  await page.keyboard.insertText(text);
  await page.keyboard.press('Control+Home');
}

/** Runs the whole script, and waits for an answer of its last statement. */
export async function runAll(page, text) {
  await write(page, text);
  await page.keyboard.press('Control+Shift+Enter');
}

/** The colours of a picture at the points of a lattice, as `r,g,b,a`. A picture may have several canvases above each other. */
export function coloursOf(page, selector, across = 80, down = 40) {
  return page.evaluate(([selector, across, down]) => {
    const layers = [...document.querySelectorAll(selector)];
    const copy = document.createElement('canvas');
    [copy.width, copy.height] = [layers[0].width, layers[0].height];
    const context = copy.getContext('2d', { willReadFrequently: true });
    for (const layer of layers) context.drawImage(layer, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    const at = (x, y) => 4 * (Math.floor(((y + 0.5) / down) * copy.height) * copy.width + Math.floor(((x + 0.5) / across) * copy.width));
    return Array.from({ length: across * down }, (_, point) => at(point % across, Math.floor(point / across))).map((from) => data.slice(from, from + 4).join());
  }, [selector, across, down]);
}

/** The colours of a picture when they no longer change, and differ from those of `before`. */
export async function drawnColours(page, selector, before = null) {
  let last = null;
  for (let time = 0; time < 100; time++) {
    const now = await page.locator(selector).first().isVisible() ? await coloursOf(page, selector) : null;
    const isNew = now !== null && new Set(now).size > 1 && (before === null || now.join() !== before.join());
    if (isNew && last !== null && now.join() === last.join()) return now;
    last = now;
    await page.waitForTimeout(100);
  }
  throw new Error(`the picture ${selector} ${before === null ? 'is not drawn' : 'does not change'}`);
}

export async function goTo(page, view) {
  await page.evaluate((hash) => { location.hash = hash; }, view);
}
