/** The picture of a table, or of one segment with its pages, on a canvas that keys walk through. */
import { useCallback, useMemo, useState } from 'preact/hooks';
import { fitted, scaleOf, Tip, useDrawing, useWidth, type TipText } from './canvas';
import { extent, greatest, hit, layersOf, pageSpans, rectangles, shows, slices, slicesMax, spans, type Layers, type Rect, type Slice } from './cut';
import { bytes, plural, significant, thousands } from './formats';
import { ticks } from './rules';
import { ZONE_ROWS, type Column, type Extra, type Layout, type Page, type ZoneRun } from './layout';
import { colour, encodingColour, extraColour, formatColour, isDark, ramp } from './look';
import type { Zoom } from './views/layout';

export type Mode = 'format' | 'encoding' | 'bytes' | 'range';
export const modes = [['encoding', 'Encoding'], ['format', 'Page format'], ['bytes', 'Bytes per value'], ['range', 'Range']] as const;

/** Bytes per value at which the scale of colours ends. */
const BYTES_DEEP = 8;

interface Props {
  layout: Layout;
  zoom: Zoom | null;
  mode: Mode;
  column: Column | null;
  zones: ZoneRun[];
  /** The columns that the last query read; null without one. */
  read: string[] | null;
  onPick: (column: string) => void;
  onLook: (segment: number) => void;
  onBack: () => void;
}

/** Places around the picture, in pixels. */
function marginsFor(width: number) {
  const scale = scaleOf();
  return { left: (width < 520 ? 74 : 132) * scale, right: 2, top: 16 * scale, bottom: 24 * scale };
}

function ofSegment(layout: Layout, zoom: Zoom): Slice[] {
  const { segment } = zoom;
  const only: Layout = { ...layout, segments: [segment], step: 1, blocks: zoom.blocks, extras: zoom.extras };
  return slices(only, 1);
}

export function Cut(props: Props) {
  const { layout, zoom, mode, column, zones, read } = props;
  const [tip, setTip] = useState<TipText | null>(null);
  const [at, setAt] = useState<{ slice: number; layer: number } | null>(null);
  const height = Math.min(Math.max(innerHeight * 0.46, 260), 1000);
  const { canvas, width } = useWidth();
  const margins = marginsFor(width);
  const room = { width: Math.max(width - margins.left - margins.right, 1), height: height - margins.top - margins.bottom };
  const parts = useMemo(() => (zoom ? ofSegment(layout, zoom) : slices(layout, slicesMax(layout.columns.length, room.width, room.height))), [layout, zoom, room.width, room.height]);
  const rects = useMemo(() => rectangles(parts, room.width, room.height), [parts, room.width, room.height]);
  const layers = useMemo(() => layersOf(rects), [rects]);
  const chosen = at ? rectAt(layers, parts, at) : null;
  const readNames = useMemo(() => (read === null ? null : new Set(read)), [read]);
  const draw = useCallback((context: CanvasRenderingContext2D) => {
    const view: View = { context, margins, room, rects, layers, parts, zoom, mode, column, zones, read: readNames };
    context.save();
    context.translate(view.margins.left, view.margins.top);
    drawAxes(view);
    drawRects(view);
    if (zoom) drawPages(view, zoom);
    if (zoom) drawZoneMarks(view, zoom.segment.rows);
    if (mode === 'range' && column) drawZones(view, column.name);
    drawEdges(view);
    if (chosen) outline(context, chosen, colour('ink'), 2);
    context.restore();
    drawLabels(view);
  }, [rects, layers, parts, zoom, mode, column, zones, readNames, chosen, room.width, room.height]);
  useDrawing(canvas, width, height, draw);

  const find = (event: PointerEvent | MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return hit(layers, event.clientX - box.left - margins.left, event.clientY - box.top - margins.top);
  };
  const moved = (event: PointerEvent) => {
    const rect = find(event);
    setTip(rect && { x: event.clientX, y: event.clientY, ...described(rect, pageUnder(rect, zoom, event, canvas.current!, margins.left, room.width)) });
  };
  const pressed = (event: KeyboardEvent) => {
    const here = at ?? { slice: 0, layer: 0 };
    const own = layers.get(parts[here.slice]!)?.filter(isPart).length ?? 0;
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-parts.length, 0], End: [parts.length, 0] };
    const move = moves[event.key];
    if (move) {
      const slice = Math.min(Math.max(here.slice + (at ? move[0] : 0), 0), parts.length - 1);
      const layer = Math.min(Math.max(here.layer + (at ? move[1] : 0), 0), Math.max(own - 1, 0));
      setAt({ slice, layer });
      const rect = rectAt(layers, parts, { slice, layer });
      if (rect?.column) props.onPick(rect.column);
    } else if (event.key === 'Enter' && !zoom) props.onLook(parts[here.slice]?.first ?? 0);
    else if (event.key === 'Escape' && zoom) props.onBack();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const clicked = (event: MouseEvent) => {
    const rect = find(event);
    if (!rect) return;
    if (rect.column) props.onPick(rect.column);
    setAt(null);
  };
  const spoken = chosen ? describedText(chosen) : '';
  return (
    <div class="cut">
      <canvas ref={canvas} style={{ height: `${height}px` }} tabIndex={0} role="application" aria-roledescription="picture"
        aria-label={`${layout.table}: ${plural(parts.length, 'segment')} from left to right, columns from top to bottom, and the other parts of their files below. Arrows move, Enter looks into a segment.`}
        onPointerMove={moved} onPointerLeave={() => setTip(null)} onClick={clicked} onKeyDown={pressed}
        onDblClick={(event) => { const rect = find(event); if (rect && !zoom) props.onLook(rect.slice.first); }} />
      <p class="hidden-text" aria-live="polite">{spoken}</p>
      <p class="soft" style={{ fontSize: '.86em' }}>
        {zoom ? 'Width: rows of the segment. Height: bytes per row. Lines part pages, marks at the bottom zones.' : 'Width: rows. Height: bytes per row. So areas are bytes. A click picks a column, a double click opens a segment.'}
        {read && ' Columns that the last query did not read are pale.'}
      </p>
      <Tip tip={tip} />
    </div>
  );
}

interface View {
  context: CanvasRenderingContext2D;
  margins: { left: number; right: number; top: number; bottom: number };
  room: { width: number; height: number };
  rects: Rect[];
  layers: Layers;
  parts: Slice[];
  zoom: Zoom | null;
  mode: Mode;
  column: Column | null;
  zones: ZoneRun[];
  read: Set<string> | null;
}

/** What arrows lead to. */
const isPart = ({ column, extras }: Rect) => column !== null || extras.length > 0;

function rectAt(layers: Layers, parts: Slice[], at: { slice: number; layer: number }): Rect | null {
  const own = layers.get(parts[at.slice]!)?.filter(isPart) ?? [];
  return own.at(-1 - at.layer) ?? null;
}

function colourOf(view: View, rect: Rect): string {
  const [extra] = rect.extras;
  if (extra) return extraColour(extra.kind);
  if (rect.block === null || rect.column === null) return rect.slice.hot ? colour('s2') : colour('pale');
  if (view.mode === 'format') return formatColour(rect.block.format);
  if (view.mode === 'encoding') return encodingColour(rect.encoding);
  if (view.mode === 'bytes') return ramp(rect.bytes / Math.max(rect.slice.rows, 1) / BYTES_DEEP);
  return view.column && shows(rect, view.column.name) ? colour('bar') : colour('pale');
}

function isRead(view: View, rect: Rect): boolean {
  const { read } = view;
  return read === null || (rect.several ?? [rect.column]).some((name) => name !== null && read.has(name));
}

function drawRects(view: View): void {
  const { context } = view;
  for (const rect of view.rects) {
    context.globalAlpha = isRead(view, rect) || view.mode === 'range' ? 1 : 0.28;
    context.fillStyle = colourOf(view, rect);
    // Whole pixels from left to right, so that neighbours leave no line between them; edges are drawn on top.
    const x = Math.round(rect.x);
    context.fillRect(x, rect.y, Math.max(Math.round(rect.x + rect.width) - x, 1), rect.height + 0.35);
  }
  context.globalAlpha = 1;
}

/** Lines between groups, and between segments where they are wide enough to be told apart. */
function drawEdges(view: View): void {
  const { context } = view;
  context.fillStyle = colour('card');
  const wide = view.room.width / view.parts.length;
  let block: unknown = null;
  for (const rect of view.rects) {
    const isEdge = rect.block !== block || rect.block === null;
    block = rect.block;
    const thick = isEdge ? 1.4 : 0.5;
    if (rect.height > 3 && wide > 2) context.fillRect(rect.x, rect.y + rect.height - thick / 2, rect.width, thick);
  }
  if (wide < 4) return;
  for (const slice of view.parts.slice(1)) {
    const first = view.layers.get(slice)?.[0];
    if (first) context.fillRect(first.x - 0.7, 0, 1.4, view.room.height);
  }
}

function drawPages(view: View, zoom: Zoom): void {
  const { context, room } = view;
  const byGroup = new Map<number, Page[]>();
  for (const page of zoom.pages) {
    const known = byGroup.get(page.group);
    if (known) known.push(page);
    else byGroup.set(page.group, [page]);
  }
  for (const [group, pages] of byGroup) {
    const own = view.rects.filter((rect) => rect.block?.group === group);
    const [top, bottom] = [Math.min(...own.map((rect) => rect.y)), Math.max(...own.map((rect) => rect.y + rect.height))];
    const found = pageSpans(pages, zoom.segment.rows, room.width);
    const isDense = found.length > room.width / 4;
    context.fillStyle = colour('card');
    context.globalAlpha = isDense ? 0.35 : 0.85;
    for (const span of found.slice(1)) context.fillRect(span.from * room.width - 0.4, top, isDense ? 0.5 : 0.9, bottom - top);
    context.globalAlpha = 1;
  }
}

/** Where zones begin, below the rows, if they are wide enough to be told apart. */
function drawZoneMarks({ context, room }: View, rows: number): void {
  const wide = (ZONE_ROWS / Math.max(rows, 1)) * room.width;
  if (wide < 3) return;
  context.fillStyle = colour('soft');
  for (let at = 0; at * ZONE_ROWS < rows; at++) context.fillRect(at * wide, room.height, 1, 3);
}

/**
 * The rows, coloured by where their zones lie in a column's range: a sweep where rows are sorted by it, stripes where they are
 * clustered, one dull colour where they are not. The column itself is strong.
 */
function drawZones(view: View, name: string): void {
  const { context, room } = view;
  const [low, high] = extent(view.zones);
  const own = new Map(view.rects.filter((rect) => shows(rect, name)).map((rect) => [rect.slice, rect]));
  for (const span of spans(view.zones, Math.floor(room.width))) {
    if (Number.isNaN(span.middle)) continue;
    context.fillStyle = ramp((span.middle - low) / (high - low || 1));
    const x = Math.round(span.from * room.width);
    const wide = Math.max(Math.round(span.to * room.width) - x, 1);
    const slice = view.parts.findLast((part) => ((part.start - view.parts[0]!.start) / rowsOf(view.parts)) * room.width <= x + wide / 2);
    const rect = slice && own.get(slice);
    const top = slice ? room.height - (slice.bytes / Math.max(slice.rows, 1) / greatest(view.parts)) * room.height : 0;
    context.globalAlpha = 0.55;
    context.fillRect(x, top, wide, room.height - top);
    context.globalAlpha = 1;
    if (rect) context.fillRect(x, rect.y, wide, Math.max(rect.height, 2));
  }
}

function rowsOf(parts: Slice[]): number {
  return parts.reduce((sum, slice) => sum + slice.rows, 0) || 1;
}

function drawAxes(view: View): void {
  const { context, room } = view;
  const most = greatest(view.parts);
  context.fillStyle = colour('soft');
  context.strokeStyle = colour('rule');
  context.textAlign = 'center';
  const rows = rowsOf(view.parts);
  for (const tick of ticks(0, rows, Math.max(Math.floor(room.width / 110), 2))) {
    const x = (tick / Math.max(rows, 1)) * room.width;
    context.fillRect(x - 0.5, room.height, 1, 4);
    const text = tick === 0 ? 'row 0' : thousands(tick);
    context.textAlign = x < 20 ? 'left' : x > room.width - 24 ? 'right' : 'center';
    context.fillText(text, Math.min(Math.max(x, 0), room.width), room.height + 14 * scaleOf());
  }
  context.textAlign = 'right';
  context.fillText(`${significant(most)} bytes per row`, room.width, -8 * scaleOf());
}

/** Names of layers at the left, where they have room; text that would overlap is left out. */
function drawLabels(view: View): void {
  const { context, margins } = view;
  const first = view.parts.find((slice) => slice.blocks.length > 0) ?? view.parts[0];
  context.textAlign = 'right';
  let free = -Infinity;
  const own = (first && view.layers.get(first)?.toSorted((a, b) => a.y - b.y)) ?? [];
  for (const rect of own) {
    const y = margins.top + rect.y + rect.height / 2;
    if (y < free + 13.5 * scaleOf() || rect.height < 2.5) continue;
    const isPicked = view.column !== null && shows(rect, view.column.name);
    context.fillStyle = isPicked ? colour('best') : rect.column === null ? colour('soft') : colour('ink');
    const name = rect.column === null ? otherNamed(rect) : named(rect);
    context.fillText(fitted(context, name, margins.left - 12), margins.left - 8, y);
    free = y;
    const detail = detailOf(view, rect);
    if (detail && rect.width > 90 && rect.height > 15 * scaleOf() && view.mode !== 'range') drawDetail(view, rect, detail, y);
  }
}

/** The name of a rectangle's column, or of the largest of several. */
function named({ column, several }: Rect): string {
  return several === null ? column ?? '' : `${column} and ${thousands(several.length - 1)} more`;
}

const KINDS: Record<Extra['kind'], string> = { footer: 'footer', zones: 'zones', index: 'index', dictionary: 'dictionary', dropped: 'dropped column' };

/** What an extra is, and of which columns. */
export function extraName({ kind, columns }: Extra): string {
  if (kind === 'index') return `index (${columns})`;
  return columns ? `${KINDS[kind]} of ${columns}` : KINDS[kind];
}

function otherNamed({ extras, slice }: Rect): string {
  const [first] = extras;
  if (!first) return slice.hot ? 'hot rows' : 'other';
  return extras.length === 1 ? extraName(first) : [...new Set(extras.map(({ kind }) => KINDS[kind]))].join(', ');
}

function detailOf(view: View, rect: Rect): string {
  if (rect.block === null) return bytes(rect.bytes);
  const what = view.mode === 'format' ? `${rect.block.format}, ${plural(rect.block.pages, 'page')}` : view.mode === 'bytes' ? `${significant(rect.bytes / Math.max(rect.slice.rows, 1))} bytes per value` : rect.encoding;
  return view.parts.length === 1 ? `${what}, ${bytes(rect.bytes)}` : what;
}

function drawDetail(view: View, rect: Rect, text: string, y: number): void {
  const { context, margins } = view;
  context.save();
  context.textAlign = 'left';
  context.fillStyle = rect.block === null || !isRead(view, rect) ? colour('ink') : isDark() ? 'rgb(20 18 16)' : 'rgb(255 255 255)';
  context.fillText(fitted(context, text, rect.width - 14), margins.left + rect.x + 7, y);
  context.restore();
}

function outline(context: CanvasRenderingContext2D, rect: Rect, style: string, width: number): void {
  context.strokeStyle = style;
  context.lineWidth = width;
  context.strokeRect(rect.x, rect.y, Math.max(rect.width, 2), Math.max(rect.height, 2));
}

function pageUnder(rect: Rect, zoom: Zoom | null, event: PointerEvent, canvas: HTMLCanvasElement, left: number, width: number): Page | null {
  if (!zoom || !rect.block) return null;
  const row = ((event.clientX - canvas.getBoundingClientRect().left - left) / width) * zoom.segment.rows;
  return zoom.pages.find((page) => page.group === rect.block!.group && row >= page.firstRow && row < page.firstRow + page.rows) ?? null;
}

function described(rect: Rect, page: Page | null): { title: string; lines: string[] } {
  const { slice, block } = rect;
  const where = slice.first === slice.last ? `segment ${slice.first}` : `segments ${slice.first} to ${slice.last}`;
  const lines = [`${where}, ${plural(slice.rows, 'row')}`];
  if (!block) {
    const each = rect.extras.length > 1 ? rect.extras.slice(0, 12).map((extra) => `${extraName(extra)}: ${bytes(extra.bytes)}`) : [];
    return { title: otherNamed(rect), lines: [...lines, bytes(rect.bytes), ...each] };
  }
  if (rect.several !== null) return { title: named(rect), lines: [...lines, `${bytes(rect.bytes)} of columns that are too thin to be drawn apart`] };
  lines.push(`${block.format} pages, ${plural(block.pages, 'page')} of ${block.columns.length === 1 ? 'its own' : `(${block.columns.join(', ')})`}`);
  lines.push(`${rect.encoding && `${rect.encoding}, `}${significant(rect.bytes / Math.max(slice.rows, 1))} bytes per value`);
  lines.push(block.columns.length === 1 ? bytes(rect.bytes) : `${bytes(rect.bytes)} by its share, ${bytes(block.bytes)} of the group`);
  if (page) lines.push(`page ${page.page}: rows ${thousands(page.firstRow)} to ${thousands(page.firstRow + page.rows - 1)}, ${bytes(page.bytes)}`);
  return { title: rect.column ?? '', lines };
}

function describedText(rect: Rect): string {
  const { title, lines } = described(rect, null);
  return `${title}: ${lines.join('; ')}`;
}
