import { expect, test } from 'vitest';
import { clustering, extent, hit, layersOf, pageSpans, rectangles, RECTANGLES_MAX, shows, slices, slicesMax, spans } from '../src/cut';
import { commonPrefix, placeOf, type Block, type Column, type Extra, type Layout, type Page, type Segment, type ZoneRun } from '../src/layout';

const column = (name: string, bytes: number): Column => ({ name, type: 'INT', encoding: 'plain', bytes, distinct: null, nulls: 0, min: null, max: null });

function layoutOf(segments: number, rows: number, groups: string[][]): Layout {
  const made: Segment[] = Array.from({ length: segments }, (_, segment) => ({ segment, rows, deleted: 0, bytes: rows * 12, pages: 3, hot: false, inPool: false, groups: '', design: '' }));
  const weight = (name: string) => (name === 'b' ? 3 : 1);
  const blocks: Block[] = made.flatMap(({ segment }) => groups.map((columns, group) => {
    const [bytes, all] = [rows * 2 * columns.length, columns.reduce((sum, name) => sum + weight(name), 0)];
    return { segment, group, columns, format: 'dense', pages: 1, bytes, own: columns.map((name) => ({ bytes: (bytes * weight(name)) / all, encoding: segment % 2 ? 'plain' : 'rle' })) };
  }));
  const extras: Extra[] = made.flatMap(({ segment, bytes }) => {
    const rest = bytes - rows * 2 * groups.flat().length;
    return [{ segment, kind: 'footer', columns: '', bytes: rest / 3 }, { segment, kind: 'index', columns: 'a', bytes: (rest * 2) / 3 }];
  });
  return { table: 't', copy: null, rows: segments * rows, bytes: segments * rows * 12, design: '', columns: [column('a', 10), column('b', 30), column('c', 10)], segments: made, blocks, extras, step: 1 };
}

test('areas are bytes', () => {
  const all = slices(layoutOf(4, 100, [['a', 'b'], ['c']]), 100);
  expect(all.map(({ start }) => start)).toEqual([0, 100, 200, 300]);
  const found = rectangles(all, 400, 120);
  const perByte = (400 * 120) / (4 * 100 * 12);
  for (const rect of found) expect(rect.width * rect.height).toBeCloseTo(rect.bytes * perByte, 6);
  const b = found.find((rect) => rect.column === 'b')!;
  expect(b.bytes, 'a column has its share of its group').toBeCloseTo(300, 9);
  expect(hit(layersOf(found), b.x + 1, b.y + 1)?.column).toBe('b');
  expect(hit(layersOf(found), -1, 5)).toBeNull();
  const order = found.filter((rect) => rect.slice === all[0]).toSorted((x, y) => x.y - y.y).map((rect) => rect.column);
  expect(order, 'groups from top to bottom, and what belongs to no column below').toEqual(['a', 'b', 'c', null, null]);
  const kinds = found.filter((rect) => rect.slice === all[0] && rect.column === null).map((rect) => rect.extras.map(({ kind }) => kind));
  expect(kinds, 'from bottom to top').toEqual([['footer'], ['index']]);
  expect(found.filter((rect) => rect.column === 'a').map(({ encoding }) => encoding), 'each segment has its own').toEqual(['rle', 'plain', 'rle', 'plain']);
});

test('what is too thin to be seen is drawn together, and hot rows are not a footer', () => {
  const layout = layoutOf(1, 100, [['a']]);
  layout.segments[0]!.bytes = 100_000;
  layout.blocks[0]!.bytes = 99_820;
  layout.extras = (['footer', 'zones', 'dictionary'] as const).map((kind) => ({ segment: 0, kind, columns: '', bytes: 60 }));
  const [first, ...others] = rectangles(slices(layout, 10), 100, 400);
  expect([first!.extras.map(({ kind }) => kind), first!.bytes, others.length]).toEqual([['footer', 'zones', 'dictionary'], 180, 1]);
  const hot = rectangles(slices({ ...layout, blocks: [], extras: [], segments: [{ ...layout.segments[0]!, hot: true }] }, 10), 100, 400);
  expect(hot.map(({ extras, column, bytes, slice }) => [extras.length, column, bytes, slice.hot])).toEqual([[0, null, 100_000, true]]);
});

test('more segments than pixels are drawn as slices with the same bytes', () => {
  const layout = layoutOf(1000, 10, [['a'], ['b', 'c']]);
  const all = slices(layout, 300);
  expect(all.length).toBe(250);
  expect([all[1]!.first, all[1]!.last, all[1]!.rows]).toEqual([4, 7, 40]);
  expect(all[0]!.blocks.length).toBe(2);
  expect(all[0]!.extras.map(({ kind, bytes }) => [kind, bytes])).toEqual([['footer', 80], ['index', 160]]);
  expect(all.reduce((sum, slice) => sum + slice.bytes, 0)).toBe(layout.bytes);
  expect(all.flatMap((slice) => slice.blocks).reduce((sum, block) => sum + block.bytes, 0)).toBe(1000 * 10 * 6);
  expect(layout.blocks[0]!.bytes, 'what was read is not changed').toBe(20);
});

test('2,000 columns in 1,000 segments are few rectangles with the same bytes', () => {
  const names = Array.from({ length: 2000 }, (_, at) => `c${at}`);
  const [width, height] = [1200, 400];
  // Read in steps, so that there are few blocks.
  const layout: Layout = {
    ...layoutOf(1000, 10, []), extras: [], columns: names.map((name) => column(name, 20_000)), step: 40,
    blocks: Array.from({ length: 25 }, (_, at) => names.map((name, group) => ({ segment: at * 40, group, columns: [name], own: [{ bytes: 1.5, encoding: 'plain' }], format: 'dense', pages: 40, bytes: 2 }))).flat(),
  };
  for (const segment of layout.segments) segment.bytes = 100;
  layout.blocks.forEach((block) => { block.bytes = 1.5; });
  const all = slices(layout, slicesMax(2000, width, height));
  expect(all.every((slice) => slice.first % 40 === 0 && slice.blocks.length === 2000), 'blocks that were read together stay together').toBe(true);
  const found = rectangles(all, width, height);
  expect(found.length).toBeLessThanOrEqual(RECTANGLES_MAX);
  expect(found.length).toBeLessThan(25 * 700);
  expect(found.reduce((sum, rect) => sum + rect.bytes, 0)).toBeCloseTo(1000 * 100, 3);
  const own = layersOf(found).get(all[0]!)!;
  expect(names.every((name) => own.some((rect) => shows(rect, name))), 'no column is lost').toBe(true);
  expect(own.reduce((sum, rect) => sum + (rect.several?.length ?? (rect.column === null ? 0 : 1)), 0)).toBe(2000);
  const thin = own.find((rect) => rect.several !== null)!;
  expect(hit(layersOf(found), thin.x + 1, thin.y + thin.height / 2)).toBe(thin);
});

const run = (zone: number, low: number, high: number): ZoneRun => ({ segment: 0, zone, zones: 1, rows: 2048, nulls: 0, low, high, lowText: String(low), highText: String(high) });

test('a million zones become one span per pixel', () => {
  const zones = Array.from({ length: 1_000_000 }, (_, at) => run(at, at, at + 1));
  const began = process.cpuUsage();
  const found = spans(zones, 700);
  expect(process.cpuUsage(began).user, 'microseconds').toBeLessThan(2_000_000);
  expect(found.length).toBe(700);
  expect(found.reduce((sum, span) => sum + span.zones, 0)).toBe(1_000_000);
  expect(found[0]!.low).toBe(0);
  expect(found.at(-1)!.high).toBe(1_000_000);
  expect(found[350]!.middle).toBeGreaterThan(499_000);
});

test('zones of NULLs have no range, and do not hide others', () => {
  const found = spans([run(0, Number.NaN, Number.NaN), run(1, 3, 5)], 1);
  expect([found[0]!.low, found[0]!.high, found[0]!.middle]).toEqual([3, 5, 4]);
  expect(extent([run(0, Number.NaN, Number.NaN)])).toEqual([0, 1]);
});

test('clustering tells sorted rows from mixed ones', () => {
  expect(clustering(Array.from({ length: 100 }, (_, at) => run(at, at, at + 1)))).toBeCloseTo(0.99, 9);
  expect(clustering([run(0, 0, 10), run(1, 0, 10)])).toBe(0);
  expect(clustering([run(0, 1, 1)])).toBeNull();
});

test('pages join where a pixel has several', () => {
  const pages: Page[] = Array.from({ length: 4000 }, (_, page) => ({ group: 0, columns: 'a', page, firstRow: page * 10, rows: 10, bytes: 32768, format: 'dense' }));
  const found = pageSpans(pages, 40_000, 500);
  expect(found.length).toBe(500);
  expect(found[0]!.pages.length).toBe(8);
  expect(found.at(-1)!.to).toBe(1);
});

test('bounds become places: numbers, times, and texts after what they share', () => {
  expect(placeOf('12.50', 'DECIMAL(15,2)', '')).toBe(12.5);
  expect(placeOf('1994-01-02', 'DATE', '') - placeOf('1994-01-01', 'DATE', '')).toBe(86_400_000);
  expect(placeOf('1994-01-01 00:00:01', 'TIMESTAMP', '') - placeOf('1994-01-01', 'DATE', '')).toBe(1000);
  expect(placeOf('1994-01-01 00:00:01.5+02', 'TIMESTAMP WITH TIME ZONE', '')).toBe(Date.parse('1993-12-31T22:00:01.500Z'));
  expect(placeOf(null, 'INT', '')).toBeNaN();
  expect(commonPrefix(['customer#001', 'customer#090', null])).toBe('customer#0');
  expect(commonPrefix([])).toBe('');
  const places = ['customer#001', 'customer#02', 'customer#09'].map((text) => placeOf(text, 'VARCHAR', 'customer#0'));
  expect(places).toEqual(places.toSorted((a, b) => a - b));
});
