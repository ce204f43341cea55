/** Small parts that several views use. All of what they show is text. */
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { ServerError } from './api';

export function Problem({ error, onPlace }: { error: Error; onPlace?: () => void }) {
  const { hint, line, column, sqlstate } = error as ServerError;
  const where = line ? `line ${line}${column ? `, column ${column}` : ''}` : '';
  return (
    <div class="problem" role="alert">
      <b>Error</b>{where && <> at {onPlace ? <button class="bare" onClick={onPlace}>{where}</button> : where}</>}: {error.message}
      {hint && <span class="hint">Hint: {hint}</span>}
      {sqlstate && <span class="hint">SQLSTATE {sqlstate}</span>}
    </div>
  );
}

/** A dialog of the browser: it keeps the focus, and Escape closes it. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  // Before the browser draws: the next key is for the dialog.
  useLayoutEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose} onClick={(event) => { if (event.target === element.current) element.current?.close(); }}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

/** One of several choices, as buttons in one frame. */
export function Segmented<T extends string>({ label, value, options, onChange }: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {options.map(([key, name]) => (
        <button key={key} aria-pressed={key === value} onClick={() => onChange(key)}>{name}</button>
      ))}
    </div>
  );
}

/** A share of one as a bar. */
export function Meter({ share, best, label }: { share: number; best?: boolean; label?: string }) {
  return <span class={best ? 'meter best' : 'meter'} role={label ? 'img' : undefined} aria-label={label}><i style={{ width: `${Math.min(Math.max(share, 0), 1) * 100}%` }} /></span>;
}

/** Rows and columns of text: numbers to the right, the first column as heads of rows. */
export function Plain({ caption, head, rows, numbers = [] }: { caption: string; head: string[]; rows: ComponentChildren[][]; numbers?: number[] }) {
  const side = (at: number) => (numbers.includes(at) ? 'num' : undefined);
  return (
    <div class="table">
      <table class="plain">
        <caption class="hidden-text">{caption}</caption>
        <thead><tr>{head.map((name, at) => <th key={name} scope="col" class={side(at)}>{name}</th>)}</tr></thead>
        <tbody>{rows.map((row, number) => <tr key={number}>{row.map((value, at) => <td key={at} class={side(at)}>{value}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

/** Calls with the size of an element whenever it changes. */
export function useSize(onSize: (width: number, height: number) => void) {
  const element = useRef<HTMLDivElement>(null);
  const call = useRef(onSize);
  call.current = onSize;
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry) call.current(entry.contentRect.width, entry.contentRect.height);
    });
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return element;
}
