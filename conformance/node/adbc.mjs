// Runs Freestone's ADBC driver for another process, in Node.js. npm has no driver manager, so the program loads the driver itself, and
// reads and writes Arrow's C data interface. Requests and responses are those of Jdbc.java.
//
//   node adbc.mjs DRIVER URI
import koffi from "koffi";
import readline from "node:readline";
import { parameters, rows, schema } from "./arrow.mjs";
import { allocated, functionAt, pointer, text, utf8, view } from "./memory.mjs";

const VERSION_1_1 = 1001000;
const PLACES = 58;
// Functions of the driver: their places in the table of ADBC 1.1, and the number of pointers before that of the error.
const CALLS = {
  databaseInit: [3, 1],
  databaseNew: [4, 1],
  databaseSetOption: [5, 3],
  databaseRelease: [6, 1],
  connectionInit: [12, 2],
  connectionNew: [13, 1],
  connectionRelease: [16, 1],
  bind: [18, 3],
  executeQuery: [20, 3],
  statementNew: [23, 2],
  statementRelease: [25, 1],
  setSqlQuery: [27, 2],
  statementCancel: [49, 1],
};
const ERROR_FROM_STREAM = 31;

class Failure extends Error {
  constructor(state, message) {
    super(message);
    this.state = state;
  }
}

const stateOf = (error) => String.fromCharCode(...new Uint8Array(koffi.view(error + 12n, 5))).replaceAll("\0", "");

// An error for the driver to fill: message, vendor code, SQLSTATE, release, and what ADBC 1.1 has added if the code says so.
function emptyError() {
  const error = allocated(48);
  view(error, 48).setInt32(8, -(2 ** 31), true);
  return error;
}

function taken(error) {
  const failure = new Failure(stateOf(error), text(pointer(error)));
  const release = pointer(error, 24);
  if (release) functionAt(release, "void (uint64_t)")(error);
  koffi.free(error);
  return failure;
}

class Client {
  constructor(path) {
    this.driver = allocated(8 * PLACES);
    const init = koffi.load(path).func("uint8_t AdbcDriverInit(int, uint64_t, uint64_t)");
    const error = emptyError();
    if (init(VERSION_1_1, this.driver, error)) throw taken(error);
    this.database = allocated(16);
    this.connection = allocated(16);
  }

  async open(uri) {
    await this.call("databaseNew", this.database);
    await this.call("databaseSetOption", this.database, utf8("uri"), utf8(uri));
    await this.call("databaseInit", this.database);
    await this.call("connectionNew", this.connection);
    await this.call("connectionInit", this.connection, this.database);
  }

  // Calls a function of the driver in another thread, so that a statement can be cancelled meanwhile.
  async call(name, ...given) {
    const [place, count] = CALLS[name];
    const form = `uint8_t (${Array(count + 1).fill("uint64_t").join(", ")})`;
    const error = emptyError();
    if (await called(functionAt(pointer(this.driver, 8 * place), form), ...given, error)) throw taken(error);
    koffi.free(error);
  }

  async execute(texts, cancels, row) {
    const [statement, stream, affected] = [allocated(16), allocated(40), allocated(8)];
    await this.call("statementNew", this.connection, statement);
    try {
      await this.call("setSqlQuery", statement, utf8(texts[0]));
      if (texts.length > 1) await this.call("bind", statement, ...parameters(texts.slice(1)));
      if (cancels) setTimeout(() => this.call("statementCancel", statement), 700);
      await this.call("executeQuery", statement, stream, affected);
      try {
        await this.read(stream, row);
      } finally {
        const release = pointer(stream, 24);
        if (release) await called(functionAt(release, "void (uint64_t)"), stream);
      }
    } finally {
      await this.call("statementRelease", statement);
      [statement, stream, affected].forEach((address) => koffi.free(address));
    }
  }

  async read(stream, row) {
    const given = allocated(72);
    await this.next(stream, 0, given);
    const columns = schema(given);
    for (;;) {
      const array = allocated(80);
      await this.next(stream, 8, array);
      const release = pointer(array, 64);
      if (release === 0n) break;
      for (const line of rows(columns, array)) row(line);
      functionAt(release, "void (uint64_t)")(array);
      koffi.free(array);
    }
    functionAt(pointer(given, 56), "void (uint64_t)")(given);
    koffi.free(given);
  }

  // Lets a stream fill a structure: its functions give the schema, the next array, and the last error.
  async next(stream, offset, filled) {
    if ((await called(functionAt(pointer(stream, offset), "int (uint64_t, uint64_t)"), stream, filled)) === 0) return;
    const message = text(functionAt(pointer(stream, 16), "uint64_t (uint64_t)")(stream));
    const status = allocated(8);
    const error = functionAt(pointer(this.driver, 8 * ERROR_FROM_STREAM), "uint64_t (uint64_t, uint64_t)")(stream, status);
    throw new Failure(error ? stateOf(BigInt(error)) : "", message);
  }
}

const called = (f, ...given) =>
  new Promise((resolve, reject) => f.async(...given, (error, result) => (error ? reject(error) : resolve(result))));

const encoded = (given) => Buffer.from(given, "utf8").toString("base64");
const decoded = (given) => Buffer.from(given, "base64").toString("utf8");

async function answer(client, line) {
  const [word, ...parts] = line.split(" ");
  const out = [];
  try {
    await client.execute(parts.map(decoded), word === "cancel", (row) => out.push(`row ${row}`));
    out.push("end");
  } catch (error) {
    out.push(`error ${encoded(`${error.state ?? "null"} ${error.message}`)}`);
  }
  process.stdout.write(`${out.join("\n")}\n`);
}

const [path, uri] = process.argv.slice(2);
const client = new Client(path);
await client.open(uri);
process.stdout.write("ready\n");
for await (const line of readline.createInterface({ input: process.stdin })) await answer(client, line);
await client.call("connectionRelease", client.connection);
await client.call("databaseRelease", client.database);
