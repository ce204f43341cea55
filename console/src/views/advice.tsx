/** The workload, what the advisor makes of it, what-if, and applying and reverting with the statement in view. */
import { useEffect, useState } from 'preact/hooks';
import { ask, identifier, type Row } from '../ask';
import { shapeOf } from '../design';
import { bytes, duration, percent, plural, significant, thousands } from '../formats';
import { readColumns, readStored, type Column, type Stored } from '../layout';
import { colour, themed } from '../look';
import { Dialog, Plain, Problem } from '../parts';
import { go, mayWrite, place, tell } from '../state';

const ADVICE = ['table', 'rank', 'advice', 'design', 'predicted_ms', 'low_ms', 'high_ms', 'measured_ms', 'statements_ms', 'bytes', 'conversion_ms', 'break_even_runs', 'losers', 'apply', 'reason'];
const WORKLOAD = ['table', 'statement', 'runs', 'mean_ms', 'total_ms', 'columns', 'predicates', 'selectivity', 'output'];
const WHAT_IF = ['which', 'design', 'predicted_ms', 'low_ms', 'high_ms', 'measured_ms', 'bytes_read', 'sample_rows', 'bytes', 'conversion_ms', 'break_even_runs', 'apply'];

interface Applied {
  table: string;
  statement: string;
  revert: string;
  before: number;
  predicted: number;
  after: number | null;
}

export default function Advice() {
  const [stored, setStored] = useState<Stored[]>([]);
  const [workload, setWorkload] = useState<Row[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [applied, setApplied] = useState<Applied | null>(null);
  const isShown = place.value.view === 'advice';
  const load = () => {
    readStored().then((found) => setStored(found.filter((each) => each.copy === null)), setError);
    ask('SELECT * FROM freestone_workload()', WORKLOAD).then(setWorkload, setError);
  };
  useEffect(() => { if (isShown) load(); }, [isShown]);
  const name = place.value.table ?? workload?.[0]?.table ?? stored[0]?.table ?? null;
  const table = stored.find((each) => each.table === name) ?? stored[0];
  return (
    <div class="scroll">
      <div class="sheet">
        {error && <Problem error={error} />}
        <Workload rows={workload} onReload={load} />
        {applied && <AppliedCard applied={applied} onDone={(change) => { setApplied(change); load(); }} />}
        {table && (
          <>
            <div class="row">
              <label class="row">Table <select value={table.table} onChange={(event) => go('advice', event.currentTarget.value)}>{stored.map((each) => <option key={each.table}>{each.table}</option>)}</select></label>
              <span class="soft">{bytes(table.bytes)}, {plural(table.rows, 'row')}; {table.design}</span>
            </div>
            <Advise key={`advise ${table.table}`} table={table} onApplied={(change) => { setApplied(change); load(); }} />
            <WhatIf key={`what if ${table.table}`} table={table} />
          </>
        )}
        {stored.length === 0 && !error && <p class="empty"><b>No tables yet</b>Advice needs a table, and queries that ran on it.</p>}
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

function Advise({ table, onApplied }: { table: Stored; onApplied: (applied: Applied) => void }) {
  const [rows, setRows] = useState<Row[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const [confirmed, setConfirmed] = useState<Row | null>(null);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      setRows(await ask(`ADVISE ${tableName(table.table)}`, ADVICE, 'advice'));
    } catch (failure) {
      setError(failure as Error);
    }
    setBusy(false);
  };
  const now = rows?.find((row) => row.advice === 'now' || row.advice === 'keep') ?? null;
  const best = rows?.find((row) => row.advice === 'recommended') ?? null;
  const copies = rows?.filter((row) => row.advice === 'copy') ?? [];
  return (
    <section class="card">
      <header>
        <h2>Advice</h2>
        <span class="soft">tries the best designs on a sample before it recommends one</span>
        <span class="grow" />
        {busy && <span class="soft"><span class="pulse" /> measuring, up to a minute</span>}
        <button class="main" disabled={busy} onClick={() => void run()}>{rows ? 'Advise again' : 'Advise'}</button>
      </header>
      {error && <Problem error={error} />}
      {rows && now && (
        <div class="stack">
          <Verdict now={now} best={best} copies={copies.length} />
          <p class="soft">{now.reason}</p>
          {best && <Beside table={table} now={now} best={best} />}
          <Designs rows={rows} />
          {[...(best ? [best] : []), ...copies.filter((row) => row.apply)].map((row) => (
            <div class="row" key={String(row.apply)}>
              <pre class="statement grow">{row.apply}</pre>
              <button class="main" disabled={!mayWrite()} title={mayWrite() ? '' : 'the database is open for reading: start with --write'} onClick={() => setConfirmed(row)}>Apply…</button>
            </div>
          ))}
        </div>
      )}
      {confirmed && now && (
        <Confirm statement={String(confirmed.apply)} onClose={() => setConfirmed(null)}
          note={`Takes about ${duration(Number(confirmed.conversion_ms))}. Readers keep their snapshot meanwhile. This reverts it: ${now.apply}`}
          onDone={() => onApplied({ table: table.table, statement: String(confirmed.apply), revert: String(now.apply), before: table.bytes, predicted: Number(confirmed.bytes), after: null })} />
      )}
    </section>
  );
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
  useEffect(() => { readColumns(table.table).then(setColumns, setError); }, [table.table]);
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

const PICTURE = 300;

function Picture({ title, design, size, most, columns }: { title: string; design: string; size: number; most: number; columns: Column[] }) {
  void themed.value;
  const shape = shapeOf(design, columns.map((column) => column.name));
  const total = columns.reduce((sum, column) => sum + column.bytes, 0) || 1;
  const share = (name: string) => (columns.find((column) => column.name === name)?.bytes ?? 0) / total;
  const height = (size / most) * PICTURE;
  const order = shape.cluster ? `clustered by ${shape.cluster}` : shape.sort ? `sorted by ${shape.sort}` : 'in order of arrival';
  const first = (shape.cluster || shape.sort).split(/[,:]/).map((name) => name.trim());
  return (
    <figure>
      <figcaption><b>{title}</b> <span class="soft">{bytes(size)}, {plural(shape.groups.length, 'group')}, {order}</span></figcaption>
      <div class="picture" role="img" aria-label={`${title}: ${shape.groups.map((group) => `(${group.join(', ')})`).join(', ')}; ${order}; ${bytes(size)}`} style={{ height: `${PICTURE}px` }}>
        <div style={{ height: `${height}px` }}>
          {shape.groups.map((group, at) => (
            <div key={at} class="group" style={{ flexGrow: group.reduce((sum, name) => sum + share(name), 0) * 1000 }}>
              {group.map((name) => (
                <i key={name} style={{ flexGrow: share(name) * 1000, background: first.includes(name) ? colour('best') : group.length > 1 ? colour('design-row') : colour('design-column'), opacity: first.includes(name) ? 1 : 0.75 }} title={`${name}, ${bytes(share(name) * size)}`}>
                  {share(name) * height > 14 ? name : ''}
                </i>
              ))}
            </div>
          ))}
        </div>
      </div>
    </figure>
  );
}

function Confirm({ statement, note, onClose, onDone }: { statement: string; note: string; onClose: () => void; onDone: () => void }) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      await ask(statement, [], 'advice');
      tell('Done');
      onDone();
      onClose();
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog title="This statement runs" onClose={onClose}>
      <pre class="statement">{statement}</pre>
      <p class="soft">{note}</p>
      {error && <Problem error={error} />}
      <div class="row">
        {busy && <span class="soft"><span class="pulse" /> runs</span>}
        <button onClick={onClose} disabled={busy}>Not now</button>
        <button class="main" disabled={busy} onClick={() => void run()}>Run it</button>
      </div>
    </Dialog>
  );
}

/** What came of an applied advice: bytes as predicted and as they are. */
function AppliedCard({ applied, onDone }: { applied: Applied; onDone: (change: Applied | null) => void }) {
  const [after, setAfter] = useState<number | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [confirmed, setConfirmed] = useState(false);
  useEffect(() => {
    readStored().then((found) => setAfter(found.find((each) => each.table === applied.table && each.copy === null)?.bytes ?? null), setError);
  }, [applied]);
  return (
    <section class="card">
      <header><h2>Applied to {applied.table}</h2><span class="grow" /><button onClick={() => go('layout', applied.table)}>Its layout</button><button onClick={() => setConfirmed(true)}>Revert…</button></header>
      <pre class="statement">{applied.statement}</pre>
      <div class="tiles" style={{ marginTop: '.7rem' }}>
        <div><b>{bytes(applied.before)}</b><span>before</span></div>
        <div><b>{bytes(applied.predicted)}</b><span>predicted</span></div>
        <div><b>{after === null ? '…' : bytes(after)}</b><span>now</span></div>
      </div>
      {error && <Problem error={error} />}
      {confirmed && <Confirm statement={applied.revert} note="Converts the table back to the design that it had." onClose={() => setConfirmed(false)} onDone={() => onDone(null)} />}
    </section>
  );
}

function WhatIf({ table }: { table: Stored }) {
  const [design, setDesign] = useState("preset = 'row'");
  const [query, setQuery] = useState('');
  const [rows, setRows] = useState<Row[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    readColumns(table.table).then(([first, second]) => {
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
            row.which, <code>{row.design}</code>, <Interval row={row} most={most} />, duration(Number(row.predicted_ms)), duration(Number(row.measured_ms)),
            bytes(Number(row.bytes_read)), bytes(Number(row.bytes)), Number(row.conversion_ms) > 0 ? duration(Number(row.conversion_ms)) : '–',
          ])} />
      )}
    </section>
  );
}
