// Everything that a pointer can do in the views can be done by keys.
import { equal, goTo, holds, openPage, runAll, write } from './watch.mjs';

/** What takes part in the order of the Tab key, or should. */
const CONTROLS = 'button, a[href], input, select, textarea, canvas, [role=grid], [role=treeitem], [role=separator], [tabindex="0"], .editor';
/** Controls that other keys lead to: the arrows of a tree open and close its items. */
const BY_OTHER_KEYS = '[role=treeitem] > .node button[aria-label=Open], [role=treeitem] > .node button[aria-label=Close]';

/** Gives each control that can be seen and used a number, and returns their number. Controls in what a dialog covers are none. */
function numbered(page) {
  return page.evaluate(([controls, others]) => {
    for (const old of document.querySelectorAll('[data-control]')) delete old.dataset.control;
    const inside = document.querySelector('dialog[open]') ?? document.body;
    const all = [...inside.querySelectorAll(controls)].filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.disabled && !element.matches(others)
      // A canvas of a chart is named by its figure, and its numbers are in the rows.
      && !element.closest('[role=img]') && !element.matches('.skip'));
    all.forEach((element, at) => { element.dataset.control = at; });
    return all.length;
  }, [CONTROLS, BY_OTHER_KEYS]);
}

/** What has the focus: the number of the control, and whether it can be seen that it has. */
function focused(page) {
  return page.evaluate(() => {
    const element = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    // The editor has a caret, and lines of its own.
    const isSeen = element.matches('.editor, .split') || (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1);
    return { control: element.dataset.control ?? null, isSeen, isEditor: element.matches('.editor'), what: element.outerHTML.slice(0, 120) };
  });
}

/** Presses Tab until every control had the focus. */
async function tabThrough(page, where) {
  await page.evaluate(() => { document.activeElement?.blur(); getSelection()?.removeAllRanges(); });
  const number = await numbered(page);
  const seen = new Set();
  for (let press = 0; press < 2 * number + 40 && seen.size < number; press++) {
    await page.keyboard.press('Tab');
    const { control, isSeen, isEditor, what } = await focused(page);
    if (control === null) continue;
    holds(isSeen, `${where}: it cannot be seen that the focus is on ${what}`);
    seen.add(Number(control));
    if (isEditor) await page.keyboard.press('Escape');
  }
  const lost = await page.evaluate((seen) => [...document.querySelectorAll('[data-control]')].filter((element) => !seen.includes(Number(element.dataset.control))).map((element) => element.outerHTML.slice(0, 120)), [...seen]);
  equal(lost, [], `${where}: controls that Tab does not lead to`);
  return number;
}

/** Opens a dialog by a key, goes through it, and closes it. */
async function dialog(page, key, where) {
  await page.keyboard.press(key);
  await page.locator('dialog[open]').waitFor();
  await tabThrough(page, where);
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
}

/** Tab leads to every control of every view, in each of its forms, and shows where it is. */
export async function everyControl(browser, address, faults) {
  const page = await openPage(browser, address, { width: 1400, faults });
  await page.locator('.cm-content').waitFor();
  await runAll(page, 'SELECT 1;\nSELECT\n  mistake');
  await page.locator('.results .problem').waitFor();
  let number = await tabThrough(page, 'sql, with several statements and an error');
  await runAll(page, 'SELECT * FROM big WHERE $1 = 1');
  await page.getByText('rows so far').waitFor();
  number += await tabThrough(page, 'sql, with a parameter and rows');
  await page.getByRole('button', { name: 'Plot', exact: true }).click();
  await page.locator('.plot canvas').first().waitFor();
  number += await tabThrough(page, 'sql, as a plot');
  for (const [key, where] of [['F1', 'the keys'], ['F2', 'the name of a tab'], ['Alt+H', 'the history']]) await dialog(page, key, where);
  await write(page, 'SELECT l_shipmode FROM lineitem');
  await page.keyboard.press('Control+Shift+E');
  await page.locator('.tag', { hasText: 'heaviest' }).waitFor();
  number += await tabThrough(page, 'plan');
  await goTo(page, 'layout/lineitem');
  await page.locator('.ranges canvas').waitFor();
  number += await tabThrough(page, 'layout');
  await page.getByRole('button', { name: 'As a table' }).click();
  number += await tabThrough(page, 'layout, as a table');
  await goTo(page, 'advice/lineitem');
  await page.getByRole('button', { name: 'Advise', exact: true }).click();
  await page.locator('.verdict').waitFor();
  number += await tabThrough(page, 'advice');
  await goTo(page, 'machine');
  await page.locator('.curves canvas').first().waitFor();
  number += await tabThrough(page, 'machine');
  console.log(`       ${number} controls`);
  await page.context().close();
}
