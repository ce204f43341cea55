// A server of the page for development and its tests: it speaks the console's protocol, with made-up answers.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { answerTo, BATCH_ROWS, BIG_ROWS, bigPieces, HUGE_ROWS } from './answers.mjs';

const DIST = fileURLToPath(new URL('../dist', import.meta.url));
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

function frame(kind, payload) {
  const body = payload instanceof Uint8Array ? payload : Buffer.from(JSON.stringify(payload));
  const head = Buffer.alloc(5);
  head.write(kind, 0, 'latin1');
  head.writeUInt32LE(body.length, 1);
  return Buffer.concat([head, body]);
}

async function file(request, response) {
  const path = request.url.split('?')[0];
  const name = path === '/' ? '/index.html' : normalize(path);
  try {
    const body = await readFile(join(DIST, `${name}.gz`));
    response.writeHead(200, { 'Content-Type': TYPES[extname(name)] ?? 'application/octet-stream', 'Content-Encoding': 'gzip', 'Content-Security-Policy': POLICY });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
}

const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Writes as fast as the page reads. */
async function write(response, bytes) {
  if (response.write(bytes)) return;
  await new Promise((resolve) => {
    const go = () => {
      response.off('drain', go);
      response.off('close', go);
      resolve();
    };
    response.on('drain', go);
    response.on('close', go);
  });
}

async function big(response, state, all) {
  const { schema, batch, end } = bigPieces();
  // The huge result repeats one batch: only its size matters.
  const first = all > BIG_ROWS ? batch(0) : null;
  await write(response, frame('A', schema));
  for (let row = 0; row < all && !response.destroyed; row += BATCH_ROWS) {
    await write(response, frame('A', first ?? batch(row)));
    state.sent = row + BATCH_ROWS;
  }
  if (!response.destroyed) response.write(frame('A', end));
  return all;
}

/** The statements of a script. Made-up scripts have no semicolons in texts. */
const parts = (sql) => sql.split(';').map((part) => part.trim()).filter((part) => part !== '');

async function query(body, response, state) {
  response.writeHead(200, { 'Content-Type': 'application/vnd.freestone.frames' });
  state.cancelled.delete(body.tab);
  let at = 0;
  for (const [index, sql] of parts(body.sql).entries()) {
    at = body.sql.indexOf(sql, at);
    const before = body.sql.slice(0, at).split('\n');
    const began = Date.now();
    response.write(frame('S', { index, line: before.length, column: before.at(-1).length + 1, text: sql }));
    if (/\bmistake\b/.test(sql)) {
      const to = sql.slice(0, sql.indexOf('mistake')).split('\n');
      response.end(frame('E', { message: 'there is no column mistake', hint: 'columns are l_orderkey, l_partkey, …', sqlstate: '42703', line: before.length + to.length - 1, column: (to.length === 1 ? before.at(-1).length : 0) + to.at(-1).length + 1 }));
      return;
    }
    let rows = 0;
    if (/\bslow\b/.test(sql)) {
      for (let step = 0; step < 100 && !state.cancelled.has(body.tab) && !response.destroyed; step++) {
        response.write(frame('P', { ms: step * 200, rows: step * 10, share: step / 100 }));
        await later(200);
      }
      if (state.cancelled.delete(body.tab)) {
        response.end(frame('E', { message: 'the statement was cancelled', sqlstate: '57014' }));
        return;
      }
    } else if (/FROM (big|huge)\b/.test(sql)) rows = await big(response, state, /huge/.test(sql) ? HUGE_ROWS : BIG_ROWS);
    else {
      const bytes = answerTo(sql);
      if (bytes) await write(response, frame('A', bytes));
      rows = 1;
    }
    response.write(frame('D', { ms: Date.now() - began + 0.3, rows, tag: /^\w+( TABLE)?/.exec(sql)?.[0] ?? '' }));
  }
  response.end();
}

/** Starts the server and returns its address, its state and how to stop it. */
export async function serve({ port = 0, write = true, code = null } = {}) {
  const state = { isLoggedIn: code === null, cancelled: new Set(), sent: 0 };
  const server = createServer(async (request, response) => {
    const say = (status, value) => response.writeHead(status, { 'Content-Type': 'application/json' }).end(value ? JSON.stringify(value) : '');
    if (!request.url.startsWith('/api/')) return file(request, response);
    if (request.url === '/api/session') return say(200, { login: state.isLoggedIn ? 'none' : 'code', database: 'shop', id: 'f00d', version: '0.1.0', write, threads: 2, user: 'ann', role: 'admin' });
    let text = '';
    for await (const chunk of request) text += chunk;
    if (request.headers['x-freestone'] !== '1') return say(403, { error: { message: 'the header X-Freestone is missing' } });
    const body = JSON.parse(text);
    if (request.url === '/api/login') {
      state.isLoggedIn ||= body.code === code;
      return state.isLoggedIn ? say(204) : say(401, { error: { message: 'this code is not right', hint: 'copy it from where freestone ui printed it' } });
    }
    if (!state.isLoggedIn) return say(401, { error: { message: 'log in first' } });
    if (request.url === '/api/query') return query(body, response, state);
    if (request.url === '/api/cancel') state.cancelled.add(body.tab);
    return say(204);
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { address: `http://127.0.0.1:${server.address().port}/`, state, stop: () => new Promise((resolve) => { server.closeAllConnections(); server.close(resolve); }) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log((await serve({ port: Number(process.argv[2] ?? 8765) })).address);
