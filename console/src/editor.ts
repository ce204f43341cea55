/**
 * The editor. It lives in a shadow tree: there its styles are adopted sheets, which a policy without inline styles allows.
 */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type Completion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { PostgreSQL, schemaCompletionSource, SQLDialect, sql, type SQLNamespace } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, syntaxHighlighting, syntaxTree } from '@codemirror/language';
import { lintGutter, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers, placeholder, type KeyBinding } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const WORDS = `advise whatif design calibrate vacuum check copy copies budget explain analyze format preset column_groups page_format page_size sort cluster
 rle_levels encoding medium index pivot unpivot qualify exclude summarize describe show attach detach sample using asof positional macro struct map list`;

const FREESTONE = SQLDialect.define({ ...PostgreSQL.spec, keywords: `${PostgreSQL.spec.keywords ?? ''} ${WORDS}`, doubleDollarQuotedStrings: true });

export interface Known {
  /** Columns of each table. */
  tables: Record<string, { name: string; type: string }[]>;
  functions: string[];
}

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--s1)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--s4)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--s3)' },
  { tag: tags.comment, color: 'var(--soft)', fontStyle: 'italic' },
  { tag: tags.typeName, color: 'var(--s2)' },
  { tag: tags.operator, color: 'var(--soft)' },
]);

const THEME = EditorView.theme({
  '&': { height: '100%', fontSize: 'calc(var(--size) * .95)', color: 'var(--ink)', backgroundColor: 'var(--field)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '6px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)', borderLeftWidth: '2px' },
  '.cm-gutters': { backgroundColor: 'var(--field)', color: 'var(--bar)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--hover) 60%, transparent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'var(--chosen) !important' },
  '.cm-selectionMatch': { backgroundColor: 'var(--pale)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--pale) !important', outline: '1px solid var(--bar)' },
  '.cm-placeholder': { color: 'var(--bar)' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', border: '1px solid var(--rule)', borderRadius: '6px', boxShadow: '0 4px 18px rgb(0 0 0 / .16)' },
  '.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: 'calc(var(--size) * .9)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--chosen)', color: 'var(--ink)' },
  '.cm-completionDetail': { color: 'var(--soft)', fontStyle: 'normal', marginLeft: '1em' },
  '.cm-panels': { backgroundColor: 'var(--card)', color: 'var(--ink)', borderColor: 'var(--rule)' },
  '.cm-panel input, .cm-panel button': { fontFamily: 'var(--sans)', backgroundImage: 'none', background: 'var(--field)', color: 'inherit', border: '1px solid var(--rule)', borderRadius: '4px' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--no)' },
  '.cm-diagnostic': { whiteSpace: 'pre-wrap', maxWidth: '40rem' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--no) 1px', textUnderlineOffset: '3px' },
  '.cm-lint-marker-error': { content: 'none', width: '7px', height: '7px', borderRadius: '9px', backgroundColor: 'var(--no)', marginTop: '.45em' },
});

export interface Piece {
  text: string;
  /** Where it begins in the whole text. */
  from: number;
}

export class Editor {
  readonly view: EditorView;
  private readonly language = new Compartment();
  private readonly states = new Map<string, EditorState>();
  private extensions: ReturnType<Editor['common']>;
  private current = '';

  constructor(parent: HTMLElement, keys: KeyBinding[], private readonly onChange: (tab: string, text: string) => void) {
    const root = parent.shadowRoot ?? parent.attachShadow({ mode: 'open' });
    const holder = document.createElement('div');
    holder.style.height = '100%';
    root.replaceChildren(holder);
    this.extensions = this.common(keys);
    this.view = new EditorView({ parent: holder, root, state: this.state('') });
  }

  private common(keys: KeyBinding[]) {
    return [
      Prec.highest(keymap.of(keys)),
      lineNumbers(), highlightSpecialChars(), history(), drawSelection(), bracketMatching(), closeBrackets(), autocompletion({ icons: false }),
      highlightActiveLine(), highlightSelectionMatches(), search({ top: true }), lintGutter(),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, indentWithTab]),
      this.language.of(sql({ dialect: FREESTONE })),
      syntaxHighlighting(COLOURS), THEME, placeholder('SELECT …'),
      EditorView.contentAttributes.of({ 'aria-label': 'SQL', spellcheck: 'false', autocapitalize: 'off' }),
      EditorView.updateListener.of((update) => { if (update.docChanged) this.onChange(this.current, update.state.doc.toString()); }),
    ];
  }

  private state(doc: string): EditorState {
    return EditorState.create({ doc, extensions: this.extensions });
  }

  /** Shows the text of a tab, with its cursor and its history where it was open before. */
  show(tab: string, text: string): void {
    if (tab === this.current) return;
    if (this.current) this.states.set(this.current, this.view.state);
    this.current = tab;
    const kept = this.states.get(tab);
    this.view.setState(kept && kept.doc.toString() === text ? kept : this.state(text));
    if (this.known) this.complete(this.known);
  }

  private known: Known | null = null;

  /** What is completed, with the names of tables, columns and functions. */
  complete(known: Known): void {
    this.known = known;
    const schema: SQLNamespace = Object.fromEntries(Object.entries(known.tables).map(([table, columns]) => [
      table, columns.map(({ name, type }): Completion => ({ label: name, detail: type, type: 'property' })),
    ]));
    const functions = known.functions.map((name): Completion => ({ label: name, type: 'function', detail: 'function', apply: `${name}(` , boost: -5 }));
    const columns = [...new Set(Object.values(known.tables).flat().map(({ name }) => name))].map((name): Completion => ({ label: name, type: 'property', detail: 'column', boost: -1 }));
    const named = (context: Parameters<ReturnType<typeof schemaCompletionSource>>[0]) => {
      const word = context.matchBefore(/[\w$]+/);
      if (!word || context.matchBefore(/\.[\w$]*/)) return null;
      const inside = syntaxTree(context.state).resolveInner(context.pos, -1).name;
      if (inside === 'String' || inside.endsWith('Comment')) return null;
      return { from: word.from, options: [...columns, ...functions], validFor: /^[\w$]*$/ };
    };
    const language = sql({ dialect: FREESTONE, schema });
    this.view.dispatch({ effects: this.language.reconfigure([language, language.language.data.of({ autocomplete: named })]) });
  }

  text(): string {
    return this.view.state.doc.toString();
  }

  setText(text: string): void {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text }, selection: { anchor: 0 } });
  }

  insert(text: string): void {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.view.focus();
  }

  /** The statements of the whole text, or of a part of it. */
  statements(from = 0, to = this.view.state.doc.length): Piece[] {
    const found: Piece[] = [];
    const tree = syntaxTree(this.view.state);
    tree.iterate({
      enter: (node) => {
        if (node.name !== 'Statement') return node.name === 'Script';
        if (node.to > from && node.from < to) found.push({ from: node.from, text: this.view.state.sliceDoc(node.from, node.to) });
        return false;
      },
    });
    return found;
  }

  /** The selection; without one, the statement at the cursor or before it. */
  chosen(): Piece | null {
    const { from, to, empty } = this.view.state.selection.main;
    if (!empty) return { from, text: this.view.state.sliceDoc(from, to) };
    const all = this.statements();
    const at = all.find((piece) => from >= piece.from && from <= piece.from + piece.text.length);
    return at ?? all.filter((piece) => piece.from <= from).at(-1) ?? all[0] ?? null;
  }

  /** Marks an error at a place of the text that was sent, which began at `base`. Without a place, its first line. */
  mark(base: Piece, message: string, hint: string | undefined, line: number | undefined, column: number | undefined): number {
    const { doc } = this.view.state;
    const before = doc.lineAt(Math.min(base.from, doc.length));
    const row = Math.min(before.number + (line ?? 1) - 1, doc.lines);
    const found = doc.line(row);
    const shift = row === before.number && (line ?? 1) === 1 ? base.from - before.from : 0;
    const from = Math.min(found.from + shift + unitsOf(found.text.slice(shift), Math.max((column ?? 1) - 1, 0)), found.to);
    const word = /^[\w$"']+|^\S/.exec(doc.sliceString(from, found.to))?.[0] ?? '';
    const to = line === undefined ? found.to : Math.min(from + Math.max(word.length, 1), doc.length);
    const diagnostic: Diagnostic = { from, to: Math.max(to, from), severity: 'error', message: hint ? `${message}\nHint: ${hint}` : message };
    this.view.dispatch(setDiagnostics(this.view.state, [diagnostic]));
    return from;
  }

  clearMarks(): void {
    this.view.dispatch(setDiagnostics(this.view.state, []));
  }

  goTo(place: number): void {
    this.view.dispatch({ selection: { anchor: Math.min(place, this.view.state.doc.length) }, scrollIntoView: true });
    this.view.focus();
  }

  forget(tab: string): void {
    this.states.delete(tab);
    if (this.current === tab) this.current = '';
  }
}

/** The length of a text's first `letters` code points, which servers count, in the units that browsers count. */
function unitsOf(text: string, letters: number): number {
  return [...text].slice(0, letters).join('').length;
}

/** The parameters that a text names, `$1`, `$2` or `$name`, outside of texts and comments: numbers first. */
export function parametersOf(text: string): string[] {
  const bare = text.replace(/--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$[\s\S]*?\$\1\$/g, ' ');
  const names = [...new Set([...bare.matchAll(/(?<![\w$])\$(\w+)/g)].map((found) => found[1]!))];
  return names.sort((a, b) => (Number(a) || Infinity) - (Number(b) || Infinity) || 0);
}
