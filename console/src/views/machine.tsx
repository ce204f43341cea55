/** What calibration measured of the machine: figures, and curves with their intervals. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ask } from '../ask';
import { scaleOf } from '../canvas';
import { ChartView, type ChartKit } from '../chartview';
import { bytes, significant, thousands, tick } from '../formats';
import { colour, series } from '../look';
import { Plain, Problem } from '../parts';
import { charts, gathered, type Curve, type Figure } from '../profile';
import { axisName, axisOfPoints, axisOfValues, strokes, type Axis } from '../rules';
import { place } from '../state';

const COLUMNS = ['topic', 'name', 'value', 'low', 'high', 'unit', 'reported'];
const TOPICS: Record<string, string> = { memory: 'Memory', disk: 'Disk', engine: 'Engine', page: 'Pages', kernel: 'Decoding and testing values' };

export default function Machine() {
  const [figures, setFigures] = useState<Figure[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const load = () => {
    setError(null);
    ask('SELECT * FROM freestone_profile()', COLUMNS).then((rows) => setFigures(rows as unknown as Figure[]), setError);
  };
  const isShown = place.value.view === 'machine';
  useEffect(() => { if (isShown && !figures) load(); }, [isShown]);
  const found = useMemo(() => (figures ? gathered(figures) : null), [figures]);
  const assumed = figures?.some((figure) => figure.name === 'processor (assumed)');
  return (
    <div class="scroll">
      <div class="sheet">
        {error && <Problem error={error} />}
        {figures && <Host figures={figures} onReload={load} />}
        {assumed && <p class="problem">This machine has not been calibrated: the figures are those of a typical one. <code>freestone calibrate</code> measures it, in under a minute.</p>}
        {found && <Curves curves={found.curves} />}
        {found && <Figures figures={found.single} />}
      </div>
    </div>
  );
}

function Host({ figures, onReload }: { figures: Figure[]; onReload: () => void }) {
  const of = (topic: string, start: string) => figures.find((figure) => figure.topic === topic && figure.name.startsWith(start));
  const processor = of('host', 'processor');
  const memory = of('host', 'memory');
  const spread = of('host', 'spread');
  const caches = figures.filter((figure) => figure.topic === 'cache' && / size/.test(figure.name));
  return (
    <section class="card">
      <header><h2>This machine</h2><span class="soft">{processor?.reported}</span><span class="grow" /><button onClick={onReload}>Read again</button></header>
      <div class="tiles">
        {processor && <div><b>{thousands(processor.value ?? 0)}</b><span>threads</span></div>}
        {memory && <div><b>{bytes(memory.value ?? 0)}</b><span>memory</span></div>}
        {caches.map((cache) => <div key={cache.name}><b>{cache.value === null ? 'not found' : binary(cache.value)}</b><span>{cache.name.replace(/ size.*/, '')} cache{cache.reported && `; ${binary(Number(cache.reported))} as reported`}</span></div>)}
        {spread && spread.value !== null && <div><b>{significant(spread.value)}</b><span>spread of a fixed scan, 0 on a quiet machine</span></div>}
      </div>
    </section>
  );
}

function binary(value: number): string {
  return value >= 1048576 ? `${significant(value / 1048576)} MiB` : `${significant(value / 1024)} KiB`;
}

function Curves({ curves }: { curves: Curve[] }) {
  const [open, setOpen] = useState<string[]>(['memory', 'disk']);
  return (
    <>
      {Object.entries(TOPICS).map(([topic, title]) => {
        const own = charts(curves.filter((curve) => curve.topic === topic));
        if (own.length === 0) return null;
        const isOpen = open.includes(topic);
        return (
          <section class="card" key={topic}>
            <header>
              <h2>{title}</h2><span class="soft">{thousands(own.length)} {own.length === 1 ? 'chart' : 'charts'}; thin lines are the ends of the interval that has nine of ten repetitions</span><span class="grow" />
              <button aria-expanded={isOpen} onClick={() => setOpen(isOpen ? open.filter((each) => each !== topic) : [...open, topic])}>{isOpen ? 'Close' : 'Show'}</button>
            </header>
            {isOpen && <div class="curves">{own.map((group) => <CurveChart key={`${group[0]!.name}${group.length}`} group={group} />)}</div>}
          </section>
        );
      })}
    </>
  );
}

function titleOf(group: Curve[]): string {
  const [first] = group;
  if (group.length === 1) return first!.name;
  return first!.topic === 'kernel' ? first!.name.replace(/^(\w+) \S+ (\w+)$/, '$1 pages, $2') : first!.name.replace(/ .*/, '');
}

const seriesName = (curve: Curve) => (curve.topic === 'kernel' ? curve.name.replace(/^\w+ (\S+) \w+$/, '$1') : curve.name.replace(/^(sequential|random) /, ''));

/** The axes of curves, by the rules of the laboratory's report. */
function axesOf(group: Curve[]): { x: Axis; y: Axis } {
  const points = group.flatMap((curve) => curve.points);
  const x = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  return { x: axisOfPoints(x), y: axisOfValues(points.flatMap(({ value, low, high }) => [value, low, high])) };
}

function CurveChart({ group }: { group: Curve[] }) {
  const title = titleOf(group);
  const axes = useMemo(() => axesOf(group), [group]);
  const option = useMemo(() => (kit: ChartKit) => optionOf(kit, group, axes), [group, axes]);
  return (
    <figure>
      <figcaption><b>{title}</b> <span class="soft">{axisName(group[0]!.unit || 'factor', axes.y)}, by {axisName(group[0]!.x, axes.x)}</span></figcaption>
      <ChartView label={`${title}: ${group.map((curve) => `${seriesName(curve)} from ${significant(curve.points[0]!.value)} to ${significant(curve.points.at(-1)!.value)} ${curve.unit}`).join('; ')}`} option={option} height={230 * scaleOf()} />
    </figure>
  );
}

function optionOf(kit: ChartKit, group: Curve[], axes: { x: Axis; y: Axis }): ReturnType<ChartKit['base']> {
  const names = group.map(seriesName);
  const lines = strokes(names);
  return {
    ...kit.base(),
    grid: { left: 52 * scaleOf(), right: 26 * scaleOf(), top: (group.length > 1 ? 40 : 14) * scaleOf(), bottom: 26 * scaleOf() },
    legend: group.length > 1 ? { type: 'plain', top: 0, left: 0, itemWidth: 14, itemHeight: 8, itemGap: 8, textStyle: { color: colour('soft'), fontSize: 11 * scaleOf() } } : undefined,
    xAxis: kit.drawn(axes.x, true, /bytes/.test(group[0]!.x) ? bytes : tick),
    yAxis: kit.drawn(axes.y),
    series: group.flatMap((curve, at) => [
      ...(['low', 'high'] as const).map((end) => ({
        type: 'line' as const, name: names[at], data: curve.points.map((point) => [point.x, point[end]]), showSymbol: false, silent: true,
        color: series(lines[at]!.colour), lineStyle: { width: 1, opacity: 0.4 }, tooltip: { show: false },
      })),
      {
        type: 'line' as const, name: names[at], data: curve.points.map((point) => [point.x, point.value]), symbolSize: 5, color: series(lines[at]!.colour),
        lineStyle: { width: 1.8, type: lines[at]!.stroke },
      },
    ]),
  };
}

function Figures({ figures }: { figures: Figure[] }) {
  const shown = figures.filter((figure) => figure.topic !== 'host');
  return (
    <section class="card">
      <header><h2>Figures</h2></header>
      <Plain caption="Figures of the machine" head={['topic', 'figure', 'value', 'unit', 'interval', 'as reported']} numbers={[2]}
        rows={shown.map((figure) => [
          figure.topic, figure.name, figure.value === null ? 'not found' : significant(figure.value), figure.unit,
          figure.low === null || figure.low === figure.high ? '' : `${significant(figure.low)} to ${significant(figure.high ?? figure.low)}`, figure.reported ?? '',
        ])} />
    </section>
  );
}
