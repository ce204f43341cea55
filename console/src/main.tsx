/** The frame of the page: login, views, theme and keys. Views come as chunks of their own. */
import { render, type ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import * as api from './api';
import { ServerError } from './api';
import icon from './assets/icon.svg?no-inline';
import { KeysDialog, LOG_OUT } from './keys';
import { setTheme, startTheme, theme, type Theme } from './look';
import { go, place, session, TITLES, told, VIEWS, type View } from './state';
import { Problem } from './parts';
import { keyOf, logOut } from './storage';
import './style.css';

const LOADERS: Record<View, () => Promise<{ default: ComponentType }>> = {
  sql: () => import('./views/sql'),
  plan: () => import('./views/plan'),
  layout: () => import('./views/layout'),
  advice: () => import('./views/advice'),
  machine: () => import('./views/machine'),
};

const LOADED: Partial<Record<View, ComponentType>> = {};

function useViews(): View {
  const view = place.value.view;
  const [, again] = useState(0);
  useEffect(() => {
    if (LOADED[view]) return;
    void LOADERS[view]().then(({ default: component }) => {
      LOADED[view] = component;
      again((times) => times + 1);
    });
  }, [view]);
  return view;
}

/** Views that were opened stay, hidden, with what they show. */
function Views() {
  const view = useViews();
  useEffect(() => { document.title = `${TITLES[view]} – Freestone`; }, [view]);
  return (
    <main id="main" tabIndex={-1} aria-label={TITLES[view]}>
      {VIEWS.map((name) => {
        const View = LOADED[name];
        return View && <div key={name} hidden={name !== view} class="grow" style={{ minHeight: 0, display: 'flex', flexDirection: 'column' }}><View /></div>;
      })}
      {!LOADED[view] && <p class="empty">Loading…</p>}
    </main>
  );
}

const THEMES: [Theme, string][] = [['system', 'As the system'], ['light', 'Light'], ['dark', 'Dark']];

function Top({ onKeys }: { onKeys: () => void }) {
  const info = session.value!;
  return (
    <header class="top">
      <div class="brand">
        <img src={icon} alt="" width={20} height={20} />
        Freestone
        {info.database && <small title={info.database}>{info.database}</small>}
      </div>
      <nav class="views" aria-label="Views">
        {VIEWS.map((view, at) => (
          <button key={view} aria-current={place.value.view === view ? 'page' : undefined} onClick={() => go(view)} aria-keyshortcuts={`Alt+${at + 1}`}>
            {TITLES[view]}
          </button>
        ))}
      </nav>
      <div class="end">
        {info.write === false && <span class="badge" title="Statements that change anything are refused">read only</span>}
        {info.user && <span class="badge wide-only" title={info.role && `role ${info.role}`}>{info.user}</span>}
        <select aria-label="Colours" value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)} class="wide-only">
          {THEMES.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
        </select>
        <button class="bare" onClick={onKeys} aria-label="Keys and colours" aria-keyshortcuts="F1">?</button>
        <button class="bare wide-only" onClick={() => void logOut()} title={LOG_OUT}>Log out</button>
      </div>
    </header>
  );
}

function Login({ onDone }: { onDone: () => void }) {
  const needed = session.value!.login;
  const [error, setError] = useState<ServerError | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? '');
    setBusy(true);
    setError(null);
    try {
      await api.login(needed === 'code' ? { code: text('code').trim() } : { user: text('user'), password: text('password') });
      onDone();
    } catch (failure) {
      setError(failure as ServerError);
    }
    setBusy(false);
  };
  return (
    <main class="login card">
      <div class="brand"><img src={icon} alt="" width={20} height={20} />Freestone</div>
      <form onSubmit={(event) => void submit(event)}>
        {needed === 'code' ? (
          <>
            <p>This page needs the code at the end of the address that <code>freestone ui</code> printed. It holds once.</p>
            <label>Code<input name="code" autocomplete="off" required autofocus /></label>
          </>
        ) : (
          <>
            <label>User<input name="user" autocomplete="username" required autofocus /></label>
            <label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
          </>
        )}
        {error && <Problem error={error} />}
        <button class="main" disabled={busy}>{busy ? 'Logging in…' : 'Log in'}</button>
      </form>
    </main>
  );
}

function useKeys(onKeys: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key === 'F1') {
        event.preventDefault();
        onKeys();
      }
      const view = event.altKey && !event.ctrlKey && !event.metaKey ? VIEWS[Number(event.code.replace('Digit', '')) - 1] : undefined;
      if (view) {
        event.preventDefault();
        go(view);
        document.getElementById('main')?.focus();
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

/** The user and the database that this page shows. */
let owner: string | null = null;

function Page() {
  const [error, setError] = useState<ServerError | null>(null);
  const [keys, setKeys] = useState(false);
  const load = async () => {
    setError(null);
    try {
      const now = await api.session();
      if (now.login === 'none') {
        // What the page shows is of the user who was logged in before.
        if (owner !== null && owner !== keyOf(now)) return location.reload();
        owner = keyOf(now);
      }
      session.value = now;
    } catch (failure) {
      setError(failure as ServerError);
    }
  };
  useEffect(() => {
    void start(load);
    const again = () => void load();
    addEventListener(api.LOGGED_OUT, again);
    return () => removeEventListener(api.LOGGED_OUT, again);
  }, []);
  useKeys(() => setKeys(true));
  if (error) return <main class="login"><Problem error={error} /><button onClick={() => void load()}>Try again</button></main>;
  if (!session.value) return <main class="empty">Connecting…</main>;
  if (session.value.login !== 'none') return <Login onDone={() => void load()} />;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>To the content</a>
      <Top onKeys={() => setKeys(true)} />
      <Views />
      {keys && <KeysDialog onClose={() => setKeys(false)} />}
      <div role="status" class={told.value ? 'toast' : 'hidden-text'}>{told.value}</div>
    </>
  );
}

/** A code in the address logs in once, and does not stay in it. */
async function start(load: () => Promise<void>): Promise<void> {
  const code = /^#code=([^&]+)$/.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, '', location.pathname);
    place.value = { view: 'sql', table: null, copy: null };
    // A code that was used before is told by what the session then asks for.
    await api.login({ code: decodeURIComponent(code) }).catch(() => undefined);
  }
  await load();
}

startTheme();
const page = document.getElementById('page')!;
// The text of the file, which was shown until now, is that of a page without a session.
page.replaceChildren();
render(<Page />, page);
