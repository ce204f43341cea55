// Plots that are changed, and the colours of a table's picture.
import { drawnColours, equal, goTo, holds, runAll } from './watch.mjs';

const CHART = '.plot canvas';

/** A plot is chosen from the types; its kind, its columns and its scale can be changed, and each change is drawn. */
export async function plotsChange(page) {
  await goTo(page, 'sql');
  await runAll(page, 'SELECT * FROM big');
  await page.getByText('rows so far').waitFor();
  await page.getByRole('button', { name: 'Plot', exact: true }).click();
  const label = () => page.locator('.plot .chart').getAttribute('aria-label');
  const pressed = () => page.getByRole('group', { name: 'Kind of plot' }).locator('[aria-pressed="true"]').textContent();
  const x = page.locator('.plot select');
  let drawn = await drawnColours(page, CHART);
  // Days come again and again, so no line is drawn.
  equal([await pressed(), await label()], ['Points', 'scatter of price over day'], 'the plot that is chosen');
  const changes = [
    ['the kind', () => page.getByRole('button', { name: 'Bars', exact: true }).click(), 'bar of price over day'],
    ['the x axis', () => x.selectOption({ label: 'city' }), 'bar of price over city'],
    ['one more column', () => page.getByRole('checkbox', { name: 'row', exact: true }).check(), 'bar of row, price over city'],
    ['one column less', () => page.getByRole('checkbox', { name: 'row', exact: true }).uncheck(), 'bar of price over city'],
    ['a line', async () => { await x.selectOption({ label: 'row number' }); await page.getByRole('button', { name: 'Line', exact: true }).click(); }, 'line of price over row number'],
    ['the scale', () => page.getByRole('checkbox', { name: 'logarithmic' }).check(), 'line of price over row number'],
    ['a histogram', () => page.getByRole('button', { name: 'Histogram' }).click(), 'histogram of price over price'],
    ['its column', () => x.selectOption({ label: 'row' }), 'histogram of price over row'],
  ];
  for (const [what, change, expected] of changes) {
    await change();
    drawn = await drawnColours(page, CHART, drawn);
    equal(await label(), expected, `the name of the plot after a change of ${what}`);
  }
  equal(await x.locator('option').allTextContents(), ['row', 'price'], 'columns of which there can be a histogram');
  await page.getByRole('button', { name: 'Rows', exact: true }).click();
  await runAll(page, 'SELECT * FROM types');
  await page.getByRole('button', { name: 'Plot', exact: true }).click();
  await drawnColours(page, CHART);
  equal(await pressed(), 'Points', 'times that are out of order are points');
}

/** The colours of a row of points through the picture, as pixels from left to right. */
const rowOf = (colours, down, across = 80) => colours.slice(down * across + 24, down * across + across - 2);

/** The picture has a colour of each kind, and shows whether rows are sorted by a column. */
export async function coloursOfLayout(page) {
  await goTo(page, 'layout/lineitem');
  await page.getByRole('heading', { name: 'lineitem', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Encoding', exact: true }).click();
  let drawn = await drawnColours(page, '.cut canvas');
  const legend = () => page.locator('.cutting .legend').first().textContent();
  holds((await legend()).includes('bitpack'), `the legend of encodings: ${await legend()}`);
  for (const [mode, expected] of [['Page format', 'dense pages'], ['Bytes per value', '8 or more'], ['Range', 'by the middle of their zone']]) {
    await page.getByRole('button', { name: mode, exact: true }).click();
    drawn = await drawnColours(page, '.cut canvas', drawn);
    holds((await legend()).includes(expected), `the legend of ${mode}: ${await legend()}`);
  }
  const column = page.getByLabel('range of');
  await column.selectOption('l_shipdate');
  const sorted = await drawnColours(page, '.cut canvas');
  await column.selectOption('l_tax');
  const mixed = await drawnColours(page, '.cut canvas', sorted);
  const [sweep, dull] = [sorted, mixed].map((colours) => new Set(rowOf(colours, 24)).size);
  holds(sweep >= 6 && dull <= 3, `a sorted column has ${sweep} colours along the rows, and one that is not sorted ${dull}`);
  await page.getByRole('button', { name: 'Encoding', exact: true }).click();
}
