/** The rows of a result: only what is seen is in the page, and rows are asked for when they come near. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useComputed } from '@preact/signals';
import type { Field } from 'apache-arrow';
import { cell, fullText, kindOf, typeName, type Cell } from './cells';
import { copyText, type Range } from './export';
import { thousands } from './formats';
import { Dialog } from './parts';
import { Statement } from './run';
import { ELEMENT_MAX, fromBar, toBar, visible } from './scroll';
import { copy, tell } from './state';

const HEAD = 38;
const LETTER = 7.6;
/** The fonts of a column's name and type in style.css. */
const NAME_FONT = '600 12.5px';
const TYPE_FONT = '11px';
/** Letters of a name or a type that are wider than any column. */
const LETTERS_MAX = 200;
/** Rows that are read ahead of what is seen. */
const AHEAD = 4_000;
const COPY_MAX = 2_000_000;
/** Widths of columns, and their change by a key, in pixels. */
const WIDTH_MIN = 40;
const WIDTH_STEP = 24;

interface Place {
  row: number;
  column: number;
}

/** Widths in which names, types and the first values are seen as a whole, up to a limit. */
function usualWidths(of: Statement): number[] {
  const fields = of.schema.value?.fields ?? [];
  const [first] = of.batches;
  const context = document.createElement('canvas').getContext('2d')!;
  const { fontFamily } = getComputedStyle(document.body);
  const wide = (text: string, font: string) => {
    context.font = `${font} ${fontFamily}`;
    return context.measureText(text.slice(0, LETTERS_MAX)).width;
  };
  return fields.map((field, column) => {
    const head = Math.max(wide(field.name, NAME_FONT), wide(typeName(field), TYPE_FONT));
    let letters = 0;
    for (let row = 0; first && row < Math.min(first.numRows, 60); row++) {
      const found = cell(first.data.children[column]!, row, field, 60);
      letters = Math.max(letters, found === null ? 4 : found.text.length);
    }
    return Math.ceil(Math.min(Math.max(letters * LETTER + 22, head + 22, 56), 420));
  });
}

function ends(widths: number[]): number[] {
  let sum = 0;
  return widths.map((width) => (sum += width));
}

export function Grid({ statement }: { statement: Statement }) {
  const schema = statement.schema.value;
  const rows = statement.rows.value;
  const fields = schema?.fields ?? [];
  const [widths, setWidths] = useState<number[]>([]);
  const [size, setSize] = useState({ width: 800, height: 300, line: 24 });
  const [scroll, setScroll] = useState({ top: 0, left: 0 });
  const [at, setAt] = useState<Place>({ row: 0, column: 0 });
  const [anchor, setAnchor] = useState<Place>({ row: 0, column: 0 });
  const [open, setOpen] = useState(false);
  const scroller = useRef<HTMLDivElement>(null);
  const element = useRef<HTMLDivElement>(null);
  const bar = useRef(0);
  const isReady = useComputed(() => statement.rows.value > 0);

  // Both before the first frame: keys move by what is seen.
  useLayoutEffect(() => { setWidths(usualWidths(statement)); }, [statement, schema, isReady.value]);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (!entry) return;
      const line = Math.round(parseFloat(getComputedStyle(entry.target).fontSize) * 1.92);
      setSize({ width: entry.contentRect.width, height: entry.contentRect.height, line });
    });
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);

  const line = size.line;
  const scale = line / 24;
  const head = Math.round(HEAD * scale);
  const wide = useMemo(() => widths.map((width) => Math.round(width * scale)), [widths, scale]);
  const right = useMemo(() => ends(wide), [wide]);
  const gutter = Math.round((Math.max(thousands(rows).length, 3) * LETTER + 16) * scale);
  const all = rows * line;
  const view = Math.max(size.height - head - 12, line);
  const first = Math.max(Math.floor(scroll.top / line) - 3, 0);
  const last = Math.min(first + Math.ceil(view / line) + 8, rows);
  const [left, end] = visible(right, scroll.left - 40, size.width + 80);
  useEffect(() => { statement.want(last + AHEAD); }, [statement, last]);

  const moveTo = (top: number) => {
    const box = scroller.current;
    if (!box) return;
    const limited = Math.min(Math.max(top, 0), Math.max(all - view, 0));
    setScroll((before) => ({ ...before, top: limited }));
    bar.current = Math.round(toBar(limited, all, view));
    box.scrollTop = bar.current;
  };
  const scrolled = () => {
    const box = scroller.current!;
    // A place of the bar that came from `moveTo` is not more exact than the place that it came from.
    const isOwn = Math.abs(box.scrollTop - bar.current) < 1.5;
    setScroll((before) => ({ top: isOwn && all > ELEMENT_MAX ? before.top : fromBar(box.scrollTop, all, view), left: box.scrollLeft }));
  };
  useEffect(() => {
    const box = scroller.current!;
    const wheel = (event: WheelEvent) => {
      if (all <= ELEMENT_MAX || event.ctrlKey || event.deltaY === 0) return;
      event.preventDefault();
      moveTo(scroll.top + event.deltaY * (event.deltaMode === 1 ? line : 1));
    };
    box.addEventListener('wheel', wheel, { passive: false });
    return () => box.removeEventListener('wheel', wheel);
  });

  const focusOn = (row: number, column: number, extend: boolean) => {
    const next = { row: Math.min(Math.max(row, 0), Math.max(rows - 1, 0)), column: Math.min(Math.max(column, 0), fields.length - 1) };
    setAt(next);
    if (!extend) setAnchor(next);
    const top = next.row * line;
    if (top < scroll.top) moveTo(top);
    else if (top + line > scroll.top + view) moveTo(top + line - view);
    const [from, to] = [(right[next.column - 1] ?? 0), right[next.column] ?? 0];
    const box = scroller.current!;
    if (from < box.scrollLeft) box.scrollLeft = from;
    else if (to > box.scrollLeft + size.width - gutter - 16) box.scrollLeft = to - size.width + gutter + 16;
  };
  const range: Range = {
    top: Math.min(at.row, anchor.row), bottom: Math.max(at.row, anchor.row), left: Math.min(at.column, anchor.column), right: Math.max(at.column, anchor.column),
  };
  const copyRange = async () => {
    const cells = (range.bottom - range.top + 1) * (range.right - range.left + 1);
    if (cells > COPY_MAX) return tell(`${thousands(cells)} cells are too many to copy: download the result`);
    await copy(copyText(statement, range, cells > 1), cells === 1 ? 'Copied' : `${thousands(cells)} cells copied, with names`);
  };
  const widen = (column: number, change: number) => {
    setWidths((before) => before.map((width, place) => (place === column ? Math.max(width + change, WIDTH_MIN) : width)));
  };
  const pressed = (event: KeyboardEvent) => {
    const page = Math.max(Math.floor(view / line) - 1, 1);
    const strong = event.ctrlKey || event.metaKey;
    const moves: Record<string, [number, number]> = {
      ArrowUp: [at.row - 1, at.column], ArrowDown: [at.row + 1, at.column], ArrowLeft: [at.row, at.column - 1], ArrowRight: [at.row, at.column + 1],
      PageUp: [at.row - page, at.column], PageDown: [at.row + page, at.column],
      Home: [strong ? 0 : at.row, 0], End: [strong ? rows - 1 : at.row, fields.length - 1],
    };
    const move = moves[event.key];
    if (event.altKey) {
      if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
      widen(at.column, event.key === 'ArrowLeft' ? -WIDTH_STEP : WIDTH_STEP);
    } else if (move) focusOn(move[0], move[1], event.shiftKey);
    else if (strong && event.key.toLowerCase() === 'a') [setAnchor({ row: 0, column: 0 }), setAt({ row: rows - 1, column: fields.length - 1 })];
    else if (strong && event.key.toLowerCase() === 'c') void copyRange();
    else if (event.key === 'Enter') setOpen(true);
    else return;
    event.preventDefault();
  };
  const pointed = (event: PointerEvent) => {
    const target = (event.target as HTMLElement).closest<HTMLElement>('[data-row]');
    if (!target || event.button !== 0) return;
    focusOn(Number(target.dataset.row), Number(target.dataset.column ?? at.column), event.shiftKey || event.type === 'pointermove');
  };

  if (!schema) return null;
  const shownRows = [];
  for (let row = first; row < last; row++) shownRows.push(row);
  const columns = fields.slice(left, end).map((field, number) => ({ field, column: left + number }));
  return (
    <div class="grid" ref={element} role="grid" tabIndex={0} aria-label="Result" aria-rowcount={rows + 1} aria-colcount={fields.length + 1}
      aria-multiselectable="true" aria-activedescendant={`cell-${at.row}-${at.column}`} onKeyDown={pressed} onDblClick={() => setOpen(true)}>
      <div class="grid-scroll" ref={scroller} onScroll={scrolled} tabIndex={-1}>
        <div style={{ height: `${Math.min(all, ELEMENT_MAX) + head}px`, width: `${gutter + (right.at(-1) ?? 0)}px` }}>
          <div class="grid-canvas" style={{ width: `${size.width}px`, height: `${Math.min(size.height, all + head)}px` }}
            onPointerDown={pointed} onPointerMove={(event) => { if (event.buttons === 1) pointed(event); }}>
            {shownRows.map((row) => (
              <RowOf key={row} statement={statement} row={row} top={head + row * line - scroll.top} line={line} gutter={gutter}
                columns={columns} right={right} left={scroll.left} at={at} range={range} />
            ))}
            <div class="grid-head" role="row" aria-rowindex={1} style={{ height: `${head}px` }}>
              {columns.map(({ field, column }) => (
                <Head key={column} field={field} column={column} style={{ left: `${gutter + (right[column - 1] ?? 0) - scroll.left}px`, width: `${wide[column]}px` }}
                  onWidth={(change) => widen(column, change / scale)} />
              ))}
              <div class="place" style={{ left: 0, width: `${gutter}px` }} />
            </div>
          </div>
        </div>
      </div>
      {open && <Whole statement={statement} place={at} onClose={() => { setOpen(false); element.current?.focus(); }} />}
    </div>
  );
}

function Head({ field, column, style, onWidth }: { field: Field; column: number; style: Record<string, string>; onWidth: (change: number) => void }) {
  const from = useRef<number | null>(null);
  const isRight = kindOf(field.type) === 'number';
  return (
    <div role="columnheader" aria-colindex={column + 2} class={isRight ? 'right' : undefined} style={style} title={`${field.name}\n${typeName(field)}`}>
      {field.name}
      <small>{typeName(field)}</small>
      <span class="sizer" aria-hidden="true"
        onPointerDown={(event) => { event.stopPropagation(); from.current = event.clientX; event.currentTarget.setPointerCapture(event.pointerId); }}
        onPointerMove={(event) => {
          if (from.current === null) return;
          onWidth(event.clientX - from.current);
          from.current = event.clientX;
        }}
        onPointerUp={() => { from.current = null; }} />
    </div>
  );
}

interface RowProps {
  statement: Statement;
  row: number;
  top: number;
  line: number;
  gutter: number;
  columns: { field: Field; column: number }[];
  right: number[];
  left: number;
  at: Place;
  range: Range;
}

function RowOf({ statement, row, top, line, gutter, columns, right, left, at, range }: RowProps) {
  const place = statement.locate(row);
  if (!place) return null;
  const [batch, number] = place;
  const inRows = row >= range.top && row <= range.bottom;
  return (
    <div class="grid-row" role="row" aria-rowindex={row + 2} style={{ top: `${top}px`, height: `${line}px` }}>
      {columns.map(({ field, column }) => {
        const found = cell(batch.data.children[column]!, number, field);
        const from = right[column - 1] ?? 0;
        const isAt = row === at.row && column === at.column;
        const isIn = inRows && column >= range.left && column <= range.right;
        return (
          <div key={column} id={isAt ? `cell-${row}-${column}` : undefined} role="gridcell" aria-colindex={column + 2} aria-selected={isIn}
            data-row={row} data-column={column} class={classOf(found, kindOf(field.type) === 'number', isIn, isAt)}
            style={{ left: `${gutter + from - left}px`, width: `${(right[column] ?? 0) - from}px` }}>
            {found === null ? 'NULL' : oneLine(found.text)}
          </div>
        );
      })}
      <div class="place" role="rowheader" aria-colindex={1} style={{ left: 0, width: `${gutter}px` }}>{thousands(row + 1)}</div>
    </div>
  );
}

function classOf(found: Cell | null, isNumber: boolean, isIn: boolean, isAt: boolean): string {
  const parts = [];
  if (isNumber) parts.push('right');
  if (found === null) parts.push('null');
  else if (found.text === '') parts.push('void');
  if (isIn) parts.push('in');
  if (isAt) parts.push('at');
  return parts.join(' ');
}

const oneLine = (text: string) => text.replace(/\r?\n/g, '⏎').replace(/\t/g, '⇥');

/** Letters that a dialog shows; the whole value is copied. */
const SHOWN_MAX = 200_000;

function Whole({ statement, place, onClose }: { statement: Statement; place: Place; onClose: () => void }) {
  const found = statement.locate(place.row);
  const field = statement.schema.value?.fields[place.column];
  if (!found || !field) return null;
  const [batch, at] = found;
  const data = batch.data.children[place.column]!;
  const shown = cell(data, at, field, SHOWN_MAX);
  return (
    <Dialog title={`${field.name}, row ${thousands(place.row + 1)}`} onClose={onClose}>
      <p class="soft">{typeName(field)}{shown?.cut && `, the first ${thousands(SHOWN_MAX)} letters`}</p>
      <pre class="value">{shown === null ? 'NULL' : shown.text}</pre>
      <form method="dialog" class="row"><button type="button" onClick={() => void copy(fullText(data, at, field) ?? '', 'Copied')}>Copy</button><button class="main">Close</button></form>
    </Dialog>
  );
}
