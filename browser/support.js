// Real clusters, and a real browser, for the tests of the pages.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import dgram from "node:dgram";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

/// The longest wait for a condition. Nothing takes as long unless it never comes.
export const LONG = 60_000;

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/// A program of the repository: SUFFRAGE or SUFFRAGE_LAB.
export function program(variable = "SUFFRAGE") {
  const path = process.env[variable];
  assert.ok(path, `${variable} must name the program: cargo xtask browser sets it`);
  return path;
}

export function folder() {
  return mkdtempSync(join(tmpdir(), "suffrage-browser-"));
}

/// Waits for a condition, and returns its value.
export async function until(what, condition, longest = LONG) {
  const end = Date.now() + longest;
  let last;
  for (;;) {
    try {
      const value = await condition();
      if (value) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`not in time: ${what}; last: ${last?.stack ?? JSON.stringify(last)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function udpAddress() {
  const socket = dgram.createSocket("udp4");
  await new Promise((resolve) => socket.bind(0, "127.0.0.1", resolve));
  const { port } = socket.address();
  await new Promise((resolve) => socket.close(resolve));
  return `127.0.0.1:${port}`;
}

async function tcpAddress() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${port}`;
}

/// Nodes, each a process of `suffrage node`.
export class Cluster {
  /// `lines` are more lines of the configuration.
  static async start({ nodes = 3, lines = "", token = null, tls = false } = {}) {
    const cluster = new Cluster();
    cluster.folder = folder();
    cluster.token = token;
    cluster.scheme = tls ? "https" : "http";
    cluster.processes = [];
    cluster.timers = [];
    const path = (name) => join(cluster.folder, name);
    execFileSync(program(), ["keygen", path("key")]);
    if (token !== null) {
      writeFileSync(path("token"), token, { mode: 0o600 });
      lines += `\nhttp-token = "${path("token")}"`;
    }
    if (tls) {
      execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=node",
        "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", path("tls.key"), "-out", path("tls.pem")], { stdio: "ignore" });
      execFileSync("chmod", ["600", path("tls.key")]);
      lines += `\nhttp-cert = "${path("tls.pem")}"\nhttp-key = "${path("tls.key")}"`;
    }
    const ids = Array.from({ length: nodes }, (_, index) => index + 1);
    const voters = [];
    for (const id of ids) voters.push(`${id}=${await udpAddress()}`);
    cluster.http = [];
    for (const id of ids) {
      cluster.http.push(await tcpAddress());
      const text = `id = ${id}\nvoters = "${voters.join(",")}"\nkeys = "${path("key")}"\ndata = "${path(`data-${id}`)}"\n`
        + `http = "${cluster.http[id - 1]}"\nsocket = "${path(`${id}.sock`)}"\ndelay = "10ms"\n${lines}\n`;
      writeFileSync(path(`${id}.toml`), text);
      cluster.spawn(id, ["--new"]);
    }
    for (const id of ids) await cluster.ready(id);
    return cluster;
  }

  spawn(id, flags = []) {
    const log = openSync(join(this.folder, `log-${id}`), "a");
    const child = spawn(program(), ["node", "--config", join(this.folder, `${id}.toml`), ...flags], { stdio: ["ignore", log, log] });
    closeSync(log);
    this.processes[id - 1] = child;
  }

  async ready(id) {
    await until(`node ${id} is ready\n${this.log(id)}`, async () => (await this.request(id, "GET", "/readiness")).status === 200);
  }

  log(id) {
    return readFileSync(join(this.folder, `log-${id}`), "utf8");
  }

  url(id, path = "/") {
    return `${this.scheme}://${this.http[id - 1]}${path}`;
  }

  /// A request, as a client sends it: status and JSON object.
  request(id, method, path, body, { headers = {}, agent } = {}) {
    if (this.token !== null) headers = { Authorization: `Bearer ${this.token}`, ...headers };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    return new Promise((resolve, reject) => {
      const client = this.scheme === "https" ? https : http;
      const sent = client.request(this.url(id, path), { method, headers, agent, rejectUnauthorized: false }, (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (part) => { text += part; });
        answer.on("end", () => {
          let json = null;
          try {
            json = JSON.parse(text);
          } catch {
            // Not every answer is an object.
          }
          resolve({ status: answer.statusCode, headers: answer.headers, text, json });
        });
      });
      sent.on("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /// A client of a node leads an election from now on, and renews its lease until it resigns or the cluster stops.
  async lead(id, name, { ttl = "60s", wait = "20s", renewal = 1000 } = {}) {
    const path = `/elections/${encodeURIComponent(name)}`;
    let answer = await this.request(id, "POST", `${path}/campaign`, { ttl, wait });
    while (answer.status === 202) {
      answer = await this.request(id, "POST", `${path}/campaign`, { ttl, wait, session: answer.json.session });
    }
    assert.equal(answer.status, 200, answer.text);
    const { session, token } = answer.json;
    const timer = setInterval(() => this.request(id, "POST", `${path}/renew`, { session }).catch(() => {}), renewal);
    this.timers.push(timer);
    const resign = () => {
      clearInterval(timer);
      return this.request(id, "POST", `${path}/resign`, { session });
    };
    return { token, resign };
  }

  async kill(id, signal = "SIGKILL") {
    const child = this.processes[id - 1];
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  async stop() {
    this.timers.forEach(clearInterval);
    for (const child of this.processes) {
      if (child.exitCode === null && child.signalCode === null) {
        const ended = new Promise((resolve) => child.once("exit", resolve));
        child.kill("SIGKILL");
        await ended;
      }
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/// A browser. Every page that is opened is watched: an error, a message of a violated policy or a request to another
/// host fails the test.
export class Browser {
  static async start() {
    const browser = new Browser();
    browser.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
    return browser;
  }

  /// Opens an address in a fresh context. `allowed` are errors that the test provokes.
  async open(url, { width = 1400, height = 900, dark = false, allowed = [] } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height }, colorScheme: dark ? "dark" : "light", ignoreHTTPSErrors: true,
    });
    const page = await context.newPage();
    page.problems = [];
    const note = (text) => {
      if (!allowed.some((pattern) => pattern.test(text))) page.problems.push(text);
    };
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") note(message.text());
    });
    page.on("pageerror", (error) => note(String(error)));
    page.on("dialog", (dialog) => {
      note(`a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    const origin = new URL(url).origin;
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== origin) note(`a request to ${request.url()}`);
    });
    await page.goto(url);
    return page;
  }

  stop() {
    return this.browser.close();
  }
}

/// Nothing went wrong on a page.
export function assertClean(page) {
  assert.deepEqual(page.problems, []);
}

/// axe-core finds nothing serious.
export async function assertAccessible(page) {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // An expression of the DevTools protocol is not subject to the page's policy.
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map((node) => `${node.target}: ${node.failureSummary}`) }));
  });
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious, []);
}

/// Screenshots at three widths, in the folder SCREENSHOTS if it is set.
export async function screenshots(page, name) {
  const into = process.env.SCREENSHOTS;
  if (!into) return;
  mkdirSync(into, { recursive: true });
  const size = page.viewportSize();
  for (const width of [360, 800, 1400]) {
    await page.setViewportSize({ width, height: 900 });
    await page.screenshot({ path: join(into, `${name}-${width}.png`), fullPage: width === 360 });
  }
  await page.setViewportSize(size);
}
