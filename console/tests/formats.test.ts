import { expect, test } from 'vitest';
import { bytes, count, duration, percent, plural, thousands } from '../src/formats';

test('integers beyond doubles keep their digits', () => expect(thousands(9007199254740993n)).toBe('9,007,199,254,740,993'));

test.each([[812, '812 B'], [999.6, '1.00 kB'], [13_500_000, '13.5 MB'], [23_540_000_000, '23.5 GB'], [999_499, '999 kB'], [999_500, '1.00 MB'], [0, '0 B']])('%s bytes', (value, text) => expect(bytes(value)).toBe(text));
test.each([[7, '7'], [1500, '1.50 k'], [600_572, '601 k'], [0.25, '0.25']])('count %s', (value, text) => expect(count(value)).toBe(text));
test.each([[0.02, '20 µs'], [12.34, '12.3 ms'], [999.6, '1.00 s'], [4560, '4.56 s'], [200_000, '3 min 20 s']])('%s ms', (value, text) => expect(duration(value)).toBe(text));
test.each([[0, '0 %'], [0.014, '1.4 %'], [0.855, '86 %'], [0.997, '99.7 %'], [1, '100 %']])('share %s', (value, text) => expect(percent(value)).toBe(text));
test('one row and two rows', () => expect([plural(1, 'row'), plural(2000, 'row')]).toEqual(['1 row', '2,000 rows']));
