/**
 * Values of Arrow columns as exact text: 64-bit integers, decimals of 38 digits and nanoseconds never pass through a
 * double. Long texts are decoded only as far as they are shown.
 */
import { DataType, Type, type Data, type Field, Vector } from 'apache-arrow';

/** How a value is written. `null` for NULL. */
export interface Cell {
  text: string;
  /** Whether the text was cut. */
  cut?: boolean;
}

const MAX_DEFAULT = 400;

/** A value as it is shown; nested values are cut at `max` characters, too. */
export function cell(data: Data, at: number, field: Field | null, max = MAX_DEFAULT): Cell | null {
  if (!isValid(data, at)) return null;
  return shown(data, at, field, max);
}

/** A value in full. */
export function fullText(data: Data, at: number, field: Field | null): string | null {
  return cell(data, at, field, Number.POSITIVE_INFINITY)?.text ?? null;
}

function isValid(data: Data, at: number): boolean {
  return data.typeId !== Type.Null && data.getValid(at);
}

function shown(data: Data, at: number, field: Field | null, max: number): Cell {
  const type = data.type as DataType;
  if (DataType.isDictionary(type)) return dictionary(data, at, max);
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) return utf8(data, at, max);
  if (DataType.isBinary(type) || DataType.isLargeBinary(type)) return hex(bytesOf(data, at), max);
  if (DataType.isFixedSizeBinary(type)) return fixedBinary(data, at, field, max);
  if (isNested(type)) return nested(data, at, max);
  return { text: scalar(data, at) };
}

/** Whether a type has parts. */
export function isNested(type: DataType): boolean {
  return DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type) || DataType.isStruct(type) || DataType.isMap(type);
}

function scalar(data: Data, at: number): string {
  const type = data.type as DataType;
  const values = data.values as unknown as { [at: number]: number | bigint };
  if (DataType.isBool(type)) return boolAt(data, at) ? 'true' : 'false';
  if (DataType.isInt(type)) return String(values[at]);
  if (DataType.isFloat(type)) return float(data, at);
  if (DataType.isDecimal(type)) return decimalText(decimalAt(data, at, type.bitWidth), type.scale);
  if (DataType.isDate(type)) return dateText(type.unit === 0 ? BigInt(values[at]!) : floorDiv(BigInt(values[at]!), 86_400_000n));
  if (DataType.isTime(type)) return timeText(BigInt(values[at]!), type.unit);
  if (DataType.isTimestamp(type)) return timestampText(BigInt(values[at]!), type.unit, type.timezone ?? null);
  if (DataType.isDuration(type)) return intervalText(0, 0, toNanos(BigInt(values[at]!), type.unit));
  if (DataType.isInterval(type)) return interval(data, at, type.unit);
  return String(vectorOf(data).get(at));
}

const VECTORS = new WeakMap<Data, Vector>();

function vectorOf(data: Data): Vector {
  let vector = VECTORS.get(data);
  if (!vector) VECTORS.set(data, (vector = new Vector([data])));
  return vector;
}

function boolAt(data: Data, at: number): boolean {
  const place = data.offset + at;
  return ((data.values as Uint8Array)[place >> 3]! & (1 << (place & 7))) !== 0;
}

function float(data: Data, at: number): string {
  const type = data.type as DataType & { precision: number };
  const value = vectorOf(data).get(at) as number;
  if (type.precision === 1) return shortFloat(value);
  return floatText(value);
}

function floatText(value: number): string {
  if (Object.is(value, -0)) return '-0';
  return String(value);
}

/** The shortest text that reads back as the same single-precision number. */
export function shortFloat(value: number): string {
  if (!Number.isFinite(value) || Object.is(value, -0)) return floatText(value);
  for (let digits = 1; digits <= 9; digits++) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === Math.fround(value)) return String(text);
  }
  return String(value);
}

function decimalAt(data: Data, at: number, bits: number): bigint {
  const words = bits / 32;
  const values = data.values as Uint32Array;
  let value = 0n;
  for (let word = words - 1; word >= 0; word--) value = (value << 32n) | BigInt(values[at * words + word]! >>> 0);
  return BigInt.asIntN(bits, value);
}

/** An unscaled integer and its scale as a decimal: `(-105, 2)` is `-1.05`. */
export function decimalText(value: bigint, scale: number): string {
  if (scale <= 0) return (value * 10n ** BigInt(-scale)).toString();
  const sign = value < 0n ? '-' : '';
  const digits = (value < 0n ? -value : value).toString().padStart(scale + 1, '0');
  return `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

const floorDiv = (a: bigint, b: bigint) => (a >= 0n || a % b === 0n ? a / b : a / b - 1n);

/** Days since 1970-01-01 as a date of the Gregorian calendar, for all years. */
export function dateText(days: bigint): string {
  const z = days + 719_468n;
  const era = floorDiv(z, 146_097n);
  const dayOfEra = z - era * 146_097n;
  const yearOfEra = (dayOfEra - dayOfEra / 1460n + dayOfEra / 36_524n - dayOfEra / 146_096n) / 365n;
  const dayOfYear = dayOfEra - (365n * yearOfEra + yearOfEra / 4n - yearOfEra / 100n);
  const shifted = (5n * dayOfYear + 2n) / 153n;
  const day = dayOfYear - (153n * shifted + 2n) / 5n + 1n;
  const month = shifted < 10n ? shifted + 3n : shifted - 9n;
  const year = yearOfEra + era * 400n + (month <= 2n ? 1n : 0n);
  const pad = (part: bigint) => part.toString().padStart(2, '0');
  const shownYear = year <= 0n ? (1n - year).toString().padStart(4, '0') : year.toString().padStart(4, '0');
  return `${shownYear}-${pad(month)}-${pad(day)}${year <= 0n ? ' BC' : ''}`;
}

const PER_SECOND = [1n, 1_000n, 1_000_000n, 1_000_000_000n];

function toNanos(value: bigint, unit: number): bigint {
  return value * (1_000_000_000n / PER_SECOND[unit]!);
}

/** A time of day; fractions without trailing zeros. */
export function timeText(value: bigint, unit: number): string {
  const perSecond = PER_SECOND[unit]!;
  const seconds = value / perSecond;
  const pad = (part: bigint) => part.toString().padStart(2, '0');
  const fraction = unit === 0 ? '' : (value % perSecond).toString().padStart(unit * 3, '0').replace(/0+$/, '');
  return `${pad(seconds / 3600n)}:${pad((seconds / 60n) % 60n)}:${pad(seconds % 60n)}${fraction && `.${fraction}`}`;
}

/** A timestamp in its zone; a zone that this browser does not know is shown in UTC. */
export function timestampText(value: bigint, unit: number, zone: string | null): string {
  const perSecond = PER_SECOND[unit]!;
  const offset = zone === null ? 0 : zoneOffset(zone, Number(floorDiv(value, perSecond)));
  const local = value + BigInt(offset) * perSecond;
  const days = floorDiv(local, 86_400n * perSecond);
  const date = dateText(days);
  const time = timeText(local - days * 86_400n * perSecond, unit);
  const text = date.endsWith(' BC') ? `${date.slice(0, -3)} ${time}` : `${date} ${time}`;
  const shift = zone === null ? '' : offsetText(offset);
  return date.endsWith(' BC') ? `${text}${shift} BC` : `${text}${shift}`;
}

/** Seconds east of UTC. */
function zoneOffset(zone: string, second: number): number {
  const fixed = /^([+-])(\d\d):?(\d\d)$/.exec(zone);
  if (fixed) return (fixed[1] === '-' ? -1 : 1) * (Number(fixed[2]) * 3600 + Number(fixed[3]) * 60);
  if (zone === 'UTC' || zone === 'Z') return 0;
  const parts = zoneParts(zone, second);
  return parts === null ? 0 : parts - second;
}

const FORMATS = new Map<string, Intl.DateTimeFormat | null>();

function zoneParts(zone: string, second: number): number | null {
  if (!FORMATS.has(zone)) {
    try {
      FORMATS.set(zone, new Intl.DateTimeFormat('en-US', {
        timeZone: zone, hourCycle: 'h23', era: 'short', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric',
      }));
    } catch {
      FORMATS.set(zone, null);
    }
  }
  const format = FORMATS.get(zone);
  const date = new Date(second * 1000);
  if (!format || Number.isNaN(date.getTime())) return null;
  const part = Object.fromEntries(format.formatToParts(date).map(({ type, value }) => [type, value]));
  const year = part.era?.startsWith('B') ? 1 - Number(part.year) : Number(part.year);
  const local = new Date(0);
  local.setUTCFullYear(year, Number(part.month) - 1, Number(part.day));
  local.setUTCHours(Number(part.hour), Number(part.minute), Number(part.second));
  return local.getTime() / 1000;
}

function offsetText(offset: number): string {
  const minutes = Math.abs(Math.round(offset / 60));
  const pad = (part: number) => String(part).padStart(2, '0');
  return `${offset < 0 ? '-' : '+'}${pad(Math.floor(minutes / 60))}${minutes % 60 ? `:${pad(minutes % 60)}` : ''}`;
}

function interval(data: Data, at: number, unit: number): string {
  const values = data.values as Int32Array;
  if (unit === 0) return intervalText(values[at]!, 0, 0n);
  if (unit === 1) return intervalText(0, values[at * 2]!, BigInt(values[at * 2 + 1]!) * 1_000_000n);
  const nanos = (BigInt(values[at * 4 + 3]!) << 32n) | BigInt(values[at * 4 + 2]! >>> 0);
  return intervalText(values[at * 4]!, values[at * 4 + 1]!, nanos);
}

/** An interval as PostgreSQL writes it: `1 year 2 mons 3 days 04:05:06.789`. */
export function intervalText(months: number, days: number, nanos: bigint): string {
  const parts: string[] = [];
  const put = (value: number, one: string, many: string) => {
    if (value !== 0) parts.push(`${value} ${value === 1 || value === -1 ? one : many}`);
  };
  put(Math.trunc(months / 12), 'year', 'years');
  put(months % 12, 'mon', 'mons');
  put(days, 'day', 'days');
  if (nanos !== 0n || parts.length === 0) {
    parts.push(`${nanos < 0n ? '-' : ''}${timeText(nanos < 0n ? -nanos : nanos, 3)}`);
  }
  return parts.join(' ');
}

function bytesOf(data: Data, at: number): Uint8Array {
  const offsets = data.valueOffsets as Int32Array | BigInt64Array;
  return (data.values as Uint8Array).subarray(Number(offsets[at]), Number(offsets[at + 1]));
}

const DECODER = new TextDecoder();

function utf8(data: Data, at: number, max: number): Cell {
  const all = bytesOf(data, at);
  // Four bytes per character at most, and nothing more of a long text is decoded.
  if (all.length <= max) return { text: DECODER.decode(all) };
  const text = DECODER.decode(all.subarray(0, max * 4));
  const letters = [...text.slice(0, max * 2)];
  if (all.length <= max * 4 && letters.length <= max) return { text };
  return { text: `${letters.slice(0, max).join('')}…`, cut: true };
}

function hex(bytes: Uint8Array, max: number): Cell {
  const some = bytes.length * 2 > max ? bytes.subarray(0, Math.floor(max / 2)) : bytes;
  let text = '\\x';
  for (const byte of some) text += byte.toString(16).padStart(2, '0');
  return some.length < bytes.length ? { text: `${text}…`, cut: true } : { text };
}

function fixedBinary(data: Data, at: number, field: Field | null, max: number): Cell {
  const width = (data.type as unknown as { byteWidth: number }).byteWidth;
  const bytes = (data.values as Uint8Array).subarray(at * width, (at + 1) * width);
  if (width !== 16 || field?.metadata.get('ARROW:extension:name') !== 'arrow.uuid') return hex(bytes, max);
  const digits = hex(bytes, 64).text.slice(2);
  return { text: digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5') };
}

function dictionary(data: Data, at: number, max: number): Cell {
  let code = Number((data.values as Int32Array)[at]);
  for (const part of data.dictionary?.data ?? []) {
    if (code < part.length) return cell(part, code, null, max) ?? { text: 'NULL' };
    code -= part.length;
  }
  return { text: '' };
}

function rangeOf(data: Data, at: number): [number, number] {
  const type = data.type as DataType;
  if (DataType.isFixedSizeList(type)) return [at * type.listSize, (at + 1) * type.listSize];
  const offsets = data.valueOffsets as Int32Array | BigInt64Array;
  return [Number(offsets[at]), Number(offsets[at + 1])];
}

/** Nested values as DuckDB writes them: `[1, 2]`, `{'a': 1}`, `{k=v}`. */
function nested(data: Data, at: number, max: number): Cell {
  const parts: string[] = [];
  let length = 2;
  const put = (text: string) => {
    parts.push(text);
    length += text.length + 2;
    return length <= max;
  };
  const type = data.type as DataType;
  const isText = (of: Data) => DataType.isUtf8(of.type as DataType) || DataType.isLargeUtf8(of.type as DataType);
  const inner = (of: Data, place: number, field: Field | null) => {
    const found = cell(of, place, field, Math.max(max - length, 8));
    if (found === null) return 'NULL';
    return isText(of) ? `'${found.text.replaceAll("'", "''")}'` : found.text;
  };
  let isWhole = true;
  if (DataType.isStruct(type)) {
    for (const [number, child] of data.children.entries()) {
      isWhole = put(`'${type.children[number]!.name}': ${inner(child, data.offset + at, type.children[number]!)}`);
      if (!isWhole) break;
    }
    return around('{', parts, '}', isWhole);
  }
  const [from, to] = rangeOf(data, at);
  const child = data.children[0]!;
  if (DataType.isMap(type)) {
    const [keys, values] = child.children as [Data, Data];
    for (let place = from; place < to && isWhole; place++) isWhole = put(`${inner(keys, place, null)}=${inner(values, place, null)}`) || place + 1 === to;
    return around('{', parts, '}', isWhole);
  }
  for (let place = from; place < to && isWhole; place++) isWhole = put(inner(child, place, null)) || place + 1 === to;
  return around('[', parts, ']', isWhole);
}

function around(open: string, parts: string[], close: string, isWhole: boolean): Cell {
  return isWhole ? { text: `${open}${parts.join(', ')}${close}` } : { text: `${open}${parts.join(', ')}, …${close}`, cut: true };
}

/** A value as JSON text with all its digits. */
export function jsonText(data: Data, at: number, field: Field | null): string {
  if (!isValid(data, at)) return 'null';
  const type = data.type as DataType;
  if (DataType.isStruct(type)) {
    const parts = data.children.map((child, number) => `${JSON.stringify(type.children[number]!.name)}:${jsonText(child, data.offset + at, type.children[number]!)}`);
    return `{${parts.join(',')}}`;
  }
  if (DataType.isMap(type)) return jsonMap(data, at);
  if (isNested(type)) {
    const [from, to] = rangeOf(data, at);
    const parts: string[] = [];
    for (let place = from; place < to; place++) parts.push(jsonText(data.children[0]!, place, null));
    return `[${parts.join(',')}]`;
  }
  const text = fullText(data, at, field) ?? '';
  if (DataType.isBool(type) || DataType.isInt(type) || DataType.isDecimal(type)) return text;
  if (DataType.isFloat(type)) return Number.isFinite(Number(text)) ? text : 'null';
  return JSON.stringify(text);
}

function jsonMap(data: Data, at: number): string {
  const [from, to] = rangeOf(data, at);
  const [keys, values] = data.children[0]!.children as [Data, Data];
  const parts: string[] = [];
  for (let place = from; place < to; place++) {
    parts.push(`${JSON.stringify(fullText(keys, place, null))}:${jsonText(values, place, null)}`);
  }
  return `{${parts.join(',')}}`;
}

/** A value as a double, for plots and scales; NULL and values without a number are NaN. Times are milliseconds. */
export function numeric(data: Data, at: number): number {
  if (!isValid(data, at)) return Number.NaN;
  const type = data.type as DataType;
  const values = data.values as unknown as { [at: number]: number | bigint };
  if (DataType.isInt(type)) return Number(values[at]);
  if (DataType.isFloat(type)) return vectorOf(data).get(at) as number;
  if (DataType.isBool(type)) return boolAt(data, at) ? 1 : 0;
  if (DataType.isDecimal(type)) return Number(decimalAt(data, at, type.bitWidth)) / 10 ** type.scale;
  if (DataType.isDate(type)) return type.unit === 0 ? Number(values[at]) * 86_400_000 : Number(values[at]);
  if (DataType.isTimestamp(type) || DataType.isTime(type) || DataType.isDuration(type)) {
    return Number(values[at]) / Number(PER_SECOND[type.unit]!) * 1000;
  }
  return Number.NaN;
}

/** What a column holds, for alignment and plots. */
export function kindOf(type: DataType): 'number' | 'time' | 'bool' | 'text' | 'nested' {
  if (DataType.isDictionary(type)) return kindOf(type.dictionary);
  if (DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type)) return 'number';
  if (DataType.isDate(type) || DataType.isTimestamp(type)) return 'time';
  if (DataType.isBool(type)) return 'bool';
  if (isNested(type)) return 'nested';
  return 'text';
}

/** The type's name in SQL. */
export function typeName(field: Field): string {
  const type = field.type as DataType;
  const extension = field.metadata.get('ARROW:extension:name');
  if (extension === 'arrow.uuid') return 'UUID';
  if (extension === 'arrow.json') return 'JSON';
  return nameOf(type);
}

const INTS: Record<string, string> = { '8': 'TINYINT', '16': 'SMALLINT', '32': 'INTEGER', '64': 'BIGINT' };

function nameOf(type: DataType): string {
  if (DataType.isDictionary(type)) return nameOf(type.dictionary);
  if (DataType.isInt(type)) return `${type.isSigned ? '' : 'U'}${INTS[type.bitWidth]}`;
  if (DataType.isFloat(type)) return ['HALF', 'REAL', 'DOUBLE'][type.precision] ?? 'DOUBLE';
  if (DataType.isDecimal(type)) return `DECIMAL(${type.precision},${type.scale})`;
  if (DataType.isBool(type)) return 'BOOLEAN';
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) return 'VARCHAR';
  if (DataType.isBinary(type) || DataType.isLargeBinary(type) || DataType.isFixedSizeBinary(type)) return 'BLOB';
  if (DataType.isDate(type)) return 'DATE';
  if (DataType.isTime(type)) return 'TIME';
  if (DataType.isTimestamp(type)) return type.timezone ? 'TIMESTAMPTZ' : 'TIMESTAMP';
  if (DataType.isInterval(type) || DataType.isDuration(type)) return 'INTERVAL';
  if (DataType.isMap(type)) {
    const [key, value] = type.children[0]!.type.children as Field[];
    return `MAP(${nameOf(key!.type)}, ${nameOf(value!.type)})`;
  }
  if (DataType.isList(type) || DataType.isLargeList(type)) return `${nameOf(type.children[0]!.type)}[]`;
  if (DataType.isFixedSizeList(type)) return `${nameOf(type.children[0]!.type)}[${type.listSize}]`;
  if (DataType.isStruct(type)) return `STRUCT(${type.children.map((child) => `${child.name} ${nameOf(child.type)}`).join(', ')})`;
  return String(type);
}
