// The playground, with the real processes of `suffrage demo` and `suffrage-lab demo`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Browser, LONG, assertAccessible, assertClean, folder, program, screenshots, until } from "./support.js";

let browser;
before(async () => { browser = await Browser.start(); });
after(() => browser.stop());

/// A running demo.
class Demo {
  static async start(variable, ...flags) {
    const demo = new Demo();
    demo.child = spawn(program(variable), ["demo", ...flags], { stdio: ["ignore", "pipe", "inherit"] });
    demo.output = "";
    demo.child.stdout.on("data", (part) => { demo.output += part; });
    demo.address = await until("the demo prints its address", () => /Playground: (\S+)/.exec(demo.output)?.[1]);
    // The demo kills its first leader, shows the next, and then waits for its user.
    await until("it is the user's turn", () => demo.output.includes("your turn"));
    return demo;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGINT");
    await ended;
  }
}

/// The ids of the nodes that lead, as the page says.
function leaders(page) {
  return page.evaluate(() => [...document.querySelectorAll(".one")]
    .filter((one) => /^leads/.test(one.querySelector(".pill").textContent))
    .map((one) => Number(one.id.slice("node-".length))));
}

const count = async (page) => Number(await page.textContent("#count"));

/// Waits until exactly one node leads that `fits`.
function oneLeader(page, what, fits = () => true) {
  return until(what, async () => {
    const now = await leaders(page);
    return now.length === 1 && fits(now[0]) && now[0];
  });
}

test("the quorum lease: kill, pause and cuts lead to the next leader, and never to two", { timeout: 6 * LONG }, async () => {
  const demo = await Demo.start("SUFFRAGE");
  try {
    const page = await browser.open(demo.address);
    const first = await oneLeader(page, "a leader is shown");
    const button = (name) => page.getByRole("button", { name, exact: true });
    // Kill.
    await button(`Kill node ${first}`).click();
    const second = await oneLeader(page, "the next leader after the kill", (id) => id !== first);
    assert.match(await page.textContent(`#node-${first} .pill`), /dead/);
    await button(`Start node ${first} again`).click();
    await until("the first node is back", async () => !/dead/.test(await page.textContent(`#node-${first} .pill`)));
    // Pause, by keyboard.
    await button(`Pause node ${second}`).focus();
    await page.keyboard.press("Enter");
    const third = await oneLeader(page, "the next leader after the pause", (id) => id !== second);
    await button(`Resume node ${second}`).focus();
    await page.keyboard.press("Enter");
    await until("the paused node follows", async () => /follows/.test(await page.textContent(`#node-${second} .pill`)));
    // Cut off, then heal.
    await button(`Cut all links of node ${third}`).click();
    await oneLeader(page, "the next leader after the cut", (id) => id !== third);
    await screenshots(page, "playground");
    await page.click("#heal");
    await until("the node that was cut off follows", async () => /follows/.test(await page.textContent(`#node-${third} .pill`)));
    assert.ok(await page.isDisabled("#heal"));
    // One direction, by keyboard: from the leader to all others. Its renewals are lost.
    const fourth = (await leaders(page))[0];
    for (let other = 1; other <= 5; other += 1) {
      if (other === fourth) continue;
      await button(`Cut the link from node ${fourth} to node ${other}`).focus();
      await page.keyboard.press("Space");
    }
    await oneLeader(page, "the next leader after the one-way cut", (id) => id !== fourth);
    await page.click("#heal");
    assert.equal(await count(page), 0, "two led at once");
    assert.match(await page.textContent("#verdict-text"), /never led at once/);
    await assertAccessible(page);
    await page.click("#theme");
    await assertAccessible(page);
    await screenshots(page, "playground-dark");
    await page.setViewportSize({ width: 360, height: 740 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360));
    assertClean(page);
  } finally {
    await demo.stop();
  }
});

test("bully: after a cut, two lead at once, and the page counts it", { timeout: 6 * LONG }, async () => {
  const demo = await Demo.start("SUFFRAGE_LAB", "--algorithm", "bully");
  try {
    const page = await browser.open(demo.address);
    const first = await oneLeader(page, "a leader is shown");
    const before = await count(page);
    await page.getByRole("button", { name: `Cut all links of node ${first}`, exact: true }).click();
    await until("two lead", async () => (await leaders(page)).length === 2);
    await until("the page counts it", async () => (await count(page)) > before);
    assert.match(await page.textContent("#verdict-text"), /have led at once/);
    await screenshots(page, "playground-bully");
    await page.click("#heal");
    await oneLeader(page, "one leader after the cut is healed");
    await assertAccessible(page);
    assertClean(page);
  } finally {
    await demo.stop();
  }
});

test("nothing is shown or done without the token of the address", { timeout: 4 * LONG }, async () => {
  const demo = await Demo.start("SUFFRAGE", "--nodes", "3");
  try {
    const [open, token] = demo.address.split("#");
    const page = await browser.open(open, { allowed: [/status of 401/] });
    await until("the page asks for the address", async () => /lacks the token/.test(await page.textContent("#lost")));
    assert.equal(await page.locator(".one").count(), 0);
    for (const headers of [{}, { Authorization: "Bearer wrong" }]) {
      const refused = await fetch(`${open}action`, { method: "POST", headers, body: JSON.stringify({ do: "kill", node: 1 }) });
      assert.equal(refused.status, 401);
    }
    const headers = { Authorization: `Bearer ${token}` };
    const wrong = await fetch(`${open}action`, { method: "POST", headers, body: JSON.stringify({ do: "kill", node: 9 }) });
    assert.equal(wrong.status, 409);
    assertClean(page);
  } finally {
    await demo.stop();
  }
});

test("--open shows the token to no other user, and leads to the page", { timeout: 4 * LONG }, async () => {
  const files = folder();
  const opened = join(files, "opened");
  // The opener of this test notes its command line, which every user of a machine can read.
  writeFileSync(join(files, "xdg-open"), `#!/bin/sh\nprintf '%s\\n' "$@" > '${opened}.part' && mv '${opened}.part' '${opened}'\n`, { mode: 0o755 });
  const path = process.env.PATH;
  process.env.PATH = `${files}:${path}`;
  const demo = await Demo.start("SUFFRAGE", "--nodes", "3", "--open").finally(() => { process.env.PATH = path; });
  let file;
  try {
    await until("the opener was started", () => existsSync(opened));
    const token = demo.address.split("#")[1];
    file = readFileSync(opened, "utf8").trim();
    assert.ok(!file.includes(token), file);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const page = await browser.open(pathToFileURL(file).href, { allowed: [/a request to http:\/\/127\.0\.0\.1:/] });
    await page.waitForURL(demo.address);
    await oneLeader(page, "the page shows a leader");
    assertClean(page);
  } finally {
    await demo.stop();
    rmSync(files, { recursive: true, force: true });
  }
  assert.ok(!existsSync(file), "the file stays after the demo");
});
