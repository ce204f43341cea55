// Made-up answers to the statements that the page asks, with the columns of the table functions.
import {
  Bool, DateDay, Decimal, Dictionary, Field, Float64, Int32, Int64, List, makeData, RecordBatch, Schema, Struct, Table, tableToIPC, TimestampNanosecond,
  Uint64, Utf8, vectorFromArray, Vector,
} from 'apache-arrow';

const COLUMNS = [
  ['l_orderkey', 'BIGINT', 'delta', 1.1, 150000, '1', '600000'], ['l_partkey', 'BIGINT', 'bitpack', 1.9, 20000, '1', '20000'],
  ['l_suppkey', 'BIGINT', 'bitpack', 1.3, 1000, '1', '1000'], ['l_linenumber', 'INTEGER', 'bitpack', 0.4, 7, '1', '7'],
  ['l_quantity', 'DECIMAL(15,2)', 'bitpack', 0.8, 50, '1.00', '50.00'], ['l_extendedprice', 'DECIMAL(15,2)', 'bitpack', 3.0, 93000, '901.00', '104949.50'],
  ['l_discount', 'DECIMAL(15,2)', 'bitpack', 0.5, 11, '0.00', '0.10'], ['l_tax', 'DECIMAL(15,2)', 'bitpack', 0.5, 9, '0.00', '0.08'],
  ['l_returnflag', 'VARCHAR', 'dictionary', 0.25, 3, 'A', 'R'], ['l_linestatus', 'VARCHAR', 'dictionary_rle', 0.01, 2, 'F', 'O'],
  ['l_shipdate', 'DATE', 'rle', 0.02, 2526, '1992-01-02', '1998-12-01'], ['l_commitdate', 'DATE', 'bitpack', 1.5, 2466, '1992-01-31', '1998-10-31'],
  ['l_receiptdate', 'DATE', 'bitpack', 1.5, 2554, '1992-01-04', '1998-12-31'], ['l_shipinstruct', 'VARCHAR', 'dictionary', 0.25, 4, 'COLLECT COD', 'TAKE BACK RE'],
  ['l_shipmode', 'VARCHAR', 'dictionary', 0.38, 7, 'AIR', 'TRUCK'], ['l_comment', 'VARCHAR', 'fsst', 9.6, 580000, ' Tiresias', 'zzle. ironic'],
];
/** 2,000 columns, of which pictures show a few pixels each. */
const WIDE = Array.from({ length: 2000 }, (_, at) => [`c${at}`, 'BIGINT', ['bitpack', 'delta', 'plain'][at % 3], 0.5 + (at % 7), 1000, '0', '999']);
const TABLES = {
  lineitem: { segments: 6, rows: 600_572, design: "preset = 'column', sort = 'l_shipdate, l_orderkey', rle_levels = '1'", format: 'dense' },
  as_rows: { segments: 6, rows: 600_572, design: "preset = 'row'", format: 'dense', isOne: true },
  events: { segments: 1000, rows: 2_048_000_000, design: "preset = 'pax', cluster = 'l_shipdate, l_partkey'", format: 'pax', isOne: true },
  wide: { segments: 100, rows: 2_048_000, design: "preset = 'column'", format: 'dense', own: WIDE },
  '<img src=x onerror=alert(1)>': { segments: 1, rows: 2, design: "preset = 'auto'", format: 'dense' },
};

const COPIES = {
  by_part: { segments: 1, rows: 600_572, design: "preset = 'column', sort = 'l_partkey'", format: 'dense', own: COLUMNS.filter(([name]) => ['l_partkey', 'l_quantity', 'l_extendedprice'].includes(name)) },
};
const columnsOf = (table) => table.own ?? COLUMNS;

const text = (values) => vectorFromArray(values, new Utf8());
const whole = (values) => vectorFromArray(values.map((value) => (value === null ? null : BigInt(Math.round(value)))), new Uint64());
const real = (values) => vectorFromArray(values, new Float64());
const flag = (values) => vectorFromArray(values, new Bool());

/** Rows as an Arrow stream. `columns`: name → [kind, values]. */
function answer(columns) {
  return tableToIPC(new Table(columns), 'stream');
}

/** The table, or its copy, that a function is called for. */
function sourceIn(sql) {
  const found = /freestone_\w+\('((?:[^']|'')*)'(?:, copy => '(\w+)')?/.exec(sql);
  return found[2] ? COPIES[found[2]] : TABLES[found[1].replaceAll("''", "'")];
}

/** The number in `segment => 3`. */
function segmentIn(sql) {
  const found = /segment => (\d+)/.exec(sql);
  return found ? Number(found[1]) : null;
}

const segmentsOf = (table) => Array.from({ length: table.segments }, (_, at) => ({ at, rows: Math.floor(table.rows / table.segments) * (at === table.segments - 1 ? 1 : 1) }));
const bytesOf = (column, rows, at) => column[3] * rows * (1 + 0.08 * Math.sin(at + column[0].length));

function tables() {
  const names = Object.keys(TABLES);
  const bytes = names.map((name) => columnsOf(TABLES[name]).reduce((sum, column) => sum + column[3] * TABLES[name].rows, 0) * 1.02);
  return {
    name: text(names), rows: whole(names.map((name) => TABLES[name].rows)), columns: whole(names.map((name) => columnsOf(TABLES[name]).length)), segments: whole(names.map((name) => TABLES[name].segments)),
    bytes: whole(bytes), design: text(names.map((name) => TABLES[name].design)),
  };
}

function blocks(table, step) {
  const found = { segment: [], group: [], columns: [], format: [], pages: [], bytes: [] };
  for (const { at, rows: ofOne } of segmentsOf(table).filter((_, at) => at % step === 0)) {
    const rows = ofOne * Math.min(step, table.segments - at);
    const groups = table.isOne ? [columnsOf(table)] : columnsOf(table).map((column) => [column]);
    groups.forEach((group, number) => {
      const bytes = group.reduce((sum, column) => sum + bytesOf(column, rows, at), 0);
      found.segment.push(at); found.group.push(number); found.columns.push(group.map(([name]) => name).join(', ')); found.format.push(table.format);
      found.pages.push(Math.ceil(bytes / 32768)); found.bytes.push(bytes);
    });
  }
  return { segment: whole(found.segment), group: whole(found.group), columns: text(found.columns), format: text(found.format), pages: whole(found.pages), bytes: whole(found.bytes) };
}

/** The encoding of a column in a segment: that of one column changes in the middle. */
const encodingIn = (column, at) => (column[0] === 'l_comment' && at % 6 > 2 ? 'dictionary' : column[2]);

function partsOf(table, segment, step) {
  const found = { segment: [], part: [], group: [], columns: [], encoding: [], bytes: [] };
  const put = (at, part, group, columns, encoding, bytes) => {
    found.segment.push(at); found.part.push(part); found.group.push(group); found.columns.push(columns); found.encoding.push(encoding); found.bytes.push(bytes);
  };
  for (const { at, rows: ofOne } of segmentsOf(table).filter(({ at }) => (segment === null ? at % step === 0 : at === segment))) {
    const rows = ofOne * (segment === null ? Math.min(step, table.segments - at) : 1);
    columnsOf(table).forEach((column, number) => put(at, 'column', table.isOne ? 0 : number, column[0], encodingIn(column, at), bytesOf(column, rows, at)));
    const all = columnsOf(table).reduce((sum, column) => sum + bytesOf(column, rows, at), 0) * 0.02;
    put(at, 'dictionary', null, columnsOf(table)[0][0], null, all * 0.4);
    put(at, 'index', null, columnsOf(table)[0][0], null, all * 0.3);
    put(at, 'zones', null, null, null, all * 0.2);
    put(at, 'footer', null, null, null, all * 0.1);
  }
  return { segment: whole(found.segment), part: text(found.part), group: whole(found.group), columns: text(found.columns), encoding: text(found.encoding), bytes: whole(found.bytes) };
}

function pages(table, segment) {
  const found = { group: [], columns: [], page: [], first_row: [], rows: [], bytes: [], format: [] };
  const { rows } = segmentsOf(table)[segment];
  const groups = table.isOne ? [columnsOf(table)] : columnsOf(table).map((column) => [column]);
  groups.forEach((group, number) => {
    const bytes = group.reduce((sum, column) => sum + bytesOf(column, rows, segment), 0);
    const number_of = Math.max(Math.ceil(bytes / 32768), 1);
    for (let page = 0; page < number_of; page++) {
      const [from, to] = [Math.floor((page / number_of) * rows), Math.floor(((page + 1) / number_of) * rows)];
      found.group.push(number); found.columns.push(group.map(([name]) => name).join(', ')); found.page.push(page); found.first_row.push(from); found.rows.push(to - from); found.bytes.push(bytes / number_of); found.format.push(table.format);
    }
  });
  return { group: whole(found.group), columns: text(found.columns), page: whole(found.page), first_row: whole(found.first_row), rows: whole(found.rows), bytes: whole(found.bytes), format: text(found.format) };
}

function zones(table, column, segment) {
  const found = { segment: [], zone: [], zones: [], rows: [], nulls: [], low: [], high: [] };
  const isDate = /date/.test(column);
  const known = columnsOf(table).find(([name]) => name === column);
  const [least, most] = isDate ? [Date.parse('1992-01-02'), Date.parse('1998-12-01')] : [Number(known[5]), Number(known[6])];
  const all = segmentsOf(table).filter(({ at }) => segment === null || at === segment);
  const perSegment = Math.min(Math.ceil(all[0].rows / 2048), Math.ceil(4000 / all.length));
  all.forEach(({ at, rows }) => {
    for (let zone = 0; zone < perSegment; zone++) {
      const share = (at + zone / perSegment) / table.segments;
      const noise = Math.abs(Math.sin(zone * 12.9 + at * 78.2));
      const low = column === 'l_shipdate' ? share : column === 'l_receiptdate' || column === 'l_commitdate' ? Math.max(share - 0.04 * noise, 0) : 0.02 * noise;
      const high = column === 'l_shipdate' ? share + 1 / table.segments / perSegment : /date/.test(column) ? Math.min(share + 0.05, 1) : 1 - 0.02 * noise;
      const value = (part) => (isDate ? new Date(least + part * (most - least)).toISOString().slice(0, 10) : Number.isNaN(least) ? (part < 0.5 ? known[5] : known[6]) : least + part * (most - least));
      found.segment.push(at); found.zone.push(zone); found.zones.push(Math.ceil(rows / 2048 / perSegment)); found.rows.push(rows / perSegment); found.nulls.push(0); found.low.push(value(low)); found.high.push(value(high));
    }
  });
  const bound = typeof found.low[0] === 'number' ? real : text;
  return { segment: whole(found.segment), zone: whole(found.zone), zones: vectorFromArray(found.zones.map(BigInt), new Int64()), rows: whole(found.rows), nulls: whole(found.nulls), low: bound(found.low), high: bound(found.high) };
}

const PLANS = ['bitpack', 'dictionary', 'rle', 'delta', 'plain'];

function encodings(table) {
  const found = { column: [], rank: [], plan: [], chosen: [], bytes_per_value: [], decode_ns_per_value: [], score: [] };
  for (const column of columnsOf(table)) {
    const others = [column[2], ...PLANS.filter((plan) => plan !== column[2])].slice(0, 5);
    others.forEach((plan, at) => {
      found.column.push(column[0]); found.rank.push(at + 1); found.plan.push(plan); found.chosen.push(at === 0);
      found.bytes_per_value.push(column[3] * (1 + at * 0.7)); found.decode_ns_per_value.push(0.3 + 0.4 * ((at * 7) % 5)); found.score.push(column[3] * (1 + at * 0.8) + 0.1);
    });
    found.column.push(column[0]); found.rank.push(null); found.plan.push('not weighed'); found.chosen.push(false);
    found.bytes_per_value.push(column[3]); found.decode_ns_per_value.push(null); found.score.push(null);
  }
  return { column: text(found.column), rank: whole(found.rank), plan: text(found.plan), chosen: flag(found.chosen), bytes_per_value: real(found.bytes_per_value), decode_ns_per_value: real(found.decode_ns_per_value), score: real(found.score) };
}

function columns(table) {
  const all = columnsOf(table);
  return {
    column: text(all.map(([name]) => name)), type: text(all.map(([, type]) => type)), encoding: text(all.map((column) => [...new Set([0, 3].map((at) => encodingIn(column, at)))].sort().join(', '))),
    bytes: whole(all.map(([, , , bytes]) => bytes * table.rows)), distinct: whole(all.map((column) => column[4])), nulls: whole(all.map(() => 0)),
    min: text(all.map((column) => column[5])), max: text(all.map((column) => column[6])),
  };
}

function segments(table) {
  const all = segmentsOf(table);
  const total = (at, rows) => columnsOf(table).reduce((sum, column) => sum + bytesOf(column, rows, at), 0);
  return {
    segment: whole(all.map(({ at }) => at)), id: whole(all.map(({ at }) => at + 100)), rows: whole(all.map(({ rows }) => rows)), deleted: whole(all.map(() => 0)),
    bytes: whole(all.map(({ at, rows }) => total(at, rows) * 1.02)), pages: whole(all.map(({ at, rows }) => total(at, rows) / 32768)), hot: flag(all.map(() => false)), in_pool: flag(all.map(() => false)),
    groups: text(all.map(() => (table.isOne ? `${table.format} (all)` : 'dense (l_orderkey), dense (l_partkey), …'))), design: text(all.map(() => table.design)),
  };
}

function profile() {
  const rows = [
    ['host', 'processor (measured)', 2, 2, 2, 'cores', 'AMD EPYC Processor'], ['host', 'memory', 25.2e9, 25.2e9, 25.2e9, 'bytes', 'Linux 6'], ['host', 'spread of a fixed scan', 0.06, 0.03, 0.11, '', null],
    ['cache', 'L1 size', 32768, 32768, 32768, 'bytes', '32768'], ['cache', 'L2 size', 1048576, 524288, 1048576, 'bytes', '1048576'], ['cache', 'L3 size (repetitions differ)', null, null, null, 'bytes', '33554432'],
  ];
  for (const at of [1, 2, 4, 8, 16]) rows.push(['memory', `load, chains at once ${at}`, 100 / at + 4, 95 / at, 110 / at + 5, 'ns', null]);
  for (const at of [4096, 65536, 1048576, 16777216]) rows.push(['memory', `read in order, region bytes ${at}`, 0.05 + at / 4e8, 0.04, 0.12 + at / 3e8, 'ns/byte', null]);
  for (const size of [4, 32, 128]) for (const depth of [1, 8, 48]) rows.push(['disk', `random ${size} KiB, depth ${depth}`, (size * 900 + 60000) / depth, (size * 800) / depth, (size * 1000 + 70000) / depth, 'ns/read', null]);
  for (const family of ['ints(8)', 'ints(16)', 'strings(12)']) for (const share of [0.001, 0.01, 0.1, 1]) rows.push(['kernel', `dense ${family} decode, share ${share}`, 8 / (1 + 20 * share), 6 / (1 + 20 * share), 9 / (1 + 20 * share), 'ns/value', null]);
  rows.push(['network', 'loopback', 3.2, 2.8, 3.5, 'GB/s', null]);
  const column = (at) => rows.map((row) => row[at]);
  return { topic: text(column(0)), name: text(column(1)), value: real(column(2)), low: real(column(3)), high: real(column(4)), unit: text(column(5)), reported: text(column(6)) };
}

function workload() {
  const rows = [
    ['lineitem', 'SELECT l_shipmode, sum(l_quantity) FROM lineitem WHERE l_shipdate < ? GROUP BY l_shipmode', 41, 12.5, 512.5, 'l_shipmode, l_quantity, l_shipdate', 'l_shipdate range 0.142', 0.142, 'columns'],
    ['lineitem', 'SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate BETWEEN ? AND ?', 120, 3.1, 372, 'l_extendedprice, l_discount, l_shipdate', 'l_shipdate range 0.014', 0.014, 'aggregate'],
    ['as_rows', 'SELECT * FROM as_rows WHERE l_orderkey = ?', 900, 0.2, 180, 'l_orderkey, …', 'l_orderkey equal 0.000', 0.0000066, 'columns'],
  ];
  const column = (at) => rows.map((row) => row[at]);
  return { table: text(column(0)), statement: text(column(1)), runs: whole(column(2)), mean_ms: real(column(3)), total_ms: real(column(4)), columns: text(column(5)), predicates: text(column(6)), paths: text(rows.map(() => '')), selectivity: real(column(7)), output: text(column(8)), last_run: text(rows.map(() => '2026-11-28 01:00:00')) };
}

const QUERY_COSTS = [
  { query: 'SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate BETWEEN ? AND ?', weight: 120, now_ms: 0.42, then_ms: 0.03, ratio: 12.9, measured_ms: 0.034 },
  { query: 'SELECT l_shipmode, sum(l_quantity) FROM lineitem WHERE l_shipdate < ? GROUP BY l_shipmode', weight: 41, now_ms: 0.41, then_ms: 0.09, ratio: 4.4, measured_ms: 0.1 },
  { query: 'SELECT * FROM as_rows WHERE l_orderkey = ?', weight: 900, now_ms: 0.001, then_ms: 0.0013, ratio: 0.77, measured_ms: null },
];

/** Lists of structs, as a column. */
function lists(rows) {
  const field = (name, type) => new Field(name, type, true);
  const type = new Struct([field('query', new Utf8()), field('weight', new Float64()), field('now_ms', new Float64()), field('then_ms', new Float64()), field('ratio', new Float64()), field('measured_ms', new Float64())]);
  return vectorFromArray(rows, new List(new Field('item', type, false)));
}

function advice(table) {
  const copied = [
    ['now', "preset = 'pax'", 61, 52, 75, 66.4, 50e9, 0, null, 0, ''],
    ['copy', "preset = 'column', sort = 'l_partkey'", 7.9, null, null, null, 4e9, 1900, 33, 0, `ALTER TABLE "${table}" ADD COPY "copy_1" WITH (sort = 'l_partkey');`, `ALTER TABLE "${table}" DROP COPY "copy_1";`],
    ['unused', '', 61, null, null, null, 0, 0, null, 0, `ALTER TABLE "${table}" DROP COPY "old";`, `ALTER TABLE "${table}" ADD COPY "old" WITH (preset = 'row');`],
  ];
  const rows = table === 'events' ? copied : [
    ['now', "preset = 'row'", 61, 52, 75, 66.4, 13.9e6, 0, null, 0, `ALTER TABLE ${table} SET DESIGN (preset = 'row')`],
    ['recommended', "preset = 'column', sort = 'l_shipdate', column_groups = '(l_quantity, l_extendedprice, l_discount)'", 7.9, 6.1, 10.4, 8.8, 11.2e6, 1900, 33, 0, `ALTER TABLE ${table} SET DESIGN (preset = 'column', sort = 'l_shipdate', column_groups = '(l_quantity, l_extendedprice, l_discount)')`],
    ['other', "preset = 'column'", 19, 16, 23, 21.7, 12.4e6, 1200, 27, 1, `ALTER TABLE ${table} SET DESIGN (preset = 'column')`],
  ];
  const column = (at) => rows.map((row) => row[at]);
  const same = (value) => text(rows.map(() => value));
  return {
    table: same(table), rank: whole(rows.map((_, at) => at)), advice: text(column(0)), design: text(column(1)), predicted_ms: real(column(2)), low_ms: real(column(3)), high_ms: real(column(4)), measured_ms: real(column(5)),
    statements_ms: real(column(5)), bytes: whole(column(6)), conversion_ms: real(column(7)), break_even_runs: real(column(8)), losers: whole(column(9)), apply: text(column(10)),
    revert: text(rows.map((row) => (row[0] === 'now' ? '' : row[11] ?? rows[0][10]))), queries: lists(rows.map(([kind]) => (['recommended', 'other'].includes(kind) ? QUERY_COSTS : []))),
    reason: same('the workload filters by l_shipdate and reads 5 of 16 columns'),
  };
}

function whatIf() {
  const two = (a, b, make) => make([a, b]);
  return {
    which: text(['now', 'what if']), design: text(["preset = 'column'", "preset = 'row'"]), predicted_ms: two(3.1, 12.2, real), low_ms: two(2.6, 10, real), high_ms: two(3.8, 15, real), io_ms: two(0, 0, real), cpu_ms: two(3.1, 12.2, real),
    bytes_read: two(1.1e6, 13.9e6, real), measured_ms: two(3.3, 11.7, real), sample_rows: whole([600572, 600572]), bytes: whole([13.5e6, 15.8e6]), conversion_ms: two(0, 1400, real), break_even_runs: real([null, null]), apply: text(['', "ALTER TABLE lineitem SET DESIGN (preset = 'row')"]),
  };
}

function plan() {
  const scan = {
    'Node Type': 'Scan', 'Relation Name': 'lineitem', Details: "freestone table=lineitem, columns=[l_shipmode, l_quantity], segments=6, partitions=2, filter=l_shipdate < 1993-01-01", 'Plan Rows': 85000, 'Actual Rows': 76543, 'Actual Total Time': 9.1, 'Own Time': 9.1,
    Columns: ['l_shipmode', 'l_quantity'], Filter: 'l_shipdate < 1993-01-01',
    Counters: { segments: 6, segments_pruned: 5, zones: 294, zones_pruned: 251, zones_whole: 40, zones_aggregated: 0, pages_total: 33, pages_used: 6, pages_read: 2, bytes_total: 1_021_952, bytes_used: 182_400, bytes_read: 65_536, rows_scanned: 88_064, rows_selected: 76_543, values_decoded: 153_086 },
  };
  const other = {
    'Node Type': 'Scan', 'Relation Name': 'lineitem', Details: 'freestone table=lineitem, columns=[l_orderkey]', 'Plan Rows': 150000, 'Actual Rows': 150000, 'Own Time': 1.2,
    Columns: ['l_orderkey'], Filter: 'l_linenumber = 1', Counters: { zones: 294, zones_pruned: 0, pages_total: 21, pages_used: 21 },
  };
  const copied = { 'Node Type': 'Scan', 'Relation Name': 'lineitem', Copy: 'by_part', Details: 'freestone table=lineitem, copy=by_part', 'Actual Rows': 20, 'Own Time': 0.2, Columns: ['l_partkey'], Counters: { zones: 294, zones_pruned: 293 } };
  const join = { 'Node Type': 'Hash join', Details: 'join_type=Inner, on=[(l_orderkey, l_orderkey)]', 'Plan Rows': 900, 'Actual Rows': 76543, 'Own Time': 2.4, Plans: [scan, other, copied] };
  const root = { 'Node Type': 'Sort', Details: 'expr=[l_shipmode ASC]', 'Plan Rows': 7, 'Actual Rows': 7, 'Own Time': 0.02, Plans: [{ 'Node Type': 'Aggregate', Details: 'gby=[l_shipmode], aggr=[sum(l_quantity)]', 'Plan Rows': 7, 'Actual Rows': 7, 'Own Time': 1.1, Plans: [join] }] };
  return { plan_type: text(['analyzed_plan']), plan: text([JSON.stringify([{ Plan: root, 'Execution Time': 8.2 }], null, 2)]) };
}

/** All types of the page's tests, with values at their ends. */
export function types() {
  const decimal = new Decimal(4, 38, 128);
  const words = (value) => Array.from({ length: 4 }, (_, at) => Number((BigInt.asUintN(128, value) >> BigInt(32 * at)) & 0xffffffffn));
  const digits = [10n ** 38n - 1n, -(10n ** 38n - 1n), -105n].flatMap(words);
  return {
    id: vectorFromArray([9007199254740993n, -9223372036854775808n, 9223372036854775807n], new Int64()),
    amount: new Vector([makeData({ type: decimal, length: 3, data: new Uint32Array(digits) })]),
    at: new Vector([makeData({ type: new TimestampNanosecond(), length: 3, data: new BigInt64Array([1700000000123456789n, -1n, 0n]) })]),
    day: new Vector([makeData({ type: new DateDay(), length: 3, data: new Int32Array([0, -719529, 20000]) })]),
    name: vectorFromArray(['<b>bold</b><script>alert(1)</script>', '', null], new Utf8()),
    kind: vectorFromArray(['a', 'b', 'a'], new Dictionary(new Utf8(), new Int32())),
    list: vectorFromArray([[1, 2, null], [], null], new List(new Field('item', new Int32(), true))),
    pair: vectorFromArray([{ x: 1, y: "it's" }, { x: null, y: '' }, null], new Struct([new Field('x', new Int32(), true), new Field('y', new Utf8(), true)])),
  };
}

export const BIG_ROWS = 1_000_000;
export const HUGE_ROWS = 20_000_000;
export const BATCH_ROWS = 10_000;

/** A batch of the large result as two pieces of an Arrow stream: its schema, and its rows. */
export function bigPieces() {
  const schema = new Schema([new Field('row', new Int64(), false), new Field('day', new DateDay(), false), new Field('price', new Float64(), false), new Field('city', new Utf8(), true)]);
  const empty = tableToIPC(new Table(schema), 'stream');
  const cities = ['Oslo', 'Rome', null, '', 'Lima', '<i>Bern</i>'];
  const batch = (start) => {
    const rows = Array.from({ length: BATCH_ROWS }, (_, at) => start + at);
    const parts = [
      makeData({ type: new Int64(), length: BATCH_ROWS, data: BigInt64Array.from(rows.map(BigInt)) }),
      makeData({ type: new DateDay(), length: BATCH_ROWS, data: Int32Array.from(rows.map((row) => 8000 + (row % 2500))) }),
      makeData({ type: new Float64(), length: BATCH_ROWS, data: Float64Array.from(rows.map((row) => Math.round(10000 + 4000 * Math.sin(row / 90)) / 100)) }),
      vectorFromArray(rows.map((row) => cities[row % 6]), new Utf8()).data[0],
    ];
    const data = makeData({ type: new Struct(schema.fields), length: BATCH_ROWS, nullCount: 0, children: parts });
    const all = tableToIPC(new Table(schema, [new RecordBatch(schema, data)]), 'stream');
    return all.slice(empty.length - 8, all.length - 8);
  };
  return { schema: empty.slice(0, empty.length - 8), batch, end: empty.slice(empty.length - 8) };
}

/** The Arrow stream that answers a statement; null for a statement without rows. */
export function answerTo(sql) {
  if (/information_schema\.columns/.test(sql)) {
    const all = Object.keys(TABLES).flatMap((table) => COLUMNS.map(([name, type]) => [table, name, type]));
    return answer({ table_schema: text(all.map(() => 'main')), table_name: text(all.map(([table]) => table)), column_name: text(all.map(([, name]) => name)), data_type: text(all.map(([, , type]) => type)) });
  }
  if (/duckdb_functions/.test(sql)) return answer({ function_name: text(['abs', 'avg', 'count', 'date_trunc', 'round', 'substr', 'sum']) });
  if (/freestone_views/.test(sql)) return answer({ name: text(['recent']) });
  if (/freestone_copies/.test(sql)) {
    const { rows, design, segments } = COPIES.by_part;
    return answer({ table: text(['lineitem']), name: text(['by_part']), columns: text(['l_partkey, l_quantity, l_extendedprice']), current: flag([true]), rows: whole([rows]), segments: whole([segments]), bytes: whole([3.1e6]), design: text([design]) });
  }
  if (/freestone_tables/.test(sql)) {
    const wanted = /WHERE name = '((?:[^']|'')*)'/.exec(sql)?.[1].replaceAll("''", "'");
    const all = new Table(tables());
    if (wanted === undefined) return tableToIPC(all, 'stream');
    const at = Object.keys(TABLES).indexOf(wanted);
    return tableToIPC(all.slice(at, at + 1), 'stream');
  }
  if (/freestone_columns/.test(sql)) return answer(columns(sourceIn(sql)));
  if (/freestone_segments/.test(sql)) return answer(segments(sourceIn(sql)));
  if (/freestone_pages/.test(sql)) return answer(segmentIn(sql) === null ? blocks(sourceIn(sql), Number(/segment % (\d+)/.exec(sql)[1])) : pages(sourceIn(sql), segmentIn(sql)));
  if (/freestone_parts/.test(sql)) return answer(partsOf(sourceIn(sql), segmentIn(sql), Number(/segment % (\d+)/.exec(sql)[1])));
  if (/freestone_zones/.test(sql)) return answer(zones(sourceIn(sql), /column => '(\w+)'/.exec(sql)[1], segmentIn(sql)));
  if (/freestone_encodings/.test(sql)) return answer(encodings(sourceIn(sql)));
  if (/freestone_profile/.test(sql)) return answer(profile());
  if (/freestone_workload/.test(sql)) return answer(workload());
  if (/^ADVISE/.test(sql)) return answer(advice(sql.split(' ')[1]));
  if (/^WHATIF/.test(sql)) return answer(whatIf());
  if (/^EXPLAIN/.test(sql)) return answer(plan());
  if (/types/.test(sql)) return answer(types());
  if (/hundred megabytes/.test(sql)) return answer({ id: vectorFromArray([1], new Int32()), long: text(['x<b>'.repeat(25_000_000)]) });
  if (/FROM wide/.test(sql)) return answer(Object.fromEntries(WIDE.map(([name], at) => [name, vectorFromArray([at, -at], new Int32())])));
  if (/^(CREATE|ALTER|INSERT|SET)/i.test(sql)) return null;
  return answer({ one: vectorFromArray([1], new Int32()) });
}
