/**
 * The geometry of a table's picture. Segments lie from left to right, as wide as they have rows; the groups of columns of each
 * are stacked, as high as their bytes per row. So every area is a number of bytes, on one scale.
 */
import type { Block, Column, Layout, Page, ZoneRun } from './layout';

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
}

/** One column of a group of a slice, as a rectangle in pixels. */
export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
  slice: Slice;
  block: Block | null;
  /** The column; null for what belongs to no column: footers, zones, dictionaries and indexes. Of several, the largest. */
  column: string | null;
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
  const byOne = new Map<number, Block[]>();
  for (const block of layout.blocks) {
    const known = byOne.get(block.segment);
    if (known) known.push(block);
    else byOne.set(block.segment, [block]);
  }
  // Blocks that were read together stay together.
  const each = Math.max(Math.ceil(layout.segments.length / Math.max(max, 1) / layout.step), 1) * layout.step;
  const found: Slice[] = [];
  let start = 0;
  for (let at = 0; at < layout.segments.length; at += each) {
    const part = layout.segments.slice(at, at + each);
    const rows = part.reduce((sum, segment) => sum + segment.rows, 0);
    found.push({
      first: part[0]!.segment, last: part.at(-1)!.segment, start, rows, bytes: part.reduce((sum, segment) => sum + segment.bytes, 0),
      hot: part.every((segment) => segment.hot), blocks: merged(part.flatMap((segment) => byOne.get(segment.segment) ?? [])),
    });
    start += rows;
  }
  return found;
}

function merged(blocks: Block[]): Block[] {
  const found = new Map<string, Block>();
  for (const block of blocks) {
    const key = `${block.group}\0${block.format}\0${block.columns.join('\0')}`;
    const known = found.get(key);
    if (known) {
      known.pages += block.pages;
      known.bytes += block.bytes;
    } else found.set(key, { ...block });
  }
  return [...found.values()];
}

/** The share of each column in the bytes of a group, from the bytes of the table's columns. */
export function shares(columns: string[], known: Map<string, Column>): number[] {
  const bytes = columns.map((name) => Math.max(known.get(name)?.bytes ?? 0, 0));
  const all = bytes.reduce((sum, one) => sum + one, 0);
  return all > 0 ? bytes.map((one) => one / all) : columns.map(() => 1 / columns.length);
}

/** The greatest bytes per row of a slice: the height of the picture. */
export function greatest(all: Slice[]): number {
  return all.reduce((most, slice) => Math.max(most, slice.bytes / Math.max(slice.rows, 1)), 0) || 1;
}

/** The rectangles of slices in a picture of this size. */
export function rectangles(all: Slice[], columns: Column[], width: number, height: number): Rect[] {
  const known = new Map(columns.map((column) => [column.name, column]));
  const total = all.reduce((sum, slice) => sum + slice.rows, 0) || 1;
  const origin = all[0]?.start ?? 0;
  const perByte = height / greatest(all);
  const found: Rect[] = [];
  for (const slice of all) {
    const x = ((slice.start - origin) / total) * width;
    const wide = (slice.rows / total) * width;
    const perRow = perByte / Math.max(slice.rows, 1);
    let y = height;
    let thin: Rect | null = null;
    let most = 0;
    const put = (bytes: number, block: Block | null, column: string | null) => {
      const high = bytes * perRow;
      y -= high;
      const isThin = column !== null && high < LAYER_MIN;
      if (isThin && thin && thin.height < LAYER_MIN) {
        thin.several = [column, ...(thin.several ?? [thin.column!])];
        if (bytes > most) [most, thin.column, thin.block] = [bytes, column, block];
        thin.y = y;
        thin.height += high;
        thin.bytes += bytes;
        return;
      }
      const rect: Rect = { x, y, width: wide, height: high, slice, block, column, several: null, bytes };
      [thin, most] = [isThin ? rect : null, bytes];
      found.push(rect);
    };
    const inPages = slice.blocks.reduce((sum, block) => sum + block.bytes, 0);
    put(Math.max(slice.bytes - inPages, 0), null, null);
    for (const block of slice.blocks.toReversed()) {
      const parts = shares(block.columns, known);
      for (let at = block.columns.length - 1; at >= 0; at--) put(block.bytes * parts[at]!, block, block.columns[at]!);
    }
  }
  return found;
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
