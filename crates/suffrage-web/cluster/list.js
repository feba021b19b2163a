// The list of elections: only the visible rows exist, and only their pages are fetched.

import { countdown, element, grouped, nodeColour, setText } from "../shared/base.js";
import { get } from "./api.js";

const ROW = 44;
/// Rows beyond the visible ones, above and below.
const MARGIN = 6;
/// The number of elections of a page.
const PAGE = 100;
/// Pages that are kept. A page that is out of sight is fetched again when it is seen.
const PAGES = 12;
/// Browsers lay out elements of up to about 33 million pixels.
const TALLEST = 15_000_000;
const REFRESH = 1000;
const SOON = 120;

export class ElectionList {
  /// `on.open(row)`, `on.page(answer)` and `on.failed(error)` are called.
  constructor(on) {
    this.on = on;
    this.list = document.getElementById("list");
    this.rows = document.getElementById("rows");
    this.empty = document.getElementById("empty");
    this.heads = document.querySelector(".heads");
    this.query = { search: "", leader: "" };
    this.pages = new Map();
    this.fetching = new Map();
    this.total = 0;
    this.active = 0;
    this.pool = [];
    this.longest = new Map();
    this.stale = false;
    this.drawing = false;
    this.list.addEventListener("scroll", () => this.draw(), { passive: true });
    this.list.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("click", (event) => this.onClick(event));
    this.list.addEventListener("focus", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.list);
    setInterval(() => this.refresh(), REFRESH);
    setInterval(() => this.tick(), 100);
  }

  /// Shows the elections of another query, from the first.
  setQuery(query) {
    this.query = query;
    this.forget();
    this.active = 0;
    this.list.scrollTop = 0;
    this.fetchPage(0);
  }

  /// Drops all pages.
  forget() {
    for (const attempt of this.fetching.values()) attempt.abort();
    this.fetching.clear();
    this.pages.clear();
  }

  /// The node is lost: what is shown may be wrong.
  setStale(stale) {
    this.stale = stale;
    this.list.classList.toggle("stale", stale);
    if (!stale) this.refresh();
  }

  /// Some leaders have changed. Rows in sight change at once, and are fetched soon.
  changed(changes, lagged) {
    const names = new Map(changes.map((change) => [change.election, change]));
    let seen = lagged;
    for (const page of this.visiblePages()) {
      for (const row of this.pages.get(page)?.rows ?? []) {
        const change = names.get(row.election);
        if (!change) continue;
        seen = true;
        if (row.leader === change.leader && row.token === change.token) continue;
        Object.assign(row, { leader: change.leader, token: change.token, flash: performance.now(), lease_remaining_ms: null, grant_remaining_ms: null });
      }
    }
    this.draw();
    // A new election may belong to the rows in sight.
    if (seen || this.total < 1000) this.soon();
  }

  soon() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.refresh();
    }, SOON);
  }

  refresh() {
    if (document.hidden || this.stale) return;
    for (const page of this.visiblePages()) this.fetchPage(page);
  }

  visiblePages() {
    const [first, last] = this.range();
    const pages = [];
    for (let page = Math.floor(first / PAGE); page * PAGE < Math.max(last, 1); page += 1) pages.push(page);
    return pages;
  }

  async fetchPage(page) {
    if (this.fetching.has(page)) return;
    const attempt = new AbortController();
    this.fetching.set(page, attempt);
    const words = new URLSearchParams({ from: page * PAGE, limit: PAGE });
    if (this.query.search) words.set("search", this.query.search);
    if (this.query.leader) words.set("leader", this.query.leader);
    try {
      const answer = await get(`elections?${words}`, attempt.signal);
      if (this.fetching.get(page) !== attempt) return;
      this.store(page, answer);
      this.on.page(answer);
    } catch (error) {
      if (error.name !== "AbortError") this.on.failed(error);
    } finally {
      if (this.fetching.get(page) === attempt) this.fetching.delete(page);
    }
  }

  store(page, answer) {
    const now = performance.now();
    const before = new Map((this.pages.get(page)?.rows ?? []).map((row) => [row.hash, row]));
    for (const row of answer.elections) {
      row.at = now;
      const old = before.get(row.hash);
      row.flash = old?.flash ?? 0;
      if (old && old.leader !== row.leader) row.flash = now;
      const left = row.lease_remaining_ms ?? row.grant_remaining_ms;
      if (left !== null) this.longest.set(row.hash, Math.max(left, this.longest.get(row.hash) ?? 0));
    }
    this.pages.delete(page);
    this.pages.set(page, { rows: answer.elections });
    while (this.pages.size > PAGES) this.pages.delete(this.pages.keys().next().value);
    if (this.longest.size > PAGES * PAGE * 4) this.longest.clear();
    this.total = answer.matching;
    this.active = Math.min(this.active, Math.max(this.total - 1, 0));
    this.empty.hidden = this.total > 0;
    this.list.hidden = this.total === 0;
    const searches = this.query.search || this.query.leader;
    setText(this.empty, searches ? "No election matches." : "This node knows no election yet.");
    this.draw();
  }

  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.rows[index % PAGE];
  }

  /// The height of all rows, which browsers bound, and the height of the way that can be scrolled.
  heights() {
    const all = this.total * ROW;
    return [Math.min(all, TALLEST), all];
  }

  /// The top of the window in the list of full height.
  top() {
    const [shown, all] = this.heights();
    const way = shown - this.list.clientHeight;
    if (all === shown || way <= 0) return this.list.scrollTop;
    return (this.list.scrollTop / way) * (all - this.list.clientHeight);
  }

  range() {
    const top = this.top();
    const first = Math.max(Math.floor(top / ROW) - MARGIN, 0);
    const last = Math.min(Math.ceil((top + this.list.clientHeight) / ROW) + MARGIN, this.total);
    return [first, last];
  }

  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.drawNow();
    });
  }

  drawNow() {
    const [first, last] = this.range();
    const [shown] = this.heights();
    const offset = this.list.scrollTop - this.top();
    this.rows.style.height = `${shown}px`;
    // The heads stand over the rows, beside which there may be a scroll bar.
    this.heads.style.marginInlineEnd = `${this.list.offsetWidth - this.list.clientWidth}px`;
    while (this.pool.length < last - first) this.pool.push(this.makeRow());
    const missing = new Set();
    // A row keeps its element while it is in sight: the pool is a ring.
    const size = this.pool.length;
    const used = new Set();
    for (let index = first; index < last; index += 1) {
      const slot = this.pool[index % size];
      used.add(slot);
      const row = this.row(index);
      // A page may be shorter than the list says, if elections have ended since: the next refresh tells.
      if (!this.pages.has(Math.floor(index / PAGE))) missing.add(Math.floor(index / PAGE));
      slot.root.hidden = false;
      slot.root.style.transform = `translateY(${index * ROW + offset}px)`;
      this.fillRow(slot, index, row);
    }
    for (const slot of this.pool) if (!used.has(slot)) slot.root.hidden = true;
    if (document.activeElement === this.list && this.active >= first && this.active < last) {
      this.list.setAttribute("aria-activedescendant", this.pool[this.active % size].root.id);
    } else {
      this.list.removeAttribute("aria-activedescendant");
    }
    if (missing.size > 0 && !this.stale) this.fetchMissing(missing);
  }

  /// Fetches pages when the list has rested: a fast scroll passes hundreds of them.
  fetchMissing(pages) {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => pages.forEach((page) => this.fetchPage(page)), 60);
  }

  makeRow() {
    const part = (name) => element("span", { class: name });
    const slot = { name: part("name"), leader: part("node leader"), token: part("token number wide"),
      bar: part("fill"), left: part("left number"), queue: part("queue-length wide") };
    slot.root = element("div", { class: "row", role: "option", id: `row-${this.pool.length}`, "aria-selected": "false" },
      slot.name, slot.leader, slot.token,
      element("span", { class: "lease" }, element("span", { class: "track", "aria-hidden": "true" }, slot.bar), slot.left),
      slot.queue);
    this.rows.append(slot.root);
    return slot;
  }

  fillRow(slot, index, row) {
    slot.row = row;
    slot.root.setAttribute("aria-posinset", index + 1);
    slot.root.setAttribute("aria-setsize", this.total);
    slot.root.setAttribute("aria-selected", String(Boolean(row) && row.hash === this.opened));
    slot.root.classList.toggle("active", index === this.active);
    slot.root.classList.toggle("waiting", !row);
    slot.root.dataset.index = index;
    if (!row) {
      for (const part of [slot.name, slot.leader, slot.token, slot.left, slot.queue]) setText(part, "");
      slot.name.textContent = "…";
      slot.leader.classList.add("nobody");
      return;
    }
    setText(slot.name, row.election ?? `hash ${row.hash}`);
    slot.name.title = row.election ?? row.hash;
    const led = row.leader !== null;
    slot.leader.classList.toggle("nobody", !led);
    if (led) slot.leader.dataset.node = nodeColour(row.leader);
    setText(slot.leader, led ? `node ${row.leader}` : "no leader");
    setText(slot.token, row.token === null ? "" : `token ${grouped(row.token)}`);
    setText(slot.queue, row.queue.length === 0 ? "" : `${row.queue.length} waiting`);
    slot.root.classList.toggle("changed", performance.now() - row.flash < 1500);
    this.fillLease(slot, row);
  }

  fillLease(slot, row) {
    const left = remaining(row);
    const full = this.longest.get(row.hash);
    slot.bar.style.transform = `scaleX(${left === null || !full ? 0 : Math.min(left / full, 1)})`;
    setText(slot.left, this.stale ? "?" : left === null ? "" : countdown(left));
  }

  /// Runs the leases down.
  tick() {
    if (document.hidden || this.stale) return;
    for (const slot of this.pool) {
      if (slot.root.hidden || !slot.row) continue;
      slot.root.classList.toggle("changed", performance.now() - slot.row.flash < 1500);
      this.fillLease(slot, slot.row);
    }
  }

  onClick(event) {
    const root = event.target.closest(".row");
    if (!root) return;
    this.active = Number(root.dataset.index);
    this.open();
  }

  onKey(event) {
    const rows = Math.max(Math.floor(this.list.clientHeight / ROW) - 1, 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: rows, PageUp: -rows, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      event.preventDefault();
      this.active = Math.min(Math.max(this.active + steps[event.key], 0), Math.max(this.total - 1, 0));
      this.reveal();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.open();
    }
  }

  /// Scrolls to the active row.
  reveal() {
    const [shown, all] = this.heights();
    const height = this.list.clientHeight;
    const [from, to] = [this.active * ROW, this.active * ROW + ROW];
    const top = this.top();
    let wanted = top;
    if (from < top) wanted = from;
    else if (to > top + height) wanted = to - height;
    if (wanted !== top) {
      this.list.scrollTop = all === shown ? wanted : (wanted / (all - height)) * (shown - height);
    }
    this.draw();
  }

  open() {
    const row = this.row(this.active);
    if (!row) return;
    this.opened = row.hash;
    this.on.open(row);
    this.draw();
  }

  close() {
    this.opened = null;
    this.draw();
    if (!this.list.hidden) this.list.focus();
  }
}

/// The time until the lease of a row ends, by what the node said and the time since. null if the node does not know.
export function remaining(row) {
  const left = row.lease_remaining_ms ?? row.grant_remaining_ms;
  if (left === null || left === undefined) return null;
  return Math.max(left - (performance.now() - row.at), 0);
}
