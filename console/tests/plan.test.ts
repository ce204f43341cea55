import { expect, test } from 'vitest';
import { counter, countersText, factorText, heaviest, planOf, scans, scansOf, totalTime } from '../src/plan';
import { planPage } from '../src/planpage';

const SCAN = {
  'Node Type': 'Scan', 'Relation Name': 't', Details: 'freestone table=t, columns=[a, b], segments=1, partitions=1, filter=a > 1 AND b = x', 'Plan Rows': 10, 'Actual Rows': 120, 'Own Time': 4,
  Columns: ['a', 'b'], Filter: 'a > 1 AND b = x', Counters: { zones: 294, bytes_total: 2_200_345, filter_time: '2.20 ms' },
};
const TEXT = JSON.stringify([{ Plan: { 'Node Type': 'Aggregate', 'Plan Rows': 1, 'Actual Rows': 1, 'Own Time': 1, Plans: [SCAN] }, 'Execution Time': 3.5 }]);

test('a plan is read with its times, estimates and counters', () => {
  const { root, took } = planOf('SELECT <b>', TEXT);
  const [scan] = scans(root);
  expect([took, totalTime(root), heaviest(root)]).toEqual([3.5, 5, scan]);
  expect([factorText(scan!), factorText(root)]).toEqual(['×12 more', '']);
  expect([counter(scan!, 'zones'), counter(scan!, 'bytes_total'), counter(scan!, 'filter_time'), counter(scan!, 'nothing')]).toEqual([294, 2_200_345, null, null]);
  expect(countersText(scan!)).toBe('zones 294, bytes_total 2,200,345, filter_time 2.20 ms');
  expect([scan!.columns, scan!.filter]).toEqual([['a', 'b'], 'a > 1 AND b = x']);
});

test('a join of a table with itself has two scans, and those of a copy are apart', () => {
  const of = (more: object) => ({ ...SCAN, ...more });
  const join = { 'Node Type': 'Hash join', Plans: [of({ Filter: 'a = 1' }), of({ Filter: 'a = 2' }), of({ Copy: 'c' }), of({ 'Relation Name': 'u' })] };
  const { root } = planOf('x', JSON.stringify([{ Plan: join }]));
  expect(scansOf(root, { table: 't', copy: null }).map(({ filter }) => filter)).toEqual(['a = 1', 'a = 2']);
  expect(scansOf(root, { table: 't', copy: 'c' }).length).toBe(1);
});

test('the saved page is one file, and names are text in it', () => {
  const page = planPage(planOf('SELECT "<script>"', TEXT.replaceAll('"t"', '"<script>x</script>"')));
  expect(page).toContain('&lt;script&gt;x&lt;/script&gt;');
  for (const outside of ['<script', 'http:', 'https:', 'src=', '@import', '<link']) expect(page).not.toContain(outside);
});

test('an answer without a plan is an error', () => expect(() => planOf('x', '[]')).toThrow('without a plan'));
