/** How tables are stored, read by the table functions. A column that an answer lacks is an error. */
import { ask, literal, type Row, type Value } from './ask';

export interface Stored {
  /** The table; for a copy, the table that it copies. */
  table: string;
  /** The copy's name; null for the table itself. */
  copy: string | null;
  rows: number;
  segments: number;
  bytes: number;
  design: string;
  /** Whether queries may read it: a copy that is behind its table waits for VACUUM. */
  current: boolean;
  columns: string;
}

export interface Column {
  name: string;
  type: string;
  encoding: string;
  bytes: number;
  distinct: number | null;
  nulls: number;
  min: string | null;
  max: string | null;
}

export interface Segment {
  segment: number;
  rows: number;
  deleted: number;
  bytes: number;
  pages: number;
  hot: boolean;
  inPool: boolean;
  groups: string;
  design: string;
}

/** The pages of a group of a segment, taken together. */
export interface Block {
  segment: number;
  group: number;
  columns: string[];
  format: string;
  pages: number;
  bytes: number;
}

export interface Page {
  group: number;
  page: number;
  firstRow: number;
  rows: number;
  bytes: number;
  format: string;
}

/** Neighbouring zones of a column, with the range of all of them. */
export interface ZoneRun {
  segment: number;
  zone: number;
  zones: number;
  rows: number;
  nulls: number;
  low: number;
  high: number;
  lowText: string;
  highText: string;
}

export interface Layout {
  table: string;
  rows: number;
  bytes: number;
  design: string;
  columns: Column[];
  segments: Segment[];
  blocks: Block[];
}

export interface Candidate {
  column: string;
  rank: number;
  plan: string;
  chosen: boolean;
  bytesPerValue: number;
  decodeNs: number;
  score: number;
}

/** Zones that are asked for at once; more are taken together by the engine. */
export const ZONE_RUNS_MAX = 4_000;
const ZONE_ROWS = 2_048;
/** A second session, so that two questions about a table are answered at once. */
const LANE = 'layout';

const text = (value: Value | undefined) => (value === null || value === undefined ? null : String(value));
const number = (value: Value | undefined) => Number(value ?? 0);

export async function readStored(): Promise<Stored[]> {
  const [tables, copies] = await Promise.all([
    ask('SELECT name, rows, segments, bytes, design FROM freestone_tables()', ['name', 'rows', 'segments', 'bytes', 'design']),
    ask('SELECT "table", name, "columns", current, rows, segments, bytes, design FROM freestone_copies()', ['table', 'name', 'columns', 'current', 'rows', 'segments', 'bytes', 'design']),
  ]);
  const of = (row: Row, table: string, copy: string | null): Stored => ({
    table, copy, rows: number(row.rows), segments: number(row.segments), bytes: number(row.bytes), design: text(row.design) ?? '',
    current: copy === null || row.current === true, columns: text(row.columns) ?? '',
  });
  const found: Stored[] = [];
  for (const row of tables.sort((a, b) => number(b.bytes) - number(a.bytes))) {
    const name = String(row.name);
    found.push(of(row, name, null));
    for (const copy of copies) if (copy.table === name) found.push(of(copy, name, String(copy.name)));
  }
  return found;
}

export async function readColumns(table: string, tab = 'page'): Promise<Column[]> {
  const names = ['column', 'type', 'encoding', 'bytes', 'distinct', 'nulls', 'min', 'max'];
  const rows = await ask(`SELECT * FROM freestone_columns(${literal(table)})`, names, tab);
  return rows.map((row) => ({
    name: String(row.column), type: String(row.type), encoding: text(row.encoding) ?? '', bytes: number(row.bytes),
    distinct: row.distinct === null ? null : number(row.distinct), nulls: number(row.nulls), min: text(row.min), max: text(row.max),
  }));
}

async function readSegments(table: string): Promise<Segment[]> {
  const names = ['segment', 'rows', 'deleted', 'bytes', 'pages', 'hot', 'in_pool', 'groups', 'design'];
  const rows = await ask(`SELECT * FROM freestone_segments(${literal(table)})`, names, LANE);
  return rows.map((row) => ({
    segment: number(row.segment), rows: number(row.rows), deleted: number(row.deleted), bytes: number(row.bytes), pages: number(row.pages),
    hot: row.hot === true, inPool: row.in_pool === true, groups: text(row.groups) ?? '', design: text(row.design) ?? '',
  }));
}

async function readBlocks(table: string): Promise<Block[]> {
  const sql = `SELECT segment, "group", "columns", "format", count(*) AS pages, sum(bytes) AS bytes FROM freestone_pages(${literal(table)})
 GROUP BY segment, "group", "columns", "format" ORDER BY segment, "group"`;
  const rows = await ask(sql, ['segment', 'group', 'columns', 'format', 'pages', 'bytes'], LANE);
  return rows.map((row) => ({
    segment: number(row.segment), group: number(row.group), columns: String(row.columns).split(', '), format: String(row.format),
    pages: number(row.pages), bytes: number(row.bytes),
  }));
}

export async function readLayout(table: string): Promise<Layout> {
  const [stored, columns, segments, blocks] = await Promise.all([
    ask(`SELECT rows, bytes, design FROM freestone_tables() WHERE name = ${literal(table)}`, ['rows', 'bytes', 'design']),
    readColumns(table), readSegments(table), readBlocks(table),
  ]);
  const [known] = stored;
  if (!known) throw new Error(`there is no table ${table}`);
  return { table, rows: number(known.rows), bytes: number(known.bytes), design: text(known.design) ?? '', columns, segments, blocks };
}

/** The pages of one segment. */
export async function readPages(table: string, segment: number): Promise<Page[]> {
  const sql = `SELECT "group", page, first_row, "rows", bytes, "format" FROM freestone_pages(${literal(table)}) WHERE segment = ${segment} ORDER BY "group", page`;
  const rows = await ask(sql, ['group', 'page', 'first_row', 'rows', 'bytes', 'format']);
  return rows.map((row) => ({
    group: number(row.group), page: number(row.page), firstRow: number(row.first_row), rows: number(row.rows), bytes: number(row.bytes), format: String(row.format),
  }));
}

const isNumber = (type: string) => /INT|DECIMAL|NUMERIC|REAL|DOUBLE|FLOAT/i.test(type) && !/\[|INTERVAL|STRUCT|MAP/i.test(type);
const isTime = (type: string) => /^(DATE|TIMESTAMP)/i.test(type);

/** The ranges of a column's zones: of one segment, or of all. At most about `ZONE_RUNS_MAX` runs, however many zones there are. */
export async function readZones(layout: Layout, column: Column, segment: number | null): Promise<ZoneRun[]> {
  const rows = segment === null ? layout.rows : layout.segments.find((known) => known.segment === segment)?.rows ?? 0;
  const step = Math.max(Math.ceil(rows / ZONE_ROWS / ZONE_RUNS_MAX), 1);
  const bound = (name: string) => (isNumber(column.type) ? `TRY_CAST("${name}" AS DOUBLE)` : `"${name}"`);
  const where = segment === null ? '' : ` AND segment = ${segment}`;
  const sql = `SELECT segment, min(zone) AS zone, count(*) AS zones, sum("rows") AS rows, sum(nulls) AS nulls, min(low) AS low, max(high) AS high
 FROM (SELECT segment, zone, "rows", nulls, ${bound('min')} AS low, ${bound('max')} AS high FROM freestone_zones(${literal(layout.table)})
 WHERE "column" = ${literal(column.name)}${where}) AS z GROUP BY segment, zone - zone % ${step} ORDER BY segment, zone`;
  const found = await ask(sql, ['segment', 'zone', 'zones', 'rows', 'nulls', 'low', 'high']);
  const prefix = isNumber(column.type) || isTime(column.type) ? '' : commonPrefix(found.flatMap((row) => [text(row.low), text(row.high)]));
  const place = (value: Value | undefined) => placeOf(value, column.type, prefix);
  return found.map((row) => ({
    segment: number(row.segment), zone: number(row.zone), zones: number(row.zones), rows: number(row.rows), nulls: number(row.nulls),
    low: place(row.low), high: place(row.high), lowText: text(row.low) ?? 'NULL', highText: text(row.high) ?? 'NULL',
  }));
}

/** A bound on a line: numbers as they are, times in milliseconds, texts by their first letters after what all share. */
export function placeOf(value: Value | undefined, type: string, prefix: string): number {
  if (value === null || value === undefined) return Number.NaN;
  if (typeof value === 'number') return value;
  if (isNumber(type)) return Number(value);
  if (isTime(type)) return timeOf(String(value));
  const bytes = new TextEncoder().encode(String(value).slice(prefix.length));
  let place = 0;
  for (let at = 0; at < 6; at++) place = place * 256 + (bytes[at] ?? 0);
  return place;
}

/** Milliseconds of `1994-01-02`, `1994-01-02 03:04:05.6` or `1994-01-02 03:04:05+02`; without a zone, in UTC. */
function timeOf(text: string): number {
  const found = /^(\d{4}-\d\d-\d\d)(?:[ T]([\d:.]+)(Z|[+-]\d\d(?::?\d\d)?)?)?$/.exec(text);
  if (!found) return Number.NaN;
  const [, day, time = '00:00:00', zone = 'Z'] = found;
  return Date.parse(`${day}T${time}${zone.length === 3 ? `${zone}:00` : zone}`);
}

export function commonPrefix(texts: (string | null)[]): string {
  const known = texts.filter((each) => each !== null);
  let prefix = known[0] ?? '';
  for (const each of known) while (!each.startsWith(prefix)) prefix = prefix.slice(0, -1);
  return prefix;
}

/** The encodings that were weighed for a column of a segment, the best first. */
export async function readCandidates(table: string, segment: number): Promise<Candidate[]> {
  const names = ['column', 'rank', 'plan', 'chosen', 'bytes_per_value', 'decode_ns_per_value', 'score'];
  const rows = await ask(`SELECT * FROM freestone_encodings(${literal(table)}, ${segment}) ORDER BY "column", rank`, names);
  return rows.map((row) => ({
    column: String(row.column), rank: number(row.rank), plan: String(row.plan), chosen: row.chosen === true,
    bytesPerValue: number(row.bytes_per_value), decodeNs: number(row.decode_ns_per_value), score: number(row.score),
  }));
}
