/** The last plan as a tree, with rows, times and estimates. */
import { useState } from 'preact/hooks';
import { duration, percent, thousands } from '../formats';
import { Meter } from '../parts';
import { counter, countersText, factorText, heaviest, totalTime, type PlanDocument, type PlanNode } from '../plan';
import { planPage } from '../planpage';
import { download, go, plan, scanned } from '../state';

export default function Plan() {
  const shown = plan.value;
  if (!shown) {
    return <div class="empty"><b>No plan yet</b>In SQL, Ctrl Shift E runs the statement at the cursor and shows its plan here.</div>;
  }
  const total = totalTime(shown.root);
  return (
    <div class="scroll">
      <div class="sheet">
        <section class="card">
          <header>
            <h2>Plan</h2>
            <span class="soft">{shown.took === null ? 'not run' : `${duration(shown.took)}, ${duration(total)} of its threads`}</span>
            <span class="grow" />
            <button onClick={() => download('plan.html', [planPage(shown)], 'text/html')}>Save as HTML</button>
          </header>
          <pre class="statement">{shown.statement}</pre>
        </section>
        <section class="card">
          <div class="node soft" aria-hidden="true"><span>Operator</span><span class="figure">Time of its own</span><span class="figure rows">Rows, and as expected</span></div>
          <ul class="plan" role="tree" aria-label="Operators"><Item shown={shown} node={shown.root} total={total} most={heaviest(shown.root)} level={1} /></ul>
        </section>
      </div>
    </div>
  );
}

function Item({ shown, node, total, most, level }: { shown: PlanDocument; node: PlanNode; total: number; most: PlanNode | null; level: number }) {
  const [isOpen, setOpen] = useState(true);
  const share = total > 0 && node.own !== null ? node.own / total : null;
  const off = factorText(node);
  const has = node.children.length > 0;
  const pressed = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return;
    if (event.key === 'ArrowLeft') setOpen(false);
    else if (event.key === 'ArrowRight') setOpen(true);
    else if (event.key === 'Enter' || event.key === ' ') setOpen(!isOpen);
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const all = [...document.querySelectorAll<HTMLElement>('.plan [role=treeitem]')];
      all[all.indexOf(event.currentTarget as HTMLElement) + (event.key === 'ArrowDown' ? 1 : -1)]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <li role="treeitem" aria-level={level} aria-expanded={has ? isOpen : undefined} tabIndex={0} onKeyDown={pressed}
      aria-label={`${node.name} ${node.table ?? ''}${share === null ? '' : `, ${percent(share)} of the time`}${node.rows === null ? '' : `, ${thousands(node.rows)} rows`}`}>
      <div class={node === most ? 'node heavy' : 'node'}>
        <div class="what">
          {has && <button class="bare" aria-label={isOpen ? 'Close' : 'Open'} tabIndex={-1} onClick={() => setOpen(!isOpen)}>{isOpen ? '▾' : '▸'}</button>}
          <span class="name">{node.name}{node.table !== null && ` ${node.table}`}{node.copy !== null && `, copy ${node.copy}`}</span>
          {node === most && <span class="tag">heaviest</span>}
          {node.table !== null && node.name.startsWith('Scan') && (
            <button class="bare" onClick={() => { scanned.value = node; go('layout', node.table, node.copy); }} title="What this scan read of the table">where it read →</button>
          )}
          <div class="details">{node.details}</div>
          <Counters node={node} />
        </div>
        <div class="figure">
          {node.own !== null && <>{duration(node.own)}{share !== null && <span class="soft"> {percent(share)}</span>}<Meter share={share ?? 0} best={node === most} /></>}
        </div>
        <div class="figure rows">
          {node.rows !== null && <>{thousands(node.rows)} </>}
          {node.expected !== null && <span class="soft">({thousands(node.expected)} expected)</span>}
          {off && <div class="off">{off} than expected</div>}
        </div>
      </div>
      {has && isOpen && <ul role="group">{node.children.map((child, at) => <Item key={at} shown={shown} node={child} total={total} most={most} level={level + 1} />)}</ul>}
    </li>
  );
}

function Counters({ node }: { node: PlanNode }) {
  if (node.counters.length === 0) return null;
  const zones = counter(node, 'zones');
  const pruned = counter(node, 'zones_pruned') ?? 0;
  return (
    <div class="counters">
      {zones ? `${percent(pruned / zones)} of the zones pruned. ` : ''}
      {countersText(node)}
    </div>
  );
}
