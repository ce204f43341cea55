/** The keys, as a dialog. */
import { setTheme, theme } from './look';
import { Dialog, Segmented } from './parts';
import { logOut } from './storage';

export const LOG_OUT = 'Ends the login, and removes the scripts and the history that this browser keeps for it';

const THEMES = [['system', 'As the system'], ['light', 'Light'], ['dark', 'Dark']] as const;

const KEYS: [string, [string, string][]][] = [
  ['Everywhere', [
    ['Alt 1 … Alt 5', 'SQL, Plan, Layout, Advice, Machine'],
    ['F1', 'these keys'],
    ['Esc', 'close a dialog; cancel what runs'],
  ]],
  ['SQL', [
    ['Ctrl Enter', 'run the selection, or the statement at the cursor'],
    ['Ctrl Shift Enter', 'run all'],
    ['Ctrl Shift E', 'run the statement and show its plan'],
    ['Ctrl Space', 'complete'],
    ['Ctrl F', 'search in the text'],
    ['Ctrl S, Ctrl O', 'save to, open from a .sql file'],
    ['Alt T, Alt W', 'new tab, close the tab'],
    ['F2', 'rename the tab'],
    ['Alt Page Up, Alt Page Down', 'other tabs'],
    ['Alt H', 'history'],
    ['F6', 'from the editor to the result, to the tables, and back'],
    ['Esc, then Tab', 'leave the editor'],
  ]],
  ['Result', [
    ['arrows, Page Up, Page Down', 'move; with Shift, select'],
    ['Home, End', 'first and last column; with Ctrl, first and last row'],
    ['Enter', 'the whole value'],
    ['Alt ←, Alt →', 'narrow and widen the column'],
    ['Ctrl A, Ctrl C', 'select all, copy'],
  ]],
  ['Layout', [
    ['arrows', 'the next segment or column group; in the lower picture, the next zone'],
    ['Enter', 'look into the segment, at its pages'],
    ['Esc', 'back to all segments'],
  ]],
];

export function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys and colours" onClose={onClose}>
      <div class="row start">
        <Segmented label="Colours" value={theme.value} options={THEMES} onChange={setTheme} />
        <button onClick={() => void logOut()} title={LOG_OUT}>Log out</button>
      </div>
      <div class="two">
        {KEYS.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <div class="keys">
              {keys.map(([key, what]) => <><span><kbd>{key}</kbd></span><span>{what}</span></>)}
            </div>
          </section>
        ))}
      </div>
      <form method="dialog" class="row"><a href="/LICENSES.txt" target="_blank" rel="noopener">Licences</a><button class="main">Close</button></form>
    </Dialog>
  );
}
