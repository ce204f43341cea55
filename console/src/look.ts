/** Colours for canvases, which know no custom properties: those of the style sheet, as they are in the present theme. */
import { signal } from '@preact/signals';
import { colourOfDesign, SERIES } from './rules';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'freestone.theme';

/** Changes whenever colours do. */
export const themed = signal(0);
export const theme = signal<Theme>(readTheme());

function readTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  localStorage.setItem(KEY, chosen);
  apply();
}

function apply(): void {
  document.documentElement.dataset.theme = theme.value;
  CACHE.clear();
  themed.value += 1;
}

const CACHE = new Map<string, string>();
let probe: HTMLElement | null = null;

/** A colour of the style sheet by its name, as `rgb(…)`. */
export function colour(name: string): string {
  let found = CACHE.get(name);
  if (!found) {
    if (!probe) {
      probe = document.createElement('span');
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    found = getComputedStyle(probe).color;
    CACHE.set(name, found);
  }
  return found;
}

export function isDark(): boolean {
  return theme.value === 'dark' || (theme.value === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
}

/** A colour of series of charts, by its number. */
export function series(at: number): string {
  return colour(`s${at % SERIES}`);
}

/** The colour that a design has in every chart. */
export function designColour(design: string): string {
  return series(colourOfDesign(design) ?? colourOfDesign('auto')!);
}

/** A page format's colour is that of the design that is named after it. */
export function formatColour(format: string): string {
  return designColour(format === 'dense' ? 'column' : format);
}

const ENCODINGS = ['plain', 'constant', 'bitpack', 'dictionary', 'delta', 'rle', 'fsst', 'alp', 'block', 'page_dictionary', 'dictionary_rle', 'delta_lz'];

/** The first of the encodings that the segments of a column have. */
export function firstEncoding(encodings: string): string {
  return encodings.split(', ')[0] ?? '';
}

/** The colour of an encoding, or of the first of several. */
export function encodingColour(encodings: string): string {
  const known = ENCODINGS.indexOf(firstEncoding(encodings));
  return known < 0 ? colour('s5') : colour(`e${known}`);
}

/** The colour of a part of a file that is no page of a column. */
export function extraColour(kind: string): string {
  return colour(`part-${kind}`);
}

/** A colour from 0 to 1: even steps from blue over sand to rust, told apart without red and green. */
export function ramp(share: number): string {
  const at = Math.min(Math.max(share, 0), 1) * (STEPS - 1);
  const [low, high] = [step(Math.floor(at)), step(Math.ceil(at))];
  const part = at - Math.floor(at);
  return `rgb(${low.map((value, channel) => Math.round(value + (high[channel]! - value) * part)).join(' ')})`;
}

const STEPS = 7;

function step(at: number): number[] {
  return (colour(`r${at}`).match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
}

export function startTheme(): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}
