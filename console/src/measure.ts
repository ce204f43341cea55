/**
 * The workload's queries of a table, run again: how long their scans take, before and after its design changes. The log has no
 * literals, so a query is run with those with which this browser ran it; one of another client cannot be run again.
 */
import { ask, type Row } from './ask';
import { planOf, type PlanDocument, type PlanNode } from './plan';

/** Queries that are run, those on which most time is spent. */
export const QUERIES_MAX = 12;
/** Runs of each, of which the fastest counts. */
const RUNS = 3;
/** No further query is begun after this time. */
const PATIENCE_MS = 10_000;

export interface Work {
  /** Statements with their literals, and how often they ran. */
  queries: { sql: string; runs: number }[];
  /** How many others the log has of this table. */
  left: number;
}

export interface Timing {
  /** Milliseconds of the scans of the table, each query as often as it ran. */
  ms: number;
  /** Milliseconds of each query's scans, in one run. */
  each: number[];
}

/** A statement as it is compared with those of the log: without literals, comments, quotes, spaces and letter case. */
export function shapeOfQuery(sql: string): string {
  return sql
    .replace(/--[^\n]*|\/\*[\s\S]*?\*\//g, ' ')
    .replace(/'(?:[^']|'')*'/g, '?')
    .replace(/(?<![\w$?])\d+(?:\.\d*)?(?:e[+-]?\d+)?/gi, '?')
    .toLowerCase()
    .replace(/\b(date|timestamp|timestamptz|interval|time)\s*\?/g, '?')
    .replace(/["\s;]+/g, '');
}

/** The queries of a table that can be run again. `past` are statements that this browser has run. */
export function workOf(table: string, log: Row[], past: string[]): Work {
  const logged = new Map<string, number>();
  const own = log.filter((row) => row.table === table).sort((a, b) => Number(b.total_ms) - Number(a.total_ms));
  // A join of the table with itself has several scans, which ran as often.
  for (const row of own) if (row.statement !== null) logged.set(String(row.statement), Math.max(logged.get(String(row.statement)) ?? 0, Number(row.runs)));
  const known = new Map(past.filter(isQuery).map((sql) => [shapeOfQuery(sql), sql]).toReversed() as [string, string][]);
  const found = [...logged].flatMap(([statement, runs]) => {
    const sql = /\?|…$/.test(statement) ? known.get(shapeOfQuery(statement)) : statement;
    return sql ? [{ sql, runs }] : [];
  });
  return { queries: found.slice(0, QUERIES_MAX), left: own.length === 0 ? 0 : Math.max(logged.size - Math.min(found.length, QUERIES_MAX), 0) };
}

/** Whether a statement is one query that changes nothing, not even a sequence. */
function isQuery(sql: string): boolean {
  return /^\s*(select|with|from|values|\()/i.test(sql) && !/;\s*\S/.test(sql) && !/\b(nextval|setval|insert|update|delete|merge)\b/i.test(sql);
}

/** The time of a plan's scans of a table or of its copies, in milliseconds. */
export function scanTime({ root }: PlanDocument, table: string): number {
  // Where an aggregate reads the pages itself, the time is its own: `Scan aggregate` above a scan without a time.
  const under = (node: PlanNode, above: PlanNode | null): number => {
    const isOwn = node.table === table && node.name.startsWith('Scan');
    const own = node.own ?? (above?.name.startsWith('Scan') ? above.own : null) ?? 0;
    return node.children.reduce((sum, child) => sum + under(child, node), isOwn ? own : 0);
  };
  return under(root, null);
}

/** Runs queries. Those that fail now, or for which no time is left, are left out: `each` then has NaN. */
export async function timed(table: string, { queries }: Work, isStopped: () => boolean): Promise<Timing> {
  const began = performance.now();
  const each: number[] = [];
  for (const { sql } of queries) {
    let least = Number.NaN;
    for (let run = 0; run < RUNS && performance.now() - began < PATIENCE_MS && !isStopped(); run++) {
      const rows = await ask(`EXPLAIN (ANALYZE, FORMAT json) ${sql.replace(/;\s*$/, '')}`, ['plan'], 'measure').catch(() => null);
      if (!rows) break;
      const ms = scanTime(planOf(sql, String(rows[0]?.plan ?? '')), table);
      least = Number.isNaN(least) ? ms : Math.min(least, ms);
    }
    each.push(least);
  }
  return { ms: total(queries, each), each };
}

function total(queries: Work['queries'], each: number[]): number {
  return queries.reduce((sum, { runs }, at) => sum + (Number.isNaN(each[at]!) ? 0 : runs * each[at]!), 0);
}

/** Both times of the queries that have both. */
export function compared({ queries }: Work, before: Timing, after: Timing): { before: number; after: number; queries: number } {
  const both = queries.map((_, at) => !Number.isNaN(before.each[at] ?? Number.NaN) && !Number.isNaN(after.each[at] ?? Number.NaN));
  const only = ({ each }: Timing) => total(queries, each.map((ms, at) => (both[at] ? ms : Number.NaN)));
  return { before: only(before), after: only(after), queries: both.filter(Boolean).length };
}
