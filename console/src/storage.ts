/**
 * What the browser keeps between visits: scripts and history, by user and database, until this user logs out. A database has the
 * same address at each start of `freestone ui`, by which browsers keep it.
 */
import * as api from './api';
import { session } from './state';

const OURS = 'freestone';
let isForgotten = false;

/** What is kept for this user and database. */
let own: string | null = null;

/** The beginning of the keys of a user and a database. */
export function keyOf({ user = '', id = '', database = '' }: api.SessionInfo): string {
  return [OURS, user, id || database, ''].map(encodeURIComponent).join('/');
}

function prefix(): string | null {
  if (own === null && session.value?.login === 'none') own = keyOf(session.value);
  return own;
}

export function stored<T>(name: string, fallback: T): T {
  const own = prefix();
  if (own === null) return fallback;
  try {
    return (JSON.parse(localStorage.getItem(own + name) ?? '') as T) ?? fallback;
  } catch {
    return fallback;
  }
}

export function store(name: string, value: unknown): void {
  const own = prefix();
  if (own === null || isForgotten) return;
  try {
    localStorage.setItem(own + name, JSON.stringify(value));
  } catch {
    // The browser keeps nothing, or has no room: the page works without it.
  }
}

function forget(): void {
  isForgotten = true;
  const own = prefix();
  if (own === null) return;
  for (const key of Object.keys(localStorage)) if (key.startsWith(own)) localStorage.removeItem(key);
}

/** Ends the login, and removes what the browser has kept for it. */
export async function logOut(): Promise<void> {
  forget();
  await api.logout().finally(() => location.reload());
}

// Another window has logged out: this one must not write its scripts again.
addEventListener('storage', (event) => {
  const own = prefix();
  if (own !== null && event.newValue === null && event.key?.startsWith(own)) {
    isForgotten = true;
    location.reload();
  }
});
