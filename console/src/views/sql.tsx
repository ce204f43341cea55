/** SQL: tables, tabs with scripts, and the results of what runs in them. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { RefObject } from 'preact';
import { shareOf, type Run, type Statement } from '../run';
import { ask, identifier } from '../ask';
import { functions, problem, readCatalog, readFunctions, relations, type Relation } from '../catalog';
import { Editor, parametersOf, type Piece } from '../editor';
import { arrow, csv, json } from '../export';
import { bytes, count, duration, percent, plural, thousands } from '../formats';
import { Grid } from '../grid';
import { Dialog, Meter, Problem, Segmented } from '../parts';
import { planOf } from '../plan';
import { download, go, plan, place, tell } from '../state';
import * as work from '../work';
import { PlotView } from './plotview';

/** What was sent last from each tab, for the places of its errors. */
const SENT = new Map<string, Piece>();

export default function Sql() {
  const holder = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const [height, setHeight] = useState(() => Math.round(Math.min(Math.max(innerHeight * 0.3, 110), 420)));
  const [past, setPast] = useState(false);
  const [side, setSide] = useState(false);
  const [renamed, setRenamed] = useState<string | null>(null);
  const tab = work.tabs.value.find((known) => known.id === work.active.value) ?? work.tabs.value[0]!;
  const actions = useActions(editor);

  useEffect(() => {
    const keys = [
      { key: 'Mod-Enter', run: () => actions.current.runOne() },
      { key: 'Mod-Shift-Enter', run: () => actions.current.runAll() },
      { key: 'Mod-Shift-e', run: () => actions.current.explain() },
    ];
    editor.current = new Editor(holder.current!, keys, (id, text) => work.change(id, { text, changed: true }));
    editor.current.show(tab.id, tab.text);
    void readCatalog().then(readFunctions);
    if (matchMedia('(min-width: 44rem)').matches) editor.current.view.focus();
    return () => editor.current?.view.destroy();
  }, []);
  useEffect(() => { editor.current?.show(tab.id, tab.text); }, [tab.id]);
  useEffect(() => {
    const tables = Object.fromEntries(relations.value.map(({ name, columns }) => [name, columns]));
    editor.current?.complete({ tables, functions: functions.value });
  }, [relations.value, functions.value]);
  usePageKeys(actions, () => setPast(true), () => setRenamed(work.active.value), editor);

  const run = work.runs.value[tab.id];
  return (
    <div class="work">
      <Side isOpen={side} onPick={(text) => { setSide(false); editor.current?.insert(text); }} />
      <div class="bench">
        <Tabs onClose={(id) => { editor.current?.forget(id); work.closeTab(id); }} onRename={setRenamed} />
        <div class="bar">
          <button class="narrow-only" onClick={() => setSide(!side)} aria-expanded={side}>Tables</button>
          <button class="main" onClick={() => actions.current.runOne()} title="Ctrl Enter: the selection, or the statement at the cursor">Run</button>
          <button onClick={() => actions.current.runAll()} title="Ctrl Shift Enter">Run all</button>
          <button onClick={() => actions.current.explain()} title="Ctrl Shift E: run it and show its plan">Explain</button>
          <CancelButton run={run} />
          <span class="grow" />
          <button class="bare" onClick={() => actions.current.open()} title="Ctrl O">Open…</button>
          <button class="bare" onClick={() => actions.current.save()} title="Ctrl S">Save</button>
          <button class="bare" onClick={() => setPast(true)} title="Alt H">History</button>
        </div>
        <Parameters tab={tab} />
        <div class="editor" style={{ height: `${height}px` }} ref={holder} />
        <Split height={height} onHeight={setHeight} />
        <Results run={run} onPlace={() => showPlace(editor, tab.id, run)} />
      </div>
      {renamed !== null && <Rename id={renamed} onClose={() => { setRenamed(null); editor.current?.view.focus(); }} />}
      {past && <History onClose={() => setPast(false)} onPick={(sql) => { setPast(false); work.open(null, sql); }} />}
    </div>
  );
}

interface Actions {
  runOne: () => boolean;
  runAll: () => boolean;
  explain: () => boolean;
  open: () => void;
  save: () => void;
}

function useActions(editor: RefObject<Editor | null>): RefObject<Actions> & { current: Actions } {
  const actions = useRef<Actions>(null as unknown as Actions);
  const launch = async (piece: Piece, statements: number) => {
    const tab = work.current();
    editor.current!.clearMarks();
    const values = work.valuesFor(parametersOf(piece.text), work.parameters.value[tab.id] ?? {});
    SENT.set(tab.id, piece);
    const run = await work.start(tab.id, piece.text, statements, values);
    await run.finished;
    const error = run.error.value;
    if (error && work.active.value === tab.id) editor.current?.mark(piece, error.message, error.hint, error.line, error.column);
    if (run.statements.value.some(({ done, schema }) => done && !schema.value)) void readCatalog();
  };
  actions.current = {
    runOne: () => {
      const piece = editor.current?.chosen();
      if (piece) void launch(piece, editor.current!.statements(piece.from, piece.from + piece.text.length).length);
      return true;
    },
    runAll: () => {
      const text = editor.current?.text() ?? '';
      if (text.trim()) void launch({ from: 0, text }, editor.current!.statements().length);
      return true;
    },
    explain: () => {
      const piece = editor.current?.chosen();
      if (piece) void explain(piece, editor);
      return true;
    },
    open: () => openFile(),
    save: () => {
      const tab = work.current();
      const name = tab.name.endsWith('.sql') ? tab.name : `${tab.name.toLowerCase().replace(/[^\w-]+/g, '-')}.sql`;
      download(name, [editor.current?.text() ?? tab.text], 'application/sql');
      work.change(tab.id, { name, changed: false });
    },
  };
  return actions as RefObject<Actions> & { current: Actions };
}

/** Runs the statement under EXPLAIN, in the session of its tab, and shows the plan. */
async function explain(piece: Piece, editor: RefObject<Editor | null>): Promise<void> {
  const tab = work.current();
  const text = piece.text.replace(/;\s*$/, '');
  const isExplained = /^\s*explain\b/i.test(text);
  const prefix = 'EXPLAIN (ANALYZE, FORMAT json) ';
  editor.current?.clearMarks();
  tell('The statement runs, for its plan');
  try {
    const values = work.valuesFor(parametersOf(text), work.parameters.value[tab.id] ?? {});
    const sql = isExplained ? text : `${prefix}${text}`;
    await work.free(tab.id);
    const rows = await ask(sql, [], tab.id, values);
    const answer = rows.map((row) => Object.values(row)).find((values) => String(values.at(-1)).trimStart().startsWith('['));
    if (!answer) throw new Error('EXPLAIN answered without JSON');
    plan.value = planOf(text, String(answer.at(-1)));
    tell('');
    go('plan');
  } catch (error) {
    const { message, hint, line, column } = error as { message: string; hint?: string; line?: number; column?: number };
    const shift = line === 1 && column && !isExplained ? prefix.length : 0;
    editor.current?.mark(piece, message, hint, line, column ? Math.max(column - shift, 1) : undefined);
    tell(`No plan: ${message}`);
  }
}

function openFile(): void {
  const input = document.createElement('input');
  input.type = 'file';
  input.accept = '.sql,text/plain';
  input.multiple = true;
  input.onchange = async () => {
    for (const file of input.files ?? []) {
      if (file.size > 10_000_000) tell(`${file.name} has ${bytes(file.size)}: run it with freestone DB -f FILE`);
      else work.open(file.name, await file.text());
    }
  };
  input.click();
}

function usePageKeys(actions: { current: Actions }, onPast: () => void, onRename: () => void, editor: RefObject<Editor | null>): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || place.value.view !== 'sql' || document.querySelector('dialog[open]')) return;
      const strong = event.ctrlKey || event.metaKey;
      const key = event.key.toLowerCase();
      const run = work.runs.value[work.active.value];
      if (strong && key === 's') actions.current.save();
      else if (strong && key === 'o') actions.current.open();
      else if (event.altKey && event.code === 'KeyT') work.open(null, '');
      else if (event.altKey && event.code === 'KeyW') work.closeTab(work.active.value);
      else if (event.altKey && event.code === 'KeyH') onPast();
      else if (event.altKey && key === 'pageup') work.neighbour(-1);
      else if (event.altKey && key === 'pagedown') work.neighbour(1);
      else if (event.key === 'F2') onRename();
      else if (event.key === 'F6') nextRegion(editor, event.shiftKey ? -1 : 1);
      else if (event.key === 'Escape' && run?.state.value === 'running') void run.cancel();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

function nextRegion(editor: RefObject<Editor | null>, step: number): void {
  const grid = document.querySelector<HTMLElement>('.grid');
  const side = document.querySelector<HTMLElement>('.side li button');
  const regions = [() => editor.current?.view.focus(), () => grid?.focus(), () => side?.focus()];
  const focused = document.activeElement;
  const at = focused?.classList.contains('editor') ? 0 : focused?.closest('.grid') ? 1 : focused?.closest('.side') ? 2 : -1;
  regions[(at + step + 3) % 3]!();
}

function showPlace(editor: RefObject<Editor | null>, id: string, run: Run | undefined): void {
  const piece = SENT.get(id);
  const error = run?.error.value;
  if (piece && error) editor.current?.goTo(editor.current.mark(piece, error.message, error.hint, error.line, error.column));
}

function Side({ isOpen, onPick }: { isOpen: boolean; onPick: (text: string) => void }) {
  return (
    <aside class={isOpen ? 'side open' : 'side'} aria-label="Tables">
      <header><h3>Tables</h3><button class="bare" onClick={() => void readCatalog()} aria-label="Read the tables again" title="Read again">↻</button></header>
      {problem.value && <Problem error={problem.value} />}
      {!problem.value && relations.value.length === 0 && <p class="empty">No tables yet</p>}
      <ul>{relations.value.map((relation) => <RelationItem key={relation.name} relation={relation} onPick={onPick} />)}</ul>
    </aside>
  );
}

function RelationItem({ relation, onPick }: { relation: Relation; onPick: (text: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  const name = relation.name.split('.').map(identifier).join('.');
  return (
    <li>
      <button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} onDblClick={() => onPick(name)} title={relation.name}>
        <span class="twist" aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
        <span>{relation.name}</span>
        <small>{relation.kind === 'view' ? 'view' : relation.rows === null ? '' : count(relation.rows)}</small>
      </button>
      {isOpen && (
        <ul>
          {relation.kind === 'table' && <li><button onClick={() => go('layout', relation.name)}><span>How it is cut →</span></button></li>}
          <li><button onClick={() => onPick(`SELECT * FROM ${name}`)}><span>SELECT * …</span></button></li>
          {relation.columns.map((column) => (
            <li key={column.name}><button onClick={() => onPick(identifier(column.name))} title={`${column.name} ${column.type}`}><span>{column.name}</span><small>{column.type}</small></button></li>
          ))}
        </ul>
      )}
    </li>
  );
}

/** Asks for the name of a script. */
function Rename({ id, onClose }: { id: string; onClose: () => void }) {
  const tab = work.tabs.value.find((known) => known.id === id);
  const [name, setName] = useState(tab?.name ?? '');
  const submit = (event: Event) => {
    event.preventDefault();
    if (name.trim()) work.change(id, { name: name.trim() });
    onClose();
  };
  return (
    <Dialog title="Name of the script" onClose={onClose}>
      <form onSubmit={submit}>
        <input aria-label="Name" value={name} maxLength={200} onInput={(event) => setName(event.currentTarget.value)} onFocus={(event) => event.currentTarget.select()} required autofocus />
        <div class="row"><button type="button" onClick={onClose}>Not now</button><button class="main">Rename</button></div>
      </form>
    </Dialog>
  );
}

function Tabs({ onClose, onRename }: { onClose: (id: string) => void; onRename: (id: string) => void }) {
  return (
    <div class="tabs" role="group" aria-label="Scripts">
      {work.tabs.value.map((tab) => (
        <div key={tab.id} class={tab.id === work.active.value ? 'tab on' : 'tab'}>
          <button aria-pressed={tab.id === work.active.value} aria-keyshortcuts="F2" title="A double click, or F2, renames it" onClick={() => { work.active.value = tab.id; }} onDblClick={() => onRename(tab.id)}>
            {tab.name}{tab.changed && tab.name.endsWith('.sql') ? ' •' : ''}
          </button>
          <button class="close" aria-label={`Close ${tab.name}`} onClick={() => onClose(tab.id)}>×</button>
        </div>
      ))}
      <button class="bare" aria-label="New script" title="Alt T" onClick={() => work.open(null, '')}>+</button>
    </div>
  );
}

function CancelButton({ run }: { run: Run | undefined }) {
  return run?.state.value === 'running' ? <button onClick={() => void run.cancel()} title="Esc">Cancel</button> : null;
}

function Parameters({ tab }: { tab: work.Tab }) {
  const names = parametersOf(tab.text);
  if (names.length === 0) return null;
  const values = work.parameters.value[tab.id] ?? {};
  const set = (name: string, text: string) => { work.parameters.value = { ...work.parameters.value, [tab.id]: { ...values, [name]: text } }; };
  return (
    <div class="parameters" role="group" aria-label="Parameters">
      {names.map((name) => (
        <label key={name}>${name}<input size={14} value={values[name] ?? ''} placeholder="value" onInput={(event) => set(name, event.currentTarget.value)} /></label>
      ))}
      <span class="soft">numbers, true, false, null; everything else is text</span>
    </div>
  );
}

function Split({ height, onHeight }: { height: number; onHeight: (height: number) => void }) {
  const from = useRef<[number, number] | null>(null);
  const limited = (value: number) => onHeight(Math.min(Math.max(value, 70), innerHeight - 260));
  return (
    <div class="split" role="separator" aria-orientation="horizontal" aria-label="Height of the editor" aria-valuenow={height} tabIndex={0}
      onKeyDown={(event) => { if (event.key === 'ArrowUp') limited(height - 20); if (event.key === 'ArrowDown') limited(height + 20); }}
      onPointerDown={(event) => { from.current = [event.clientY, height]; event.currentTarget.setPointerCapture(event.pointerId); }}
      onPointerMove={(event) => { if (from.current) limited(from.current[1] + event.clientY - from.current[0]); }}
      onPointerUp={() => { from.current = null; }} />
  );
}

function Results({ run, onPlace }: { run: Run | undefined; onPlace: () => void }) {
  const [picked, setPicked] = useState<[Run, number] | null>(null);
  if (!run) {
    return <section class="results" aria-label="Result"><div class="empty"><b>Nothing has run yet</b>Ctrl Enter runs the statement at the cursor. Results stream in as far as you scroll.</div></section>;
  }
  const statements = run.statements.value;
  const own = picked?.[0] === run ? picked[1] : null;
  const failed = statements.findIndex((statement) => statement.state.value === 'failed');
  const at = own ?? (failed >= 0 ? failed : statements.length - 1);
  const statement = statements[at];
  return (
    <section class="results" aria-label="Result">
      {statements.length > 1 && (
        <div class="picks" role="group" aria-label="Statements">
          {statements.map((each, number) => (
            <button key={number} aria-pressed={number === at} class={each.state.value === 'failed' ? 'bad' : undefined} onClick={() => setPicked([run, number])} title={each.begun.text}>
              {number + 1} {each.begun.text.replace(/\s+/g, ' ').slice(0, 60)}
            </button>
          ))}
        </div>
      )}
      {run.notices.value.map((notice) => <p class="status" key={notice}>Notice: {notice}</p>)}
      {!statement && run.state.value === 'running' && <p class="status"><span class="pulse" /> sent</p>}
      {!statement && run.error.value && <div class="bar"><div class="grow"><Problem error={run.error.value} onPlace={onPlace} /></div></div>}
      {statement && <ResultOf key={`${at}`} statement={statement} onPlace={onPlace} />}
    </section>
  );
}

const FORMS = [['grid', 'Rows'], ['plot', 'Plot']] as const;

function ResultOf({ statement, onPlace }: { statement: Statement; onPlace: () => void }) {
  const [form, setForm] = useState<'grid' | 'plot'>('grid');
  const schema = statement.schema.value;
  return (
    <>
      <div class="status" aria-live="polite">
        <StatusText statement={statement} />
        {statement.done?.transaction && <span class="badge" title="COMMIT keeps its changes, ROLLBACK drops them">transaction {statement.done.transaction}</span>}
        <span class="grow" />
        {schema && schema.fields.length > 0 && (
          <>
            <Segmented label="Show as" value={form} options={FORMS} onChange={setForm} />
            <Download statement={statement} />
          </>
        )}
      </div>
      {statement.notices.value.map((notice) => <p class="status" key={notice}>Notice: {notice}</p>)}
      {statement.state.value === 'failed' && statement.error && <div class="bar"><div class="grow"><Problem error={statement.error} onPlace={onPlace} /></div></div>}
      {schema && schema.fields.length > 0 && (form === 'grid' ? <Grid statement={statement} /> : <PlotView statement={statement} />)}
    </>
  );
}

function StatusText({ statement }: { statement: Statement }) {
  const rows = statement.rows.value;
  const { done } = statement;
  const state = statement.state.value;
  if (state === 'failed') return <span>failed{rows > 0 && `, after ${plural(rows, 'row')}`}</span>;
  if (state === 'cancelled') return <span>cancelled{rows > 0 && `, after ${plural(rows, 'row')}`}</span>;
  if (state === 'done' && done) {
    if (!statement.schema.value) return <span><b>{done.tag || 'done'}</b> in {duration(done.ms)}</span>;
    return <span><b>{plural(rows, 'row')}</b> in {duration(done.ms)}{done.truncated && ', and more: a script shows the first rows of each statement'}</span>;
  }
  const progress = statement.progress.value;
  if (state === 'paused') {
    return (
      <>
        <span><b>{thousands(rows)} rows so far</b>; the query waits until you scroll</span>
        <button class="bare" onClick={() => statement.want(Number.POSITIVE_INFINITY)}>Read all</button>
      </>
    );
  }
  const loaded = progress?.task ? `; ${progress.task}${progress.done === undefined ? '' : `: ${bytes(progress.done)}${progress.total ? ` of ${bytes(progress.total)}` : ''}`}` : '';
  const share = shareOf(progress);
  return <>{share !== null && <Meter share={share} best label={`${percent(share)} is read`} />}<span><span class="pulse" /> {rows > 0 ? `${thousands(rows)} rows` : 'runs'}{progress && `, ${duration(progress.ms)}`}{share !== null && `; ${percent(share)} ${progress?.total ? 'loaded' : 'read'}`}{loaded}</span></>;
}

function Download({ statement }: { statement: Statement }) {
  const save = async (kind: string) => {
    if (!statement.isOver) {
      tell('The rest is read first');
      statement.want(Number.POSITIVE_INFINITY);
      await new Promise<void>((resolve) => {
        const stop = statement.state.subscribe(() => { if (statement.isOver) { queueMicrotask(() => stop()); resolve(); } });
      });
    }
    if (kind === 'csv') download('result.csv', csv(statement), 'text/csv');
    if (kind === 'json') download('result.json', json(statement), 'application/json');
    if (kind === 'arrow') download('result.arrows', await arrow(statement), 'application/vnd.apache.arrow.stream');
  };
  return (
    <select aria-label="Download" value="" onChange={(event) => { void save(event.currentTarget.value); event.currentTarget.value = ''; }}>
      <option value="">Download…</option>
      <option value="csv">CSV</option>
      <option value="json">JSON</option>
      <option value="arrow">Arrow</option>
    </select>
  );
}

function History({ onClose, onPick }: { onClose: () => void; onPick: (sql: string) => void }) {
  const [wanted, setWanted] = useState('');
  const found = work.past.value.filter(({ sql }) => sql.toLowerCase().includes(wanted.toLowerCase()));
  return (
    <Dialog title="History" onClose={onClose}>
      <input aria-label="Search" placeholder="Search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} autofocus />
      {found.length === 0 && <p class="empty">Nothing found</p>}
      <ul class="past">
        {found.slice(0, 100).map((entry) => (
          <li key={`${entry.at}${entry.sql}`}><button title={`${new Date(entry.at).toLocaleString()}\n${entry.sql}`} onClick={() => onPick(entry.sql)}>{entry.sql.replace(/\s+/g, ' ').slice(0, 300)}</button></li>
        ))}
      </ul>
      <form method="dialog" class="row"><button>Close</button></form>
    </Dialog>
  );
}

