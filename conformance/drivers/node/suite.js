// node-postgres: text values and its parsers, prepared statements, cursors, COPY, notifications, errors. Prints a line per check, as
// ../checks.py describes. The server is that of PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE, which the driver reads itself.

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");
const pg = require("pg");
const Cursor = require("pg-cursor");
const copy = require("pg-copy-streams");

const expected = JSON.parse(fs.readFileSync(path.join(__dirname, "../expected.json"), "utf8"));
const errorsTable = [
  "DROP TABLE IF EXISTS errors_of_it",
  "CREATE TABLE errors_of_it (id INTEGER PRIMARY KEY, name VARCHAR(3), n INTEGER CHECK (n > 0))",
  "INSERT INTO errors_of_it VALUES (1, 'a', 1)",
];
const checks = [];
const check = (name, run) => checks.push([name, run]);

// A type, what is sent, and what is found.
const values = [
  ["smallint", -7, -7],
  ["integer", 70000, 70000],
  ["bigint", "7000000000", "7000000000"],
  ["real", 1.5, 1.5],
  ["double precision", 2.25, 2.25],
  ["numeric(10, 2)", "12.3", "12.30"],
  ["numeric", "12.345678901234567", "12.345678901234567"],
  ["text", "ä 日本語 '\"\\", "ä 日本語 '\"\\"],
  ["varchar(10)", "abc", "abc"],
  ["boolean", true, true],
  ["bytea", Buffer.from([0, 255, 92]), Buffer.from([0, 255, 92])],
  ["uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
  ["timestamptz", new Date("2024-02-29T10:20:30.123Z"), new Date("2024-02-29T10:20:30.123Z")],
  ["date", "2024-02-29", new Date(2024, 1, 29)],
  ["time", "10:20:30.5", "10:20:30.5"],
  ["json", { a: [1, null] }, { a: [1, null] }],
  ["jsonb", { a: [1, null] }, { a: [1, null] }],
  ["integer[]", [1, null, 3], [1, null, 3]],
  ["text[]", ["a,b", '"', null, ""], ["a,b", '"', null, ""]],
  ["integer[][]", [[1, 2], [3, 4]], [[1, 2], [3, 4]]],
  ["boolean[]", [true, null], [true, null]],
];

for (const [of, sent, wanted] of values) {
  check(`types.${of}`, async (client) => {
    for (const [value, found] of [[sent, wanted], [null, null]]) {
      const answer = await client.query(`SELECT $1::${of} AS v`, [value]);
      assert.deepStrictEqual(answer.rows, [{ v: found }]);
    }
  });
  check(`columns.${of}`, async (client) => {
    await client.query(`CREATE TEMP TABLE kept (n INTEGER, c ${of})`);
    for (const [n, value] of [[1, sent], [2, null]]) await client.query("INSERT INTO kept VALUES ($1, $2)", [n, value]);
    const answer = await client.query("SELECT c FROM kept ORDER BY n");
    assert.deepStrictEqual(answer.rows, [{ c: wanted }, { c: null }]);
  });
}

check("types.interval", async (client) => {
  const answer = await client.query("SELECT interval '1 year 2 days 03:04:05' AS v");
  assert.deepStrictEqual({ ...answer.rows[0].v }, { years: 1, days: 2, hours: 3, minutes: 4, seconds: 5 });
});

for (const [of, given, wanted] of expected.texts) {
  check(`texts.${of} ${given}`, async (client) => {
    const answer = await client.query(`SELECT $1::text::${of}::text AS v`, [given]);
    assert.strictEqual(answer.rows[0].v, wanted);
  });
}

check("parameters.prepared", async (client) => {
  for (const n of [1, 2, 3]) {
    const answer = await client.query({ name: "plus", text: "SELECT $1::integer + 1 AS v", values: [n] });
    assert.strictEqual(answer.rows[0].v, n + 1);
  }
});

check("parameters.arrays", async (client) => {
  const answer = await client.query("SELECT n::integer AS n FROM generate_series(1, 5) AS s(n) WHERE n = ANY($1::integer[]) ORDER BY n", [[2, 4]]);
  assert.deepStrictEqual(answer.rows.map((row) => row.n), [2, 4]);
});

check("results.fields", async (client) => {
  await client.query("CREATE TEMP TABLE described (a INTEGER, b TEXT, c VARCHAR(7))");
  const answer = await client.query("SELECT a, b, c, 'x' AS d FROM described");
  assert.deepStrictEqual(answer.fields.map((field) => field.name), ["a", "b", "c", "d"]);
  assert.deepStrictEqual(answer.fields.map((field) => field.dataTypeID), [23, 25, 1043, 25]);
  assert.deepStrictEqual(answer.fields.map((field) => field.dataTypeModifier), [-1, -1, 11, -1]);
  assert.deepStrictEqual(answer.fields.map((field) => field.columnID), [1, 2, 3, 0]);
  assert.ok(answer.fields[0].tableID > 0 && answer.fields[3].tableID === 0);
});

check("results.several", async (client) => {
  const answers = await client.query("SELECT 1 AS a; CREATE TEMP TABLE several (a INTEGER); INSERT INTO several VALUES (1), (2)");
  assert.deepStrictEqual(answers.map((answer) => [answer.command, answer.rowCount]), [["SELECT", 1], ["CREATE", null], ["INSERT", 2]]);
});

check("results.arrays", async (client) => {
  const answer = await client.query({ text: "SELECT 1 AS a, 2 AS a, NULL AS b", rowMode: "array" });
  assert.deepStrictEqual(answer.rows, [[1, 2, null]]);
});

check("results.series", async (client) => {
  const answer = await client.query("SELECT n FROM generate_series(1, 2) AS s(n) ORDER BY n");
  assert.deepStrictEqual(answer.rows, [{ n: 1 }, { n: 2 }]);
});

check("results.returning", async (client) => {
  await client.query("CREATE TEMP TABLE returned (id SERIAL PRIMARY KEY, s TEXT)");
  const answer = await client.query("INSERT INTO returned (s) VALUES ($1), ($2) RETURNING id, s", ["a", "b"]);
  assert.deepStrictEqual([answer.rowCount, answer.rows], [2, [{ id: 1, s: "a" }, { id: 2, s: "b" }]]);
});

check("cursors", async (client) => {
  const cursor = client.query(new Cursor("SELECT n::integer AS n FROM generate_series(1, $1) AS s(n) ORDER BY n", [10]));
  assert.deepStrictEqual((await cursor.read(3)).map((row) => row.n), [1, 2, 3]);
  assert.deepStrictEqual((await cursor.read(100)).map((row) => row.n), [4, 5, 6, 7, 8, 9, 10]);
  assert.deepStrictEqual(await cursor.read(1), []);
  await cursor.close();
  assert.strictEqual((await client.query("SELECT 1 AS a")).rows.length, 1);
});

check("cursors.closed early", async (client) => {
  const cursor = client.query(new Cursor("SELECT n FROM generate_series(1, 100000) AS s(n)"));
  assert.strictEqual((await cursor.read(3)).length, 3);
  await cursor.close();
  assert.strictEqual((await client.query("SELECT 1 AS a")).rows.length, 1);
});

check("copy", async (client) => {
  await client.query("CREATE TEMP TABLE copied (a INTEGER, b TEXT)");
  await pipeline(Readable.from(["1\tx\\ty\n", "2\t\\N\n"]), client.query(copy.from("COPY copied FROM STDIN")));
  const parts = [];
  for await (const part of client.query(copy.to("COPY copied TO STDOUT"))) parts.push(part);
  assert.strictEqual(Buffer.concat(parts).toString(), "1\tx\\ty\n2\t\\N\n");
});

check("copy.wrong", async (client) => {
  await client.query("CREATE TEMP TABLE copied (a INTEGER)");
  const copying = pipeline(Readable.from(["1\nx\n"]), client.query(copy.from("COPY copied FROM STDIN")));
  await assert.rejects(copying, { code: "22P02" });
  assert.deepStrictEqual((await client.query("SELECT count(*) AS n FROM copied")).rows, [{ n: "0" }]);
});

check("transactions", async (client) => {
  await client.query("CREATE TEMP TABLE changed (a INTEGER)");
  await client.query("BEGIN");
  await client.query("INSERT INTO changed VALUES (1)");
  await assert.rejects(client.query("SELECT 1 / 0"), { code: "22012" });
  await assert.rejects(client.query("SELECT 1"), { code: "25P02" });
  await client.query("ROLLBACK");
  assert.deepStrictEqual((await client.query("SELECT count(*) AS n FROM changed")).rows, [{ n: "0" }]);
});

check("notifications", async (client) => {
  const heard = new Promise((resolve) => client.once("notification", resolve));
  await client.query("LISTEN channel_of_node");
  await client.query("SELECT pg_notify('channel_of_node', $1)", ["word"]);
  const said = await heard;
  assert.deepStrictEqual([said.channel, said.payload], ["channel_of_node", "word"]);
});

check("notices", async (client) => {
  const heard = new Promise((resolve) => client.once("notice", resolve));
  await client.query("DROP TABLE IF EXISTS nothing_there");
  assert.strictEqual((await heard).code, "00000");
});

check("pools", async () => {
  const pool = new pg.Pool({ max: 3 });
  const answers = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => pool.query("SELECT $1::integer AS v", [n])));
  assert.deepStrictEqual(answers.map((answer) => answer.rows[0].v), [1, 2, 3, 4, 5, 6]);
  await pool.end();
});

check("errors.fields", async (client) => {
  for (const sql of errorsTable) await client.query(sql);
  await assert.rejects(client.query("INSERT INTO errors_of_it VALUES (1, 'b', 2)"), {
    severity: "ERROR", code: "23505", schema: "public", table: "errors_of_it", constraint: "errors_of_it_pkey",
    detail: "Key (id)=(1) already exists.",
  });
  await assert.rejects(client.query("SELECT 1, nothing_there"), { code: "42703", position: "11" });
});

for (const [sql, code] of expected.errors) {
  check(`errors.${sql}`, async (client) => {
    for (const statement of errorsTable) await client.query(statement);
    await assert.rejects(client.query(sql), { code });
    await assert.rejects(client.query({ text: sql, values: [] }), { code });
  });
}

async function limited(promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("no answer within 30 s")), 30000); });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function main() {
  for (const [name, run] of checks) {
    const client = new pg.Client();
    client.on("error", () => {});
    try {
      await limited(client.connect());
      await limited(run(client));
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`WRONG ${name}: ${`${error.code || ""} ${error.message}`.replace(/\s+/g, " ").trim().slice(0, 400)}`);
    }
    await limited(client.end()).catch(() => {});
  }
  console.log("end");
}

main();
