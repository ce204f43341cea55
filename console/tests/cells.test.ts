import { Binary, DateMillisecond, DurationMicrosecond, Field, FixedSizeBinary, Float32, Int32, IntervalMonthDayNano, makeData, Map_, Struct, Table, tableFromIPC, tableToIPC, TimestampMicrosecond, Utf8, vectorFromArray, type Data } from 'apache-arrow';
import { describe, expect, test } from 'vitest';
import { cell, dateText, decimalText, fullText, intervalText, jsonText, kindOf, numeric, shortFloat, timestampText, timeText, typeName } from '../src/cells';
import { csvField } from '../src/export';
// @ts-expect-error a module without types
import { types } from './answers.mjs';

/** As the page gets it: through an Arrow stream. */
const table = tableFromIPC(tableToIPC(new Table(types()), 'stream'));
const column = (name: string): [Data, Field] => {
  const at = table.schema.fields.findIndex((field) => field.name === name);
  return [table.batches[0]!.data.children[at]!, table.schema.fields[at]!];
};
const texts = (name: string) => [0, 1, 2].map((row) => fullText(column(name)[0], row, column(name)[1]));
const jsons = (name: string) => [0, 1, 2].map((row) => jsonText(column(name)[0], row, column(name)[1]));

describe('values are exact', () => {
  test('64-bit integers', () => expect(texts('id')).toEqual(['9007199254740993', '-9223372036854775808', '9223372036854775807']));
  test('decimals of 38 digits', () => expect(texts('amount')).toEqual([`${'9'.repeat(34)}.9999`, `-${'9'.repeat(34)}.9999`, '-0.0105']));
  test('nanoseconds', () => expect(texts('at')).toEqual(['2023-11-14 22:13:20.123456789', '1969-12-31 23:59:59.999999999', '1970-01-01 00:00:00']));
  test('dates of all years', () => expect(texts('day')).toEqual(['1970-01-01', '0002-12-31 BC', '2024-10-04']));
  test('NULL is not an empty text, and markup is text', () => expect(texts('name')).toEqual(['<b>bold</b><script>alert(1)</script>', '', null]));
  test('dictionaries', () => expect(texts('kind')).toEqual(['a', 'b', 'a']));
  test('lists', () => expect(texts('list')).toEqual(['[1, 2, NULL]', '[]', null]));
  test('structs', () => expect(texts('pair')).toEqual(["{'x': 1, 'y': 'it''s'}", "{'x': NULL, 'y': ''}", null]));
});

test('JSON keeps all digits', () => {
  expect(jsons('id')[0]).toBe('9007199254740993');
  expect(jsons('amount')[2]).toBe('-0.0105');
  expect(jsons('list')).toEqual(['[1,2,null]', '[]', 'null']);
  expect(jsons('pair')[1]).toBe('{"x":null,"y":""}');
  expect(jsons('name')).toEqual(['"<b>bold</b><script>alert(1)</script>"', '""', 'null']);
});

test('CSV tells NULL from an empty text', () => {
  expect([null, '', 'a', 'a,b', 'a "b"', 'a\nb'].map(csvField)).toEqual(['', '""', 'a', '"a,b"', '"a ""b"""', '"a\nb"']);
});

test('a long text is decoded as far as it is shown, in whole letters', () => {
  const long = `${'é'.repeat(500)}${'x'.repeat(100_000)}`;
  const [data] = vectorFromArray([long, '😀'.repeat(300)], new Utf8()).data;
  const found = cell(data!, 0, null, 10)!;
  expect([found.text, found.cut]).toEqual([`${'é'.repeat(10)}…`, true]);
  expect(cell(data!, 1, null, 100)!.text).toBe(`${'😀'.repeat(100)}…`);
  expect(fullText(data!, 0, null)).toBe(long);
});

test('a long list is cut', () => {
  const [data] = column('list');
  expect(cell(data, 0, null, 4)).toEqual({ text: '[1, …]', cut: true });
});

test('decimals of every scale', () => {
  expect([decimalText(-105n, 2), decimalText(5n, 4), decimalText(0n, 2), decimalText(12n, 0), decimalText(12n, -2)]).toEqual(['-1.05', '0.0005', '0.00', '12', '1200']);
});

test('single precision is written as short as it reads back', () => {
  const values = [0.1, 16_777_216, 1e-30, -0, Number.NaN, Number.POSITIVE_INFINITY].map(Math.fround);
  expect(values.map(shortFloat)).toEqual(['0.1', '16777216', '1e-30', '-0', 'NaN', 'Infinity']);
  const [data] = vectorFromArray([0.1], new Float32()).data;
  expect(fullText(data!, 0, null)).toBe('0.1');
});

test('times in zones', () => {
  expect(timestampText(0n, 2, 'UTC')).toBe('1970-01-01 00:00:00+00');
  expect(timestampText(1_500_000n, 2, '-03:30')).toBe('1969-12-31 20:30:01.5-03:30');
  expect(timestampText(1_720_000_000n, 0, 'Europe/Berlin')).toBe('2024-07-03 11:46:40+02');
  expect(timestampText(-62_167_219_201n, 0, null)).toBe('0002-12-31 23:59:59 BC');
  expect(timeText(45_296_000_100n, 2)).toBe('12:34:56.0001');
  expect(dateText(2_932_896n)).toBe('9999-12-31');
});

test('intervals as PostgreSQL writes them', () => {
  expect(intervalText(14, 3, 14_706_789_000_000n)).toBe('1 year 2 mons 3 days 04:05:06.789');
  expect(intervalText(0, 0, -1_000_000n)).toBe('-00:00:00.001');
  expect(intervalText(0, 0, 0n)).toBe('00:00:00');
  const data = makeData({ type: new IntervalMonthDayNano(), length: 1, data: new Int32Array([1, -2, 1_000_000_000, 0]) });
  expect(fullText(data, 0, null)).toBe('1 mon -2 days 00:00:01');
});

test('binary values, UUIDs, maps and durations', () => {
  const [binary] = vectorFromArray([new Uint8Array([0, 255])], new Binary()).data;
  expect(fullText(binary!, 0, null)).toBe('\\x00ff');
  const id = new FixedSizeBinary(16);
  const field = new Field('id', id, true, new Map([['ARROW:extension:name', 'arrow.uuid']]));
  const uuid = makeData({ type: id, length: 1, data: new Uint8Array(16).map((_, at) => at) });
  expect([fullText(uuid, 0, field), typeName(field)]).toEqual(['00010203-0405-0607-0809-0a0b0c0d0e0f', 'UUID']);
  const type = new Map_<Utf8, Int32>(new Field('entries', new Struct<{ key: Utf8; value: Int32 }>([new Field('key', new Utf8(), false), new Field('value', new Int32(), true)]), false));
  const [map] = vectorFromArray([new Map([['a', 1], ['b', 2]])], type).data;
  expect([fullText(map!, 0, null), jsonText(map!, 0, null)]).toEqual(["{'a'=1, 'b'=2}", '{"a":1,"b":2}']);
  expect(fullText(makeData({ type: new DurationMicrosecond(), length: 1, data: new BigInt64Array([1_500_000n]) }), 0, null)).toBe('00:00:01.5');
});

test('numbers for plots', () => {
  expect(numeric(column('amount')[0], 2)).toBeCloseTo(-0.0105, 12);
  expect(numeric(column('name')[0], 0)).toBeNaN();
  const date = makeData({ type: new DateMillisecond(), length: 1, data: new BigInt64Array([86_400_000n]) as never });
  expect(numeric(date, 0)).toBe(86_400_000);
  expect([kindOf(new TimestampMicrosecond()), kindOf(column('kind')[1].type), kindOf(column('pair')[1].type)]).toEqual(['time', 'text', 'nested']);
});

test('types by their names in SQL', () => {
  expect(table.schema.fields.map(typeName)).toEqual(['BIGINT', 'DECIMAL(38,4)', 'TIMESTAMP', 'DATE', 'VARCHAR', 'VARCHAR', 'INTEGER[]', 'STRUCT(x INTEGER, y VARCHAR)']);
});
