/**
 * The geometry of a table's picture. Segments lie from left to right, as wide as they have rows; the groups of columns of each
 * are stacked, as high as their bytes per row. So every area is a number of bytes, on one scale.
 */
import type { Block, Extra, Layout, Page, ZoneRun } from './layout';

/** Neighbouring segments that are drawn as one, because a screen has fewer pixels than there are segments. */
export interface Slice {
  first: number;
  last: number;
  /** The first row of the table that is in it. */
  start: number;
  rows: number;
  bytes: number;
  hot: boolean;
  blocks: Block[];
  /** The other parts of the file. */
  extras: Extra[];
}

/** One column of a group of a slice, as a rectangle in pixels. */
export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
  slice: Slice;
  block: Block | null;
  /** The column; null for hot rows and for what is no page of a column. Of several, the largest. */
  column: string | null;
  /** The encoding of the column there. */
  encoding: string;
  /** Parts of the file that are no pages: one, or several that are each too thin to be seen. */
  extras: Extra[];
  /** All columns of a rectangle that stands for several, because each of them is too thin to be seen. */
  several: string[] | null;
  /** Bytes that the area stands for. */
  bytes: number;
}

/** Rectangles of a picture. */
export const RECTANGLES_MAX = 100_000;
/** Columns that are thinner than this are drawn together, in pixels. */
const LAYER_MIN = 0.75;

/** Slices of a picture of this size: no more than it has pixels, and so few that its rectangles are bounded. */
export function slicesMax(columns: number, width: number, height: number): number {
  const layers = Math.min(columns, height / LAYER_MIN) + 1;
  return Math.max(Math.min(Math.floor(width), Math.floor(RECTANGLES_MAX / layers)), 1);
}

/** All segments as at most `max` slices. */
export function slices(layout: Layout, max: number): Slice[] {
  const [blocks, extras] = [bySegment(layout.blocks), bySegment(layout.extras)];
  // Blocks that were read together stay together.
  const each = Math.max(Math.ceil(layout.segments.length / Math.max(max, 1) / layout.step), 1) * layout.step;
  const found: Slice[] = [];
  let start = 0;
  for (let at = 0; at < layout.segments.length; at += each) {
    const part = layout.segments.slice(at, at + each);
    const rows = part.reduce((sum, segment) => sum + segment.rows, 0);
    found.push({
      first: part[0]!.segment, last: part.at(-1)!.segment, start, rows, bytes: part.reduce((sum, segment) => sum + segment.bytes, 0),
      hot: part.every((segment) => segment.hot), blocks: merged(part.flatMap(({ segment }) => blocks.get(segment) ?? [])),
      extras: mergedExtras(part.flatMap(({ segment }) => extras.get(segment) ?? [])),
    });
    start += rows;
  }
  return found;
}

function bySegment<T extends { segment: number }>(all: T[]): Map<number, T[]> {
  const found = new Map<number, T[]>();
  for (const each of all) {
    const known = found.get(each.segment);
    if (known) known.push(each);
    else found.set(each.segment, [each]);
  }
  return found;
}

/** Blocks of the same columns as one. A column has the encoding in which it has the most bytes of one block. */
function merged(blocks: Block[]): Block[] {
  const found = new Map<string, { block: Block; most: number[] }>();
  for (const block of blocks) {
    const key = `${block.group}\0${block.format}\0${block.columns.join('\0')}`;
    const known = found.get(key);
    if (!known) {
      found.set(key, { block: { ...block, own: block.own.map((own) => ({ ...own })) }, most: block.own.map(({ bytes }) => bytes) });
      continue;
    }
    known.block.pages += block.pages;
    known.block.bytes += block.bytes;
    block.own.forEach(({ bytes, encoding }, at) => {
      const own = known.block.own[at]!;
      own.bytes += bytes;
      if (bytes > known.most[at]!) [known.most[at], own.encoding] = [bytes, encoding];
    });
  }
  return [...found.values()].map(({ block }) => block);
}

/** From bottom to top. */
export const EXTRAS = ['footer', 'zones', 'index', 'dictionary', 'dropped'] as const;

/** Extras of one kind and the same columns as one, from bottom to top. */
export function mergedExtras(extras: Extra[]): Extra[] {
  const found = new Map<string, Extra>();
  for (const extra of extras) {
    const key = `${extra.kind}\0${extra.columns}`;
    const known = found.get(key);
    if (known) known.bytes += extra.bytes;
    else found.set(key, { ...extra });
  }
  return [...found.values()].sort((a, b) => EXTRAS.indexOf(a.kind) - EXTRAS.indexOf(b.kind));
}

/** The greatest bytes per row of a slice: the height of the picture. */
export function greatest(all: Slice[]): number {
  return all.reduce((most, slice) => Math.max(most, slice.bytes / Math.max(slice.rows, 1)), 0) || 1;
}

/** The rectangles of slices in a picture of this size. */
export function rectangles(all: Slice[], width: number, height: number): Rect[] {
  const total = all.reduce((sum, slice) => sum + slice.rows, 0) || 1;
  const origin = all[0]?.start ?? 0;
  const perByte = height / greatest(all);
  const found: Rect[] = [];
  for (const slice of all) {
    const pile = new Pile(slice, ((slice.start - origin) / total) * width, (slice.rows / total) * width, height, perByte / Math.max(slice.rows, 1));
    const known = slice.blocks.reduce((sum, block) => sum + block.bytes, 0) + slice.extras.reduce((sum, extra) => sum + extra.bytes, 0);
    // Hot rows, and whatever no function tells.
    if (slice.bytes - known > 0 || slice.extras.length === 0) pile.rest(Math.max(slice.bytes - known, 0));
    for (const extra of slice.extras) pile.extra(extra);
    for (const block of slice.blocks.toReversed()) {
      const shared = block.own.reduce((sum, own) => sum + own.bytes, 0) || 1;
      // The bytes of a block are those of its pages, whatever its columns say.
      for (let at = block.columns.length - 1; at >= 0; at--) pile.column(block, at, (block.own[at]!.bytes / shared) * block.bytes);
    }
    found.push(...pile.rects);
  }
  return found;
}

/** The rectangles of one slice, as they are piled up. Neighbours that are too thin to be seen are one. */
class Pile {
  readonly rects: Rect[] = [];
  private y: number;
  /** The bytes of the largest column of the last rectangle. */
  private most = 0;

  constructor(private readonly slice: Slice, private readonly x: number, private readonly width: number, height: number, private readonly perByte: number) {
    this.y = height;
  }

  private put(bytes: number, part: Partial<Rect>): void {
    const height = bytes * this.perByte;
    this.y -= height;
    this.most = bytes;
    this.rects.push({ x: this.x, y: this.y, width: this.width, height, slice: this.slice, block: null, column: null, encoding: '', extras: [], several: null, bytes, ...part });
  }

  /** The last rectangle, if it and one more of these bytes are too thin. */
  private thin(bytes: number): Rect | null {
    const last = this.rects.at(-1);
    return last && last.height < LAYER_MIN && bytes * this.perByte < LAYER_MIN ? last : null;
  }

  private grow(rect: Rect, bytes: number): void {
    this.y -= bytes * this.perByte;
    rect.y = this.y;
    rect.height += bytes * this.perByte;
    rect.bytes += bytes;
  }

  rest(bytes: number): void {
    this.put(bytes, {});
  }

  extra(extra: Extra): void {
    const last = this.thin(extra.bytes);
    if (!last || last.extras.length === 0) return this.put(extra.bytes, { extras: [extra] });
    last.extras.push(extra);
    this.grow(last, extra.bytes);
  }

  column(block: Block, at: number, bytes: number): void {
    const [column, { encoding }] = [block.columns[at]!, block.own[at]!];
    const last = this.thin(bytes);
    if (!last || last.column === null) return this.put(bytes, { block, column, encoding });
    last.several = [column, ...(last.several ?? [last.column])];
    if (bytes > this.most) {
      this.most = bytes;
      Object.assign(last, { column, block, encoding });
    }
    this.grow(last, bytes);
  }
}

/** The rectangles of each slice, from bottom to top. */
export type Layers = Map<Slice, Rect[]>;

export function layersOf(rects: Rect[]): Layers {
  const found: Layers = new Map();
  for (const rect of rects) {
    const known = found.get(rect.slice);
    if (known) known.push(rect);
    else found.set(rect.slice, [rect]);
  }
  return found;
}

/** The rectangle at a place. */
export function hit(layers: Layers, x: number, y: number): Rect | null {
  for (const [, own] of layers) {
    const [first] = own;
    if (first && x >= first.x && x < first.x + first.width) return own.find((rect) => y >= rect.y && y < rect.y + rect.height) ?? null;
  }
  return null;
}

/** Whether a rectangle stands for a column, alone or with others. */
export function shows(rect: Rect, column: string): boolean {
  return rect.several === null ? rect.column === column : rect.several.includes(column);
}

/** Parts of a picture's width, each at least about a pixel wide. */
export interface Span {
  from: number;
  to: number;
  low: number;
  high: number;
  lowText: string;
  highText: string;
  /** The mean of the ranges' middles. */
  middle: number;
  zones: number;
  first: ZoneRun;
}

/** Zones as spans of rows from 0 to 1, at most `max` of them. Work and answer are bounded by the number of runs. */
export function spans(runs: ZoneRun[], max: number): Span[] {
  const rows = runs.reduce((sum, run) => sum + run.rows, 0) || 1;
  const found: Span[] = [];
  let at = 0;
  let weight = 0;
  for (const run of runs) {
    const from = at / rows;
    at += run.rows;
    const last = found.at(-1);
    const middle = (run.low + run.high) / 2;
    // A run joins the span before it if both are in the same part of the width.
    if (last && Math.floor(last.from * max) === Math.floor(from * max)) {
      last.to = at / rows;
      last.zones += run.zones;
      if (!Number.isNaN(run.low) && !(run.low >= last.low)) [last.low, last.lowText] = [run.low, run.lowText];
      if (!Number.isNaN(run.high) && !(run.high <= last.high)) [last.high, last.highText] = [run.high, run.highText];
      if (Number.isNaN(last.middle)) last.middle = middle;
      else if (!Number.isNaN(middle)) last.middle = (last.middle * weight + middle * run.rows) / (weight + run.rows);
      weight += run.rows;
    } else {
      found.push({ from, to: at / rows, low: run.low, high: run.high, lowText: run.lowText, highText: run.highText, middle, zones: run.zones, first: run });
      weight = run.rows;
    }
  }
  return found;
}

/** The lowest and the highest of all ranges. */
export function extent(all: { low: number; high: number }[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const each of all) {
    if (each.low < low) low = each.low;
    if (each.high > high) high = each.high;
  }
  return low <= high ? [low, high] : [0, 1];
}

/**
 * How well the order of rows follows a column: the mean share of the column's whole range that a zone does not cover. 1: every
 * zone has one value; 0: every zone has all.
 */
export function clustering(runs: ZoneRun[]): number | null {
  const [low, high] = extent(runs);
  const known = runs.filter((run) => run.high >= run.low);
  if (known.length === 0 || high === low) return null;
  const covered = known.reduce((sum, run) => sum + (run.high - run.low) / (high - low), 0);
  return 1 - covered / known.length;
}

/** The pages of a group as parts of its width, at most about one per pixel. */
export interface PageSpan {
  from: number;
  to: number;
  pages: Page[];
}

export function pageSpans(pages: Page[], rows: number, width: number): PageSpan[] {
  const found: PageSpan[] = [];
  for (const page of pages) {
    const from = page.firstRow / Math.max(rows, 1);
    const to = (page.firstRow + page.rows) / Math.max(rows, 1);
    const last = found.at(-1);
    if (last && Math.floor(last.from * width) === Math.floor(from * width)) {
      last.to = Math.max(last.to, to);
      last.pages.push(page);
    } else found.push({ from, to, pages: [page] });
  }
  return found;
}
