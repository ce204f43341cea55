import { expect, test } from 'vitest';
import { shapeOf } from '../src/design';
import { surplus } from '../src/places';
import { parametersOf } from '../src/editor';
import { bins, stepOf } from '../src/plot';
import { charts, gathered, type Figure } from '../src/profile';
import { ELEMENT_MAX, fromBar, toBar, visible } from '../src/scroll';

test('the bar and the rows agree, with more rows than an element can be high', () => {
  const rows = 1_000_000 * 24;
  for (const top of [0, 1000, 11_999_999, rows - 600]) expect(fromBar(toBar(top, rows, 600), rows, 600)).toBeCloseTo(top, 3);
  expect(fromBar(ELEMENT_MAX - 600, rows, 600), 'the end of the bar is the end of the rows').toBeCloseTo(rows - 600, 3);
  expect([fromBar(500, 10_000, 600), toBar(500, 10_000, 600)]).toEqual([500, 500]);
});

test('of 2,000 columns only the visible ones are drawn', () => {
  const ends = Array.from({ length: 2000 }, (_, at) => (at + 1) * 100);
  expect(visible(ends, 100_050, 800)).toEqual([1000, 1009]);
  expect(visible(ends, 0, 250)).toEqual([0, 3]);
  expect(visible([], 0, 250)).toEqual([0, 0]);
});

test('designs as shapes', () => {
  const columns = ['a', 'b', 'c', 'D e'];
  expect(shapeOf("preset = 'row'", columns).groups).toEqual([columns]);
  expect(shapeOf("preset = 'column', sort = 'a, b'", columns)).toMatchObject({ groups: [['a'], ['b'], ['c'], ['D e']], sort: 'a, b' });
  expect(shapeOf("preset = 'auto', column_groups = '(c, \"D e\"), (b)'", columns).groups).toEqual([['c', 'D e'], ['b'], ['a']]);
});

test('bins count every number once', () => {
  const found = bins([0, 1, 2, 3, 10, Number.NaN], 5);
  expect(found.map((bin) => bin.count)).toEqual([2, 2, 0, 0, 1]);
  expect(bins([4, 4], 5)).toEqual([{ from: 4, to: 4, count: 2 }]);
  expect(bins([], 5)).toEqual([]);
  expect([stepOf(100, 20), stepOf(101, 20), stepOf(3, 20)]).toEqual([5, 6, 1]);
});

test('figures become curves', () => {
  const figure = (topic: string, name: string, value: number | null): Figure => ({ topic, name, value, low: value, high: value, unit: 'ns', reported: null });
  const { curves, single } = gathered([
    figure('memory', 'load, chains at once 4', 20), figure('memory', 'load, chains at once 1', 80), figure('cache', 'L1 size', 32768), figure('disk', 'durable write', 3),
    figure('disk', 'random 4 KiB, depth 1', 60), figure('disk', 'random 4 KiB, depth 8', 10), figure('disk', 'random 32 KiB, depth 1', 90), figure('disk', 'random 32 KiB, depth 8', 15),
    figure('tlb', '4 KiB pages: reach of level 1', 4), figure('engine', 'tuple output, a text byte', 2), figure('memory', 'lonely, chains at once 2', 1), figure('memory', 'lost, chains at once 2', null),
  ]);
  expect(curves.map(({ name, x, points }) => [name, x, points.map((point) => point.x)])).toEqual([
    ['load', 'chains at once', [1, 4]], ['random 4 KiB', 'depth', [1, 8]], ['random 32 KiB', 'depth', [1, 8]],
  ]);
  expect(single.map(({ name }) => name).sort()).toEqual(['4 KiB pages: reach of level 1', 'L1 size', 'durable write', 'lonely, chains at once 2', 'lost, chains at once 2', 'tuple output, a text byte']);
  expect(charts(curves).map((group) => group.length)).toEqual([1, 2]);
});

test('parameters are those outside of texts and comments', () => {
  expect(parametersOf("SELECT $2, $10, $1, $name, '$3', \"$4\" -- $5\n, a$6 /* $7 */, $$ $8 $$")).toEqual(['1', '2', '10', 'name']);
  expect(parametersOf('SELECT 1')).toEqual([]);
});

test('of the results of all windows the oldest that wait make place', () => {
  const held = (window: string, since: number, waits: boolean) => ({ window, key: String(since), since, waits });
  const all = [held('a', 5, true), held('b', 1, true), held('a', 2, false), held('b', 3, true)];
  expect(surplus(all, 4).map(({ since }) => since)).toEqual([1]);
  expect(surplus(all, 3).map(({ since }) => since)).toEqual([1, 3]);
  expect(surplus(all, 5), 'there is room').toEqual([]);
  expect(surplus([held('a', 1, false), held('a', 2, false)], 1), 'what runs goes on').toEqual([]);
});
