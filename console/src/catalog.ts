/** The tables, views, columns and functions of the database, for the list and for completion. */
import { signal } from '@preact/signals';
import { ask, type Row } from './ask';

export interface Relation {
  name: string;
  schema: string;
  kind: string;
  rows: number | null;
  columns: { name: string; type: string }[];
}

export const relations = signal<Relation[]>([]);
export const functions = signal<string[]>([]);
export const problem = signal<Error | null>(null);

/** Reads the catalog again. */
export async function readCatalog(): Promise<void> {
  try {
    const [columns, tables, views] = await Promise.all([
      ask('SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position', ['table_schema', 'table_name', 'column_name', 'data_type']),
      ask('SELECT name, rows FROM freestone_tables()', ['name', 'rows']),
      ask('SELECT name FROM freestone_views()', ['name']),
    ]);
    relations.value = related(columns, tables, views);
    problem.value = null;
  } catch (error) {
    problem.value = error as Error;
  }
}

function related(columns: Row[], tables: Row[], views: Row[]): Relation[] {
  const rows = new Map(tables.map((row) => [String(row.name), Number(row.rows)]));
  const isView = new Set(views.map((row) => String(row.name)));
  const found = new Map<string, Relation>();
  for (const row of columns) {
    const [schema, table] = [String(row.table_schema), String(row.table_name)];
    if (schema === 'information_schema' || schema === 'pg_catalog') continue;
    const name = rows.has(`${schema}.${table}`) || isView.has(`${schema}.${table}`) ? `${schema}.${table}` : table;
    const known = found.get(name) ?? { name, schema, kind: isView.has(name) ? 'view' : 'table', rows: rows.get(name) ?? null, columns: [] };
    known.columns.push({ name: String(row.column_name), type: String(row.data_type) });
    found.set(name, known);
  }
  return [...found.values()].sort((a, b) => a.name.localeCompare(b.name));
}

export async function readFunctions(): Promise<void> {
  try {
    const rows = await ask('SELECT DISTINCT function_name FROM duckdb_functions() ORDER BY function_name', ['function_name']);
    functions.value = rows.map((row) => String(row.function_name)).filter((name) => /^[a-z_]\w*$/i.test(name));
  } catch {
    // Completion then knows tables, columns and keywords.
    functions.value = [];
  }
}
