/** Which plot suits a result, and its points. */
import type { Field } from 'apache-arrow';
import { cell, kindOf, numeric } from './cells';
import type { Statement } from './run';

export type PlotKind = 'line' | 'bar' | 'scatter' | 'histogram';

export interface PlotChoice {
  kind: PlotKind;
  /** Columns by position; -1 for the row's number. */
  x: number;
  y: number[];
  /** Whether the y axis is logarithmic; by the values unless somebody chose. */
  isLogarithmic?: boolean;
}

/** Points that are drawn; of more rows, every n-th. */
export const POINTS_MAX = 20_000;
export const BARS_MAX = 200;

/** A choice by the columns' types: times become lines, texts bars, two numbers points, one number a histogram. */
export function choose(fields: Field[], rows: number): PlotChoice | null {
  const kinds = fields.map((field) => kindOf(field.type));
  const numbers = kinds.flatMap((kind, at) => (kind === 'number' ? [at] : []));
  const time = kinds.indexOf('time');
  const text = kinds.findIndex((kind) => kind === 'text' || kind === 'bool');
  if (numbers.length === 0) return null;
  const measures = numbers.filter((at) => isMeasure(fields[at]!));
  const best = measures.length > 0 ? measures : numbers;
  if (time >= 0) return { kind: 'line', x: time, y: best.slice(0, 1) };
  if (text >= 0) return { kind: 'bar', x: text, y: best.slice(0, 1) };
  if (numbers.length === 1) return { kind: 'histogram', x: numbers[0]!, y: [] };
  if (rows <= 40) return { kind: 'bar', x: numbers[0]!, y: [numbers[1]!] };
  return { kind: 'scatter', x: numbers[0]!, y: [numbers[1]!] };
}

/** Whether a column of numbers counts or measures something. Keys and places do not. */
function isMeasure(field: Field): boolean {
  return !/(^|_)(id|key|no|nr|row|number|year|month|day)$|(id|key|number)$/i.test(field.name);
}

/** Whether numbers never fall: a line over others would run back and forth. */
export function isOrdered(values: number[]): boolean {
  return values.every((value, at) => at === 0 || !(value < values[at - 1]!));
}

/** The step between the rows that are drawn. */
export function stepOf(rows: number, max: number): number {
  return Math.max(Math.ceil(rows / max), 1);
}

export function valuesOf(statement: Statement, column: number, step: number, max: number): number[] {
  const found: number[] = [];
  for (let row = 0; row < statement.rows.value && found.length < max; row += step) {
    const place = statement.locate(row);
    if (!place) break;
    found.push(column < 0 ? row + 1 : numeric(place[0].data.children[column]!, place[1]));
  }
  return found;
}

export function textsOf(statement: Statement, column: number, step: number, max: number): string[] {
  const field = statement.schema.value?.fields[column] ?? null;
  const found: string[] = [];
  for (let row = 0; row < statement.rows.value && found.length < max; row += step) {
    const place = statement.locate(row);
    if (!place) break;
    found.push(column < 0 ? String(row + 1) : cell(place[0].data.children[column]!, place[1], field, 40)?.text ?? 'NULL');
  }
  return found;
}

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Counts of values in equal ranges. NaN is left out. */
export function bins(values: Iterable<number>, number: number): Bin[] {
  const known = [...values].filter((value) => Number.isFinite(value));
  if (known.length === 0) return [];
  let [low, high] = [Infinity, -Infinity];
  for (const value of known) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low === high) return [{ from: low, to: high, count: known.length }];
  const width = (high - low) / number;
  const found = Array.from({ length: number }, (_, at) => ({ from: low + at * width, to: low + (at + 1) * width, count: 0 }));
  for (const value of known) found[Math.min(Math.floor((value - low) / width), number - 1)]!.count += 1;
  return found;
}
