/** A plan as one HTML file without scripts and addresses. */
import { duration, percent, thousands } from './formats';
import { countersText, factorText, heaviest, totalTime, type PlanDocument, type PlanNode } from './plan';

export function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

const STYLE = `:root{color-scheme:light dark;--ink:light-dark(#22201d,#ece7de);--paper:light-dark(#fbfaf8,#171614);--soft:light-dark(#6b665e,#a39c90);
--rule:light-dark(#e4dfd6,#37332d);--best:light-dark(#b4552d,#e8875a);--bar:light-dark(#b9b2a5,#6f685d)}
body{margin:2rem auto;max-width:70rem;padding:0 1.2rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
ul{list-style:none;padding-left:1.4rem;border-left:1px solid var(--rule);margin:0 0 0 .4rem}body>ul{border:0;padding:0;margin:0}
li>div{padding:.35rem 0}b.heavy{color:var(--best)}.soft,code,pre{color:var(--soft)}code,pre{font-family:ui-monospace,monospace;font-size:.88em;white-space:pre-wrap;overflow-wrap:anywhere}
.share{display:inline-block;height:.6em;background:var(--bar);border-radius:2px;margin-right:.5em}.heavy+.share{background:var(--best)}h1{font-size:1.3rem}`;

export function planPage(plan: PlanDocument): string {
  const total = totalTime(plan.root);
  const most = heaviest(plan.root);
  const took = plan.took === null ? 'not run' : `${duration(plan.took)}, ${duration(total)} of its threads`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Plan – Freestone</title>
<style>${STYLE}</style></head>
<body><h1>Plan</h1><pre>${escape(plan.statement)}</pre><p>${escape(took)}</p>
<ul>${item(plan.root, total, most)}</ul></body></html>
`;
}

function item(node: PlanNode, total: number, most: PlanNode | null): string {
  const share = total > 0 && node.own !== null ? node.own / total : 0;
  const rows = [
    node.rows !== null && `${thousands(node.rows)} rows`,
    node.expected !== null && `${thousands(node.expected)} expected`,
    factorText(node),
  ].filter(Boolean).join(', ');
  const time = node.own === null ? '' : `<span class="share" style="width:${(share * 12).toFixed(2)}rem"></span>${duration(node.own)}, ${percent(share)}`;
  const counters = countersText(node);
  const children = node.children.length > 0 ? `<ul>${node.children.map((child) => item(child, total, most)).join('')}</ul>` : '';
  return `<li><div><b${node === most ? ' class="heavy"' : ''}>${escape(node.name)}${node.table === null ? '' : ` ${escape(node.table)}`}</b> ${time}
<div>${escape(rows)}</div><code>${escape(node.details)}</code><div class="soft">${escape(counters)}</div></div>${children}</li>`;
}
