/** Designs as the engine prints them, as far as pictures need them. */

export interface Shape {
  preset: string;
  groups: string[][];
  sort: string;
  cluster: string;
  other: [string, string][];
}

/** The options of a design: `preset = 'column', sort = 'a, b'`. */
export function optionsOf(design: string): [string, string][] {
  return [...design.matchAll(/(\w+) = '((?:[^']|'')*)'/g)].map((found) => [found[1]!, found[2]!.replaceAll("''", "'")]);
}

/** What a design makes of columns. Columns that its groups do not name have groups of their own, unless it stores rows. */
export function shapeOf(design: string, columns: string[]): Shape {
  const options = optionsOf(design);
  const value = (name: string) => options.find(([known]) => known === name)?.[1] ?? '';
  const preset = value('preset') || 'auto';
  const groups = groupsOf(value('column_groups')).map((group) => group.filter((name) => columns.includes(name))).filter((group) => group.length > 0);
  const named = new Set(groups.flat());
  const rest = columns.filter((name) => !named.has(name));
  const isRows = preset === 'row' || preset === 'slotted' || preset === 'pax' || value('page_format') === 'pax';
  if (isRows && groups.length === 0) groups.push(rest);
  else groups.push(...rest.map((name) => [name]));
  const other = options.filter(([name]) => !['preset', 'column_groups', 'sort', 'cluster'].includes(name));
  return { preset, groups, sort: value('sort'), cluster: value('cluster'), other };
}

/** `(a, b), (c)` as lists; names may be quoted. */
function groupsOf(text: string): string[][] {
  return [...text.matchAll(/\(([^)]*)\)/g)].map((found) => [...found[1]!.matchAll(/"((?:[^"]|"")*)"|[^\s,]+/g)].map((name) => name[1]?.replaceAll('""', '"') ?? name[0]));
}
