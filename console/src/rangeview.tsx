/** The ranges of a column's zones over the rows: a diagonal where it is sorted, steps where it is clustered, a wall where not. */
import { useCallback, useMemo, useState } from 'preact/hooks';
import { fitted, scaleOf, Tip, useDrawing, useWidth, type TipText } from './canvas';
import { extent, spans, type Span } from './cut';
import { plural, tick } from './formats';
import { ticks } from './rules';
import type { Column, ZoneRun } from './layout';
import { colour, ramp } from './look';

/** The height of the picture in pixels: a part of the window. */
const heightOf = () => Math.round(Math.min(Math.max(innerHeight * 0.17, 160), 380));

function marginsFor(width: number) {
  return { left: (width < 520 ? 74 : 132) * scaleOf(), right: 2, top: 8, bottom: 8 };
}

export function Ranges({ zones, column }: { zones: ZoneRun[]; column: Column }) {
  const [tip, setTip] = useState<TipText | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const height = heightOf();
  const { canvas, width } = useWidth();
  const margins = marginsFor(width);
  const room = { width: Math.max(width - margins.left - margins.right, 1), height: height - margins.top - margins.bottom };
  const shown = useMemo(() => spans(zones, room.width), [zones, room.width]);
  const chosen = at === null ? null : shown[Math.min(at, shown.length - 1)] ?? null;
  const draw = useCallback((context: CanvasRenderingContext2D) => {
    const [low, high] = extent(shown);
    const y = (value: number) => margins.top + room.height - ((value - low) / (high - low || 1)) * room.height;
    drawScale(context, column, zones, [low, high], margins, room, y);
    for (const span of shown) {
      if (Number.isNaN(span.low)) continue;
      const [top, bottom] = [y(span.high), y(span.low)];
      context.fillStyle = ramp((span.middle - low) / (high - low || 1));
      context.fillRect(margins.left + span.from * room.width, Math.min(top, bottom - 1.5), Math.max((span.to - span.from) * room.width - (shown.length < room.width / 4 ? 0.8 : 0), 0.8), Math.max(bottom - top, 1.5));
    }
    if (chosen) {
      context.strokeStyle = colour('ink');
      context.lineWidth = 2;
      context.strokeRect(margins.left + chosen.from * room.width, margins.top, Math.max((chosen.to - chosen.from) * room.width, 3), room.height);
    }
  }, [shown, zones, column, chosen, room.width, room.height]);
  useDrawing(canvas, width, height, draw);
  const moved = (event: PointerEvent) => {
    const x = (event.clientX - canvas.current!.getBoundingClientRect().left - margins.left) / room.width;
    const span = shown.find((each) => x >= each.from && x < each.to);
    setTip(span ? { x: event.clientX, y: event.clientY, title: `${column.name}: ${span.lowText} to ${span.highText}`, lines: [placeOf(span)] } : null);
  };
  const pressed = (event: KeyboardEvent) => {
    const last = shown.length - 1;
    const moves: Record<string, number> = { ArrowLeft: (at ?? 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last };
    const next = moves[event.key];
    if (next !== undefined) setAt(Math.min(Math.max(next, 0), Math.max(last, 0)));
    else if (event.key === 'Escape' && at !== null) setAt(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const covered = zones.length > 0 ? `${plural(zones.reduce((sum, run) => sum + run.zones, 0), 'zone')}, from ${column.min ?? 'NULL'} to ${column.max ?? 'NULL'}` : '';
  return (
    <div class="ranges">
      <canvas ref={canvas} style={{ height: `${height}px` }} tabIndex={0} role="application" aria-roledescription="picture" onKeyDown={pressed}
        aria-label={`Ranges of the zones of ${column.name}: ${covered}. Arrows move from zone to zone.`} onPointerMove={moved} onPointerLeave={() => setTip(null)} />
      <p class="soft" aria-live="polite">{chosen && `${placeOf(chosen)}, ${chosen.lowText} to ${chosen.highText}`}</p>
      <Tip tip={tip} />
    </div>
  );
}

function placeOf({ first, zones }: Span): string {
  return `segment ${first.segment}, from zone ${first.zone}: ${plural(zones, 'zone')}`;
}

function drawScale(
  context: CanvasRenderingContext2D, column: Column, zones: ZoneRun[], [low, high]: [number, number],
  margins: { left: number; top: number }, room: { width: number; height: number }, y: (value: number) => number,
): void {
  context.textAlign = 'right';
  const put = (text: string, at: number) => {
    context.fillStyle = colour('rule');
    context.fillRect(margins.left, y(at), room.width, 1);
    context.fillStyle = colour('soft');
    context.fillText(fitted(context, text, margins.left - 12), margins.left - 8, Math.min(Math.max(y(at), margins.top), margins.top + room.height));
  };
  const isTime = /^(DATE|TIMESTAMP)/i.test(column.type);
  if (/INT|DECIMAL|REAL|DOUBLE|FLOAT/i.test(column.type)) {
    for (const at of ticks(low, high, 4)) put(tick(at), at);
  } else if (isTime && high > low) {
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const at = low + (high - low) * share;
      put(new Date(at).toISOString().slice(0, high - low > 3 * 86_400_000 ? 10 : 16).replace('T', ' '), at);
    }
  } else {
    const known = zones.filter((run) => !Number.isNaN(run.low));
    const least = known.find((run) => run.low === low);
    const most = known.find((run) => run.high === high);
    if (least) put(least.lowText, low);
    if (most && high > low) put(most.highText, high);
  }
}

