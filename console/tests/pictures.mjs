// Pictures of all views, narrow, usual and wide, light and dark.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { goTo, inspect, openPage, write } from './watch.mjs';

const SIZES = [[1280, 1270], [360, 740], [3840, 2160]];
const SCRIPT = "-- Revenue by mode of shipping\nSELECT l_shipmode, sum(l_extendedprice * (1 - l_discount)) AS revenue\nFROM lineitem\nWHERE l_shipdate < DATE '1993-01-01'\nGROUP BY l_shipmode ORDER BY revenue DESC;\n\nSELECT * FROM big";

async function take(page, folder, name) {
  await page.waitForTimeout(350);
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

/** Shows each view with something in it. */
async function views(page, suffix, folder, faults) {
  const look = async (view) => {
    await inspect(page, `${view}${suffix}`, faults);
    await take(page, folder, `${view}${suffix}`);
  };
  await page.locator('.cm-content').waitFor();
  await write(page, SCRIPT);
  await page.keyboard.press('Control+End');
  await page.keyboard.press('Control+Enter');
  await page.locator('.grid-row').first().waitFor();
  await look('sql');
  await page.getByRole('button', { name: 'Plot' }).click();
  await page.locator('.plot canvas').first().waitFor();
  await look('plot');
  await goTo(page, 'layout/lineitem');
  await page.locator('.ranges canvas').waitFor();
  await look('layout');
  await page.getByRole('button', { name: 'Range', exact: true }).click();
  await look('range');
  await page.getByRole('button', { name: 'Encoding', exact: true }).click();
  await page.locator('.cut canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^lineitem, segment/ }).waitFor();
  await look('segment');
  await page.getByRole('button', { name: 'All segments' }).click();
  await goTo(page, 'sql');
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+Home');
  await page.keyboard.press('Control+Shift+E');
  await page.locator('.tag', { hasText: 'heaviest' }).waitFor();
  await look('plan');
  await goTo(page, 'advice/as_rows');
  await page.getByLabel('Copies at most').fill('1');
  await page.getByRole('button', { name: 'Advise', exact: true }).click();
  await page.locator('.verdict').waitFor();
  await look('advice');
  await goTo(page, 'machine');
  await page.locator('.curves canvas').first().waitFor();
  await look('machine');
}

/** `widths`: the widths of windows; all unless some are given. `address` gives that of the next page, which may have a code. */
export async function pictures(browser, address, folder, faults, widths = SIZES.map(([width]) => width)) {
  await mkdir(folder, { recursive: true });
  for (const [width, height] of SIZES.filter(([width]) => widths.includes(width))) {
    for (const theme of ['light', 'dark']) {
      const page = await openPage(browser, await address(), { width, height, theme, faults });
      await views(page, `-${width}-${theme}`, folder, faults);
      await page.context().close();
    }
  }
}
