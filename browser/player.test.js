// The player of runs, in the pages that suffrage-lab writes.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { decodeRun } from "../crates/suffrage-web/player/model.js";
import { Browser, LONG, assertAccessible, assertClean, folder, program, screenshots, until } from "./support.js";

let browser;
let files;
before(async () => {
  files = folder();
  browser = await Browser.start();
});
after(async () => {
  await browser.stop();
  rmSync(files, { recursive: true, force: true });
});

function lab(...words) {
  return execFileSync(program("SUFFRAGE_LAB"), words, { encoding: "utf8", maxBuffer: 1 << 28 });
}

/// Opens a page that the laboratory has written.
async function open(name, options, fragment = "") {
  const page = await browser.open(pathToFileURL(join(files, name)).href + fragment, options);
  await page.waitForSelector("[data-drawn]");
  return page;
}

const heading = (page) => page.textContent(".detail h3");
const FAULTS = ["simulate", "bully", "--nodes", "5", "--crash", "5@12", "--recover", "5@40", "--partition", "1,2|3,4,5@20..34",
  "--detector", "ideal:2"];

test("the player steps to a known event and shows its content", { timeout: LONG }, async () => {
  const trace = join(files, "raft.jsonl");
  lab("simulate", "raft", "--nodes", "3", "--initiator", "2", "--until", "10", "--trace", trace);
  lab("play", trace);
  const lines = readFileSync(trace, "utf8").trim().split("\n").slice(1).map((line) => JSON.parse(line));
  const vote = lines.findIndex((line) => line.event === "sent" && line.kind === "RequestVote");
  const page = await open("raft.html");
  await page.keyboard.press("Home");
  for (let steps = 0; await heading(page) !== `2 sends RequestVote to ${lines[vote].to}`; steps += 1) {
    assert.ok(steps < lines.length, "the event is never reached");
    await page.keyboard.press("ArrowRight");
  }
  assert.deepEqual(JSON.parse(await page.textContent(".content")), lines[vote].content);
  assert.equal(await page.textContent(".events .selected .what"), `sends RequestVote to ${lines[vote].to}`);
  // The address names the event: a copy of it shows the same.
  const fragment = await page.evaluate(() => location.hash);
  assert.match(fragment, new RegExp(`event=${vote + 1}\\b`));
  const copy = await open("raft.html", {}, fragment);
  assert.equal(await heading(copy), await heading(page));
  assertClean(page);
  assertClean(copy);
});

test("a message can be clicked, and the run can be played, scrubbed and zoomed", { timeout: LONG }, async () => {
  lab(...FAULTS, "--html", join(files, "bully.html"));
  const page = await open("bully.html");
  const middle = await page.evaluate(() => {
    const { drawing, run } = window.player;
    const kind = run.kinds.findIndex(({ name }) => name === "Coordinator");
    const message = drawing.visible.find((one) => run.c.message_kind[one] === kind && run.c.message_fate[one] === 1);
    const [[x1, y1], [x2, y2]] = drawing.ends(message);
    const box = drawing.canvas.getBoundingClientRect();
    return [box.x + x1 + (x2 - x1) * 0.9, box.y + y1 + (y2 - y1) * 0.9];
  });
  await page.mouse.click(...middle);
  assert.match(await heading(page), /sends \w+ to \d/);
  assert.ok(await page.isVisible(".content"));
  const view = () => page.evaluate(() => window.player.drawing.view.to - window.player.drawing.view.from);
  const before = await view();
  await page.keyboard.press("+");
  assert.ok(await view() < before);
  await page.keyboard.press("f");
  assert.ok(Math.abs(await view() - before) < 1e-6);
  await page.locator("input[type=range]").fill("5000");
  assert.ok(Math.abs(await page.evaluate(() => window.player.time / window.player.run.end) - 0.5) < 0.01);
  // At half of the run the network is cut and two lead, as the page says.
  assert.match(await page.textContent(".now"), /2 leads .*4 leads|4 leads .*2 leads/);
  await page.keyboard.press("Home");
  await page.click("button:has-text('Play')");
  await until("time passes", () => page.evaluate(() => window.player.time > 1));
  await page.click("button:has-text('Pause')");
  const paused = await page.evaluate(() => window.player.time);
  assert.ok(paused > 0);
  assertClean(page);
});

test("the player is accessible, in both colours and at three widths", { timeout: 2 * LONG }, async () => {
  lab(...FAULTS, "--html", join(files, "wide.html"));
  for (const dark of [false, true]) {
    const page = await open("wide.html", { dark });
    await page.keyboard.press("ArrowRight");
    await assertAccessible(page);
    for (const width of [360, 800, 1400]) {
      await page.setViewportSize({ width, height: 900 });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(overflow <= 0, `${width}: ${overflow} pixels too wide`);
    }
    await screenshots(page, `player-${dark ? "dark" : "light"}`);
    assertClean(page);
  }
});

test("counterexamples of check and torture open in the player, the shortest first", { timeout: 2 * LONG }, async () => {
  lab("check", "bully", "--expect-violation", "--html", join(files, "check.html"));
  const check = await open("check.html");
  assert.match(await heading(check), /broken: never two leaders at once: 2 and 3/);
  assert.match(await check.textContent("#note"), /^Broken after 3 steps/);
  assert.match(await check.textContent(".now"), /2 leads .*3 leads|3 leads .*2 leads/);
  lab("torture", "raft", "--forget-votes", "--seeds", "0..2000", "--expect-violation", "--html", join(files, "torture.html"));
  const torture = await open("torture.html");
  assert.match(await heading(torture), /one-leader-per-term/);
  const counts = await torture.evaluate(() => [...document.querySelectorAll("script[data-run]")].map((one) => one.textContent.length));
  assert.deepEqual(counts, counts.toSorted((one, other) => one - other));
  assertClean(check);
  assertClean(torture);
});

/// The intervals that the player derives from a run, in the form of `intervals.json`.
function derivedIntervals(words) {
  const file = join(files, "intervals.html");
  lab("simulate", ...words.split(" "), "--html", file);
  const [, text] = readFileSync(file, "utf8").match(/<script[^>]* data-run="[^"]*">([^<]*)</);
  const run = decodeRun(text);
  const id = (slot) => run.ids[slot];
  const time = (at) => (at === Infinity ? null : at);
  const rows = (list, what) => list.toSorted((one, other) => id(one.slot) - id(other.slot) || one.from - other.from)
    .map((one) => [id(one.slot), one.from, time(one.to), what(one)]);
  return {
    run: words,
    beliefs: rows(run.beliefs, ({ leader, term }) => [id(leader), term]),
    leases: rows(run.leases, () => null),
    down: rows(run.lives, ({ down }) => down),
    suspicions: rows(run.suspicions, ({ peers }) => peers.map(id)),
    cuts: run.cuts.map(({ groups, from, to }) => [groups.map((group) => group.map(id)), from, time(to)]),
    leaders: run.leaderCounts.map(({ from, leaders }) => [from, leaders]),
  };
}

test("the player and the pictures see the same intervals", { timeout: LONG }, () => {
  // A test of the laboratory compares the intervals of its pictures with this file.
  const golden = new URL("../crates/suffrage-lab/tests/it/intervals.json", import.meta.url);
  for (const wanted of JSON.parse(readFileSync(golden, "utf8"))) assert.deepEqual(derivedIntervals(wanted.run), wanted);
});

test("texts of a trace are texts", { timeout: LONG }, async () => {
  const hostile = `</script><img src=x onerror="alert(1)">`;
  const header = { at: 0, event: "opened", format: "suffrage-trace", version: 1, algorithm: hostile, seed: 0, members: [1, 2], crashed: [] };
  const events = [
    { at: 0, event: "commanded", node: 1, command: hostile },
    { at: 0, event: "sent", message: 1, from: 1, to: 2, kind: hostile, counted: true, content: { [hostile]: hostile }, arrives: 1 },
    { at: 1, event: "delivered", message: 1, from: 1, to: 2, kind: hostile, counted: true },
  ];
  const trace = join(files, "hostile.jsonl");
  writeFileSync(trace, [header, ...events].map((line) => JSON.stringify(line)).join("\n"));
  lab("play", trace);
  const page = await open("hostile.html");
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  assert.equal(await heading(page), `1 sends ${hostile} to 2`);
  assert.equal(await page.evaluate(() => document.images.length), 0);
  assertClean(page);
});

/// The greatest memory of the renderer so far, in MB.
function rendererPeak() {
  const peaks = [];
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--type=renderer")) continue;
      peaks.push(Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/VmHWM:\s+(\d+)/)[1]) / 1024);
    } catch {
      // The process has ended.
    }
  }
  return Math.max(...peaks);
}

test("a million events open in 500 MB, and are drawn", { timeout: 10 * LONG }, async (context) => {
  const trace = join(files, "million.jsonl");
  lab("simulate", "raft", "--nodes", "20", "--until", "70000", "--crash", "leader@500", "--limit", "100000000", "--trace", trace);
  lab("play", trace);
  rmSync(trace);
  const started = Date.now();
  const page = await open("million.html");
  const milliseconds = Date.now() - started;
  const events = await page.evaluate(() => window.player.run.count);
  const frame = await page.evaluate(() => {
    window.player.toggleFold();
    const before = performance.now();
    window.player.drawing.draw();
    return Math.round(performance.now() - before);
  });
  const megabytes = Math.round(rendererPeak());
  context.diagnostic(`${events} events open in ${milliseconds} ms and ${megabytes} MB; all messages are drawn in ${frame} ms`);
  assert.ok(events >= 1_000_000, String(events));
  assert.ok(megabytes <= 500, `${megabytes} MB`);
  assertClean(page);
});

test("thousands of processes are shown by aggregation", { timeout: 2 * LONG }, async () => {
  lab("simulate", "randomized", "--nodes", "5000", "--html", join(files, "many.html"));
  const page = await open("many.html");
  assert.equal(await page.evaluate(() => window.player.run.ids.length), 5000);
  assert.ok(await page.evaluate(() => window.player.drawing.total) > 2500);
  await screenshots(page, "player-many");
  assertClean(page);
});

/// The share of pixels that differ between two pictures of the same size.
async function differing(page, one, other) {
  return page.evaluate(async ([first, second]) => {
    const pixels = async (data) => {
      const image = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], { type: "image/png" }));
      const canvas = new OffscreenCanvas(image.width, image.height);
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      return { width: image.width, height: image.height, data: context.getImageData(0, 0, image.width, image.height).data };
    };
    const [a, b] = [await pixels(first), await pixels(second)];
    if (a.width !== b.width || a.height !== b.height) return 1;
    let different = 0;
    for (let index = 0; index < a.data.length; index += 4) {
      const distance = [0, 1, 2].reduce((sum, channel) => sum + Math.abs(a.data[index + channel] - b.data[index + channel]), 0);
      // Edges are smoothed differently; another colour or a missing line is not.
      if (distance > 200) different += 1;
    }
    return different / (a.data.length / 4);
  }, [one.toString("base64"), other.toString("base64")]);
}

test("pictures are the same in Chromium and in librsvg, and are XML", { timeout: 2 * LONG }, async () => {
  const page = await browser.open("about:blank");
  for (const theme of ["paper", "slide"]) {
    const svg = join(files, `${theme}.svg`);
    lab(...FAULTS, "--svg", svg, "--theme", theme);
    execFileSync("xmllint", ["--noout", svg]);
    const png = execFileSync("rsvg-convert", [svg], { maxBuffer: 1 << 26 });
    const [, width, height] = readFileSync(svg, "utf8").match(/width="(\d+)" height="(\d+)"/).map(Number);
    const view = await browser.open(pathToFileURL(svg).href, { width, height });
    const shot = await view.screenshot();
    const share = await differing(page, shot, png);
    assert.ok(share < 0.02, `${theme}: ${(share * 100).toFixed(2)}% of the pixels differ`);
    assertClean(view);
  }
});

test("the gallery plays every run, and is accessible", { timeout: 4 * LONG }, async () => {
  const file = join(files, "gallery.html");
  lab("gallery", "--html", file);
  const page = await browser.open(pathToFileURL(file).href);
  const places = page.locator("[data-shows]");
  const count = await places.count();
  assert.ok(count >= 30, String(count));
  for (let index = 0; index < count; index += 1) {
    await places.nth(index).scrollIntoViewIfNeeded();
    await places.nth(index).locator("[data-drawn]").waitFor();
  }
  await assertAccessible(page);
  // The counterexample of the bully algorithm opens at its broken promise.
  assert.match(await page.locator("[data-shows='bully-breaks'] .detail h3").textContent(), /never two leaders at once/);
  for (const width of [360, 800, 1400]) {
    await page.setViewportSize({ width, height: 900 });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(overflow <= 0, `${width}: ${overflow} pixels too wide`);
  }
  await screenshots(page, "gallery");
  assertClean(page);
});
