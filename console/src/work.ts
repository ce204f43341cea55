/** The tabs of the SQL view: their texts, runs and parameters. Texts stay in the browser, with a bound. */
import { effect, signal } from '@preact/signals';
import { tabId } from './ask';
import * as api from './api';
import { Places, PLACES_MAX } from './places';
import { FIRST_ROWS, Run } from './run';
import { tell } from './state';
import { store, stored } from './storage';

export interface Tab {
  id: string;
  name: string;
  text: string;
  /** Whether it differs from the file that it was opened from or saved to. */
  changed: boolean;
}

const TABS = 'tabs';
const HISTORY = 'history';
const HISTORY_MAX = 200;
const TEXT_MAX = 200_000;
/** Rows per statement of a script with several statements. */
export const SCRIPT_ROWS = 10_000;

export interface Past {
  sql: string;
  at: number;
}

let made = 0;

function named(name: string, text: string): Tab {
  made += 1;
  return { id: String(made), name, text, changed: false };
}

function restored(): Tab[] {
  const known = stored<{ name: string; text: string }[]>(TABS, []);
  const kept = Array.isArray(known) ? known.filter((tab) => typeof tab?.name === 'string' && typeof tab?.text === 'string') : [];
  return kept.length > 0 ? kept.map(({ name, text }) => named(name, text)) : [named('Script 1', '')];
}

export const tabs = signal<Tab[]>(restored());
export const active = signal(tabs.value[0]!.id);
export const runs = signal<Record<string, Run>>({});
/** What was entered for the parameters of each tab, by their names. */
export const parameters = signal<Record<string, Record<string, string>>>({});
export const past = signal<Past[]>(stored<Past[]>(HISTORY, []));

let saving = 0;

function keep(): void {
  clearTimeout(saving);
  saving = setTimeout(keepNow, 400) as unknown as number;
}

function keepNow(): void {
  clearTimeout(saving);
  saving = 0;
  store(TABS, tabs.value.slice(0, 20).map(({ name, text }) => ({ name, text: text.slice(0, TEXT_MAX) })));
}

export function current(): Tab {
  return tabs.value.find((tab) => tab.id === active.value) ?? tabs.value[0]!;
}

export function change(id: string, part: Partial<Tab>): void {
  tabs.value = tabs.value.map((tab) => (tab.id === id ? { ...tab, ...part } : tab));
  keep();
}

export function open(name: string | null, text: string): Tab {
  const used = new Set(tabs.value.map((tab) => tab.name));
  let number = tabs.value.length + 1;
  while (used.has(`Script ${number}`)) number += 1;
  const tab = named(name ?? `Script ${number}`, text);
  tabs.value = [...tabs.value, tab];
  active.value = tab.id;
  keep();
  return tab;
}

export function closeTab(id: string): void {
  const at = tabs.value.findIndex((tab) => tab.id === id);
  void runs.value[id]?.cancel();
  api.close(tabId(id));
  const { [id]: _, ...rest } = runs.value;
  runs.value = rest;
  const left = tabs.value.filter((tab) => tab.id !== id);
  tabs.value = left.length > 0 ? left : [named('Script 1', '')];
  if (active.value === id) active.value = tabs.value[Math.min(at, tabs.value.length - 1)]!.id;
  keep();
}

export function neighbour(step: number): void {
  const at = tabs.value.findIndex((tab) => tab.id === active.value);
  active.value = tabs.value[(at + step + tabs.value.length) % tabs.value.length]!.id;
}

/** A parameter as JSON where it is a number, a boolean or null; otherwise a text. Integers beyond doubles stay text. */
export function parameter(text: string): unknown {
  const bare = text.trim();
  if (/^-?\d+$/.test(bare) && !Number.isSafeInteger(Number(bare))) return bare;
  if (/^(-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null)$/.test(bare)) return JSON.parse(bare);
  const quoted = /^'(.*)'$/s.exec(bare);
  return quoted ? quoted[1]!.replaceAll("''", "'") : text;
}

const places = new Places(tabId('window'), async (key) => {
  await runs.value[key]?.cancel();
  tell(`A result that waited was ended: ${PLACES_MAX} statements may be open at once`);
});

effect(() => {
  const open = Object.entries(runs.value).filter(([, run]) => run.state.value === 'running');
  places.tell(open.map(([key, run]) => ({ key, since: run.since, waits: run.waits })));
});

/** The values for the parameters of a text: a list for numbers, by name otherwise; none where there are no parameters. */
export function valuesFor(names: string[], entered: Record<string, string>): api.Question['parameters'] {
  if (names.length === 0) return undefined;
  const isNumbered = names.every((name) => /^\d+$/.test(name));
  if (!isNumbered) return Object.fromEntries(names.map((name) => [name, parameter(entered[name] ?? '')]));
  return Array.from({ length: Number(names.at(-1)) }, (_, at) => parameter(entered[String(at + 1)] ?? ''));
}

/** Ends what still runs or waits in a tab: its session answers one script at a time. */
export async function free(id: string): Promise<void> {
  const before = runs.value[id];
  if (before?.state.value !== 'running') return;
  await before.cancel();
  await before.finished;
}

/** Starts a script in a tab's session. A run that is still open there is cancelled first. */
export async function start(id: string, sql: string, statements: number, values: api.Question['parameters']): Promise<Run> {
  await free(id);
  await places.take();
  const many = statements > 1;
  const run = new Run(
    { tab: tabId(id), sql, parameters: values, maxRows: many ? SCRIPT_ROWS : undefined },
    many ? Number.POSITIVE_INFINITY : FIRST_ROWS,
  );
  runs.value = { ...runs.value, [id]: run };
  past.value = [{ sql: sql.slice(0, TEXT_MAX), at: Date.now() }, ...past.value.filter((entry) => entry.sql !== sql)].slice(0, HISTORY_MAX);
  store(HISTORY, past.value);
  return run;
}

addEventListener('pagehide', () => {
  if (saving !== 0) keepNow();
  for (const id of Object.keys(runs.value)) api.close(tabId(id));
  for (const name of ['page', 'overview', 'layout', 'advice', 'measure']) api.close(tabId(name));
});
