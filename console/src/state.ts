/** What the views share: who is logged in, where the page is, and the last plan. */
import { signal } from '@preact/signals';
import type { SessionInfo } from './api';
import type { PlanDocument, PlanNode } from './plan';

export const VIEWS = ['sql', 'plan', 'layout', 'advice', 'machine'] as const;
export type View = (typeof VIEWS)[number];
export const TITLES: Record<View, string> = { sql: 'SQL', plan: 'Plan', layout: 'Layout', advice: 'Advice', machine: 'Machine' };

export const session = signal<SessionInfo | null>(null);
export const plan = signal<PlanDocument | null>(null);
/** The scan of the plan that the layout shows, of several of one table. */
export const scanned = signal<PlanNode | null>(null);

export interface Place {
  view: View;
  /** A table's name, for the layout and the advice. */
  table: string | null;
  /** The name of a copy of the table. */
  copy: string | null;
}

/** Reads `#layout/table/copy`. */
export function placeOf(hash: string): Place {
  const [view, ...rest] = hash.replace(/^#/, '').split('/');
  let names: string[] = [];
  try {
    names = rest.map(decodeURIComponent);
  } catch {
    // An address that was cut: the view is still there.
  }
  return { view: VIEWS.find((known) => known === view) ?? 'sql', table: names[0] ?? null, copy: names[1] ?? null };
}

export const place = signal<Place>(placeOf(location.hash));

export function go(view: View, table: string | null = null, copy: string | null = null): void {
  location.hash = [view, ...[table, copy].filter((name) => name !== null).map(encodeURIComponent)].join('/');
}

addEventListener('hashchange', () => { place.value = placeOf(location.hash); });

/** What is said for a moment, on the screen and to screen readers. */
export const told = signal('');
let timer = 0;

export function tell(text: string): void {
  told.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => { told.value = ''; }, 4000) as unknown as number;
}

/** Statements that may change something are run by who may write only. */
export function mayWrite(): boolean {
  return session.value?.write === true;
}

/** Copies a text. Browsers keep their clipboard from pages of other machines without TLS, but for this older way. */
export async function copy(text: string, done: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text).then(() => tell(done), () => tell('The browser does not let this page copy'));
    return;
  }
  const focused = document.activeElement as HTMLElement | null;
  const area = document.createElement('textarea');
  area.value = text;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  tell(document.execCommand('copy') ? done : 'The browser does not let this page copy');
  area.remove();
  focused?.focus();
}

/** The file that a browser's user gets. */
export function download(name: string, parts: BlobPart[], type: string): void {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
