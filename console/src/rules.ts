/**
 * The rules of charts that the page shares with the laboratory's report: which design has which colour, how numbers are written,
 * and where axes begin, end and have ticks. They are data of the report's crate, and tested on both sides with the same cases.
 */
import shared from '../../crates/freestone-report/src/charts.json';

/** Words that name a design, with the number of its colour. */
const designs: Record<string, number> = shared.designs;
/** Figures below a size have this number of decimals. */
export const decimals = shared.decimals as [number, number][];
/** From a size on, ticks are divided and get a unit; the largest size first. */
export const units = shared.units as [number, number, string][];
/** Ticks below this size are written as powers of ten. */
export const tiny = shared.tiny;
/** The number of colours of series. */
export const SERIES = shared.series;

export type Stroke = 'solid' | 'dashed' | 'dotted';

/** The number of the colour that a design has in every chart, for a label that begins with its name. */
export function colourOfDesign(label: string): number | null {
  const first = /^[A-Za-z0-9]*/.exec(label)![0];
  return Object.hasOwn(designs, first) ? designs[first]! : null;
}

/** The colour and the stroke of each series: a design has its colour, and others have what is free. */
export function strokes(labels: string[]): { colour: number; stroke: Stroke }[] {
  const known = labels.map(colourOfDesign);
  const free = Array.from({ length: shared.series }, (_, at) => at).filter((at) => !known.includes(at));
  const used = Array.from({ length: shared.series }, () => 0);
  let next = 0;
  return known.map((design) => {
    const colour = design ?? free[next++ % free.length] ?? 0;
    used[colour]! += 1;
    return { colour, stroke: shared.strokes[Math.min(used[colour]!, shared.strokes.length) - 1] as Stroke };
  });
}

/** A scale: linear from `least` to `most`, or by powers. */
export interface Axis {
  least: number;
  most: number;
  isLogarithmic: boolean;
  ticks: number[];
}

const spansDecades = (least: number, most: number) => least > 0 && most >= least * shared.decades;

/** Whether values are drawn on a logarithmic axis unless somebody wants another. */
export function spanDecades(values: Iterable<number>): boolean {
  return spansDecades(...ends(values));
}

/** An axis from 0, or a round number below negative data, to a round number above the data; or from power to power. */
export function axisOfValues(values: number[]): Axis {
  const [least, most] = ends(values);
  return spansDecades(least, most) ? axisOfPowers(least, most) : axisOfAmounts(values);
}

/** The same axis of what is drawn as lengths, which powers would belie. */
export function axisOfAmounts(values: Iterable<number>): Axis {
  const [least, most] = ends(values);
  return axisOfSteps(Math.min(least, 0), least >= 0 && most <= 0 ? 1 : Math.max(most, 0));
}

/** An axis between round numbers around the data, wherever 0 is, or between powers. */
export function axisOfRange(values: Iterable<number>, isLogarithmic: boolean): Axis {
  const [least, most] = ends(values);
  if (isLogarithmic && least > 0) return axisOfPowers(least, most);
  const room = most > least ? 0 : Math.max(Math.abs(least) / 10, 1);
  return axisOfSteps(least - room, most + room);
}

/** An axis from 0 or the least of the points to the greatest, with a tick at each point. */
export function axisOfPoints(points: number[]): Axis {
  const [least, most] = ends(points);
  const isLogarithmic = spansDecades(least, most);
  const from = isLogarithmic ? least : Math.min(least, 0);
  return { least: from, most: most > from ? most : from + 1, isLogarithmic, ticks: points };
}

/** The name of an axis, which says that it is logarithmic. */
export function axisName(label: string, { isLogarithmic }: Axis): string {
  return isLogarithmic ? `${label}${shared.logarithmic}` : label;
}

function axisOfSteps(least: number, most: number): Axis {
  const step = roundStep((most - least) / shared.ticks);
  const [first, last] = [Math.floor(least / step), Math.ceil(most / step)];
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step || 0);
  return { least: first * step || 0, most: last * step || 0, isLogarithmic: false, ticks };
}

function axisOfPowers(least: number, most: number): Axis {
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  // A power by `**` may be one bit off.
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => Number(`1e${first + at}`));
  return { least: ticks[0]!, most: ticks.at(-1)!, isLogarithmic: true, ticks };
}

/** The least and the greatest of finite values. */
function ends(values: Iterable<number>): [number, number] {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return least <= most ? [least, most] : [0, 1];
}

/** The least step, times a power of ten, that is not below `least`. */
export function roundStep(least: number): number {
  if (!(least > 0)) return 1;
  const power = Number(`1e${Math.floor(Math.log10(least))}`);
  return shared.steps.map((factor) => factor * power).find((step) => step >= least * 0.999) ?? least;
}

/** Ticks from `low` to `high`, about `count` of them, at round numbers. */
export function ticks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const step = roundStep((high - low) / Math.max(count, 1));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step || 0);
  return found;
}
