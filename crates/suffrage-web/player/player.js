// The player of a run: play, step, scrub, zoom.

import { element, setText } from "../shared/base.js";
import { NONE, decodeRun, number } from "./model.js";
import { Drawing } from "./draw.js";

/// The number of events in the list around the selected one.
const LISTED = 60;

export class Player {
  /// Builds the player in `root`. `linked` players keep their position in the address.
  constructor(root, run, { linked = false, compact = false } = {}) {
    this.root = root;
    this.run = run;
    this.linked = linked;
    this.speed = 1;
    this.playing = false;
    this.build(compact);
    this.drawing = new Drawing(this.canvas, run);
    this.selected = -1;
    new ResizeObserver(() => { this.drawing.resize(); this.render(); }).observe(this.canvas);
    new MutationObserver(() => { this.drawing.resize(); this.render(); })
      .observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.drawing.resize(); this.render(); });
    this.listen();
    if (linked && this.readAddress()) return;
    const [broken] = run.violations;
    // A counterexample opens at its point, without the long calm after it.
    if (broken) this.drawing.view.to = Math.min(this.drawing.view.to, broken.at * 1.15 + run.end * 0.01);
    this.select(broken ? broken.event : -1);
  }

  build(compact) {
    const button = (label, text, action, more = {}) =>
      element("button", { type: "button", "aria-label": label, title: label, onclick: action, ...more }, text);
    this.playButton = button("Play", "▶ Play", () => this.toggle(), { class: "primary" });
    this.foldButton = button("Hide heartbeats", "Heartbeats folded", () => this.toggleFold(), { "aria-pressed": "true" });
    this.speedSelect = element("select", { "aria-label": "Speed", onchange: () => { this.speed = Number(this.speedSelect.value); } },
      ...[["0.25", "¼×"], ["0.5", "½×"], ["1", "1×"], ["2", "2×"], ["4", "4×"], ["16", "16×"]].map(([value, text]) =>
        element("option", { value, selected: value === "1" }, text)));
    this.canvas = element("canvas", { class: "space-time", tabindex: "0", role: "img", "aria-describedby": null });
    this.scrubber = element("input", { type: "range", min: "0", max: "10000", step: "1", "aria-label": `Position in ${this.run.unit}` });
    this.scrubber.addEventListener("input", () => this.seek(Number(this.scrubber.value) / 10000 * this.run.end));
    this.now = element("p", { class: "now number" });
    this.heading = element("h3", {}, "");
    this.facts = element("dl", { class: "facts" });
    this.contentTitle = element("h4", {}, "Content of the message");
    this.content = element("pre", { class: "content", tabindex: "0", "aria-label": "Content of the message" });
    this.list = element("ol", { class: "events", tabindex: "0", "aria-label": "Events around the selected one" });
    this.live = element("p", { class: "offscreen", "aria-live": "polite" });
    const group = (label, ...children) => element("div", { class: "group", role: "group", "aria-label": label }, ...children);
    this.root.classList.add("player");
    this.root.append(
      element("div", { class: "tools" },
        group("Playing",
          button("To the start (Home)", "|◀", () => this.select(this.nextEvent(-1, 1))),
          button("One event back (Left arrow)", "◀", () => this.step(-1)),
          this.playButton,
          button("One event on (Right arrow)", "▶", () => this.step(1)),
          button("To the end (End)", "▶|", () => this.toEnd()),
          this.speedSelect),
        group("View",
          button("Zoom out (-)", "−", () => this.zoom(1.6)),
          button("Zoom in (+)", "+", () => this.zoom(1 / 1.6)),
          button("Show the whole run (F)", "Fit", () => this.fit()),
          this.foldButton),
        this.now),
      element("div", { class: "stage" }, this.canvas),
      this.scrubber,
      element("div", { class: "below" },
        element("section", { class: "detail", "aria-label": "Selected event" }, this.heading, this.facts, this.contentTitle, this.content),
        element("section", { class: "listing", "aria-label": "Events" }, this.list)),
      this.live);
    if (compact) this.root.classList.add("compact");
    const rows = Math.max(3, Math.min(this.run.ids.length, 12));
    this.canvas.style.height = `${Math.min(60 + rows * (compact ? 38 : 46), compact ? 420 : 620)}px`;
    const ids = this.run.ids.length;
    this.canvas.setAttribute("aria-label",
      `Space-time diagram of ${this.run.header.algorithm}: ${ids} processes, ${this.run.count} events. The list of events has the same content as text.`);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      // A page that scrolls stays scrollable: only the wheel with a key, or sideways, moves the view.
      if (!(event.ctrlKey || event.shiftKey || event.altKey) && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) {
        if (document.activeElement !== canvas) return;
      }
      event.preventDefault();
      const view = this.drawing.view;
      const factor = Math.exp(Math.sign(event.deltaY) * 0.18);
      if (event.altKey) view.zoomRows(factor, this.drawing.rowAt(event.offsetY));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        view.pan((event.deltaX || event.deltaY) / this.drawing.width * (view.to - view.from), 0);
      } else view.zoom(factor, this.drawing.timeAt(event.offsetX));
      this.render();
    }, { passive: false });
    const pointers = new Map();
    let moved = false;
    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      canvas.setPointerCapture(event.pointerId);
      moved = false;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.offsetX - before[0], event.offsetY - before[1]];
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      const view = this.drawing.view;
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const distance = (point) => Math.max(10, Math.hypot(point[0] - other[0], point[1] - other[1]));
        view.zoom(distance(before) / distance([event.offsetX, event.offsetY]), this.drawing.timeAt((event.offsetX + other[0]) / 2));
      } else view.pan(-dx / this.drawing.width * (view.to - view.from), -dy / this.drawing.rowHeight);
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      this.render();
    });
    const up = (event) => {
      if (pointers.delete(event.pointerId) && !moved && event.type === "pointerup") this.click(event.offsetX, event.offsetY);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    if (this.linked) {
      document.addEventListener("keydown", (event) => {
        if (!this.root.contains(event.target) && event.target.closest("input, select, button, a, pre") === null) this.onKey(event);
      });
      window.addEventListener("hashchange", () => this.readAddress());
    }
  }

  onKey(event) {
    const inField = event.target.closest?.("input, select");
    if (event.ctrlKey || event.metaKey || inField) return;
    const view = this.drawing.view;
    const actions = {
      ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1),
      Home: () => this.select(this.nextEvent(-1, 1)), End: () => this.toEnd(),
      "+": () => this.zoom(1 / 1.6), "=": () => this.zoom(1 / 1.6), "-": () => this.zoom(1.6),
      f: () => this.fit(), h: () => this.toggleFold(),
      ArrowUp: () => view.pan(0, -1), ArrowDown: () => view.pan(0, 1),
      "[": () => view.zoomRows(1.6, (view.top + view.bottom) / 2), "]": () => view.zoomRows(1 / 1.6, (view.top + view.bottom) / 2),
    };
    if (event.key === " " && !event.target.closest?.("button")) actions[" "] = () => this.toggle();
    // The list and the content scroll by the arrow keys.
    if (event.target.closest?.("pre") || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
    this.render();
  }

  /// The next event that is shown, in this direction.
  nextEvent(from, direction) {
    let event = from + direction;
    while (event >= 0 && event < this.run.count && this.drawing.folds && this.run.isFolded(event)) event += direction;
    return event >= 0 && event < this.run.count ? event : from;
  }

  step(direction) {
    this.stop();
    const from = this.selected >= 0 ? this.selected : this.run.eventAfter(this.time) - (direction > 0 ? 1 : 0);
    this.select(this.nextEvent(from, direction));
  }

  toEnd() {
    this.stop();
    this.select(this.nextEvent(this.run.count, -1));
    this.setTime(this.run.end);
    this.render();
  }

  /// Shows an event: its time, its content, its neighbours.
  select(event, { keepTime = false } = {}) {
    this.selected = event >= this.run.count ? -1 : event;
    this.drawing.selected = this.selected;
    if (this.selected >= 0 && !keepTime) {
      this.setTime(this.run.c.event_at[this.selected]);
      this.drawing.view.show(this.time);
    } else if (this.selected < 0) this.setTime(this.run.end);
    this.describe();
    this.fillList();
    this.render();
    this.writeAddress();
  }

  describe() {
    const run = this.run;
    this.facts.replaceChildren();
    const fact = (name, value) => this.facts.append(element("dt", {}, name), element("dd", {}, String(value)));
    if (this.selected < 0) {
      setText(this.heading, `${run.header.algorithm}: the whole run`);
      fact("processes", run.ids.length);
      fact("events", run.count);
      if (!run.header.steps) fact("seed", run.header.seed);
      if (run.header.command) fact("command", run.header.command);
      this.contentTitle.hidden = true;
      this.content.hidden = true;
      return;
    }
    const [who, what] = run.describe(this.selected);
    setText(this.heading, `${who} ${what}`);
    setText(this.live, `${run.unit} ${number(run.c.event_at[this.selected])}: ${who} ${what}`);
    fact(run.unit, number(run.c.event_at[this.selected]));
    fact("event", `${this.selected + 1} of ${run.count}: ${run.type(this.selected).replace("_", " ")}`);
    if (run.isMessage(this.selected)) {
      const ref = run.c.event_ref[this.selected];
      const { message_sent: sent, message_end: end, message_fate: fate } = run.c;
      const fates = ["is on its way", "is delivered", "is lost", "is cut off", "finds its receiver down", "has no receiver"];
      fact("sent", number(sent[ref]));
      fact("then", `${fates[fate[ref]]} at ${number(end[ref])}`);
    }
    const content = run.content(this.selected);
    this.contentTitle.hidden = content === undefined;
    this.content.hidden = content === undefined;
    if (content !== undefined) setText(this.content, JSON.stringify(content, null, 2));
  }

  fillList() {
    const run = this.run;
    const middle = this.selected >= 0 ? this.selected : 0;
    const events = [];
    for (let event = middle, before = 0; before < LISTED / 3; before += 1) {
      const next = this.nextEvent(event, -1);
      if (next === event) break;
      events.unshift(next);
      event = next;
    }
    if (middle < run.count && (this.selected >= 0 || !(this.drawing.folds && run.isFolded(middle)))) events.push(middle);
    for (let event = middle; events.length < LISTED;) {
      const next = this.nextEvent(event, 1);
      if (next === event) break;
      events.push(next);
      event = next;
    }
    const items = events.map((event) => {
      const [who, what] = run.describe(event);
      const isSelected = event === this.selected;
      return element("li", { class: isSelected ? "selected" : null, "aria-current": isSelected ? "true" : null, onclick: () => { this.stop(); this.select(event); } },
        element("span", { class: "at number" }, number(Number(run.c.event_at[event].toFixed(2)))),
        element("span", { class: "who" }, who), element("span", { class: "what" }, what));
    });
    this.list.replaceChildren(...items);
    const current = this.list.querySelector(".selected");
    if (current) this.list.scrollTop = current.offsetTop - this.list.clientHeight / 3;
    else this.list.scrollTop = 0;
  }

  setTime(time) {
    this.time = Math.min(Math.max(time, 0), this.run.end);
    this.drawing.time = this.time;
    this.scrubber.value = String(Math.round(this.time / this.run.end * 10000));
    this.scrubber.setAttribute("aria-valuetext", `${this.run.unit} ${number(this.time)}`);
    const leaders = this.run.leadersAt(this.time === this.run.end ? this.time - 1e-9 : this.time);
    const text = leaders.length === 0 ? "nobody leads"
      : `${leaders.map(({ slot, term }) => `${this.run.name(slot)} leads (term ${term})`).join(", ")}`;
    setText(this.now, `${this.run.unit} ${number(Number(this.time.toFixed(2)))}: ${text}`);
    this.now.classList.toggle("bad", leaders.length > 1);
  }

  seek(time) {
    this.stop();
    this.setTime(time);
    const event = this.run.eventAfter(this.time) - 1;
    this.select(event, { keepTime: true });
    this.drawing.view.show(this.time);
    this.render();
  }

  toggle() {
    if (this.playing) return this.stop();
    if (this.time >= this.run.end) this.setTime(Math.max(0, this.drawing.view.from));
    this.playing = true;
    this.drawing.selected = -1;
    setText(this.playButton, "❚❚ Pause");
    this.playButton.setAttribute("aria-label", "Pause");
    // A view takes about twelve seconds at speed 1.
    const rate = (this.drawing.view.to - this.drawing.view.from) / 12000;
    let last = performance.now();
    const frame = (now) => {
      if (!this.playing) return;
      this.setTime(this.time + (now - last) * rate * this.speed);
      last = now;
      const view = this.drawing.view;
      if (this.time > view.to - (view.to - view.from) * 0.1) view.pan((now > 0 ? 0.02 : 0) * (view.to - view.from) * this.speed, 0);
      this.render();
      if (this.time >= this.run.end) this.stop();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    return undefined;
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    setText(this.playButton, "▶ Play");
    this.playButton.setAttribute("aria-label", "Play");
    this.select(this.run.eventAfter(this.time) - 1, { keepTime: true });
  }

  zoom(factor) {
    const view = this.drawing.view;
    const around = this.time >= view.from && this.time <= view.to ? this.time : (view.from + view.to) / 2;
    view.zoom(factor, around);
    this.render();
    this.writeAddress();
  }

  fit() {
    this.drawing.view.fit();
    this.render();
    this.writeAddress();
  }

  toggleFold() {
    this.drawing.folds = !this.drawing.folds;
    this.foldButton.setAttribute("aria-pressed", String(this.drawing.folds));
    setText(this.foldButton, this.drawing.folds ? "Heartbeats folded" : "Heartbeats shown");
    this.fillList();
    this.render();
  }

  /// Selects the message at a point; else the event of the nearest row before that moment.
  click(x, y) {
    this.stop();
    this.canvas.focus();
    const message = this.drawing.messageAt(x, y);
    if (message >= 0) {
      const { event_ref: ref, event_at: at, message_sent: sent } = this.run.c;
      for (let event = Math.max(0, this.run.eventAfter(sent[message] - 1e-9) - 1); event < this.run.count && at[event] <= this.run.c.message_end[message]; event += 1) {
        if (this.run.isMessage(event) && ref[event] === message) return this.select(event);
      }
    }
    return this.seek(this.drawing.timeAt(x));
  }

  render() {
    if (this.rendering) return;
    this.rendering = true;
    requestAnimationFrame(() => {
      this.rendering = false;
      this.drawing.draw();
      this.root.dataset.drawn = "true";
    });
  }

  /// The address names the event and the view, so that a moment can be linked to.
  writeAddress() {
    if (!this.linked) return;
    const view = this.drawing.view;
    const parts = new URLSearchParams();
    if (this.linked !== true) parts.set("run", this.linked);
    if (this.selected >= 0) parts.set("event", String(this.selected + 1));
    parts.set("view", `${number(view.from)}..${number(view.to)}`);
    this.address = `#${parts}`;
    history.replaceState(null, "", this.address);
  }

  /// Shows the moment that the address names. False if it names none.
  readAddress() {
    if (location.hash === this.address) return true;
    const parts = new URLSearchParams(location.hash.slice(1));
    const [from, to] = (parts.get("view") ?? "").split("..").map(Number);
    const event = Number(parts.get("event"));
    const hasView = Number.isFinite(from) && Number.isFinite(to) && from < to;
    const hasEvent = Number.isInteger(event) && event >= 1 && event <= this.run.count;
    if (hasView) Object.assign(this.drawing.view, { from, to });
    this.drawing.view.clamp();
    if (hasEvent) this.select(event - 1);
    else if (hasView) this.select(-1);
    return hasView || hasEvent;
  }
}

/// Builds a player in `root` for the run in the element `source`.
export function play(root, source, options) {
  const run = decodeRun(source.textContent);
  return new Player(root, run, options);
}
