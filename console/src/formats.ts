/** Numbers, sizes and times as text. Those of charts follow the rules of the laboratory's report: `rules.ts`. */
import { decimals, tiny, units } from './rules';

/** A figure with about three digits: `0.123`, `4.56`, `78.9`, `1,234`. */
export function significant(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return String(value);
  if (size === 0) return '0';
  const fine = decimals.find(([below]) => size < below);
  return fine ? fixed(value, fine[1]) : thousands(Math.sign(value) * Math.round(size));
}

/** `1234567` as `1,234,567`. */
export function thousands(value: number | bigint): string {
  const text = typeof value === 'bigint' ? value.toString() : Math.round(value).toFixed(0);
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** The value of a tick: `0.05`, `200`, `20 k`, `1 M`. */
export function tick(value: number): string {
  const size = Math.abs(value);
  const large = units.find(([from]) => size >= from);
  if (large) return `${trimmed(value / large[1])} ${large[2]}`;
  return size > 0 && size < tiny ? value.toExponential(0) : trimmed(value);
}

/** Three significant digits without zeros at the end. */
function trimmed(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const text = significant(value);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Decimals, with halves away from zero. */
function fixed(value: number, places: number): string {
  const digits = String(Math.round(Math.abs(value) * 10 ** places)).padStart(places + 1, '0');
  const sign = value < 0 && /[1-9]/.test(digits) ? '-' : '';
  return `${sign}${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/** Bytes with three digits: `812 B`, `13.5 MB`; powers of 1,000. */
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
