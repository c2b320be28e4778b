// Opens the console in Chromium, which is spoken to over a pipe (the DevTools protocol), and checks it against SQL.
// `.ci/console` says what it needs; nothing but Node's own modules is used.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";

const PASSWORD = "checks-only";
const PATIENCE_MILLIS = 60000;
const PICTURE_BYTES_MAX = 200000;
const withPictures = process.argv.includes("--screenshots");
const minutes = withPictures ? Number(process.env.KEYSPAN_CONSOLE_MINUTES ?? 12) : 0;
const folder = mkdtempSync(join(tmpdir(), "keyspan-console-"));
const children = new Set();
const LOG = join(folder, "server.log");

// What the browser says of its own accord: errors, but not those of requests, which the page tells by itself.
const isFault = ({ level, source }) => (level === "error" || source === "security") && source !== "network";

const ok = (what) => console.log(`ok: ${what}`);

/** Asks until what is asked gives something; fails with what it gave last. */
async function within(what, ask) {
  const until = Date.now() + PATIENCE_MILLIS;
  for (;;) {
    let found;
    let error;
    try {
      found = await ask();
    } catch (thrown) {
      error = thrown;
    }
    if (found) return found;
    if (Date.now() > until) throw new Error(`not within the time: ${what}${error ? `: ${error}` : ""}`);
    await pause(50);
  }
}

function run(program, args, options) {
  const child = spawn(program, args, options);
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

// The server.

class Server {
  async start(listen, http) {
    const args = ["serve", "--store", join(folder, "store"), "--listen", listen, "--http", http];
    args.push("--log-min-duration-statement", "20");
    const env = { ...process.env, KEYSPAN_PASSWORD: PASSWORD, KEYSPAN_LOG: "warn" };
    this.child = run(process.env.KEYSPAN, args, { env, stdio: ["ignore", "pipe", openSync(LOG, "a")] });
    for await (const line of createInterface({ input: this.child.stdout })) {
      this.listen = line.match(/^listening on (.*)$/)?.[1] ?? this.listen;
      const url = line.match(/^metrics on (http:.*)\/metrics$/)?.[1];
      if (url) {
        this.url = url;
        return;
      }
    }
    throw new Error("the server ended");
  }

  async stop(signal) {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill(signal);
    await ended;
  }

  psql(database, sql) {
    const [host, port] = this.listen.split(":");
    const args = ["--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--quiet", "--no-align", "--tuples-only"];
    args.push("--host", host, "--port", port, "--username", "keyspan", "--dbname", database, "--file", "-");
    const asked = promisify(execFile)("psql", args, { env: { ...process.env, PGPASSWORD: PASSWORD }, maxBuffer: 1e8 });
    asked.child.stdin.end(sql);
    return asked.then(({ stdout }) => stdout.trim());
  }
}

// The browser.

class Browser {
  #next = 0;
  #waiting = new Map();
  #rest = Buffer.alloc(0);
  requests = [];
  faults = [];

  async start() {
    const args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"];
    args.push(`--user-data-dir=${join(folder, "browser")}`, "--disable-background-networking", "--disable-sync");
    args.push("--disable-component-update", "--disable-default-apps", "--hide-scrollbars", "about:blank");
    this.child = run("chromium", args, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.child.stdio[4].on("data", (part) => this.#read(part));
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    this.session = (await this.send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await this.send(`${domain}.enable`);
  }

  #read(part) {
    this.#rest = Buffer.concat([this.#rest, part]);
    for (let end = this.#rest.indexOf(0); end >= 0; end = this.#rest.indexOf(0)) {
      const message = JSON.parse(this.#rest.subarray(0, end).toString());
      this.#rest = this.#rest.subarray(end + 1);
      if (message.id) {
        const { resolve, reject } = this.#waiting.get(message.id);
        this.#waiting.delete(message.id);
        if (message.error) reject(new Error(message.error.message));
        else resolve(message.result);
      } else if (message.method === "Network.requestWillBeSent") {
        this.requests.push(message.params.request.url);
      } else if (message.method === "Runtime.exceptionThrown") {
        this.faults.push(message.params.exceptionDetails.exception?.description ?? "an exception");
      } else if (message.method === "Log.entryAdded" && isFault(message.params.entry)) {
        this.faults.push(message.params.entry.text);
      }
    }
  }

  send(method, params = {}) {
    const id = (this.#next += 1);
    const message = { id, method, params, sessionId: this.session };
    this.child.stdio[3].write(`${JSON.stringify(message)}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** What an expression gives in the page. */
  async eval(expression) {
    const asked = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", asked);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async key(key, code = key) {
    const codes = { Tab: 9, Enter: 13, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40, Escape: 27 };
    const event = { key, code, windowsVirtualKeyCode: codes[key], text: key === "Enter" ? "\r" : undefined };
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
  }

  type(text) {
    return this.send("Input.insertText", { text });
  }

  move(x, y) {
    return this.send("Input.dispatchMouseEvent", { type: "mouseMoved", x, y });
  }

  async click(selector) {
    const { x, y } = await within(`${selector} to click`, () => this.eval(`(() => {
      const found = document.querySelector(${JSON.stringify(selector)});
      if (!found?.offsetParent) return null;
      found.scrollIntoView({ block: "center" });
      const box = found.getBoundingClientRect();
      return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    })()`));
    const event = { x, y, button: "left", clickCount: 1 };
    await this.send("Input.dispatchMouseEvent", { type: "mousePressed", ...event });
    await this.send("Input.dispatchMouseEvent", { type: "mouseReleased", ...event });
  }

  size(width, height, scale = 1) {
    const metrics = { width, height, deviceScaleFactor: scale, mobile: width < 500 };
    return this.send("Emulation.setDeviceMetricsOverride", metrics);
  }

  scheme(value) {
    return this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  }

  async picture(name, height) {
    await this.move(0, 0);
    const clip = height && { x: 0, y: 0, width: 1280, height, scale: 1 };
    const { data } = await this.send("Page.captureScreenshot", { format: "png", clip });
    const png = Buffer.from(data, "base64");
    assert.ok(png.length < PICTURE_BYTES_MAX, `${name} has ${png.length} bytes`);
    const where = withPictures ? "docs/images" : join(folder, "images");
    mkdirSync(where, { recursive: true });
    writeFileSync(join(where, `${name}.png`), png);
  }
}

const server = new Server();
const page = new Browser();
const text = (selector) => page.eval(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`);
const isShown = (selector) => page.eval(`Boolean(document.querySelector(${JSON.stringify(selector)})?.offsetParent)`);
// The rows of a table as texts.
const rowsOf = (id) => page.eval(`[...document.querySelectorAll("#${id} tbody tr")].map(
  (line) => [...line.cells].map((cell) => cell.innerText.trim()))`);
const rowOf = (id, first) =>
  within(`a row ${first} in ${id}`, async () => (await rowsOf(id)).find((row) => row[0] === first));

async function logIn(password) {
  await page.eval(`document.getElementById("password").focus()`);
  await page.type(password);
  await page.key("Enter");
}

async function seed() {
  await server.psql("keyspan", `
    CREATE TABLE readings (device text, n bigint, value double precision, note text, PRIMARY KEY (device, n));
    CREATE TABLE people (email text PRIMARY KEY, name text);
    CREATE DATABASE alto; CREATE DATABASE bari; CREATE DATABASE cielo; CREATE DATABASE gone;
    ALTER DATABASE bari SET (connections = 20, stored = '1GiB', read_rate = '100MiB');
    ALTER DATABASE cielo SET (weight = 50, dryrun = on);
  `);
  for (const tenant of ["alto", "bari", "cielo", "gone"]) {
    await server.psql(tenant, `INSERT INTO readings
      SELECT 'd' || lpad((g % 40)::text, 2, '0'), g, g / 7.0, md5(g::text) FROM generate_series(1, 4000) g`);
  }
  await server.psql("bari", "CREATE TABLE own (id bigint PRIMARY KEY, note text); ALTER TABLE own DROP COLUMN note");
  await server.psql("keyspan", "DROP DATABASE gone");
}

// Reads of one device of a tenant: what the map has to show as hot.
const hot = (tenant, device, times) => {
  const read = `SELECT value FROM readings WHERE device = '${device}' AND n = ${Number(device.slice(1))};\n`;
  return server.psql(tenant, read.repeat(times));
};

async function load() {
  const began = Date.now();
  for (let minute = 0; Date.now() - began < minutes * 60000; minute += 1) {
    const device = `d${String((minute * 3) % 40).padStart(2, "0")}`;
    await Promise.all([
      hot("bari", "d07", 400),
      hot("alto", device, 60),
      server.psql("cielo", `INSERT INTO readings SELECT 'd39', ${100000 + minute * 1000} + g, 0, 'new'
        FROM generate_series(1, 200) g ON CONFLICT (device, n) DO UPDATE SET note = 'again'`),
    ]);
    await pause(2000);
  }
}

async function wrongLogIn() {
  await within("the door", () => isShown("#door"));
  await logIn("not the password");
  await within("the refusal", async () => (await text("#trouble")).includes("not those of an operator"));
  assert.ok(await isShown("#door"));
  assert.equal(await page.eval("sessionStorage.length"), 0);
  await logIn(PASSWORD);
  await within("what is inside", () => isShown("#now-panel"));
  await within("no trouble", async () => !(await isShown("#trouble")));
  ok("a wrong log-in is refused, and said; the right one opens");
}

// Where on the map it is hottest, in the page's pixels: what differs most from the ground.
const hottest = () => page.eval(`(() => {
  const map = document.getElementById("map");
  const box = map.getBoundingClientRect();
  const { data, width, height } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
  const left = Math.ceil((width * (box.width < 480 ? 56 : 96)) / box.width) + 2;
  const at = (x, y) => (y * width + x) * 4;
  const ground = at(left, 1);
  let best = { far: 0 };
  for (let y = 1; y < height - 30; y += 1) {
    for (let x = left; x < width - 1; x += 1) {
      const far = [0, 1, 2].reduce((sum, part) => sum + Math.abs(data[at(x, y) + part] - data[ground + part]), 0);
      if (far > best.far) best = { far, x, y };
    }
  }
  return { x: box.x + (best.x * box.width) / width, y: box.y + (best.y * box.height) / height, far: best.far };
})()`);

async function heat() {
  const told = await within("the hot spot", async () => {
    const place = await hottest();
    if (place.far < 100) return null;
    await page.move(place.x, place.y);
    const said = await text("#told");
    const [from, to] = said.split("\n")[0].slice("bari: ".length).split(" … ");
    // What is hot is within the range that it says, and that is the tenant's: its whole span until it is divided.
    return said.startsWith("bari: ") && from <= "bari#d07" && "bari#d07" < to && to <= "bari$" ? said : null;
  });
  ok(`the hot spot is where it was made: ${told.split("\n")[0]}`);
  await page.eval(`document.getElementById("map").focus()`);
  await page.key("ArrowUp");
  const above = await text("#told");
  assert.notEqual(above, told);
  await page.key("ArrowDown");
  assert.equal((await text("#told")).split("\n")[0], told.split("\n")[0]);
  ok("the keyboard moves through the map");
}

async function cancel() {
  const sleeping = server.psql("bari", "SELECT 'a long one', pg_sleep(600);").catch((error) => String(error.stderr));
  const isLong = (row) => row[4]?.includes("pg_sleep");
  const row = await within("the statement", async () => (await rowsOf("running")).find(isLong));
  assert.deepEqual([row[0], row[1], row[2]], ["bari", "keyspan", "active"]);
  const sql = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%a long one%' AND datname = 'bari'";
  const pid = await server.psql("keyspan", sql);
  await page.picture("console-now");
  await page.click(`#running [data-of="${pid}"]`);
  assert.match(await sleeping, /canceling statement due to user request/);
  ok("a running statement is shown, and cancelled");
}

async function tabs() {
  const { number, bytes } = await import(
    `data:text/javascript,${encodeURIComponent(readFileSync("gateway/src/console/text.js", "utf8"))}`
  );
  await page.eval(`document.getElementById("now-tab").focus()`);
  await page.key("ArrowRight");
  await within("the tenants", () => isShown("#tenants-panel"));
  assert.ok(!(await isShown("#now-panel")));
  const sql = `SELECT sum(rows_written), sum(bytes_written), pg_database_size('bari')
    FROM keyspan.usage WHERE tenant = 'bari' AND minute > now() - interval '1 hour'`;
  await within("the numbers of SQL", async () => {
    const [written, writtenBytes, stored] = (await server.psql("keyspan", sql)).split("|").map(Number);
    const row = await rowOf("tenants", "bari");
    assert.deepEqual([row[6], row[7], row[1]], [number(written), bytes(writtenBytes), bytes(stored)]);
    return true;
  });
  assert.match((await rowOf("tenants", "bari"))[10], /connections 20/);
  assert.equal(await text("#tenants-count"), "3");
  await page.eval(`document.getElementById("find").focus()`);
  await page.type("cie");
  await within("the one that was looked for", async () => (await rowsOf("tenants")).length === 1);
  assert.equal((await rowsOf("tenants"))[0][0], "cielo");
  await page.eval(`(() => {
    const find = document.getElementById("find");
    find.value = "";
    find.dispatchEvent(new Event("input"));
  })()`);
  await rowOf("tenants", "alto");
  ok("tenants have SQL's numbers and their quotas");

  const dropped = await rowOf("drops", "gone");
  assert.equal(dropped[4], number(4000));
  await within("the end of the purge", async () => (await rowOf("drops", "gone"))[6].startsWith("done"));
  await page.picture("console-tenants");
  const oid = await server.psql("keyspan", "SELECT oid FROM keyspan.drops WHERE tenant = 'gone'");
  await page.click(`#drops [data-of="${oid}"]`);
  const certificate = JSON.parse(await within("the certificate", () => text("#certificate-text")));
  assert.deepEqual([certificate.tenant, certificate.rows], ["gone", 4000]);
  await page.key("Escape");
  await within("the dialog to close", async () => !(await page.eval(`document.getElementById("certificate").open`)));
  assert.match((await rowOf("erasures", "bari"))[2], /note/);
  ok("a dropped tenant has its certificate, what was erased is listed");

  await page.click("#statements-tab");
  const top = await within("the statements", async () => (await rowsOf("top")).find((row) => row[7]?.includes("md5")));
  assert.ok(!top[7].includes("4000"), "a value");
  const isSlow = (row) => row[5]?.includes("slow_one");
  const slow = await within("a slow one", async () => (await rowsOf("slow")).find(isSlow));
  assert.match(slow[5], /Hash Join .*Seq Scan on readings/);
  assert.ok(!slow[5].includes("d1%"), "a value");
  await page.picture("console-statements", 720);
  ok("statements have no values, slow ones their plans");

  await page.click("#store-tab");
  const table = await rowOf("tables", "readings");
  const counted = "SELECT sum(segments) FROM keyspan.tablets WHERE table_name = 'readings'";
  const segments = await server.psql("keyspan", counted);
  assert.equal(table[5], number(Number(segments)));
  assert.ok((await rowsOf("memory")).some((row) => row[0] === "store: row cache"));
  await page.picture("console-store");
  ok("the store is shown");

  await server.psql("bari", "SELECT count(*) FROM readings WHERE note = 'nothing';\n".repeat(30));
  await page.click("#advice-tab");
  const wanted = "SELECT seen, bytes, statement FROM keyspan.advice WHERE kind = 'scan_without_range'";
  await within("the advice of SQL", async () => {
    const [seen, inVain, ...rest] = (await server.psql("keyspan", wanted)).split("|");
    const row = await rowOf("advice", "readings");
    assert.deepEqual([row[1], row[2], row[3]], ["scan without range", number(Number(seen)), bytes(Number(inVain))]);
    assert.ok(row[4].endsWith(rest.join("|").trim()), row[4]);
    return true;
  });
  assert.match((await rowOf("advice", "people"))[4], /CREATE TABLE people_by_id/);
  await page.picture("console-advice", 720);
  ok("advice has SQL's numbers and statements");
}

async function phone() {
  await page.size(390, 844, 2);
  for (const tab of ["now", "tenants", "statements", "store", "advice"]) {
    await page.click(`#${tab}-tab`);
    await within(tab, () => isShown(`#${tab}-panel`));
    const [wide, room] = await page.eval("[document.documentElement.scrollWidth, innerWidth]");
    assert.ok(wide <= room, `${tab} is ${wide} wide on ${room}`);
  }
  await page.click("#now-tab");
  await page.eval("scrollTo(0, 0)");
  await within("the map", async () => (await hottest()).far > 100);
  await page.picture("console-phone");
  await page.size(1280, 860);
  ok("it fits a telephone");
}

async function goneAndBack() {
  const { listen, url } = server;
  await server.stop("SIGKILL");
  await within("that it is gone", async () => (await text("#trouble")).includes("does not answer"));
  await server.start(listen, url.slice("http://".length));
  await within("that it is back", async () => !(await isShown("#trouble")));
  ok("a server that goes away is said, and asked again");
}

async function check() {
  await server.start("127.0.0.1:0", "127.0.0.1:0");
  await seed();
  await hot("bari", "d07", 10000);
  await hot("alto", "d21", 300);
  await load();
  await server.psql("alto", `SELECT count(*) AS slow_one FROM readings a JOIN readings b ON a.n % 50 = b.n % 50
    WHERE a.note < b.note AND b.device LIKE 'd1%'`);
  await page.start();
  await page.size(1280, 860);
  await page.scheme("light");
  await page.send("Page.navigate", { url: `${server.url}/` });
  await wrongLogIn();
  await heat();
  await cancel();
  await tabs();
  await page.scheme("dark");
  await page.click("#now-tab");
  await within("the map", async () => (await hottest()).far > 100);
  await page.picture("console-now-dark");
  await page.scheme("light");
  await phone();
  await goneAndBack();
  await page.click("#leave");
  await within("the door", () => isShown("#door"));
  assert.equal(await page.eval("sessionStorage.length"), 0);
  const elsewhere = page.requests.filter((url) => !url.startsWith(`${server.url}/`) && url !== "about:blank");
  assert.deepEqual(elsewhere, [], "it asked elsewhere");
  assert.deepEqual(page.faults, []);
  ok(`${page.requests.length} requests, all to the server; nothing was thrown`);
}

/**
 * Removes a folder. The browser's own children write to it for a moment after it has ended; what stays fails nothing.
 */
async function emptied(path) {
  for (let attempt = 0; attempt < 50; attempt += 1) {
    try {
      return rmSync(path, { recursive: true, force: true });
    } catch (error) {
      if (attempt === 49) console.error(`${path} stays: ${error.message}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

try {
  await check();
} catch (error) {
  console.error(readFileSync(LOG, "utf8").split("\n").filter((line) => !line.includes("slow statement")).join("\n"));
  throw error;
} finally {
  const ended = [...children].map((child) => new Promise((resolve) => child.once("exit", resolve)));
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(ended);
  await emptied(folder);
}
process.exit(0);
