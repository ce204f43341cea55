/** Statements as they run: their results grow as far as somebody wants to see them, and not further. */
import { signal, type Signal } from '@preact/signals';
import { RecordBatchReader, type RecordBatch, type Schema } from 'apache-arrow';
import * as api from './api';
import { ServerError } from './api';
import { json, type FrameReader } from './frames';

export type State = 'running' | 'paused' | 'done' | 'failed' | 'cancelled';

/** Rows that are read before anybody scrolls. */
export const FIRST_ROWS = 5_000;
/** A result is kept up to this size. */
export const KEPT_BYTES_MAX = 1 << 30;

/** How long the server has to hear that a statement is cancelled, in milliseconds. */
const CANCEL_MS = 1000;

interface Begun {
  index: number;
  line: number;
  column: number;
  text: string;
}

export interface Done {
  ms: number;
  rows: number;
  tag: string;
  truncated?: boolean;
  /** Whether the tab is in a transaction. */
  transaction?: 'open' | 'failed';
}

export interface Progress {
  ms: number;
  rows: number;
  /** What is loaded, and how many bytes of it. */
  task?: string;
  done?: number;
  total?: number | null;
  /** The share of their tables that its scans have read or pruned. */
  share?: number;
}

/** How far a statement is: its share of what it loads, or of what it scans; null where nobody knows. */
export function shareOf(progress: Progress | null): number | null {
  if (progress?.total) return Math.min((progress.done ?? 0) / progress.total, 1);
  return progress?.share ?? null;
}

/** One statement and what came of it. */
export class Statement {
  readonly rows = signal(0);
  readonly state: Signal<State> = signal<State>('running');
  readonly schema: Signal<Schema | null> = signal<Schema | null>(null);
  readonly progress = signal<Progress | null>(null);
  readonly notices = signal<string[]>([]);
  done: Done | null = null;
  error: ServerError | null = null;
  readonly batches: RecordBatch[] = [];
  /** The first row of each batch. */
  readonly starts: number[] = [];
  bytes = 0;
  private wanted: number;
  private wake: (() => void) | null = null;
  private isStopped = false;

  constructor(readonly begun: Begun, wanted: number) {
    this.wanted = wanted;
  }

  /** Asks for rows up to this one. Reading goes on until they are here. */
  want(rows: number): void {
    if (rows <= this.wanted) return;
    this.wanted = rows;
    this.wake?.();
  }

  /** Waits as long as nobody wants more. */
  async allowed(): Promise<void> {
    while (this.rows.value >= this.wanted && this.schema.value && !this.isStopped) {
      this.state.value = 'paused';
      await new Promise<void>((resolve) => { this.wake = resolve; });
    }
    if (this.state.value === 'paused') this.state.value = 'running';
  }

  /** Nobody wants more, and nothing waits any longer. */
  stop(): void {
    this.isStopped = true;
    this.wake?.();
  }

  add(batch: RecordBatch): void {
    if (batch.numRows === 0) return;
    this.starts.push(this.rows.value);
    this.batches.push(batch);
    this.rows.value += batch.numRows;
  }

  /** The batch that has a row, and the row's place in it. */
  locate(row: number): [RecordBatch, number] | null {
    let [low, high] = [0, this.starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle]! <= row) low = middle + 1;
      else high = middle;
    }
    const batch = this.batches[low - 1];
    const at = row - (this.starts[low - 1] ?? 0);
    return batch && at < batch.numRows ? [batch, at] : null;
  }

  get isOver(): boolean {
    return this.state.value === 'done' || this.state.value === 'failed' || this.state.value === 'cancelled';
  }
}

/** Bytes of one Arrow stream, handed over one frame at a time. */
class Handover {
  private next: Uint8Array | null = null;
  private isOver = false;
  private changed: (() => void)[] = [];

  private wake() {
    for (const resolve of this.changed.splice(0)) resolve();
  }

  private change(): Promise<void> {
    return new Promise((resolve) => this.changed.push(resolve));
  }

  /** Resolves when the reader asks for more than these bytes, or has ended. */
  async push(bytes: Uint8Array): Promise<void> {
    this.next = bytes;
    this.wake();
    while (this.next !== null && !this.isOver) await this.change();
  }

  end() {
    this.isOver = true;
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      while (this.next === null && !this.isOver) await this.change();
      if (this.next === null) return;
      const bytes = this.next;
      yield bytes;
      this.next = null;
      this.wake();
    }
  }
}

async function decode(bytes: Handover, into: Statement): Promise<void> {
  try {
    const reader = await RecordBatchReader.from(bytes as AsyncIterable<Uint8Array>);
    await reader.open();
    into.schema.value = reader.schema;
    for await (const batch of reader) into.add(batch);
  } finally {
    bytes.end();
  }
}

/** A run of one or more statements in one tab. */
export class Run {
  readonly statements = signal<Statement[]>([]);
  readonly state: Signal<State> = signal<State>('running');
  readonly error = signal<ServerError | null>(null);
  /** What was said before the first statement began. */
  readonly notices = signal<string[]>([]);
  private readonly abort = new AbortController();
  readonly finished: Promise<void>;
  /** When it was started, in milliseconds since 1970. */
  readonly since = Date.now();

  constructor(private readonly question: api.Question, private readonly firstRows: number) {
    this.finished = this.read();
  }

  /** Stops the statement that runs. What has come stays. */
  async cancel(): Promise<void> {
    if (this.state.value !== 'running') return;
    this.state.value = 'cancelled';
    for (const statement of this.statements.value) statement.stop();
    // If all connections of the browser are taken, the request waits for one. Giving up the answer ends the statement, too; a
    // request that came later would end the next one.
    await api.cancel(this.question.tab, AbortSignal.timeout(CANCEL_MS)).catch(() => undefined);
    this.abort.abort();
  }

  /** Whether the result waits until somebody scrolls. */
  get waits(): boolean {
    return this.state.value === 'running' && this.statements.value.at(-1)?.state.value === 'paused';
  }

  private async read(): Promise<void> {
    let current: Statement | null = null;
    try {
      const frames = await api.query({ ...this.question, signal: this.abort.signal });
      current = await this.follow(frames, (statement) => { current = statement; });
      if (this.state.value === 'running') this.state.value = 'done';
    } catch (error) {
      this.failed(current, error);
    }
  }

  private failed(current: Statement | null, error: unknown): void {
    const open = current && !current.isOver ? current : null;
    if (this.state.value === 'cancelled') {
      if (open) open.state.value = 'cancelled';
      return;
    }
    const told = error instanceof ServerError ? error : new ServerError(error instanceof Error ? error.message : String(error));
    if (open) {
      open.error = told;
      open.state.value = 'failed';
    }
    this.error.value = told;
    this.state.value = 'failed';
  }

  private async follow(frames: FrameReader, begin: (statement: Statement) => void): Promise<Statement | null> {
    let statement: Statement | null = null;
    let bytes: Handover | null = null;
    let decoded: Promise<unknown> = Promise.resolve();
    const finish = async () => {
      bytes?.end();
      const problem = await decoded;
      bytes = null;
      if (problem instanceof Error) throw problem;
    };
    try {
      for (;;) {
        await statement?.allowed();
        const frame = await frames.next();
        if (frame === null) break;
        if (frame.kind === 'S') {
          statement = new Statement(json<Begun>(frame.payload), this.firstRows);
          this.statements.value = [...this.statements.value, statement];
          begin(statement);
        } else if (frame.kind === 'A' && statement) {
          if (!bytes) {
            bytes = new Handover();
            // A failure is kept for `finish`: nobody waits for it yet.
            decoded = decode(bytes, statement).catch((error: Error) => error);
          }
          this.keep(statement, frame.payload);
          await bytes.push(frame.payload);
        } else if (frame.kind === 'P' && statement) {
          statement.progress.value = json(frame.payload);
        } else if (frame.kind === 'N') {
          const { message } = json<{ message: string }>(frame.payload);
          if (statement) statement.notices.value = [...statement.notices.value, message];
          else this.notices.value = [...this.notices.value, message];
        } else if (frame.kind === 'D' && statement) {
          await finish();
          statement.done = json<Done>(frame.payload);
          statement.state.value = 'done';
        } else if (frame.kind === 'E') {
          await finish();
          const told = json<{ message: string; hint?: string; sqlstate: string; line?: number; column?: number }>(frame.payload);
          throw new ServerError(told.message, told.hint, told.sqlstate, told.line, told.column);
        }
      }
      await finish();
      if (statement && !statement.isOver) throw new ServerError('the connection ended before the statement did');
      return statement;
    } finally {
      (bytes as Handover | null)?.end();
    }
  }

  private keep(statement: Statement, payload: Uint8Array): void {
    statement.bytes += payload.length;
    if (statement.bytes > KEPT_BYTES_MAX) {
      this.abort.abort();
      throw new ServerError(
        `the result has more than ${KEPT_BYTES_MAX / 2 ** 30} GiB, which is what this page keeps of one`,
        "COPY (…) TO 'file' writes a result of any size; LIMIT shows a part of it",
      );
    }
  }
}

