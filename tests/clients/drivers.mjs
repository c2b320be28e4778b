// node-postgres against a server. Usage: node drivers.mjs HOST PORT DATABASE USER PASSWORD; see drivers.py.
import { createRequire } from "node:module";
// Packages stand where the script is run, not beside this file.
const require = createRequire(process.cwd() + "/");
const pg = require("pg");
const Cursor = require("pg-cursor");

const [host, port, database, user, password] = process.argv.slice(2);
const name = `node-postgres ${require("pg/package.json").version}`;
const pool = new pg.Pool({ host, port: Number(port), database, user, password, max: 4 });

function same(what, found, expected) {
    if (JSON.stringify(found) !== JSON.stringify(expected)) {
        throw new Error(`${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`);
    }
    console.log(`ok: ${name}: ${what}`);
}

const at = new Date("2013-08-01T12:30:15.250Z");
const key = "origin = 'TST' AND dest = 'JS'";

const typed = await pool.query(
    `SELECT true AS a, -7 AS b, 0.1::float8 AS c, 'é' AS d, NULL::text AS e, '\\x00ff'::bytea AS f,
            timestamptz '2013-08-01 14:30:15.25+02' AS g, '{1,2}'::int[] AS h, 7000000000 AS i, 12.50::numeric(8, 2) AS j`,
);
same("types", typed.rows[0], {
    a: true, b: -7, c: 0.1, d: "é", e: null, f: Buffer.from([0, 255]), g: at, h: [1, 2], i: "7000000000", j: "12.50",
});
same("parameters", (await pool.query("SELECT $1::int + 1 AS a, $2::text AS b, $3::timestamptz AS c", [41, "x", at])).rows[0], { a: 42, b: "x", c: at });
const answers = await Promise.all([...Array(40).keys()].map((n) => pool.query({ name: "named", text: "SELECT $1::bigint AS n", values: [n] })));
same("named statements over a pool", answers.map((answer) => Number(answer.rows[0].n)), [...Array(40).keys()]);

const client = await pool.connect();
await client.query("BEGIN");
for (let flight = 0; flight < 100; flight++) {
    await client.query("INSERT INTO flights (origin, dest, scheduled, flight) VALUES ('TST', 'JS', $1, $2)", [at, flight]);
}
await client.query("COMMIT");
const cursor = client.query(new Cursor(`SELECT flight FROM flights WHERE ${key} ORDER BY flight`));
same("a portal, by pieces", [...(await cursor.read(3)), ...(await cursor.read(2))].map((row) => row.flight), [0, 1, 2, 3, 4]);
await cursor.close();
const failed = await client.query("INSERT INTO flights (origin, dest, scheduled, flight) VALUES ('TST', 'JS', $1, 0)", [at]).catch((error) => error);
same("SQLSTATE", failed.code, "23505");
same("RETURNING", (await client.query(`UPDATE flights SET dep_delay = 1 WHERE ${key} AND flight = 7 RETURNING flight, dep_delay`)).rows, [{ flight: 7, dep_delay: 1 }]);
same("DELETE", (await client.query(`DELETE FROM flights WHERE ${key}`)).rowCount, 100);
const heard = new Promise((resolve) => client.once("notification", resolve));
await client.query("LISTEN news");
await pool.query("SELECT pg_notify('news', $1)", ["told"]);
const { channel, payload } = await heard;
same("a notification", { channel, payload }, { channel: "news", payload: "told" });
client.release();
await pool.end();
