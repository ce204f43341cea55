/** How tables are cut: by bytes, from tables to columns, segments, groups, pages and zones. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { bytes, count, percent, plural, significant, thousands } from '../formats';
import { clustering, EXTRAS, mergedExtras } from '../cut';
import { Cut, extraName, modes, type Mode } from '../cutview';
import { Ranges } from '../rangeview';
import { readCandidates, readColumns, readLayout, readNear, readStored, readZones, type Candidate, type Column, type Layout, type Near, type Segment, type Source, type Stored, type ZoneRun } from '../layout';
import { encodingColour, extraColour, formatColour, themed } from '../look';
import { Meter, Plain, Problem, Segmented } from '../parts';
import { counter, scansOf, type PlanNode } from '../plan';
import { go, place, plan, scanned } from '../state';

export default function LayoutView() {
  const [stored, setStored] = useState<Stored[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const load = () => { setError(null); readStored().then(setStored, setError); };
  const isShown = place.value.view === 'layout';
  useEffect(() => { if (isShown) load(); }, [isShown]);
  const asked = place.value.view === 'layout' && place.value.table !== null ? keyOf({ ...place.value, table: place.value.table }) : null;
  const [kept, setKept] = useState<string | null>(null);
  useEffect(() => { if (asked) setKept(asked); }, [asked]);
  const table = stored?.find((each) => keyOf(each) === (asked ?? kept)) ?? stored?.[0];
  const isMissing = stored !== null && asked !== null && table !== undefined && keyOf(table) !== asked;
  return (
    <div class="scroll">
      <div class="sheet">
        {error && <Problem error={error} />}
        {stored?.length === 0 && <p class="empty"><b>No tables yet</b>CREATE TABLE t AS SELECT * FROM 'file.parquet' makes one.</p>}
        {isMissing && <p class="problem">There is no {place.value.copy === null ? 'table' : `copy ${place.value.copy} of`} {place.value.table}: this is {table.table}.</p>}
        {stored && stored.length > 0 && <Overview stored={stored} chosen={table ?? null} onReload={load} />}
        {table && <TableCut key={keyOf(table)} stored={table} version={stored!} />}
      </div>
    </div>
  );
}

const keyOf = ({ table, copy }: Source) => (copy === null ? table : `${table}\0${copy}`);

/** Tables and copies whose columns are read for the overview. */
const DETAILED_MAX = 24;

function Overview({ stored, chosen, onReload }: { stored: Stored[]; chosen: Source | null; onReload: () => void }) {
  const [columns, setColumns] = useState<Record<string, Column[] | Error>>({});
  const [all, setAll] = useState(false);
  const most = Math.max(...stored.map((each) => each.bytes), 1);
  useEffect(() => {
    let isOver = false;
    void (async () => {
      for (const each of stored.slice(0, DETAILED_MAX)) {
        if (isOver) return;
        const found = await readColumns(each, 'overview').catch((failure: Error) => failure);
        setColumns((before) => ({ ...before, [keyOf(each)]: found }));
      }
    })();
    return () => { isOver = true; };
  }, [stored]);
  const shown = all ? stored : stored.slice(0, 12);
  return (
    <section class="card">
      <header>
        <h2>Tables by bytes</h2>
        <span class="soft">{bytes(stored.reduce((sum, each) => sum + each.bytes, 0))} in all; bars are on one scale, cut into columns</span>
        <span class="grow" />
        <button onClick={onReload}>Read again</button>
      </header>
      <div class="bars">
        {shown.map((each) => (
          <>
            <button class={each.copy === null ? 'label' : 'label copy'} aria-pressed={chosen !== null && keyOf(each) === keyOf(chosen)} title={each.design} onClick={() => go('layout', each.table, each.copy)}>
              {each.copy === null ? each.table : `copy ${each.copy}`}{!each.current && ' (waits for VACUUM)'}
            </button>
            <Strip share={each.bytes / most} of={columns[keyOf(each)]} />
            <span class="num soft">{bytes(each.bytes)}, {count(each.rows)} rows</span>
          </>
        ))}
      </div>
      {stored.length > shown.length && <button class="bare" onClick={() => setAll(true)}>{thousands(stored.length - shown.length)} more</button>}
    </section>
  );
}

function Strip({ share, of: columns }: { share: number; of: Column[] | Error | undefined }) {
  void themed.value;
  const width = { width: `${Math.max(share * 100, 0.2)}%` };
  if (columns instanceof Error) return <Problem error={columns} />;
  // Cut into columns, a strip of a few pixels would be nothing but cuts.
  if (!columns || columns.length === 0 || share < 0.01) return <span class="strip" style={width} aria-hidden="true"><i style={{ width: '100%', background: 'var(--bar)' }} /></span>;
  const all = columns.reduce((sum, column) => sum + column.bytes, 0) || 1;
  const sorted = columns.toSorted((a, b) => b.bytes - a.bytes);
  // What would be narrower than a few pixels is one piece.
  const thin = sorted.findIndex((column, at) => at >= 60 || (column.bytes / all) * share < 0.004);
  const shown = thin < 0 ? sorted : sorted.slice(0, thin);
  const rest = thin < 0 ? [] : sorted.slice(thin);
  const restBytes = rest.reduce((sum, column) => sum + column.bytes, 0);
  return (
    <span class="strip" style={width} aria-hidden="true">
      {shown.map((column) => <i key={column.name} title={`${column.name}: ${bytes(column.bytes)}, ${column.encoding}`} style={{ width: `${(column.bytes / all) * 100}%`, background: encodingColour(column.encoding) }} />)}
      {rest.length > 0 && <i title={`${plural(rest.length, 'column')}: ${bytes(restBytes)}`} style={{ width: `${(restBytes / all) * 100}%`, background: 'var(--bar)' }} />}
    </span>
  );
}

export interface Zoom extends Near {
  segment: Segment;
}

function useLayout({ table, copy }: Source, version: unknown) {
  const [layout, setLayout] = useState<Layout | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    setError(null);
    readLayout({ table, copy }).then(setLayout, setError);
  }, [table, copy, version]);
  return { layout, error };
}

function TableCut({ stored, version }: { stored: Stored; version: unknown }) {
  const { layout, error } = useLayout(stored, version);
  const [mode, setMode] = useState<Mode>('encoding');
  const [picked, setPicked] = useState<string | null>(null);
  const [zoom, setZoom] = useState<Zoom | null>(null);
  const [zones, setZones] = useState<ZoneRun[]>([]);
  const [problem, setProblem] = useState<Error | null>(null);
  const [asTable, setAsTable] = useState(false);
  const own = useMemo(() => (plan.value ? scansOf(plan.value.root, stored) : []), [plan.value, stored]);
  const scan = own.find((each) => each === scanned.value) ?? own[0] ?? null;
  const usual = useMemo(() => (layout ? usualColumn(layout, scan) : null), [layout, scan]);
  const column = layout?.columns.find((each) => each.name === (picked ?? usual)) ?? null;
  const shown = useRef(layout);
  // What was read again may be another table by now: a segment stays open if it is the same.
  useEffect(() => {
    shown.current = layout;
    setZoom((before) => (before && layout?.segments.some((each) => isSame(each, before.segment)) ? before : null));
  }, [layout]);
  useEffect(() => {
    if (!layout || !column) return;
    let isOver = false;
    setProblem(null);
    readZones(layout, column, zoom?.segment.segment ?? null).then((found) => { if (!isOver) setZones(found); }, setProblem);
    return () => { isOver = true; };
  }, [layout, column, zoom]);
  const look = async (segment: number) => {
    const found = layout?.segments.find((each) => each.segment === segment);
    if (!found || found.hot) return;
    try {
      const near = await readNear(stored, segment);
      if (shown.current?.segments.some((each) => isSame(each, found))) setZoom({ segment: found, ...near });
    } catch (failure) {
      setProblem(failure as Error);
    }
  };
  if (error) return <Problem error={error} />;
  if (!layout) return <p class="empty">Reading {titleOf(stored)}…</p>;
  return (
    <>
      <section class="card">
        <header>
          <h2>{titleOf(layout)}{zoom && `, segment ${zoom.segment.segment}`}</h2>
          <span class="soft">{facts(layout, zoom)}</span>
          <span class="grow" />
          {zoom && <button onClick={() => setZoom(null)}>← All segments</button>}
          <Segmented label="Colours" value={mode} options={modes} onChange={setMode} />
          <button aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>{asTable ? 'As a picture' : 'As a table'}</button>
        </header>
        <div class="cutting">
          <div class="stack">
            {problem && <Problem error={problem} />}
            {asTable ? <Tables layout={layout} zoom={zoom} onLook={(segment) => void look(segment)} /> : (
              <>
                <Cut layout={layout} zoom={zoom} mode={mode} column={column} zones={zones} read={scan ? readBy(scan) : null}
                  onPick={setPicked} onLook={(segment) => void look(segment)} onBack={() => setZoom(null)} />
                <Legend mode={mode} layout={layout} column={column} />
                <Rest layout={layout} zoom={zoom} />
                {column && <RangeHead columns={layout.columns} column={column} zones={zones} onPick={setPicked} />}
                {column && <Ranges zones={zones} column={column} />}
              </>
            )}
          </div>
          <aside class="stack" aria-label="Column">
            {column && <ColumnFacts layout={layout} column={column} zoom={zoom} segment={zoom?.segment.segment ?? layout.segments.find((each) => !each.hot)?.segment ?? null} />}
          </aside>
        </div>
      </section>
      {scan && <Usage scan={scan} all={own} />}
    </>
  );
}

const isSame = (one: Segment, other: Segment) => JSON.stringify(one) === JSON.stringify(other);

const titleOf = ({ table, copy }: Source) => (copy === null ? table : `${table}, copy ${copy}`);

/** The column that is shown first: one that the last query filtered by, one that the table is sorted by, or the largest. */
function usualColumn(layout: Layout, scan: PlanNode | null): string | null {
  const filter = scan?.filter ?? '';
  const order = /(?:sort|cluster) = '([\w.]+)/.exec(layout.design)?.[1] ?? '';
  const words = new Set(filter.match(/\w+/g) ?? []);
  const found = layout.columns.find((column) => words.has(column.name)) ?? layout.columns.find((column) => column.name === order);
  return (found ?? layout.columns.toSorted((a, b) => b.bytes - a.bytes)[0])?.name ?? null;
}

/** The columns that a scan gives or tests. */
function readBy(scan: PlanNode): string[] {
  return [...scan.columns, ...(scan.filter.match(/[\w.]+/g) ?? [])];
}

function facts(layout: Layout, zoom: Zoom | null): string {
  if (zoom) {
    const { segment } = zoom;
    const deleted = segment.deleted > 0 ? `, ${thousands(segment.deleted)} deleted` : '';
    return `${plural(segment.rows, 'row')}${deleted}, ${bytes(segment.bytes)}, ${plural(segment.pages, 'page')}`;
  }
  const pages = layout.segments.reduce((sum, segment) => sum + segment.pages, 0);
  const perRow = layout.bytes / Math.max(layout.rows, 1);
  return `${plural(layout.rows, 'row')}, ${bytes(layout.bytes)}, ${significant(perRow)} bytes per row, ${plural(layout.segments.length, 'segment')}, ${plural(pages, 'page')}; ${layout.design}`;
}

function Legend({ mode, layout, column }: { mode: Mode; layout: Layout; column: Column | null }) {
  void themed.value;
  if (mode === 'format') {
    const formats = [...new Set(layout.blocks.map((block) => block.format))];
    return <p class="legend">{formats.map((format) => <span key={format}><i style={{ background: formatColour(format) }} />{format} pages</span>)}<Other layout={layout} /></p>;
  }
  if (mode === 'encoding') {
    const names = [...new Set(layout.columns.flatMap((each) => each.encoding.split(', ')))].filter((name) => name !== '');
    return <p class="legend">{names.map((name) => <span key={name}><i style={{ background: encodingColour(name) }} />{name}</span>)}<Other layout={layout} /></p>;
  }
  const [low, high] = mode === 'bytes' ? ['0 bytes per value', '8 or more'] : [column?.min ?? 'least', column?.max ?? 'greatest'];
  return <p class="legend"><span>{low}</span><Ramp /><span>{high}</span>{mode === 'range' && column && <span>rows by the middle of their zone's range of {column.name}</span>}</p>;
}

function Other({ layout }: { layout: Layout }) {
  const isHot = layout.segments.some((segment) => segment.hot);
  const kinds = new Set(layout.extras.map((extra) => extra.kind));
  return (
    <>
      {EXTRAS.filter((kind) => kinds.has(kind)).map((kind) => <span key={kind}><i style={{ background: extraColour(kind) }} />{NAMES[kind]}</span>)}
      {isHot && <span><i style={{ background: 'var(--s2)' }} />hot rows, in the commit log</span>}
    </>
  );
}

const NAMES: Record<(typeof EXTRAS)[number], string> = { footer: 'footers', zones: 'zones', index: 'indexes', dictionary: 'dictionaries', dropped: 'dropped columns' };
const EXTRAS_SHOWN = 12;

/** What belongs to no column's pages, on a scale of its own: in the picture it is thin. */
function Rest({ layout, zoom }: { layout: Layout; zoom: Zoom | null }) {
  void themed.value;
  const extras = useMemo(() => mergedExtras((zoom ?? layout).extras).toReversed(), [layout, zoom]);
  const all = extras.reduce((sum, extra) => sum + extra.bytes, 0);
  const of = zoom?.segment.bytes ?? layout.bytes;
  if (all === 0) return null;
  const largest = extras.toSorted((a, b) => b.bytes - a.bytes).slice(0, EXTRAS_SHOWN);
  return (
    <div class="rest">
      <div class="row"><h3>Not pages of columns</h3><span class="soft">{bytes(all)}, {percent(all / Math.max(of, 1))} of the {zoom ? 'segment' : 'table'}; magnified {significant(of / all)} times</span></div>
      <span class="strip" aria-hidden="true">
        {extras.map((extra) => <i key={extraName(extra)} title={`${extraName(extra)}: ${bytes(extra.bytes)}`} style={{ width: `${(extra.bytes / all) * 100}%`, background: extraColour(extra.kind) }} />)}
      </span>
      <p class="legend">
        {largest.map((extra) => <span key={extraName(extra)}><i style={{ background: extraColour(extra.kind) }} />{extraName(extra)} {bytes(extra.bytes)}</span>)}
        {extras.length > largest.length && <span>and {thousands(extras.length - largest.length)} more</span>}
      </p>
    </div>
  );
}

function Ramp() {
  return <span class="ramp-steps" aria-hidden="true">{[0, 1, 2, 3, 4, 5, 6].map((at) => <i key={at} style={{ background: `var(--r${at})`, borderRadius: 0, width: '18px' }} />)}</span>;
}

function RangeHead({ columns, column, zones, onPick }: { columns: Column[]; column: Column; zones: ZoneRun[]; onPick: (name: string) => void }) {
  const order = clustering(zones);
  const number = zones.reduce((sum, run) => sum + run.zones, 0);
  return (
    <div class="row" style={{ marginTop: '.6rem' }}>
      <h3>Zones</h3>
      <label class="row soft">range of
        <select value={column.name} onChange={(event) => onPick(event.currentTarget.value)}>{columns.map((each) => <option key={each.name}>{each.name}</option>)}</select>
      </label>
      <span class="soft">{plural(number, 'zone')}{order !== null && `; a zone leaves out ${percent(order)} of the column's range, on average`}</span>
    </div>
  );
}

function ColumnFacts({ layout, column, zoom, segment }: { layout: Layout; column: Column; zoom: Zoom | null; segment: number | null }) {
  const [candidates, setCandidates] = useState<Candidate[] | null>(null);
  const [problem, setProblem] = useState<Error | null>(null);
  useEffect(() => {
    if (segment === null) return;
    let isOver = false;
    setProblem(null);
    setCandidates(null);
    readCandidates(layout, segment).then((found) => { if (!isOver) setCandidates(found); }, (failure: Error) => { if (!isOver) setProblem(failure); });
    return () => { isOver = true; };
  }, [layout, segment]);
  const own = candidates?.filter((each) => each.column === column.name) ?? [];
  const most = Math.max(...own.map((each) => each.bytesPerValue), 1e-9);
  return (
    <>
      <h2>{column.name}</h2>
      <dl class="about">
        <dt>type</dt><dd>{column.type}</dd>
        <dt>encoding</dt><dd>{column.encoding}</dd>
        {zoom && <><dt>in segment {zoom.segment.segment}</dt><dd>{encodingIn(zoom, column.name)}</dd></>}
        <dt>bytes</dt><dd>{bytes(column.bytes)}, {percent(column.bytes / Math.max(layout.bytes, 1))} of the table</dd>
        <dt>per value</dt><dd>{significant(column.bytes / Math.max(layout.rows, 1))} bytes</dd>
        <dt>distinct</dt><dd>{column.distinct === null ? 'unknown' : thousands(column.distinct)}</dd>
        <dt>NULLs</dt><dd>{thousands(column.nulls)}</dd>
        <dt>range</dt><dd>{column.min ?? 'NULL'} to {column.max ?? 'NULL'}</dd>
      </dl>
      <h3>Why this encoding</h3>
      {problem && <Problem error={problem} />}
      {segment === null && <p class="soft">The rows are still hot: they have no encoding.</p>}
      {candidates && own.length === 0 && <p class="soft">No candidates were weighed for it in segment {segment}.</p>}
      {own.length > 0 && (
        <>
          <Plain caption={`Candidate encodings of ${column.name}`} head={['encoding', 'bytes per value', '', 'decode', 'score']} numbers={[1, 3, 4]}
            rows={own.map((each) => [
              each.chosen ? <b>{each.plan} ✓</b> : each.plan,
              significant(each.bytesPerValue),
              <Meter share={each.bytesPerValue / most} best={each.chosen} />,
              each.decodeNs === null ? '–' : `${significant(each.decodeNs)} ns`,
              each.score === null ? '–' : significant(each.score),
            ])} />
          <p class="soft">Of segment {segment}. The score weighs size and time; the least is best.</p>
        </>
      )}
    </>
  );
}

/** The encoding and the bytes of a column in a segment. */
function encodingIn({ blocks }: Zoom, name: string): string {
  for (const { columns, own } of blocks) {
    const found = own[columns.indexOf(name)];
    if (found) return `${found.encoding}, ${bytes(found.bytes)}`;
  }
  return 'not in its file: one value for all rows';
}

/** What the last query read of this table. */
function Usage({ scan, all }: { scan: PlanNode; all: PlanNode[] }) {
  const of = (name: string) => counter(scan, name);
  const rows: [string, [string, number | null, string][]][] = [
    ['pages', [['used', of('pages_used'), 'best'], ['all of these columns', of('pages_total'), '']]],
    ['bytes', [['used', of('bytes_used'), 'best'], ['all of these columns', of('bytes_total'), '']]],
  ];
  const zones = of('zones');
  const pruned = of('zones_pruned') ?? 0;
  const aggregated = of('zones_aggregated') ?? 0;
  const whole = Math.max((of('zones_whole') ?? 0) - aggregated, 0);
  return (
    <section class="card">
      <header>
        <h2>What the last query read</h2>
        {all.length > 1 && (
          <select aria-label="Scan" value={String(all.indexOf(scan))} onChange={(event) => { scanned.value = all[Number(event.currentTarget.value)]!; }}>
            {all.map((each, at) => <option key={at} value={String(at)}>scan {at + 1} of {all.length}{each.filter && `, where ${each.filter.slice(0, 60)}`}</option>)}
          </select>
        )}
        <span class="soft clip">{scan.filter ? `where ${scan.filter}` : 'without a filter'}; columns {scan.columns.join(', ') || 'none'}</span><span class="grow" /><button onClick={() => go('plan')}>The plan</button>
      </header>
      <div class="usage">
        {zones !== null && zones > 0 && (
          <div>
            <h3>Zones</h3>
            <span class="meter" role="img" aria-label={`${pruned} of ${zones} zones pruned`}>
              <i style={{ width: `${(pruned / zones) * 100}%`, background: 'var(--pale)' }} />
              <i style={{ width: `${(aggregated / zones) * 100}%`, background: 'var(--s4)' }} />
              <i style={{ width: `${(whole / zones) * 100}%`, background: 'var(--s1)' }} />
              <i style={{ width: `${(Math.max(zones - pruned - aggregated - whole, 0) / zones) * 100}%`, background: 'var(--best)' }} />
            </span>
            <p class="legend">
              <span><i style={{ background: 'var(--pale)' }} />{thousands(pruned)} pruned</span>
              <span><i style={{ background: 'var(--s4)' }} />{thousands(aggregated)} answered from aggregates</span>
              <span><i style={{ background: 'var(--s1)' }} />{thousands(whole)} qualify as a whole</span>
              <span><i style={{ background: 'var(--best)' }} />{thousands(Math.max(zones - pruned - aggregated - whole, 0))} tested</span>
            </p>
          </div>
        )}
        {rows.map(([name, [used, total]]) => total![1] !== null && (
          <div key={name}>
            <h3>{name}</h3>
            <Meter share={(used![1] ?? 0) / Math.max(total![1], 1)} best label={`${used![1]} of ${total![1]} ${name} used`} />
            <p class="legend"><span>{name === 'bytes' ? bytes(used![1] ?? 0) : thousands(used![1] ?? 0)} used of {name === 'bytes' ? bytes(total![1]) : thousands(total![1])} of the columns read</span>
              <span>{name === 'bytes' ? bytes(of('bytes_read') ?? 0) : thousands(of('pages_read') ?? 0)} from the medium, the rest from memory</span></p>
          </div>
        ))}
        <div>
          <h3>Rows</h3>
          <Meter share={(of('rows_selected') ?? 0) / Math.max(of('rows_scanned') ?? 0, 1)} best label="rows selected" />
          <p class="legend"><span>{count(of('rows_selected') ?? 0)} selected of {count(of('rows_scanned') ?? 0)} in zones that were not pruned</span><span>{count(of('values_decoded') ?? 0)} values decoded</span></p>
        </div>
      </div>
    </section>
  );
}

const ROWS_SHOWN = 300;

/** The picture as tables, for readers that see none and for exact figures. */
function Tables({ layout, zoom, onLook }: { layout: Layout; zoom: Zoom | null; onLook: (segment: number) => void }) {
  if (zoom) {
    return (
      <>
        <h3>Pages of segment {zoom.segment.segment}{zoom.pages.length > ROWS_SHOWN && `, the first ${ROWS_SHOWN}`}</h3>
        <Plain caption={`Pages of segment ${zoom.segment.segment}`} head={['group', 'page', 'format', 'first row', 'rows', 'bytes']} numbers={[0, 1, 3, 4, 5]}
          rows={zoom.pages.slice(0, ROWS_SHOWN).map((page) => [page.group, page.page, page.format, thousands(page.firstRow), thousands(page.rows), thousands(page.bytes)])} />
        <h3>Parts of its file</h3>
        <Plain caption={`Parts of the file of segment ${zoom.segment.segment}`} head={['part', 'encoding', 'bytes']} numbers={[2]}
          rows={[
            ...zoom.blocks.flatMap(({ columns, own }) => columns.map((name, at) => [name, own[at]!.encoding, thousands(own[at]!.bytes)])),
            ...mergedExtras(zoom.extras).toReversed().map((extra) => [extraName(extra), '', thousands(extra.bytes)]),
          ].slice(0, 2 * ROWS_SHOWN)} />
      </>
    );
  }
  return (
    <>
      <h3>Columns</h3>
      <Plain caption={`Columns of ${layout.table}`} head={['column', 'type', 'encoding', 'bytes', 'distinct', 'NULLs', 'least', 'greatest']} numbers={[3, 4, 5]}
        rows={layout.columns.map((each) => [each.name, each.type, each.encoding, thousands(each.bytes), each.distinct === null ? '' : thousands(each.distinct), thousands(each.nulls), each.min ?? 'NULL', each.max ?? 'NULL'])} />
      <h3>Segments{layout.segments.length > ROWS_SHOWN && `, the first ${ROWS_SHOWN}`}</h3>
      <Plain caption={`Segments of ${layout.table}`} head={['segment', 'rows', 'deleted', 'bytes', 'pages', 'groups', '']} numbers={[0, 1, 2, 3, 4]}
        rows={layout.segments.slice(0, ROWS_SHOWN).map((each) => [each.segment, thousands(each.rows), thousands(each.deleted), thousands(each.bytes), thousands(each.pages), each.hot ? 'hot rows' : each.groups,
          each.hot ? '' : <button onClick={() => onLook(each.segment)}>Pages</button>])} />
    </>
  );
}

