// The program whose console is tested, and what it answers without a browser.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export const PROGRAM = process.env.FREESTONE ?? join(process.env.CARGO_TARGET_DIR ?? join(homedir(), '.cache/freestone/target'), 'release/freestone');

/** Why the program cannot be tested; null if it can. */
export function missing() {
  if (!existsSync(PROGRAM)) return `there is no ${PROGRAM}`;
  const { stdout } = spawnSync(PROGRAM, ['--help'], { encoding: 'utf8' });
  return /^\s+ui\b/m.test(stdout) ? null : `${PROGRAM} has no command ui`;
}

/** Runs statements. */
export const execute = (database, ...options) => execFileSync(PROGRAM, [database, ...options], { encoding: 'utf8' });

/** The rows of a statement. */
export const run = (database, sql) => JSON.parse(execute(database, '--format', 'json', '-c', sql));

/** The servers that run. */
const CHILDREN = new Set();

/** Ends the servers that a failed test has left. */
export function endAll() {
  for (const child of CHILDREN) child.kill('SIGKILL');
}

/** Starts the server and returns its address and how to stop it. */
export async function start(database, options = []) {
  const child = spawn(PROGRAM, ['ui', database, '--no-open', '--write', ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
  CHILDREN.add(child);
  const ended = new Promise((resolve) => { child.on('exit', () => { CHILDREN.delete(child); resolve(); }); });
  let [said, used] = ['', ''];
  child.stderr.on('data', (chunk) => { said += chunk; });
  /** The address that was printed last, with a code that no page has used yet. */
  const next = () => new Promise((resolve, reject) => {
    const look = () => {
      const last = said.match(/http:\/\/\S+(?=\n)/g)?.at(-1);
      if (!last || last === used) return;
      child.stderr.off('data', look);
      used = last;
      resolve(last);
    };
    child.stderr.on('data', look);
    child.on('exit', (code) => reject(new Error(`freestone ui ended with ${code}: ${said}`)));
    look();
  });
  const address = await next();
  return { address, next, pid: child.pid, stop: () => { child.kill('SIGTERM'); return ended; } };
}

/** A figure of the server's metrics. */
export async function metric(address, name) {
  const text = await (await fetch(new URL('/metrics', address))).text();
  const found = new RegExp(`^freestone_${name} (\\S+)$`, 'm').exec(text);
  if (!found) throw new Error(`there is no metric ${name}`);
  return Number(found[1]);
}

/** The memory of a process in bytes, where the system tells it; null elsewhere. */
export function memoryOf(pid) {
  const status = `/proc/${pid}/status`;
  return existsSync(status) ? Number(/VmRSS:\s+(\d+)/.exec(readFileSync(status, 'utf8'))[1]) * 1024 : null;
}

/** Segments of the table `many`: each insert is too large for the commit log. */
export const SEGMENTS = 1000;
export const MANY = `CREATE TABLE many (id INT, day INT);\nBEGIN;\n${Array.from({ length: SEGMENTS }, (_, at) => `INSERT INTO many SELECT ${at} * 17000 + value, ${at} FROM range(17000);`).join('\n')}\nCOMMIT;`;
export const SIX = `CREATE TABLE six AS SELECT g AS id, DATE '2020-01-01' + CAST(g % 1000 AS INT) AS day, CAST((g * 7919) % 100000 AS DECIMAL(12, 2)) AS price, 'item ' || (g % 500) AS item
 FROM generate_series(1, 6000000) AS s(g)`;
