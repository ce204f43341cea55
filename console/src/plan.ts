/** Plans as EXPLAIN (FORMAT json) gives them. */
import { thousands } from './formats';

export interface PlanNode {
  name: string;
  table: string | null;
  /** The copy of the table that is read instead. */
  copy: string | null;
  /** Of a scan: the columns that it gives, and its condition. */
  columns: string[];
  filter: string;
  details: string;
  expected: number | null;
  rows: number | null;
  /** Milliseconds of all threads in this operator alone. */
  own: number | null;
  /** Exact numbers, and times as text. */
  counters: [string, number | string][];
  children: PlanNode[];
}

export interface PlanDocument {
  statement: string;
  root: PlanNode;
  /** Milliseconds of the whole run; null if the statement did not run. */
  took: number | null;
}

type Json = Record<string, unknown>;

/** Reads the answer of EXPLAIN. Fails with what is missing. */
export function planOf(statement: string, text: string): PlanDocument {
  const parsed = JSON.parse(text) as Json[];
  const all = Array.isArray(parsed) ? parsed[0] : undefined;
  if (!all || typeof all.Plan !== 'object' || all.Plan === null) throw new Error('EXPLAIN answered without a plan');
  return { statement, root: node(all.Plan as Json), took: numberOf(all['Execution Time']) };
}

function node(json: Json): PlanNode {
  const text = (name: string) => (json[name] === undefined ? null : String(json[name]));
  const counters = Object.entries((json.Counters ?? {}) as Record<string, unknown>);
  return {
    name: text('Node Type') ?? '?',
    table: text('Relation Name'),
    copy: text('Copy'),
    columns: ((json.Columns ?? []) as unknown[]).map(String),
    filter: text('Filter') ?? '',
    details: text('Details') ?? '',
    expected: numberOf(json['Plan Rows']),
    rows: numberOf(json['Actual Rows']),
    own: numberOf(json['Own Time']),
    counters: counters.map(([name, value]) => [name, numberOf(value) ?? String(value)]),
    children: ((json.Plans ?? []) as Json[]).map(node),
  };
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}

/** All operators, the root first. */
export function* nodes(root: PlanNode): Generator<PlanNode> {
  yield root;
  for (const child of root.children) yield* nodes(child);
}

/** The time of all threads. */
export function totalTime(root: PlanNode): number {
  let total = 0;
  for (const { own } of nodes(root)) total += own ?? 0;
  return total;
}

/** The operator that took the most time, where times are known. */
export function heaviest(root: PlanNode): PlanNode | null {
  let found: PlanNode | null = null;
  for (const each of nodes(root)) if ((each.own ?? 0) > (found?.own ?? 0)) found = each;
  return found;
}

/** How far the estimate is off, as a factor: 12 if 12 times as many rows came as were expected, 0.1 if a tenth. */
export function factor(of: PlanNode): number | null {
  if (of.expected === null || of.rows === null) return null;
  return Math.max(of.rows, 1) / Math.max(of.expected, 1);
}

/** `×12 more`, `×10 fewer`; nothing where the estimate is within a factor of two. */
export function factorText(of: PlanNode): string {
  const off = factor(of);
  if (off === null || (off < 2 && off > 0.5)) return '';
  const size = off >= 1 ? off : 1 / off;
  const text = size >= 10 ? Math.round(size).toLocaleString('en-US') : size.toFixed(1);
  return `×${text} ${off >= 1 ? 'more' : 'fewer'}`;
}

/** A counter that is a number. */
export function counter(of: PlanNode, name: string): number | null {
  const value = of.counters.find(([known]) => known === name)?.[1];
  return typeof value === 'number' ? value : null;
}

/** Counters as text: `zones 1,234, decode_time 1.2 ms`. */
export function countersText(of: PlanNode): string {
  return of.counters.map(([name, value]) => `${name} ${typeof value === 'number' ? thousands(value) : value}`).join(', ');
}

/** The native tables that a plan scans. */
export function scans(root: PlanNode): PlanNode[] {
  return [...nodes(root)].filter((each) => each.name.startsWith('Scan') && each.table !== null);
}

/** The scans of a table, or of one of its copies; a join of a table with itself has several. */
export function scansOf(root: PlanNode, { table, copy }: { table: string; copy: string | null }): PlanNode[] {
  return scans(root).filter((each) => each.table === table && each.copy === copy);
}
