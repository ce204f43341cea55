/** Questions that the page itself asks, one after the other in a session of their own, and their rows as plain values. */
import { cell, jsonText, kindOf, numeric } from './cells';
import { ServerError, type Question } from './api';
import { Run, type Statement } from './run';

// `randomUUID` is missing where the page comes without TLS from another machine.
const PAGE = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
/** The last question of each tab: a session answers one at a time. */
const LAST = new Map<string, Promise<unknown>>();

/** The id of a tab of this page; other pages of the same login have others. */
export function tabId(name: string): string {
  return `${PAGE}-${name}`;
}

export type Value = string | number | boolean | null;
export type Row = Record<string, Value>;

/** Numbers as doubles, which counts and sizes fit; booleans; nested values as JSON; everything else as text. */
function rowsOf(statement: Statement): Row[] {
  const fields = statement.schema.value?.fields ?? [];
  const rows: Row[] = [];
  for (const batch of statement.batches) {
    const columns = fields.map((field, at) => ({ field, data: batch.data.children[at]!, kind: kindOf(field.type) }));
    for (let at = 0; at < batch.numRows; at++) {
      const row: Row = {};
      for (const { field, data, kind } of columns) {
        const text = cell(data, at, field, Number.POSITIVE_INFINITY);
        if (text === null) row[field.name] = null;
        else if (kind === 'nested') row[field.name] = jsonText(data, at, field);
        else if (kind === 'number') row[field.name] = numeric(data, at);
        else if (kind === 'bool') row[field.name] = text.text === 'true';
        else row[field.name] = text.text;
      }
      rows.push(row);
    }
  }
  return rows;
}

/** Runs one statement to its end. `columns` are those that the answer must have. */
export function ask(sql: string, columns: string[], tab = 'page', parameters?: Question['parameters']): Promise<Row[]> {
  const before = LAST.get(tab) ?? Promise.resolve();
  const answer = before.catch(() => undefined).then(() => answerOf({ tab: tabId(tab), sql, parameters }, columns, tab));
  LAST.set(tab, answer);
  return answer;
}

/** The question that each tab is asked now. */
const ASKED = new Map<string, Run>();

/** Ends the question that a tab is asked. Who waits for it gets an error. */
export async function giveUp(tab: string): Promise<void> {
  await ASKED.get(tab)?.cancel();
}

async function answerOf(question: Question, columns: string[], tab: string): Promise<Row[]> {
  const run = new Run(question, Number.POSITIVE_INFINITY);
  ASKED.set(tab, run);
  await run.finished;
  ASKED.delete(tab);
  if (run.error.value) throw run.error.value;
  if (run.state.value === 'cancelled') throw new ServerError('it was cancelled', undefined, '57014');
  const statement = run.statements.value.at(-1);
  if (!statement) throw new ServerError('the server answered without a result');
  const found = new Set(statement.schema.value?.fields.map((field) => field.name) ?? []);
  const missing = columns.filter((column) => !found.has(column));
  if (missing.length > 0) {
    throw new ServerError(`the answer has no column ${missing.join(', ')}`, `this page and the server are of different versions; asked: ${question.sql}`);
  }
  return rowsOf(statement);
}

/** A text as a literal of SQL. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A name as SQL writes it, quoted where it must be. */
export function identifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
