/** A result as a plot, chosen from its types and changeable. */
import { useMemo, useState } from 'preact/hooks';
import { ChartView, type ChartKit } from '../chartview';
import { kindOf } from '../cells';
import { count, significant, thousands } from '../formats';
import { BARS_MAX, bins, choose, isOrdered, POINTS_MAX, stepOf, textsOf, valuesOf, type PlotChoice, type PlotKind } from '../plot';
import { Segmented } from '../parts';
import type { Statement } from '../run';

const KINDS: [PlotKind, string][] = [['line', 'Line'], ['bar', 'Bars'], ['scatter', 'Points'], ['histogram', 'Histogram']];

export function PlotView({ statement }: { statement: Statement }) {
  const fields = statement.schema.value?.fields ?? [];
  const rows = statement.rows.value;
  const usual = useMemo(() => usualChoice(statement), [statement, rows > 0]);
  const [changed, setChanged] = useState<PlotChoice | null>(null);
  const choice = changed ?? usual;
  const option = useMemo(() => (kit: ChartKit) => (choice ? optionOf(kit, statement, choice) : kit.base()), [statement, choice, rows]);
  if (!choice) return <p class="empty"><b>Nothing to plot</b>A plot needs a column of numbers.</p>;
  const numbers = fields.flatMap((field, at) => (kindOf(field.type) === 'number' ? [at] : []));
  const change = (part: Partial<PlotChoice>) => setChanged({ ...choice, ...part });
  const step = stepOf(rows, choice.kind === 'bar' ? BARS_MAX : POINTS_MAX);
  return (
    <div class="plot">
      <div class="bar">
        <Segmented label="Kind of plot" value={choice.kind} options={KINDS} onChange={(kind) => change({ kind, y: choice.y.length > 0 ? choice.y : numbers.slice(0, 1) })} />
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
        {step > 1 && <span class="soft">every {step === 2 ? '2nd' : step === 3 ? '3rd' : `${thousands(step)}th`} of {thousands(rows)} rows</span>}
        {!statement.isOver && <span class="soft">of the rows read so far</span>}
      </div>
      <ChartView label={`${choice.kind} of ${choice.y.map((at) => fields[at]!.name).join(', ') || fields[choice.x]?.name} over ${fields[choice.x]?.name ?? 'row number'}`} option={option} />
    </div>
  );
}

/** A line where the rows are in the order of its x axis, points otherwise. */
function usualChoice(statement: Statement): PlotChoice | null {
  const choice = choose(statement.schema.value?.fields ?? [], statement.rows.value);
  if (choice?.kind !== 'line') return choice;
  return isOrdered(valuesOf(statement, choice.x, 1, POINTS_MAX)) ? choice : { ...choice, kind: 'scatter' };
}

function optionOf(kit: ChartKit, statement: Statement, choice: PlotChoice): ReturnType<ChartKit['base']> {
  const fields = statement.schema.value?.fields ?? [];
  const look = kit.axisLook();
  const grid = { left: 62, right: 24, top: choice.y.length > 1 ? 40 : 24, bottom: 46 };
  const value = { type: 'value' as const, scale: choice.kind !== 'bar' && choice.kind !== 'histogram', ...look, axisLabel: { ...look.axisLabel, formatter: (at: number) => count(at) } };
  if (choice.kind === 'histogram') {
    const rows = statement.rows.value;
    const found = bins(valuesOf(statement, choice.x, stepOf(rows, 1_000_000), 1_000_000), 60);
    return {
      ...kit.base(), grid,
      xAxis: { type: 'category', data: found.map((bin) => significant((bin.from + bin.to) / 2)), name: fields[choice.x]?.name, nameLocation: 'middle', nameGap: 28, ...look },
      yAxis: value,
      series: [{ type: 'bar', name: 'rows', data: found.map((bin) => bin.count), barCategoryGap: '6%' }],
    };
  }
  const kind = choice.x < 0 ? 'number' : kindOf(fields[choice.x]!.type);
  const isCategory = choice.kind === 'bar' || kind === 'text' || kind === 'bool' || kind === 'nested';
  const max = choice.kind === 'bar' ? BARS_MAX : POINTS_MAX;
  const step = stepOf(statement.rows.value, max);
  const x = isCategory ? textsOf(statement, choice.x, step, max) : valuesOf(statement, choice.x, step, max);
  const name = choice.x < 0 ? 'row number' : fields[choice.x]!.name;
  const base = kit.base();
  return {
    ...base, grid,
    tooltip: { ...(base.tooltip as object), trigger: choice.kind === 'scatter' ? 'item' : 'axis' },
    legend: choice.y.length > 1 ? { top: 6, textStyle: { color: look.axisLabel.color } } : undefined,
    xAxis: isCategory
      ? { type: 'category', data: x as string[], name, nameLocation: 'middle', nameGap: 28, ...look }
      : { type: kind === 'time' ? 'time' : 'value', scale: true, name, nameLocation: 'middle', nameGap: 28, ...look, axisLabel: kind === 'time' ? look.axisLabel : { ...look.axisLabel, formatter: (at: number) => count(at) } },
    yAxis: { ...value, name: choice.y.length === 1 ? fields[choice.y[0]!]!.name : undefined },
    series: choice.y.map((column) => {
      const y = valuesOf(statement, column, step, max);
      const data = isCategory ? y : y.map((value, at) => [x[at] as number, value]);
      const common = { name: fields[column]!.name, data };
      if (choice.kind === 'bar') return { ...common, type: 'bar' as const, barMaxWidth: 46 };
      if (choice.kind === 'scatter') return { ...common, type: 'scatter' as const, symbolSize: y.length > 2000 ? 3 : 6, large: y.length > 5000 };
      return { ...common, type: 'line' as const, showSymbol: y.length <= 60, lineStyle: { width: 1.6 } };
    }),
  };
}
