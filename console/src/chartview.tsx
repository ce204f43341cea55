/** A chart in the page: it follows its size and the theme. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ECharts } from 'echarts/core';
import type * as Chart from './chart';
import { themed } from './look';

export type ChartKit = typeof Chart;

export function ChartView({ label, option, height }: { label: string; option: (kit: ChartKit) => Chart.Option; height?: number }) {
  const element = useRef<HTMLDivElement>(null);
  const [kit, setKit] = useState<ChartKit | null>(null);
  const chart = useRef<ECharts | null>(null);
  useEffect(() => { void import('./chart').then(setKit); }, []);
  useEffect(() => {
    if (!kit || !element.current) return;
    const made = kit.chartIn(element.current);
    chart.current = made;
    const observer = new ResizeObserver(() => made.resize());
    observer.observe(element.current);
    return () => {
      observer.disconnect();
      made.dispose();
    };
  }, [kit]);
  const version = themed.value;
  useEffect(() => { if (kit) chart.current?.setOption(option(kit), { notMerge: true }); }, [kit, option, version]);
  return <div class="chart" ref={element} role="img" aria-label={label} style={height ? { height: `${height}px` } : undefined} />;
}
