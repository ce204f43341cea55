/** The requests of the page. SQL is the API; HTTP adds login, streaming and cancellation. */
import { FrameReader } from './frames';

export interface SessionInfo {
  /** What is still needed. */
  login: 'none' | 'code' | 'password';
  user?: string;
  role?: string;
  database?: string;
  /** Tells databases of one name apart. */
  id?: string;
  version: string;
  write?: boolean;
  threads?: number;
}

/** What the server said: what was wrong, and what to do next. */
export class ServerError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
    readonly sqlstate?: string,
    readonly line?: number,
    readonly column?: number,
    readonly status?: number,
  ) {
    super(message);
  }
}

/** An event of the window: the login has ended, on the server or in another window. */
export const LOGGED_OUT = 'freestone-logged-out';

interface ErrorBody {
  error?: { message?: string; hint?: string; sqlstate?: string };
}

async function refused(response: Response): Promise<ServerError> {
  const body = (await response.json().catch(() => ({}))) as ErrorBody;
  const message = body.error?.message ?? `the server answered ${response.status} ${response.statusText}`;
  return new ServerError(message, body.error?.hint, body.error?.sqlstate, undefined, undefined, response.status);
}

async function request(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ServerError('the server does not answer', 'start it again, or look whether it still runs', '08001');
  }
  if (response.status === 401 && path !== '/api/login') dispatchEvent(new Event(LOGGED_OUT));
  if (!response.ok) throw await refused(response);
  return response;
}

function post(path: string, body: object, more: RequestInit = {}): Promise<Response> {
  const headers = { 'Content-Type': 'application/json', 'X-Freestone': '1' };
  return request(path, { method: 'POST', headers, body: JSON.stringify(body), ...more });
}

export async function session(): Promise<SessionInfo> {
  return (await (await request('/api/session', {})).json()) as SessionInfo;
}

export async function login(secret: { code: string } | { user: string; password: string }): Promise<void> {
  await post('/api/login', secret);
}

export async function logout(): Promise<void> {
  await post('/api/logout', {});
}

export async function cancel(tab: string, signal: AbortSignal): Promise<void> {
  await post('/api/cancel', { tab }, { signal });
}

/** Ends a tab's session; also while the page goes away. */
export function close(tab: string): void {
  void post('/api/close', { tab }, { keepalive: true }).catch(() => undefined);
}

export interface Question {
  tab: string;
  sql: string;
  /** By number, or by name. */
  parameters?: unknown[] | Record<string, unknown>;
  maxRows?: number;
  signal?: AbortSignal;
}

/** Starts statements. The reader reads from the connection only when a frame is asked for. */
export async function query({ tab, sql, parameters, maxRows, signal }: Question): Promise<FrameReader> {
  const body = { tab, sql, ...(parameters && { parameters }), ...(maxRows && { max_rows: maxRows }) };
  const response = await post('/api/query', body, { signal });
  if (!response.body) throw new ServerError('the answer has no body');
  const reader = response.body.getReader();
  return new FrameReader(async () => {
    const { done, value } = await reader.read();
    return done ? null : value;
  });
}
