/**
 * Numbers, sizes and times as text, and steps of axes. The laboratory's report follows the same rules; the cases in
 * `crates/freestone-report/src/formats.json` are tested on both sides.
 */

/** A figure with about three digits: `0.123`, `4.56`, `78.9`, `1,234`. */
export function significant(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return String(value);
  if (size === 0) return '0';
  if (size < 1) return value.toFixed(3);
  if (size < 10) return value.toFixed(2);
  if (size < 100) return value.toFixed(1);
  return thousands(Math.round(value));
}

/** `1234567` as `1,234,567`. */
export function thousands(value: number | bigint): string {
  const text = typeof value === 'bigint' ? value.toString() : Math.round(value).toFixed(0);
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** The least of 1, 2, 5 times a power of ten that is not below `least`. */
export function roundStep(least: number): number {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999) ?? least;
}

/** Ticks from `low` to `high`, about `count` of them, at round numbers. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const step = roundStep((high - low) / Math.max(count, 1));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step || 0);
  return found;
}

/** Bytes with three digits: `812 B`, `13.5 MB`; powers of 1,000, as in the report. */
export function bytes(value: number | bigint): string {
  return scaled(Number(value), ['B', 'kB', 'MB', 'GB', 'TB', 'PB']);
}

/** A count with three digits: `812`, `13.5 k`, `6.00 M`. */
export function count(value: number): string {
  return scaled(value, ['', 'k', 'M', 'G', 'T']);
}

function scaled(value: number, units: string[]): string {
  let at = 0;
  while (Math.abs(value) >= 999.5 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  const size = Math.abs(value);
  const text = at === 0 && Number.isInteger(value) ? String(value) : value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
  return units[at] ? `${text} ${units[at]}` : text;
}

/** Milliseconds: `850 µs`, `12.3 ms`, `4.56 s`, `3 min 20 s`. */
export function duration(ms: number): string {
  if (ms < 0.9995) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 999.5) return `${ms.toFixed(ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0)} ms`;
  if (ms < 119_500) return `${(ms / 1000).toFixed(ms < 9_995 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** A share of one, as per cent. */
export function percent(share: number): string {
  const value = share * 100;
  // One place where it tells something from nothing, or almost all from all.
  const isFine = value !== 0 && value !== 100 && (Math.abs(value) < 10 || (value > 99 && value < 100));
  return `${value.toFixed(isFine ? 1 : 0)} %`;
}

/** `1 row`, `2 rows`. */
export function plural(number: number, word: string): string {
  return `${thousands(number)} ${word}${number === 1 ? '' : 's'}`;
}
