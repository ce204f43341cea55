/** The figures of a machine, gathered into curves. */

export interface Figure {
  topic: string;
  name: string;
  value: number | null;
  low: number | null;
  high: number | null;
  unit: string;
  reported: string | null;
}

export interface Curve {
  topic: string;
  /** What the x axis is. */
  x: string;
  name: string;
  unit: string;
  points: { x: number; value: number; low: number; high: number }[];
}

/** Topics whose names end in a level, not in a place on an axis. */
const SINGLE = ['host', 'cache', 'tlb', 'network'];

/** Curves of two points or more, and the figures that belong to none. */
export function gathered(figures: Figure[]): { curves: Curve[]; single: Figure[] } {
  const found = new Map<string, { curve: Curve; figures: Figure[] }>();
  const single: Figure[] = [];
  for (const figure of figures) {
    const place = SINGLE.includes(figure.topic) || figure.value === null ? null : placeOf(figure.name);
    if (!place) {
      single.push(figure);
      continue;
    }
    const key = `${figure.topic}\0${place.name}\0${place.axis}\0${figure.unit}`;
    const known = found.get(key) ?? { curve: { topic: figure.topic, name: place.name, x: place.axis, unit: figure.unit, points: [] }, figures: [] };
    known.curve.points.push({ x: place.x, value: figure.value!, low: figure.low ?? figure.value!, high: figure.high ?? figure.value! });
    known.figures.push(figure);
    found.set(key, known);
  }
  const curves: Curve[] = [];
  for (const { curve, figures: own } of found.values()) {
    if (curve.points.length > 1) curves.push({ ...curve, points: curve.points.sort((a, b) => a.x - b.x) });
    else single.push(...own);
  }
  return { curves, single };
}

/** `load, chains at once 4` is `load` over `chains at once` at 4; `random 4 KiB, depth 8` is `random 4 KiB` over `depth` at 8. */
function placeOf(name: string): { name: string; axis: string; x: number } | null {
  const found = /^(.*), ([^,]*?) (\d+(?:\.\d+)?)$/.exec(name);
  return found ? { name: found[1]!, axis: found[2]!, x: Number(found[3]) } : null;
}

/** Curves that share their axes, in charts of at most six. */
export function charts(curves: Curve[]): Curve[][] {
  const found = new Map<string, Curve[]>();
  for (const curve of curves) {
    const operation = curve.topic === 'kernel' ? curve.name.replace(/^(\w+) \S+ (\w+)$/, '$1 $2') : curve.topic === 'disk' ? curve.name.replace(/ .*/, '') : curve.name;
    const key = `${curve.topic}\0${operation}\0${curve.x}\0${curve.unit}`;
    found.set(key, [...(found.get(key) ?? []), curve]);
  }
  return [...found.values()].flatMap((group) => Array.from({ length: Math.ceil(group.length / 6) }, (_, at) => group.slice(at * 6, at * 6 + 6)));
}
