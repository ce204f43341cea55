/** Charts on canvases. This module comes as a chunk of its own, when the first chart is shown. */
import { BarChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent, TooltipComponent } from 'echarts/components';
import { init, use, type ComposeOption, type ECharts } from 'echarts/core';
import type { BarSeriesOption, LineSeriesOption, ScatterSeriesOption } from 'echarts/charts';
import type { GridComponentOption, LegendComponentOption, TooltipComponentOption } from 'echarts/components';
import { CanvasRenderer } from 'echarts/renderers';
import { scaleOf } from './canvas';
import { tick } from './formats';
import { colour, series } from './look';
import { SERIES, type Axis } from './rules';

use([BarChart, LineChart, ScatterChart, GridComponent, LegendComponent, TooltipComponent, CanvasRenderer]);

export type Option = ComposeOption<BarSeriesOption | LineSeriesOption | ScatterSeriesOption | GridComponentOption | LegendComponentOption | TooltipComponentOption>;

export function chartIn(element: HTMLElement): ECharts {
  return init(element, null, { renderer: 'canvas' });
}

/** The look of an axis in the present theme. */
export function axisLook() {
  const fontSize = 11.5 * scaleOf();
  return {
    axisLine: { lineStyle: { color: colour('bar') } },
    axisTick: { lineStyle: { color: colour('bar') } },
    axisLabel: { color: colour('soft'), fontSize, hideOverlap: true },
    nameTextStyle: { color: colour('soft'), fontSize },
    splitLine: { lineStyle: { color: colour('rule') } },
  };
}

/** An axis as it is drawn. With `own` ticks, they are at the points of the data. */
export function drawn({ least, most, isLogarithmic, ticks }: Axis, own = false, text: (value: number) => string = tick) {
  const look = axisLook();
  const at = own ? { customValues: ticks } : {};
  return {
    ...look, type: isLogarithmic ? 'log' as const : 'value' as const, min: least, max: most,
    interval: isLogarithmic ? 1 : ticks.length > 1 && !own ? ticks[1]! - ticks[0]! : undefined,
    axisTick: { ...look.axisTick, ...at }, axisLabel: { ...look.axisLabel, ...at, formatter: text },
    splitLine: own ? { show: false } : look.splitLine,
  };
}

/** What all charts share. Tooltips are drawn, because markup would need inline styles. */
export function base(): Option {
  return {
    animation: false,
    color: Array.from({ length: SERIES }, (_, at) => series(at)),
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    tooltip: {
      renderMode: 'richText', confine: true, backgroundColor: colour('card'), borderColor: colour('rule'), borderWidth: 1, padding: [6, 9],
      textStyle: { color: colour('ink'), fontSize: 12 * scaleOf() },
    },
  };
}
