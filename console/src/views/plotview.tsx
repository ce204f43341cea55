/** A result as a plot, chosen from its types and changeable. */
import { useMemo, useState } from 'preact/hooks';
import { scaleOf } from '../canvas';
import { ChartView, type ChartKit } from '../chartview';
import { kindOf } from '../cells';
import { thousands, tick } from '../formats';
import { series } from '../look';
import { BARS_MAX, bins, choose, isOrdered, POINTS_MAX, stepOf, textsOf, valuesOf, type PlotChoice, type PlotKind } from '../plot';
import { Segmented } from '../parts';
import { axisName, axisOfAmounts, axisOfRange, colourOfDesign, spanDecades, strokes } from '../rules';
import type { Statement } from '../run';

const KINDS: [PlotKind, string][] = [['line', 'Line'], ['bar', 'Bars'], ['scatter', 'Points'], ['histogram', 'Histogram']];

const NOTHING: Drawn = { x: [], y: [], names: [] };

export function PlotView({ statement }: { statement: Statement }) {
  const fields = statement.schema.value?.fields ?? [];
  const rows = statement.rows.value;
  const usual = useMemo(() => usualChoice(statement), [statement, rows > 0]);
  const [changed, setChanged] = useState<PlotChoice | null>(null);
  const choice = changed ?? usual;
  const drawn = useMemo(() => (choice && choice.kind !== 'histogram' ? drawnOf(statement, choice) : NOTHING), [statement, choice, rows]);
  const option = useMemo(() => (kit: ChartKit) => (choice ? optionOf(kit, statement, choice, drawn) : kit.base()), [statement, choice, drawn, rows]);
  if (!choice) return <p class="empty"><b>Nothing to plot</b>A plot needs a column of numbers.</p>;
  const numbers = fields.flatMap((field, at) => (kindOf(field.type) === 'number' ? [at] : []));
  const change = (part: Partial<PlotChoice>) => setChanged({ ...choice, ...part });
  const step = stepOf(rows, choice.kind === 'bar' ? BARS_MAX : POINTS_MAX);
  return (
    <div class="plot">
      <div class="bar">
        <Segmented label="Kind of plot" value={choice.kind} options={KINDS} onChange={(kind) => change(ofKind(kind, choice, numbers))} />
        <label class="row soft">{choice.kind === 'histogram' ? 'of' : 'x'}
          <select value={choice.x} onChange={(event) => change({ x: Number(event.currentTarget.value) })}>
            {choice.kind !== 'histogram' && <option value={-1}>row number</option>}
            {fields.map((field, at) => (choice.kind === 'histogram' && !numbers.includes(at) ? null : <option key={at} value={at}>{field.name}</option>))}
          </select>
        </label>
        {choice.kind !== 'histogram' && numbers.slice(0, 12).map((at) => (
          <label key={at} class="row soft">
            <input type="checkbox" checked={choice.y.includes(at)}
              onChange={(event) => change({ y: event.currentTarget.checked ? [...choice.y, at].sort((a, b) => a - b) : choice.y.filter((known) => known !== at) })} />
            {fields[at]!.name}
          </label>
        ))}
        {(choice.kind === 'line' || choice.kind === 'scatter') && drawn.y.length > 0 && drawn.y.every((values) => values.every((value) => !(value <= 0))) && (
          <label class="row soft"><input type="checkbox" checked={isLogarithmic(choice, drawn)} onChange={(event) => change({ isLogarithmic: event.currentTarget.checked })} />logarithmic</label>
        )}
        {step > 1 && <span class="soft">every {step === 2 ? '2nd' : step === 3 ? '3rd' : `${thousands(step)}th`} of {thousands(rows)} rows</span>}
        {!statement.isOver && <span class="soft">of the rows read so far</span>}
      </div>
      <ChartView label={`${choice.kind} of ${choice.y.map((at) => fields[at]!.name).join(', ') || fields[choice.x]?.name} over ${fields[choice.x]?.name ?? 'row number'}`} option={option} />
    </div>
  );
}

/** The same columns in another kind of plot, as far as it can show them. */
function ofKind(kind: PlotKind, { x, y }: PlotChoice, numbers: number[]): Partial<PlotChoice> {
  if (kind === 'histogram' && !numbers.includes(x)) return { kind, x: y[0] ?? numbers[0]! };
  return { kind, y: y.length > 0 ? y : numbers.slice(0, 1) };
}

/** A line where the rows are in the order of its x axis, points otherwise. */
function usualChoice(statement: Statement): PlotChoice | null {
  const choice = choose(statement.schema.value?.fields ?? [], statement.rows.value);
  if (choice?.kind !== 'line') return choice;
  return isOrdered(valuesOf(statement, choice.x, 1, POINTS_MAX)) ? choice : { ...choice, kind: 'scatter' };
}

/** What is drawn: of each column its values, and where they are. */
interface Drawn {
  x: number[] | string[];
  y: number[][];
  names: string[];
}

function drawnOf(statement: Statement, { kind, x, y }: PlotChoice): Drawn {
  const fields = statement.schema.value?.fields ?? [];
  const type = x < 0 ? 'number' : kindOf(fields[x]!.type);
  const max = kind === 'bar' ? BARS_MAX : POINTS_MAX;
  const step = stepOf(statement.rows.value, max);
  const isCategory = kind === 'bar' || type === 'text' || type === 'bool' || type === 'nested';
  return {
    x: isCategory ? textsOf(statement, x, step, max) : valuesOf(statement, x, step, max),
    y: y.map((column) => valuesOf(statement, column, step, max)), names: y.map((column) => fields[column]!.name),
  };
}

/** Whether the y axis is logarithmic: that of lines by the rule of all charts, unless somebody chose. */
function isLogarithmic({ kind, isLogarithmic: chosen }: PlotChoice, { y }: Drawn): boolean {
  return kind !== 'bar' && (chosen ?? (kind === 'line' && spanDecades(y.flat())));
}

function optionOf(kit: ChartKit, statement: Statement, choice: PlotChoice, drawn: Drawn): ReturnType<ChartKit['base']> {
  const fields = statement.schema.value?.fields ?? [];
  const look = kit.axisLook();
  const scale = scaleOf();
  const grid = { left: 62 * scale, right: 24 * scale, top: (choice.y.length > 1 ? 40 : 24) * scale, bottom: 46 * scale };
  const named = { nameLocation: 'middle' as const, nameGap: 28 * scale };
  if (choice.kind === 'histogram') {
    const rows = statement.rows.value;
    const found = bins(valuesOf(statement, choice.x, stepOf(rows, 1_000_000), 1_000_000), 60);
    return {
      ...kit.base(), grid,
      xAxis: { type: 'category', data: found.map((bin) => tick((bin.from + bin.to) / 2)), name: fields[choice.x]?.name, ...named, ...look },
      yAxis: kit.drawn(axisOfAmounts(found.map((bin) => bin.count))),
      series: [{ type: 'bar', name: 'rows', data: found.map((bin) => bin.count), barCategoryGap: '6%' }],
    };
  }
  const { x, y, names } = drawn;
  const isCategory = typeof x[0] === 'string';
  const isTime = choice.x >= 0 && kindOf(fields[choice.x]!.type) === 'time';
  const name = choice.x < 0 ? 'row number' : fields[choice.x]!.name;
  const axis = choice.kind === 'bar' ? axisOfAmounts(y.flat()) : axisOfRange(y.flat(), isLogarithmic(choice, drawn));
  const base = kit.base();
  const lines = strokes(names);
  return {
    ...base, grid,
    tooltip: { ...(base.tooltip as object), trigger: choice.kind === 'scatter' ? 'item' : 'axis' },
    legend: choice.y.length > 1 ? { top: 6, textStyle: { color: look.axisLabel.color } } : undefined,
    xAxis: isCategory
      ? { type: 'category', data: x as string[], name, ...named, ...look }
      : isTime ? { type: 'time', name, ...named, ...look } : { ...kit.drawn(axisOfRange(x as number[], false)), name, ...named },
    yAxis: { ...kit.drawn(axis), name: axisName(names.length === 1 ? names[0]! : '', axis).trim() || undefined },
    series: y.map((values, at) => {
      const common = { name: names[at], color: series(lines[at]!.colour) };
      if (choice.kind === 'bar') return { ...common, data: values.map((value, row) => barOf(value, String(x[row]), y.length)), type: 'bar' as const, barMaxWidth: 46 };
      const data = isCategory ? values : values.map((value, row) => [x[row] as number, value]);
      if (choice.kind === 'scatter') return { ...common, data, type: 'scatter' as const, symbolSize: values.length > 2000 ? 3 : 6, large: values.length > 5000 };
      return { ...common, data, type: 'line' as const, showSymbol: values.length <= 60, lineStyle: { width: 1.6, type: lines[at]!.stroke } };
    }),
  };
}

/** A bar of a design has its colour where bars are of one series, as in the laboratory's report. */
function barOf(value: number, label: string, columns: number): number | { value: number; itemStyle: { color: string } } {
  const design = columns === 1 ? colourOfDesign(label) : null;
  return design === null ? value : { value, itemStyle: { color: series(design) } };
}
