/** The workload, what the advisor makes of it, what-if, and applying and reverting with the statement in view. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, giveUp, identifier, literal, type Row } from '../ask';
import { scaleOf } from '../canvas';
import { shapeOf } from '../design';
import { bytes, duration, percent, plural, significant, thousands } from '../formats';
import { readColumns, readStored, type Column, type Stored } from '../layout';
import { colour, designColour, themed } from '../look';
import { compared, timed, workOf, type Timing, type Work } from '../measure';
import { Dialog, Plain, Problem } from '../parts';
import { go, mayWrite, place, tell } from '../state';
import { past } from '../work';

const ADVICE = ['table', 'rank', 'advice', 'design', 'predicted_ms', 'low_ms', 'high_ms', 'measured_ms', 'statements_ms', 'bytes', 'conversion_ms', 'break_even_runs', 'losers', 'apply', 'revert', 'queries', 'reason'];
const WORKLOAD = ['table', 'statement', 'runs', 'mean_ms', 'total_ms', 'columns', 'predicates', 'selectivity', 'output'];
const WHAT_IF = ['which', 'design', 'predicted_ms', 'low_ms', 'high_ms', 'measured_ms', 'bytes_read', 'sample_rows', 'bytes', 'conversion_ms', 'break_even_runs', 'apply'];

/** An advice that was applied, with what was expected of it. */
interface Applied {
  table: string;
  statement: string;
  revert: string;
  /** Bytes of the table with its copies. */
  bytes: { before: number; predicted: number };
  /** The predicted time of the scans as a share of the present one, with its interval where it has one. */
  share: { predicted: number; low: number | null; high: number | null } | null;
  work: Work;
  before: Timing;
  after: Timing;
}

/** The bytes of a table with its copies. */
const allBytes = (stored: Stored[], table: string) => stored.filter((each) => each.table === table).reduce((sum, each) => sum + each.bytes, 0);

/** The bytes of a table with its copies after a statement of the advice. */
function predictedBytes(stored: Stored[], table: string, row: Row): number {
  const before = allBytes(stored, table);
  const dropped = /\bDROP COPY "((?:[^"]|"")*)"/.exec(String(row.apply))?.[1]?.replaceAll('""', '"');
  if (dropped !== undefined) return before - (stored.find((each) => each.table === table && each.copy === dropped)?.bytes ?? 0);
  const replaced = /\bADD COPY\b/.test(String(row.apply)) ? 0 : stored.find((each) => each.table === table && each.copy === null)?.bytes ?? 0;
  return before - replaced + Number(row.bytes);
}

/** Times of a row as shares of the present design's. Dropping an unused copy changes none. */
function shareOf(now: Row, row: Row): Applied['share'] {
  const present = Number(now.predicted_ms);
  if (!(present > 0) || row.advice === 'unused') return null;
  const share = (value: unknown) => (value === null ? null : Number(value) / present);
  return { predicted: Number(row.predicted_ms) / present, low: share(row.low_ms), high: share(row.high_ms) };
}

export default function Advice() {
  const [found, setStored] = useState<Stored[] | null>(null);
  const stored = found ?? [];
  const [workload, setWorkload] = useState<Row[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [applied, setApplied] = useState<Applied | null>(null);
  const isShown = place.value.view === 'advice';
  const load = () => {
    readStored().then(setStored, setError);
    ask('SELECT * FROM freestone_workload()', WORKLOAD).then(setWorkload, setError);
  };
  useEffect(() => { if (isShown) load(); }, [isShown]);
  const name = place.value.table ?? workload?.[0]?.table ?? stored[0]?.table ?? null;
  const tables = stored.filter((each) => each.copy === null);
  const table = tables.find((each) => each.table === name) ?? tables[0];
  return (
    <div class="scroll">
      <div class="sheet">
        {error && <Problem error={error} />}
        <Workload rows={workload} onReload={load} />
        {applied && <AppliedCard applied={applied} onDone={(change) => { setApplied(change); load(); }} />}
        {table && (
          <>
            <div class="row">
              <label class="row">Table <select value={table.table} onChange={(event) => go('advice', event.currentTarget.value)}>{tables.map((each) => <option key={each.table}>{each.table}</option>)}</select></label>
              <span class="soft">{bytes(table.bytes)}, {plural(table.rows, 'row')}; {table.design}</span>
            </div>
            <Advise key={`advise ${table.table}`} table={table} stored={stored} log={workload ?? []} onApplied={(change) => { setApplied(change); load(); }} />
            <WhatIf key={`what if ${table.table}`} table={table} />
          </>
        )}
        {found?.length === 0 && <p class="empty"><b>No tables yet</b>Advice needs a table, and queries that ran on it.</p>}
      </div>
    </div>
  );
}

const WORKLOAD_SHOWN = 12;

function Workload({ rows, onReload }: { rows: Row[] | null; onReload: () => void }) {
  const [all, setAll] = useState(false);
  const total = (rows ?? []).reduce((sum, row) => sum + Number(row.total_ms), 0);
  const shown = all ? rows?.slice(0, 500) : rows?.slice(0, WORKLOAD_SHOWN);
  return (
    <section class="card">
      <header><h2>Workload</h2><span class="soft">{rows && rows.length > 0 ? `${plural(rows.length, 'kind')} of scans, ${duration(total)} of statements in all` : ''}</span><span class="grow" /><button onClick={onReload}>Read again</button></header>
      {rows?.length === 0 && <p class="empty"><b>No queries are logged yet</b>Run the queries that matter, in SQL or by any client of this process; then come back.</p>}
      {shown && shown.length > 0 && (
        <Plain caption="Logged scans" head={['table', 'statement', 'runs', 'mean', 'of the time', 'filters', 'selects', 'rows go to']} numbers={[2, 3, 4, 6]}
          rows={shown.map((row) => [
            row.table, <code class="clip" title={String(row.statement ?? '')}>{String(row.statement ?? '(for administrators)').replace(/\s+/g, ' ').slice(0, 160)}</code>,
            thousands(Number(row.runs)), duration(Number(row.mean_ms)), percent(Number(row.total_ms) / (total || 1)), row.predicates || '–', percent(Number(row.selectivity)), row.output,
          ])} />
      )}
      {rows && rows.length > WORKLOAD_SHOWN && !all && <button class="bare" onClick={() => setAll(true)}>All {thousands(rows.length)}</button>}
    </section>
  );
}

interface AdviseProps {
  table: Stored;
  stored: Stored[];
  log: Row[];
  onApplied: (applied: Applied) => void;
}

function Advise({ table, stored, log, onApplied }: AdviseProps) {
  const [rows, setRows] = useState<Row[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const [confirmed, setConfirmed] = useState<Row | null>(null);
  const [copies, setCopies] = useState('2');
  const [budget, setBudget] = useState('');
  const run = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      setRows(await ask(`ADVISE ${tableName(table.table)} COPIES ${copies}${budget.trim() && ` BUDGET ${literal(budget.trim())}`}`, ADVICE, 'advice'));
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  const now = rows?.find((row) => row.advice === 'now' || row.advice === 'keep') ?? null;
  const best = rows?.find((row) => row.advice === 'recommended') ?? null;
  const ofCopies = rows?.filter((row) => (row.advice === 'copy' || row.advice === 'unused') && row.apply) ?? [];
  const added = ofCopies.filter((row) => row.advice === 'copy').length;
  return (
    <section class="card">
      <header>
        <h2>Advice</h2>
        <span class="soft">tries the best designs on a sample before it recommends one</span>
      </header>
      <form class="row start" onSubmit={(event) => void run(event)}>
        <label class="row">Copies at most, with the table <input type="number" min={1} max={9} value={copies} onInput={(event) => setCopies(event.currentTarget.value)} required /></label>
        <label class="row">Bytes at most <input size={8} value={budget} placeholder="2GB" onInput={(event) => setBudget(event.currentTarget.value)} spellcheck={false} /></label>
        <button class="main" disabled={busy}>{rows ? 'Advise again' : 'Advise'}</button>
        {busy && <button type="button" onClick={() => void giveUp('advice')}>Cancel</button>}
        {busy && <span class="soft"><span class="pulse" /> measuring, up to a minute</span>}
      </form>
      {error && <Problem error={error} />}
      {rows && now && (
        <div class="stack" style={{ marginTop: '.7rem' }}>
          <Verdict now={now} best={best} copies={added} />
          <p class="soft">{now.reason}</p>
          {best && <Beside table={table} now={now} best={best} />}
          <Designs rows={rows} />
          <Queries rows={rows.filter((row) => row !== now && row.queries !== '[]')} />
          {[...(best ? [best] : []), ...ofCopies].map((row) => (
            <div class="row" key={String(row.apply)}>
              <pre class="statement grow">{row.apply}</pre>
              <button class="main" disabled={!mayWrite()} title={mayWrite() ? '' : 'the database is open for reading: start with --write'} onClick={() => setConfirmed(row)}>Apply…</button>
            </div>
          ))}
        </div>
      )}
      {confirmed && now && <Apply row={confirmed} now={now} stored={stored} log={log} onClose={() => setConfirmed(null)} onApplied={onApplied} />}
    </section>
  );
}

/** Applies a row of the advice, and measures the queries of the workload before and after. */
function Apply({ row, now, stored, log, onClose, onApplied }: { row: Row; now: Row; stored: Stored[]; log: Row[]; onClose: () => void; onApplied: (applied: Applied) => void }) {
  const [table, statement, revert] = [String(row.table), String(row.apply), String(row.revert)];
  const work = workOf(table, log, past.value.map(({ sql }) => sql));
  const apply = async (say: (step: string) => void, isStopped: () => boolean) => {
    say('runs the queries as they are');
    const before = await timed(table, work, isStopped);
    if (isStopped()) throw new Error('it was cancelled');
    say('applies it');
    await ask(statement, [], 'advice');
    say('runs the queries again');
    const after = await timed(table, work, isStopped);
    const found = { before: allBytes(stored, table), predicted: predictedBytes(stored, table, row) };
    onApplied({ table, statement, revert, bytes: found, share: shareOf(now, row), work, before, after });
  };
  const takes = Number(row.conversion_ms) > 0 ? `Takes about ${duration(Number(row.conversion_ms))}. ` : '';
  const runs = work.queries.length > 0 ? `Before and after, ${queriesText(work.queries.length)} of the workload ${work.queries.length === 1 ? 'is' : 'are'} run, for ${work.queries.length === 1 ? 'its' : 'their'} time. ` : '';
  return <Confirm statement={statement} note={`${takes}Readers keep their snapshot meanwhile. ${runs}This reverts it: ${revert}`} onClose={onClose} onRun={apply} />;
}

const queriesText = (number: number) => plural(number, 'query').replace('querys', 'queries');

interface QueryCost {
  query: string | null;
  weight: number;
  now_ms: number;
  then_ms: number;
  ratio: number;
  measured_ms: number | null;
}

const QUERIES_SHOWN = 12;

/** Winners and losers: each query in a design, compared with the present one. */
function Queries({ rows }: { rows: Row[] }) {
  const [at, setAt] = useState(0);
  const [all, setAll] = useState(false);
  const row = rows[at] ?? rows[0];
  if (!row) return null;
  const queries = (JSON.parse(String(row.queries)) as QueryCost[]).toSorted((a, b) => stake(b) - stake(a));
  const [winners, losers] = [queries.filter(({ ratio }) => ratio > 1.01).length, queries.filter(({ ratio }) => ratio < 0.99).length];
  return (
    <>
      <div class="row start">
        <h3>Winners and losers</h3>
        <label class="row soft">in
          <select value={String(rows.indexOf(row))} onChange={(event) => setAt(Number(event.currentTarget.value))}>
            {rows.map((each, number) => <option key={number} value={String(number)}>{`${each.advice}: ${String(each.design).slice(0, 70)}`}</option>)}
          </select>
        </label>
        <span class="soft">{thousands(winners)} faster, {thousands(losers)} slower, {thousands(queries.length - winners - losers)} as before</span>
      </div>
      <Plain caption="Winners and losers" head={['query', 'runs', 'scans now', 'scans then', 'measured on the sample', 'change']} numbers={[1, 2, 3, 4, 5]}
        rows={queries.slice(0, all ? 1000 : QUERIES_SHOWN).map((query) => [
          <code class="clip" title={query.query ?? ''}>{query.query ?? '(for administrators)'}</code>, significant(query.weight), duration(query.now_ms), duration(query.then_ms),
          query.measured_ms === null ? '–' : duration(query.measured_ms), <b class={query.ratio < 0.99 ? 'loses' : undefined}>{changeText(query.ratio)}</b>,
        ])} />
      {queries.length > QUERIES_SHOWN && !all && <button class="bare" onClick={() => setAll(true)}>All {thousands(queries.length)}</button>}
    </>
  );
}

/** How much of the workload's time a query decides about. */
const stake = (query: QueryCost) => query.weight * Math.abs(query.now_ms - query.then_ms);

function changeText(ratio: number): string {
  if (ratio > 1.01) return `${significant(ratio)} times faster`;
  return ratio < 0.99 ? `${significant(1 / ratio)} times slower` : 'as before';
}

const tableName = (name: string) => name.split('.').map(identifier).join('.');

function Verdict({ now, best, copies }: { now: Row; best: Row | null; copies: number }) {
  if (!best && copies === 0) return <p class="verdict">Keep the present design</p>;
  if (!best) return <p class="verdict">Add {plural(copies, 'copy').replace('copys', 'copies')}</p>;
  const [before, after] = measured(now, best);
  const ratio = before / Math.max(after, 1e-9);
  return <p class="verdict">Convert: scans take {ratio >= 1 ? `${significant(ratio)} times less` : 'no less'} time, {losersText(Number(best.losers))}</p>;
}

function losersText(losers: number): string {
  return losers === 0 ? 'and no query gets slower' : `but ${plural(losers, 'query').replace('querys', 'queries')} of the workload ${losers === 1 ? 'gets' : 'get'} slower`;
}

/** Measured times where both were measured, predicted ones otherwise. */
function measured(now: Row, best: Row): [number, number] {
  const both = now.measured_ms !== null && best.measured_ms !== null;
  return both ? [Number(now.measured_ms), Number(best.measured_ms)] : [Number(now.predicted_ms), Number(best.predicted_ms)];
}

function Designs({ rows }: { rows: Row[] }) {
  const most = Math.max(...rows.map((row) => Math.max(Number(row.high_ms ?? row.predicted_ms), Number(row.measured_ms ?? 0))), 1e-9);
  return (
    <Plain caption="Designs" head={['', 'design', 'time of the scans', 'predicted', 'measured', 'bytes', 'slower queries', 'pays after']} numbers={[3, 4, 5, 6, 7]}
      rows={rows.map((row) => [
        row.advice === 'recommended' ? <b class="tag">recommended</b> : String(row.advice),
        <code>{row.design}</code>,
        <Interval row={row} most={most} />,
        duration(Number(row.predicted_ms)), row.measured_ms === null ? '–' : duration(Number(row.measured_ms)), bytes(Number(row.bytes)),
        thousands(Number(row.losers)), row.break_even_runs === null ? '–' : `${significant(Number(row.break_even_runs))} runs`,
      ])} />
  );
}

/** A predicted time with its interval, and the measured one as a ring. */
function Interval({ row, most }: { row: Row; most: number }) {
  const at = (value: unknown) => `${(Number(value) / most) * 100}%`;
  const label = `predicted ${duration(Number(row.predicted_ms))}${row.low_ms === null ? '' : `, between ${duration(Number(row.low_ms))} and ${duration(Number(row.high_ms))}`}`;
  return (
    <div class="interval" role="img" aria-label={label} title={label}>
      {row.low_ms !== null && <i style={{ left: at(row.low_ms), width: `${((Number(row.high_ms) - Number(row.low_ms)) / most) * 100}%` }} />}
      <b style={{ left: at(row.predicted_ms) }} />
      {row.measured_ms !== null && <em style={{ left: at(row.measured_ms) }} />}
    </div>
  );
}

/** The present and the proposed layout next to each other, as high as they have bytes. */
function Beside({ table, now, best }: { table: Stored; now: Row; best: Row }) {
  const [columns, setColumns] = useState<Column[]>([]);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => { readColumns(table).then(setColumns, setError); }, [table.table]);
  if (error) return <Problem error={error} />;
  if (columns.length === 0) return null;
  const most = Math.max(Number(now.bytes), Number(best.bytes), 1);
  return (
    <div class="two">
      <Picture title="Now" design={String(now.design)} size={Number(now.bytes)} most={most} columns={columns} />
      <Picture title="Proposed" design={String(best.design)} size={Number(best.bytes)} most={most} columns={columns} />
      <p class="soft whole">Heights are bytes: as predicted in all, and of each column by its present share. Gaps part groups; the columns that rows are ordered by are strong.</p>
    </div>
  );
}

/** The height of the larger picture, in pixels of a usual screen. */
const PICTURE = 300;
/** The height from which a part has room for its name. */
const NAMED = 16;

function Picture({ title, design, size, most, columns }: { title: string; design: string; size: number; most: number; columns: Column[] }) {
  void themed.value;
  const shape = shapeOf(design, columns.map((column) => column.name));
  const total = columns.reduce((sum, column) => sum + column.bytes, 0) || 1;
  const share = (name: string) => (columns.find((column) => column.name === name)?.bytes ?? 0) / total;
  const whole = PICTURE * scaleOf();
  const height = (size / most) * whole;
  const order = shape.cluster ? `clustered by ${shape.cluster}` : shape.sort ? `sorted by ${shape.sort}` : 'in order of arrival';
  const first = (shape.cluster || shape.sort).split(/[,:]/).map((name) => name.trim());
  return (
    <figure>
      <figcaption><b>{title}</b> <span class="soft">{bytes(size)}, {plural(shape.groups.length, 'group')}, {order}</span></figcaption>
      <div class="picture" role="img" aria-label={`${title}: ${shape.groups.map((group) => `(${group.join(', ')})`).join(', ')}; ${order}; ${bytes(size)}`} style={{ height: `${whole}px` }}>
        <div style={{ height: `${height}px` }}>
          {shape.groups.map((group, at) => (
            <div key={at} class="group" style={{ flexGrow: group.reduce((sum, name) => sum + share(name), 0) * 1000 }}>
              {group.map((name) => (
                <i key={name} style={{ flexGrow: share(name) * 1000, background: first.includes(name) ? colour('best') : group.length > 1 ? designColour('row') : designColour('column'), opacity: first.includes(name) ? 1 : 0.75 }} title={`${name}, ${bytes(share(name) * size)}`}>
                  {share(name) * height > NAMED * scaleOf() ? name : ''}
                </i>
              ))}
            </div>
          ))}
        </div>
      </div>
    </figure>
  );
}

function Confirm({ statement, note, onClose, onRun }: { statement: string; note: string; onClose: () => void; onRun: (say: (step: string) => void, isStopped: () => boolean) => Promise<void> }) {
  const [error, setError] = useState<Error | null>(null);
  const [step, setStep] = useState<string | null>(null);
  const stopped = useRef(false);
  const run = async () => {
    setStep('runs');
    setError(null);
    stopped.current = false;
    try {
      await onRun(setStep, () => stopped.current);
      tell('Done');
      onClose();
    } catch (failure) {
      setError(failure as Error);
      setStep(null);
    }
  };
  const cancel = () => {
    stopped.current = true;
    void giveUp('advice');
    void giveUp('measure');
  };
  return (
    <Dialog title="This statement runs" onClose={onClose}>
      <pre class="statement">{statement}</pre>
      <p class="soft">{note}</p>
      {error && <Problem error={error} />}
      <div class="row">
        {step !== null && <span class="soft"><span class="pulse" /> {step}</span>}
        {step === null ? <button onClick={onClose}>Not now</button> : <button onClick={cancel}>Cancel</button>}
        <button class="main" disabled={step !== null} onClick={() => void run()}>Run it</button>
      </div>
    </Dialog>
  );
}

/** What came of an applied advice: bytes and time, as predicted and as they are. */
function AppliedCard({ applied, onDone }: { applied: Applied; onDone: (change: Applied | null) => void }) {
  const [after, setAfter] = useState<number | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [confirmed, setConfirmed] = useState(false);
  useEffect(() => {
    readStored().then((found) => setAfter(allBytes(found, applied.table)), setError);
  }, [applied]);
  const { before, predicted } = applied.bytes;
  return (
    <section class="card">
      <header><h2>Applied to {applied.table}</h2><span class="grow" /><button onClick={() => go('layout', applied.table)}>Its layout</button><button onClick={() => setConfirmed(true)}>Revert…</button></header>
      <pre class="statement">{applied.statement}</pre>
      <h3>Bytes, with its copies</h3>
      <Before title="Bytes" texts={[bytes(before), bytes(predicted), after === null ? '…' : bytes(after)]} />
      <Times applied={applied} />
      {error && <Problem error={error} />}
      {confirmed && (
        <Confirm statement={applied.revert} note="Restores the design or the copies of before. Rows return to the order in which they arrived as far as a column tells it, such as a time." onClose={() => setConfirmed(false)}
          onRun={async () => { await ask(applied.revert, [], 'advice'); onDone(null); }} />
      )}
    </section>
  );
}

function Before({ title, texts: [before, predicted, now] }: { title: string; texts: [string, string, string] }) {
  return (
    <div class="tiles" role="group" aria-label={title}>
      <div><b>{before}</b><span>before</span></div>
      <div><b>{predicted}</b><span>predicted</span></div>
      <div><b>{now}</b><span>now</span></div>
    </div>
  );
}

function Times({ applied: { share, work, before, after } }: { applied: Applied }) {
  const found = compared(work, before, after);
  const others = work.left > 0 ? ` ${queriesText(work.left)} more could not be run again here: the log has no literals, and this browser has not run ${work.left === 1 ? 'it' : 'them'}.` : '';
  if (found.queries === 0) return <p class="soft">No time was measured.{others}</p>;
  const expected = share && found.before * share.predicted;
  const interval = share?.low == null || share.high == null ? '' : `, between ${duration(found.before * share.low)} and ${duration(found.before * share.high)}`;
  return (
    <>
      <h3>Time of the scans of {queriesText(found.queries)}, each as often as it ran</h3>
      <Before title="Time" texts={[duration(found.before), expected === null ? '–' : `${duration(expected)}${interval}`, duration(found.after)]} />
      <p class="soft">The predicted time is the measured one before, times the share that was predicted for the whole workload.{others}</p>
    </>
  );
}

function WhatIf({ table }: { table: Stored }) {
  const [design, setDesign] = useState("preset = 'row'");
  const [query, setQuery] = useState('');
  const [rows, setRows] = useState<Row[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    readColumns(table).then(([first, second]) => {
      setQuery((known) => known || `SELECT ${[first, second].flatMap((column) => (column ? [identifier(column.name)] : [])).join(', ')} FROM ${tableName(table.table)}`);
    }, () => undefined);
  }, [table.table]);
  const run = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      setRows(await ask(`WHATIF ${tableName(table.table)} DESIGN (${design}) FOR ${query.replace(/;\s*$/, '')}`, WHAT_IF, 'advice'));
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  const most = Math.max(...(rows ?? []).map((row) => Math.max(Number(row.high_ms), Number(row.measured_ms))), 1e-9);
  return (
    <section class="card">
      <header><h2>What if</h2><span class="soft">one query in another design, predicted, and measured on a sample; nothing changes</span></header>
      <form class="what-if" onSubmit={(event) => void run(event)}>
        <label>Design<input value={design} onInput={(event) => setDesign(event.currentTarget.value)} spellcheck={false} required /></label>
        <label>Query<textarea rows={2} value={query} onInput={(event) => setQuery(event.currentTarget.value)} spellcheck={false} required /></label>
        <button class="main" disabled={busy}>{busy ? 'Measuring…' : 'Compare'}</button>
      </form>
      {error && <Problem error={error} />}
      {rows && (
        <Plain caption="What if" head={['', 'design', 'time', 'predicted', 'measured', 'bytes read', 'bytes', 'conversion']} numbers={[3, 4, 5, 6, 7]}
          rows={rows.map((row) => [
            row.which, <code>{row.design}</code>, <Interval row={row} most={most} />, duration(Number(row.predicted_ms)), row.measured_ms === null ? '–' : duration(Number(row.measured_ms)),
            bytes(Number(row.bytes_read)), bytes(Number(row.bytes)), Number(row.conversion_ms) > 0 ? duration(Number(row.conversion_ms)) : '–',
          ])} />
      )}
    </section>
  );
}
