import { expect, test } from 'vitest';
import { compared, scanTime, shapeOfQuery, workOf } from '../src/measure';
import { planOf } from '../src/plan';

const logged = (statement: string | null, runs: number, total_ms: number, table = 't') => ({ table, statement, runs, total_ms });

test('queries are found by their shape, with the literals of this browser', () => {
  expect(shapeOfQuery("SELECT a1, 'x''y' FROM t -- 5\nWHERE d < DATE '2020-01-01' AND b = 1.5e3;")).toBe(shapeOfQuery('select a1, ? from "t" where d < ? and b = ?'));
  const log = [logged('SELECT a FROM t WHERE b = ?', 3, 30), logged('SELECT count(*) FROM t', 2, 10), logged('SELECT c FROM t WHERE b = ?', 9, 90), logged('SELECT 1 FROM u', 1, 1, 'u'), logged(null, 1, 1)];
  const past = ['SELECT a FROM t WHERE b = 8', 'SELECT a FROM t WHERE b = 7', "DELETE FROM t WHERE c = 'x'"];
  expect(workOf('t', log, past)).toEqual({ queries: [{ sql: 'SELECT a FROM t WHERE b = 8', runs: 3 }, { sql: 'SELECT count(*) FROM t', runs: 2 }], left: 1 });
  expect(workOf('t', [logged("SELECT nextval(?) FROM t", 1, 1)], ["SELECT nextval('s') FROM t"]).queries, 'what changes something is not run').toEqual([]);
});

test('times count each query as often as it ran, and only where both are known', () => {
  const work = { queries: [{ sql: 'a', runs: 10 }, { sql: 'b', runs: 1 }, { sql: 'c', runs: 5 }], left: 0 };
  const found = compared(work, { ms: 0, each: [2, 8, 3] }, { ms: 0, each: [1, 9, Number.NaN] });
  expect(found).toEqual({ before: 28, after: 19, queries: 2 });
});

test('the time of a table is that of its scans and of those of its copies', () => {
  const scan = (table: string, own: number, more = {}) => ({ 'Node Type': 'Scan', 'Relation Name': table, 'Own Time': own, ...more });
  const plan = planOf('x', JSON.stringify([{ Plan: { 'Node Type': 'Hash join', 'Own Time': 50, Plans: [scan('t', 1), scan('t', 2, { Copy: 'c' }), scan('u', 4)] } }]));
  expect(scanTime(plan, 't')).toBe(3);
  const aggregate = { 'Node Type': 'Scan aggregate', 'Own Time': 8, Plans: [{ 'Node Type': 'Scan', 'Relation Name': 't' }] };
  expect(scanTime(planOf('x', JSON.stringify([{ Plan: { 'Node Type': 'Sort', 'Own Time': 9, Plans: [aggregate] } }])), 't'), 'an aggregate that reads pages itself').toBe(8);
});
