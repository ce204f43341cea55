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

/** What a layout is of: a table, or a copy of it. */
export interface Source {
  table: string;
  copy: string | null;
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
  /** What each of the columns has of them. */
  own: Own[];
  format: string;
  pages: number;
  bytes: number;
}

/** The pages of a column in a segment: their bytes, and its encoding there. */
export interface Own {
  bytes: number;
  encoding: string;
}

/** A part of a segment's file that is no page of a column of the table. */
export interface Extra {
  segment: number;
  kind: 'dictionary' | 'index' | 'zones' | 'footer' | 'dropped';
  /** The columns of a dictionary or an index. */
  columns: string;
  bytes: number;
}

/** All parts of segments' files. */
interface Parts {
  own: Map<string, Own>;
  extras: Extra[];
}

export interface Page {
  group: number;
  columns: string;
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

export interface Layout extends Source {
  rows: number;
  bytes: number;
  design: string;
  columns: Column[];
  segments: Segment[];
  /** Of one segment each, or of `step` neighbouring segments taken together. */
  blocks: Block[];
  extras: Extra[];
  step: number;
}

export interface Candidate {
  column: string;
  plan: string;
  chosen: boolean;
  bytesPerValue: number;
  /** Not known of an encoding that was set, and not weighed. */
  decodeNs: number | null;
  score: number | null;
}

/** Blocks that are asked for at once; those of neighbouring segments are taken together by the engine. */
export const BLOCKS_MAX = 50_000;
/** Zones that are asked for at once; more are taken together by the engine. */
export const ZONE_RUNS_MAX = 4_000;
export const ZONE_ROWS = 2_048;
/** A second session, so that two questions about a table are answered at once. */
const LANE = 'layout';

/** The call of a function about a layout; `named` are further arguments. */
function called(name: string, { table, copy }: Source, ...named: string[]): string {
  return `freestone_${name}(${[literal(table), ...(copy === null ? [] : [`copy => ${literal(copy)}`]), ...named].join(', ')})`;
}

const text = (value: Value | undefined) => (value === null || value === undefined ? null : String(value));
const number = (value: Value | undefined) => Number(value ?? 0);
const known = (value: Value | undefined) => (value === null || value === undefined ? null : Number(value));

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

export async function readColumns(of: Source, tab = 'page'): Promise<Column[]> {
  const names = ['column', 'type', 'encoding', 'bytes', 'distinct', 'nulls', 'min', 'max'];
  const rows = await ask(`SELECT * FROM ${called('columns', of)}`, names, tab);
  return rows.map((row) => ({
    name: String(row.column), type: String(row.type), encoding: text(row.encoding) ?? '', bytes: number(row.bytes),
    distinct: known(row.distinct), nulls: number(row.nulls), min: text(row.min), max: text(row.max),
  }));
}

async function readSegments(of: Source): Promise<Segment[]> {
  const names = ['segment', 'rows', 'deleted', 'bytes', 'pages', 'hot', 'in_pool', 'groups', 'design'];
  const rows = await ask(`SELECT * FROM ${called('segments', of)}`, names, LANE);
  return rows.map((row) => ({
    segment: number(row.segment), rows: number(row.rows), deleted: number(row.deleted), bytes: number(row.bytes), pages: number(row.pages),
    hot: row.hot === true, inPool: row.in_pool === true, groups: text(row.groups) ?? '', design: text(row.design) ?? '',
  }));
}

async function readBlocks(of: Source, step: number): Promise<Omit<Block, 'own'>[]> {
  const sql = `SELECT segment - segment % ${step} AS segment, "group", "columns", "format", count(*) AS pages, sum(bytes) AS bytes FROM ${called('pages', of)}
 GROUP BY 1, "group", "columns", "format" ORDER BY 1, "group"`;
  const rows = await ask(sql, ['segment', 'group', 'columns', 'format', 'pages', 'bytes'], LANE);
  return rows.map((row) => ({
    segment: number(row.segment), group: number(row.group), columns: String(row.columns).split(', '), format: String(row.format),
    pages: number(row.pages), bytes: number(row.bytes),
  }));
}

const ownKey = (segment: number, group: number, column: string) => `${segment}\0${group}\0${column}`;

/** The parts of one segment, or of all, `step` neighbouring segments taken together. */
async function readParts(of: Source, step: number, segment: number | null): Promise<Parts> {
  const named = segment === null ? [] : [`segment => ${segment}`];
  const sql = `SELECT segment - segment % ${step} AS segment, part, "group", "columns", string_agg(DISTINCT encoding, ', ') AS encoding, sum(bytes) AS bytes
 FROM ${called('parts', of, ...named)} GROUP BY 1, part, "group", "columns" ORDER BY 1`;
  const found: Parts = { own: new Map(), extras: [] };
  for (const row of await ask(sql, ['segment', 'part', 'group', 'columns', 'encoding', 'bytes'], LANE)) {
    const columns = text(row.columns) ?? '';
    if (row.part === 'column') found.own.set(ownKey(number(row.segment), number(row.group), columns), { bytes: number(row.bytes), encoding: text(row.encoding) ?? '' });
    else found.extras.push({ segment: number(row.segment), kind: String(row.part) as Extra['kind'], columns, bytes: number(row.bytes) });
  }
  return found;
}

/** Blocks with what their columns have of them. Of what has no file, such as rows in persistent memory, columns have equal shares. */
function withOwn(blocks: Omit<Block, 'own'>[], { own }: Parts): Block[] {
  return blocks.map((block) => ({
    ...block, own: block.columns.map((column) => own.get(ownKey(block.segment, block.group, column)) ?? { bytes: block.bytes / block.columns.length, encoding: '' }),
  }));
}

export async function readLayout(of: Source): Promise<Layout> {
  const { table, copy } = of;
  const which = copy === null ? `freestone_tables() WHERE name = ${literal(table)}` : `freestone_copies() WHERE "table" = ${literal(table)} AND name = ${literal(copy)}`;
  const [stored, columns, segments] = await Promise.all([
    ask(`SELECT rows, bytes, design FROM ${which}`, ['rows', 'bytes', 'design']), readColumns(of), readSegments(of),
  ]);
  const step = Math.max(Math.ceil((segments.length * columns.length) / BLOCKS_MAX), 1);
  const [blocks, parts] = await Promise.all([readBlocks(of, step), readParts(of, step, null)]);
  const [known] = stored;
  if (!known) throw new Error(copy === null ? `there is no table ${table}` : `${table} has no copy ${copy}`);
  return { table, copy, rows: number(known.rows), bytes: number(known.bytes), design: text(known.design) ?? '', columns, segments, blocks: withOwn(blocks, parts), extras: parts.extras, step };
}

/** A segment from near: its pages, also by groups, and the other parts of its file. */
export interface Near {
  pages: Page[];
  blocks: Block[];
  extras: Extra[];
}

/** Reads one segment. */
export async function readNear(of: Source, segment: number): Promise<Near> {
  const sql = `SELECT "group", "columns", page, first_row, "rows", bytes, "format" FROM ${called('pages', of, `segment => ${segment}`)} ORDER BY "group", page`;
  const [rows, parts] = await Promise.all([ask(sql, ['group', 'columns', 'page', 'first_row', 'rows', 'bytes', 'format']), readParts(of, 1, segment)]);
  const pages = rows.map((row) => ({
    group: number(row.group), columns: String(row.columns), page: number(row.page), firstRow: number(row.first_row), rows: number(row.rows), bytes: number(row.bytes), format: String(row.format),
  }));
  return { pages, blocks: withOwn(blocksOf(segment, pages), parts), extras: parts.extras };
}

/** The pages of a segment, taken together by groups. */
function blocksOf(segment: number, pages: Page[]): Omit<Block, 'own'>[] {
  const found = new Map<number, Omit<Block, 'own'>>();
  for (const { group, columns, format, bytes } of pages) {
    const known = found.get(group) ?? { segment, group, columns: columns.split(', '), format, pages: 0, bytes: 0 };
    known.pages += 1;
    known.bytes += bytes;
    found.set(group, known);
  }
  return [...found.values()];
}

const isNumber = (type: string) => /INT|DECIMAL|NUMERIC|REAL|DOUBLE|FLOAT/i.test(type) && !/\[|INTERVAL|STRUCT|MAP/i.test(type);
const isTime = (type: string) => /^(DATE|TIMESTAMP)/i.test(type);

/** The ranges of a column's zones: of one segment, or of all. At most about `ZONE_RUNS_MAX` runs, however many zones there are. */
export async function readZones(layout: Layout, column: Column, segment: number | null): Promise<ZoneRun[]> {
  const rows = segment === null ? layout.rows : layout.segments.find((known) => known.segment === segment)?.rows ?? 0;
  const step = Math.max(Math.ceil(rows / ZONE_ROWS / ZONE_RUNS_MAX), 1);
  const bound = (name: string) => (isNumber(column.type) ? `TRY_CAST("${name}" AS DOUBLE)` : `"${name}"`);
  const named = [`column => ${literal(column.name)}`, ...(segment === null ? [] : [`segment => ${segment}`])];
  const sql = `SELECT segment, min(zone) AS zone, count(*) AS zones, sum("rows") AS rows, sum(nulls) AS nulls, min(low) AS low, max(high) AS high
 FROM (SELECT segment, zone, "rows", nulls, ${bound('min')} AS low, ${bound('max')} AS high FROM ${called('zones', layout, ...named)}) AS z
 GROUP BY segment, zone - zone % ${step} ORDER BY segment, zone`;
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
export async function readCandidates(of: Source, segment: number): Promise<Candidate[]> {
  const names = ['column', 'rank', 'plan', 'chosen', 'bytes_per_value', 'decode_ns_per_value', 'score'];
  const rows = await ask(`SELECT * FROM ${called('encodings', of, `segment => ${segment}`)} ORDER BY "column", rank NULLS LAST`, names);
  return rows.map((row) => ({
    column: String(row.column), plan: String(row.plan), chosen: row.chosen === true,
    bytesPerValue: number(row.bytes_per_value), decodeNs: known(row.decode_ns_per_value), score: known(row.score),
  }));
}
