// The playground: real processes, and buttons that break them.
//
// The token is behind `#` in the address, which the browser sends to nobody.

import { duration, element, serverSentEvents, setText, themeButton } from "../shared/base.js";
import { Nodes } from "./nodes.js";
import { drawTimeline } from "./timeline.js";

const byId = (id) => document.getElementById(id);
const token = location.hash.slice(1);
const SILENCE = 4000;

let state = null;
let receivedAt = 0;

themeButton(byId("theme"));

async function act(action) {
  const failure = byId("failure");
  failure.hidden = true;
  try {
    const response = await fetch("action", {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify(action),
    });
    if (response.ok) return;
    const body = await response.json();
    failure.textContent = `Not done: ${body.error}.`;
  } catch {
    failure.textContent = "Not done: the demo does not answer.";
  }
  failure.hidden = false;
}

const nodes = new Nodes(act);
byId("heal").addEventListener("click", () => act({ do: "heal" }));
byId("span").addEventListener("change", draw);

function show() {
  setText(byId("title"), `${state.title}, ${state.nodes.length} processes`);
  setText(byId("promise"), state.promise);
  const { count, ms } = state.overlaps;
  const verdict = byId("verdict");
  verdict.classList.toggle("broken", count > 0);
  setText(byId("count"), String(count));
  const times = count === 1 ? "1 time" : `${count} times`;
  setText(byId("verdict-text"), count === 0
    ? "Two nodes have never led at once."
    : `Two nodes have led at once ${times}, for ${duration(ms)} in all.`);
  nodes.show(state);
  byId("heal").disabled = state.cuts.length === 0;
  showEvents();
}

let newest = null;

function showEvents() {
  const last = state.events.at(-1);
  const key = last && `${last.at} ${last.text} ${state.events.length}`;
  if (key === newest) return;
  newest = key;
  byId("events").replaceChildren(...[...state.events].reverse().map(({ at, text }) => element("li", {},
    element("span", { class: "muted number" }, `${(at / 1000).toFixed(3)} s`), element("span", {}, text))));
}

/// The time of the demo now, in milliseconds.
function now() {
  return state.now + (performance.now() - receivedAt);
}

function draw() {
  if (state) drawTimeline(byId("timeline"), state, now(), Number(byId("span").value) * 1000);
}

function pill(word, kind) {
  const connection = byId("connection");
  connection.className = `pill ${kind}`;
  setText(connection, word);
}

function lost(text) {
  pill("lost", "bad");
  byId("lost").hidden = false;
  setText(byId("lost"), text);
  state = null;
  document.body.classList.add("ended");
}

async function follow() {
  for (;;) {
    const attempt = new AbortController();
    let watchdog = setTimeout(() => attempt.abort(), SILENCE);
    try {
      const response = await fetch("state", {
        headers: { Authorization: `Bearer ${token}` }, cache: "no-store", signal: attempt.signal,
      });
      if (response.status === 401) {
        lost("This address lacks the token of the demo: open the address that the demo has printed.");
        return;
      }
      for await (const [, data] of serverSentEvents(response)) {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => attempt.abort(), SILENCE);
        const latest = JSON.parse(data);
        if (latest === null) continue;
        [state, receivedAt] = [latest, performance.now()];
        pill("live", "good");
        byId("lost").hidden = true;
        document.body.classList.remove("ended");
        show();
        draw();
      }
    } catch {
      // The demo has ended, or says nothing.
    }
    clearTimeout(watchdog);
    lost("The demo has ended, or does not answer. Start it again, and open the address that it prints.");
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

setInterval(() => {
  if (!document.hidden) draw();
}, 100);
follow();
