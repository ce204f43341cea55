/**
 * Scrolling over more rows than an element can be high. Browsers cut elements at some ten million pixels; above that, the bar
 * stands for a share of the rows, and wheel and keys still move by rows.
 */

export const ELEMENT_MAX = 8_000_000;

/** Where the rows are (pixels from the first row's top) when the bar is at `bar`. */
export function fromBar(bar: number, rows: number, view: number): number {
  const height = Math.min(rows, ELEMENT_MAX);
  const room = height - view;
  return rows <= ELEMENT_MAX || room <= 0 ? bar : (bar / room) * (rows - view);
}

/** Where the bar is when the rows are at `top`. */
export function toBar(top: number, rows: number, view: number): number {
  const height = Math.min(rows, ELEMENT_MAX);
  const room = rows - view;
  return rows <= ELEMENT_MAX || room <= 0 ? top : (top / room) * (height - view);
}

/** The visible columns: from the first whose right end is past `left`, to the last that begins before `left + width`. */
export function visible(ends: number[], left: number, width: number): [number, number] {
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle]! <= left) low = middle + 1;
    else high = middle;
  }
  let last = low;
  while (last < ends.length && (last === 0 ? 0 : ends[last - 1]!) < left + width) last += 1;
  return [low, last];
}
