/** A canvas as wide as its place, drawn again when its size, the theme or what it shows changes. */
import type { RefObject } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { themed } from './look';

export type Draw = (context: CanvasRenderingContext2D) => void;

/** A canvas and its width. It is measured when the canvas is put into the page: a key may be pressed before the next frame. */
export function useWidth(): { canvas: RefObject<HTMLCanvasElement | null>; width: number } {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = canvas.current!;
    setWidth(Math.floor(element.getBoundingClientRect().width));
    const observer = new ResizeObserver(([entry]) => { if (entry) setWidth(Math.floor(entry.contentRect.width)); });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { canvas, width };
}

export function useDrawing(canvas: RefObject<HTMLCanvasElement | null>, width: number, height: number, draw: Draw): void {
  const version = themed.value;
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context || width === 0) return;
    const ratio = Math.min(devicePixelRatio || 1, 3);
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const { fontFamily, fontSize } = getComputedStyle(document.body);
    context.font = `${(parseFloat(fontSize) * 0.82).toFixed(1)}px ${fontFamily}`;
    context.textBaseline = 'middle';
    draw(context);
  }, [draw, width, height, version]);
}

/** Pixels of a canvas per pixel of a usual screen, by the size of the page's text. */
export function scaleOf(): number {
  return parseFloat(getComputedStyle(document.body).fontSize) / 14;
}

/** A text that fits a width, with its end cut. */
export function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? '' : `${text.slice(0, low)}…`;
}

export interface TipText {
  x: number;
  y: number;
  title: string;
  lines: string[];
}

/** What the pointer is on. */
export function Tip({ tip }: { tip: TipText | null }) {
  if (!tip) return null;
  const isRight = tip.x > innerWidth - 300;
  const isLow = tip.y > innerHeight - 160;
  const style = {
    [isRight ? 'right' : 'left']: `${isRight ? innerWidth - tip.x + 12 : tip.x + 14}px`,
    [isLow ? 'bottom' : 'top']: `${isLow ? innerHeight - tip.y + 12 : tip.y + 14}px`,
  };
  return <div class="tip" style={style} aria-hidden="true"><b>{tip.title}</b>{tip.lines.map((line) => <div key={line}>{line}</div>)}</div>;
}
