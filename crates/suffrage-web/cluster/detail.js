// One election: leader, lease, queue, history, and the reason why this node leads or does not.

import { countdown, duration, element, grouped, nodeColour, nodeLabel, setText, svg } from "../shared/base.js";
import { get, pathOf, post } from "./api.js";
import { remaining } from "./list.js";
import { define } from "./voters.js";

const byId = (id) => document.getElementById(id);
/// The time that the node waits for the next leader.
const WAIT = "5s";
/// The entries of the history that are shown.
const ENTRIES = 50;

export class Detail {
  /// `on.close()`, `on.failed(error)` and `on.confirm(title, text, yes)` are called.
  constructor(on) {
    this.on = on;
    this.row = null;
    this.full = 0;
    this.stale = false;
    byId("close").addEventListener("click", () => this.close());
    byId("resign").addEventListener("click", () => this.resign());
    byId("transfer").addEventListener("click", () => this.transfer());
    byId("detail").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    setInterval(() => this.refresh(), 1000);
    setInterval(() => this.tick(), 100);
  }

  open(row) {
    this.row = row;
    this.full = 0;
    this.history = [];
    byId("detail").hidden = false;
    document.body.classList.add("detailed");
    setText(byId("result"), "");
    setText(byId("detail-title"), row.election ?? `hash ${row.hash}`);
    this.show(row);
    this.showHistory();
    byId("detail-title").focus();
    byId("detail").scrollIntoView({ block: "nearest" });
    this.refresh();
  }

  close() {
    if (this.row === null) return;
    this.row = null;
    byId("detail").hidden = true;
    document.body.classList.remove("detailed");
    this.on.close();
  }

  setStale(stale) {
    this.stale = stale;
    byId("detail").classList.toggle("stale", stale);
    this.refresh();
  }

  /// The leader of some elections has changed.
  changed(changes, lagged) {
    if (this.row && (lagged || changes.some((change) => change.election === this.row.election))) this.refresh();
  }

  async refresh() {
    const shown = this.row;
    const path = shown && pathOf(shown.election);
    if (!path || this.stale || document.hidden || this.fetching) return;
    this.fetching = true;
    try {
      const row = await get(path);
      if (this.row?.hash !== shown.hash) return;
      row.at = performance.now();
      this.row = row;
      this.show(row);
      const { history } = await get(`${path}/history`);
      if (this.row?.hash !== shown.hash) return;
      this.history = history;
      this.showHistory();
    } catch (error) {
      this.on.failed(error);
    } finally {
      this.fetching = false;
    }
  }

  show(row) {
    const led = row.leader !== null;
    const leads = byId("leads");
    const state = JSON.stringify([row.leader, row.token, row.value ?? null]);
    if (leads.dataset.state !== state) {
      leads.dataset.state = state;
      leads.replaceChildren(led ? nodeLabel(row.leader, `Node ${row.leader} leads`) : element("span", { class: "muted" }, "Nobody leads"));
    }
    const rows = [];
    if (row.token !== null) rows.push(["Token", grouped(row.token)]);
    if (typeof row.value === "string") rows.push(["Value", row.value]);
    rows.push(["Since", duration(row.since_ms)]);
    rows.push(["Known by", row.known_by === "grant" ? "one vote of this node" : "participation of this node"]);
    rows.push(["Hash", row.hash]);
    define(byId("about"), rows);
    setText(byId("why"), sentence(row));
    const queue = byId("queue");
    const waiting = row.queue.join(" ");
    if (queue.dataset.waiting !== waiting) {
      queue.dataset.waiting = waiting;
      queue.replaceChildren(...(row.queue.length > 0
        ? row.queue.map((id) => element("li", {}, nodeLabel(id)))
        : [element("li", { class: "muted nobody-waits" }, "Nobody waits at this node's voter.")]));
      this.targets(row);
    }
    const possible = led && pathOf(row.election) !== null && !this.stale;
    byId("resign").disabled = !possible;
    byId("transfer").disabled = !possible || byId("to").value === "";
    this.tick();
  }

  /// The nodes to which the leader can hand over: those that wait.
  targets(row) {
    const select = byId("to");
    const chosen = select.value;
    const ids = row.queue.filter((id) => id !== row.leader);
    select.replaceChildren(...(ids.length > 0
      ? ids.map((id) => element("option", { value: id }, `node ${id}`))
      : [element("option", { value: "" }, "nobody waits")]));
    if (ids.map(String).includes(chosen)) select.value = chosen;
    select.disabled = ids.length === 0;
  }

  tick() {
    if (this.row === null) return;
    const left = remaining(this.row);
    if (left !== null) this.full = Math.max(this.full, left);
    const lease = byId("lease");
    if (!lease.firstChild) {
      lease.append(element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "fill" })), element("span", { class: "number" }));
    }
    const [track, text] = lease.children;
    track.firstChild.style.transform = `scaleX(${left === null || this.full === 0 ? 0 : left / this.full})`;
    const whose = this.row.lease_remaining_ms !== null ? "until the lease ends, unless it is renewed" : "until the grant of this voter ends, unless it is renewed";
    const unknown = this.row.leader === null ? "No lease." : "This node does not know the end of the lease.";
    setText(text, this.stale ? "Not known while the node is lost." : left === null ? unknown : `${countdown(left)} ${whose}`);
  }

  showHistory() {
    const entries = [...this.history].reverse();
    const body = byId("history").tBodies[0];
    const rows = entries.slice(0, ENTRIES).map((entry) => element("tr", {},
      element("td", {}, entry.leader === null ? element("span", { class: "muted" }, "nobody") : nodeLabel(entry.leader)),
      element("td", { class: "number" }, entry.token === null ? "" : grouped(entry.token)),
      element("td", { class: "number" }, `${duration(entry.age_ms)} ago`)));
    body.replaceChildren(...(rows.length > 0 ? rows : [element("tr", {}, element("td", { colspan: 3, class: "muted" }, "This node has seen no change."))]));
    byId("strip").replaceChildren(...(entries.length > 1 ? [strip(this.history)] : []));
  }

  async resign() {
    const { election, leader } = this.row;
    const text = `Node ${leader} is asked to end its work and to hand over. The next candidate in the queue leads then; the same node may, if nobody else waits.`;
    if (await this.on.confirm(`Resign ${election}?`, text, "Resign")) await this.act("resign", { wait: WAIT });
  }

  async transfer() {
    const { election, leader } = this.row;
    const to = Number(byId("to").value);
    const text = `Node ${leader} is asked to end its work and to hand over to node ${to}.`;
    if (await this.on.confirm(`Transfer ${election} to node ${to}?`, text, "Transfer")) await this.act("transfer", { to, wait: WAIT });
  }

  async act(verb, body) {
    const result = byId("result");
    result.className = "notice";
    setText(result, "The leader is asked to hand over.");
    try {
      const answer = await post(`${pathOf(this.row.election)}/${verb}`, body);
      const done = answer.leader !== null && answer.leader !== undefined;
      result.className = `notice ${done ? "good" : "warn"}`;
      setText(result, done
        ? `Node ${answer.leader} leads with token ${answer.token}, ${duration(answer.took_ms)} after the request.`
        : `No new leader within ${WAIT}. The lease ends within ${duration(answer.within_ms)}.`);
    } catch (error) {
      result.className = "notice bad";
      setText(result, `Not done: ${error.message}`);
      this.on.failed(error);
    }
    this.refresh();
  }
}

/// The reason why this node leads or does not.
function sentence(row) {
  return `Node ${row.node}: ${row.why}.`.replace(/\.\.$/, ".");
}

/// The leaders over time, the oldest at the left.
function strip(history) {
  const oldest = history[0].age_ms;
  const parts = history.map((entry, index) => {
    const until = history[index + 1]?.age_ms ?? 0;
    const [x, width] = [100 - (entry.age_ms / oldest) * 100, ((entry.age_ms - until) / oldest) * 100];
    return svg("rect", {
      x, y: 0, width: Math.max(width, 0.3), height: 10,
      class: entry.leader === null ? "gap" : "led", "data-node": entry.leader === null ? null : nodeColour(entry.leader),
    });
  });
  return svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img",
    "aria-label": `Leaders of the last ${duration(oldest)}; the table below has the same.` }, ...parts);
}
