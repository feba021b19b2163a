// Draws a run on a canvas: time to the right, one line a process, an arrow a message.

import { FATE, NONE, number } from "./model.js";

/// More messages than this in view are drawn as a density.
const MOST_ARROWS = 2500;
/// More arrows than this have no labels.
const MOST_LABELS = 70;
const AXIS = 26;
const LANE = 16;

/// The part of the run that is in view: times, and rows as real numbers.
export class View {
  constructor(run) {
    this.run = run;
    this.fit();
  }

  fit() {
    const margin = this.run.end * 0.02;
    this.from = -margin;
    this.to = this.run.end + margin;
    this.top = 0;
    this.bottom = this.run.ids.length;
  }

  /// Zooms in time around a moment.
  zoom(factor, around) {
    const shortest = this.run.end * 1e-7;
    const width = Math.max((this.to - this.from) * factor, shortest);
    const share = (around - this.from) / (this.to - this.from);
    this.from = around - share * width;
    this.to = this.from + width;
    this.clamp();
  }

  /// Zooms in processes around a row.
  zoomRows(factor, around) {
    const height = Math.min(Math.max((this.bottom - this.top) * factor, Math.min(3, this.run.ids.length)), this.run.ids.length);
    const share = (around - this.top) / (this.bottom - this.top);
    this.top = around - share * height;
    this.bottom = this.top + height;
    this.clamp();
  }

  pan(time, rows) {
    this.from += time;
    this.to += time;
    this.top += rows;
    this.bottom += rows;
    this.clamp();
  }

  /// Moves the view so that this moment is in it.
  show(time) {
    const width = this.to - this.from;
    if (time < this.from + width * 0.05 || time > this.to - width * 0.05) this.pan(time - (this.from + this.to) / 2, 0);
  }

  clamp() {
    const margin = this.run.end * 0.02;
    const width = Math.min(this.to - this.from, this.run.end + 2 * margin);
    this.from = Math.min(Math.max(this.from, -margin), this.run.end + margin - width);
    this.to = this.from + width;
    const height = Math.min(this.bottom - this.top, this.run.ids.length);
    this.top = Math.min(Math.max(this.top, 0), this.run.ids.length - height);
    this.bottom = this.top + height;
  }
}

/// The colours of the page, read from its style.
export function colours(element) {
  const style = getComputedStyle(element);
  const get = (name) => style.getPropertyValue(name).trim();
  const names = ["bg", "surface", "raised", "text", "muted", "line", "strong-line", "accent", "accent-soft", "good", "warn",
    "warn-soft", "bad", "bad-soft", "font"];
  const all = Object.fromEntries(names.map((name) => [name, get(`--${name}`)]));
  all.nodes = Array.from({ length: 9 }, (_, index) => get(`--node-${index + 1}`));
  return all;
}

export class Drawing {
  constructor(canvas, run) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.run = run;
    this.view = new View(run);
    this.selected = -1;
    this.time = run.end;
    this.folds = true;
    this.resize();
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.colour = colours(this.canvas);
    const longest = this.run.ids.reduce((most, id) => Math.max(most, String(id).length), 1);
    this.left = Math.max(34, 16 + longest * 8);
  }

  get top() {
    return AXIS + LANE + 8;
  }

  x(time) {
    return this.left + (time - this.view.from) / (this.view.to - this.view.from) * (this.width - this.left - 8);
  }

  timeAt(x) {
    return this.view.from + (x - this.left) / (this.width - this.left - 8) * (this.view.to - this.view.from);
  }

  get rowHeight() {
    return (this.height - this.top - 6) / (this.view.bottom - this.view.top);
  }

  y(slot) {
    return this.top + (slot + 0.5 - this.view.top) * this.rowHeight;
  }

  rowAt(y) {
    return this.view.top + (y - this.top) / this.rowHeight;
  }

  nodeColour(slot) {
    const count = this.colour.nodes.length;
    return slot === NONE ? this.colour.muted : this.colour.nodes[((this.run.ids[slot] - 1) % count + count) % count];
  }

  /// Whether a row is in view.
  inView(slot) {
    return slot >= this.view.top - 1 && slot <= this.view.bottom;
  }

  draw() {
    const { context: c } = this;
    c.clearRect(0, 0, this.width, this.height);
    c.font = `12px ${this.colour.font}`;
    c.textBaseline = "middle";
    c.save();
    c.beginPath();
    c.rect(this.left - 6, this.top - 4, this.width - this.left + 6, this.height - this.top + 4);
    c.clip();
    this.drawCuts();
    this.drawLines();
    this.drawBars();
    this.drawMessages();
    this.drawMarks();
    this.drawFuture();
    c.restore();
    this.drawAxis();
    this.drawLane();
    this.drawNames();
    this.drawViolations();
    this.drawCursor();
  }

  /// The interval on the screen, or null if it is not in view.
  span(from, to) {
    const end = Math.min(to, this.run.end);
    if (from > this.view.to || end < this.view.from) return null;
    const left = Math.max(this.x(from), this.left - 6);
    return [left, Math.max(this.x(end), left + 1)];
  }

  /// A cut: a band over the rows of each group, with stripes of its own direction.
  drawCuts() {
    const { context: c } = this;
    for (const cut of this.run.cuts) {
      const span = this.span(cut.from, cut.to);
      if (!span) continue;
      const [left, right] = span;
      cut.groups.forEach((group, index) => {
        c.fillStyle = index % 2 === 0 ? this.colour["warn-soft"] : this.colour["accent-soft"];
        const height = this.rowHeight;
        for (const slot of group) {
          if (!this.inView(slot)) continue;
          const y = this.y(slot) - height / 2;
          c.globalAlpha = 0.75;
          c.fillRect(left, y, right - left, height + 0.5);
          if (height >= 10) {
            c.globalAlpha = 0.35;
            c.strokeStyle = index % 2 === 0 ? this.colour.warn : this.colour.accent;
            c.lineWidth = 1;
            c.save();
            c.beginPath();
            c.rect(left, y, right - left, height);
            c.clip();
            c.beginPath();
            // A stripe every 14 pixels, whose place does not depend on the view's left end.
            const first = Math.floor((left - height) / 14) * 14;
            for (let x = first; x < right + height; x += 14) {
              const [start, end] = index % 2 === 0 ? [x, x + height] : [x + height, x];
              c.moveTo(start, y + height);
              c.lineTo(end, y);
            }
            c.stroke();
            c.restore();
          }
        }
      });
      c.globalAlpha = 1;
      c.strokeStyle = this.colour.warn;
      c.lineWidth = 1.5;
      for (const time of [cut.from, cut.to]) {
        if (time > this.view.from && time < this.view.to && time <= this.run.end) {
          c.beginPath();
          c.moveTo(this.x(time), this.top);
          c.lineTo(this.x(time), this.height);
          c.stroke();
        }
      }
      if (right - left > 60 && this.rowHeight > 18) {
        c.fillStyle = this.colour.warn;
        c.font = `600 11px ${this.colour.font}`;
        c.textAlign = "left";
        c.fillText("cut", left + 4, this.top + 5);
      }
    }
  }

  drawLines() {
    const { context: c } = this;
    const [left, right] = [Math.max(this.x(0), this.left), Math.min(this.x(this.run.end), this.width)];
    c.strokeStyle = this.colour["strong-line"];
    c.lineWidth = this.rowHeight > 6 ? 1.2 : 0.5;
    c.globalAlpha = this.rowHeight > 3 ? 1 : 0.35;
    c.beginPath();
    // Lines that touch each other are an area.
    if (this.rowHeight < 2) {
      c.fillStyle = this.colour.raised;
      c.fillRect(left, this.y(this.view.top - 0.5), right - left, this.y(this.view.bottom - 0.5) - this.y(this.view.top - 0.5));
    }
    for (let slot = Math.max(0, Math.floor(this.view.top)); this.rowHeight >= 2 && slot < Math.min(this.run.ids.length, this.view.bottom); slot += 1) {
      c.moveTo(left, this.y(slot));
      c.lineTo(right, this.y(slot));
    }
    c.stroke();
    c.globalAlpha = 1;
    for (const life of this.run.lives) {
      const span = this.inView(life.slot) && this.span(life.from, life.to);
      if (!span) continue;
      const half = Math.min(this.rowHeight / 2, 9);
      c.fillStyle = life.down ? this.colour.bg : this.colour.raised;
      c.fillRect(span[0], this.y(life.slot) - half, span[1] - span[0], half * 2);
      c.strokeStyle = life.down ? this.colour.bad : this.colour.muted;
      c.lineWidth = 1.2;
      c.setLineDash(life.down ? [1, 5] : [5, 4]);
      c.beginPath();
      c.moveTo(span[0], this.y(life.slot));
      c.lineTo(span[1], this.y(life.slot));
      c.stroke();
      c.setLineDash([]);
      if (this.rowHeight > 16 && span[1] - span[0] > 46) {
        this.label(life.down ? "down" : "paused", span[0] + 12, this.y(life.slot), life.down ? this.colour.bad : this.colour.muted);
      }
    }
  }

  /// Text on a patch of the page's colour.
  label(text, x, y, colour, align = "left") {
    const { context: c } = this;
    c.font = `11px ${this.colour.font}`;
    c.textAlign = align;
    const width = c.measureText(text).width;
    const start = align === "center" ? x - width / 2 : x;
    c.fillStyle = this.colour.surface;
    c.globalAlpha = 0.86;
    c.fillRect(start - 2, y - 7, width + 4, 14);
    c.globalAlpha = 1;
    c.fillStyle = colour;
    c.fillText(text, x, y + 0.5);
  }

  /// Beliefs as bars on the lines: thin for a follower, thick and named for a leader. Leases above, suspicions below.
  drawBars() {
    const { context: c } = this;
    const thin = Math.max(1, Math.min(5, this.rowHeight * 0.3));
    const thick = Math.max(1.5, Math.min(16, this.rowHeight * 0.6));
    for (const belief of this.run.beliefs) {
      const span = this.inView(belief.slot) && this.span(belief.from, belief.to);
      if (!span) continue;
      const leads = belief.leader === belief.slot;
      const height = leads ? thick : thin;
      const y = this.y(belief.slot);
      c.fillStyle = this.nodeColour(belief.leader);
      c.globalAlpha = leads ? 1 : 0.75;
      c.fillRect(span[0], y - height / 2, span[1] - span[0], height);
      c.globalAlpha = 1;
      const width = span[1] - span[0];
      if (leads && height >= 11 && width > 50) {
        c.save();
        c.beginPath();
        c.rect(span[0], y - height / 2, width, height);
        c.clip();
        c.font = `600 11px ${this.colour.font}`;
        c.fillStyle = this.colour.surface;
        c.textAlign = "left";
        c.fillText(`leads · ${belief.term}`, span[0] + 13, y + 0.5);
        c.restore();
      }
    }
    for (const lease of this.run.leases) {
      const span = this.inView(lease.slot) && this.rowHeight > 8 && this.span(lease.from, lease.to);
      if (!span) continue;
      const y = this.y(lease.slot) - thick / 2 - 3;
      c.strokeStyle = this.nodeColour(lease.slot);
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(span[0], y + 3);
      c.lineTo(span[0], y);
      c.lineTo(span[1], y);
      c.lineTo(span[1], y + 3);
      c.stroke();
    }
    for (const suspicion of this.run.suspicions) {
      const span = this.inView(suspicion.slot) && this.rowHeight > 10 && this.span(suspicion.from, suspicion.to);
      if (!span) continue;
      c.strokeStyle = this.colour.warn;
      c.lineWidth = 2;
      c.setLineDash([2, 3]);
      c.beginPath();
      c.moveTo(span[0], this.y(suspicion.slot) + thick / 2 + 3);
      c.lineTo(span[1], this.y(suspicion.slot) + thick / 2 + 3);
      c.stroke();
      c.setLineDash([]);
    }
  }

  isVisible(message) {
    const m = this.run.c;
    if (this.folds && m.message_flags[message] !== 0) return false;
    return m.message_sent[message] <= this.view.to && m.message_end[message] >= this.view.from;
  }

  /// The messages in view. Arrows are drawn for a few, a density for many.
  drawMessages() {
    const m = this.run.c;
    const count = m.message_sent.length;
    this.visible = [];
    let total = 0;
    for (let message = 0; message < count; message += 1) {
      if (!this.isVisible(message)) continue;
      total += 1;
      if (total <= MOST_ARROWS) this.visible.push(message);
    }
    this.total = total;
    if (total > MOST_ARROWS) {
      this.visible = [];
      return this.drawDensity();
    }
    const labels = total <= MOST_LABELS && this.rowHeight >= 22;
    const taken = [];
    for (const message of this.visible) this.drawArrow(message, labels, taken);
    return undefined;
  }

  drawDensity() {
    const m = this.run.c;
    const cell = 5;
    const columns = Math.ceil(this.width / cell);
    const rows = Math.ceil(this.height / cell);
    const counts = new Uint32Array(columns * rows);
    let most = 1;
    const add = (time, slot) => {
      const x = Math.floor(this.x(time) / cell);
      const y = Math.floor(this.y(slot) / cell);
      if (x < 0 || x >= columns || y < 0 || y >= rows) return;
      const index = y * columns + x;
      counts[index] += 1;
      if (counts[index] > most) most = counts[index];
    };
    for (let message = 0; message < m.message_sent.length; message += 1) {
      if (!this.isVisible(message)) continue;
      add(m.message_sent[message], m.message_from[message]);
      add(m.message_end[message], m.message_to[message]);
    }
    const { context: c } = this;
    c.fillStyle = this.colour.text;
    const scale = Math.log(most + 1);
    for (let index = 0; index < counts.length; index += 1) {
      if (counts[index] === 0) continue;
      c.globalAlpha = 0.12 + 0.6 * Math.log(counts[index] + 1) / scale;
      c.fillRect((index % columns) * cell, Math.floor(index / columns) * cell, cell - 1, cell - 1);
    }
    c.globalAlpha = 1;
  }

  /// The ends of a message on the screen.
  ends(message) {
    const m = this.run.c;
    const from = [this.x(m.message_sent[message]), this.y(m.message_from[message])];
    const to = m.message_to[message] === NONE
      ? [from[0] + 10, from[1] - 12]
      : [this.x(m.message_end[message]), this.y(m.message_to[message])];
    // A message that is dropped as it is sent leaves, and does not come far.
    if (m.message_end[message] === m.message_sent[message] && m.message_fate[message] !== FATE.delivered) {
      const down = Math.sign(to[1] - from[1]) || -1;
      return [from, [from[0] + 12, from[1] + down * Math.min(22, this.rowHeight * 0.5)]];
    }
    return [from, to];
  }

  drawArrow(message, labels, taken) {
    const { context: c } = this;
    const m = this.run.c;
    let [[x1, y1], [x2, y2]] = this.ends(message);
    const kind = this.run.kinds[m.message_kind[message]];
    const fate = m.message_fate[message];
    const sent = m.message_sent[message];
    const end = m.message_end[message];
    const isSelected = this.selectedMessage === message;
    // While the run plays, a message is on its way.
    const isFlying = this.time > sent && this.time < end;
    if (this.time < sent) c.globalAlpha = 0.22;
    if (isFlying) {
      const share = (this.time - sent) / (end - sent);
      c.globalAlpha = 0.22;
      this.stroke(x1, y1, x2, y2, kind.counted, this.colour.text, 1);
      c.globalAlpha = 1;
      [x2, y2] = [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
    }
    const failed = fate >= FATE.lost;
    const colour = isSelected ? this.colour.accent : failed ? this.colour.bad : this.colour.text;
    this.stroke(x1, y1, x2, y2, kind.counted, colour, isSelected ? 3 : 1.1);
    if (isFlying) {
      c.fillStyle = this.colour.accent;
      c.beginPath();
      c.arc(x2, y2, 4, 0, Math.PI * 2);
      c.fill();
    } else if (failed) this.cross(x2, y2, colour);
    else if (fate === FATE.delivered) this.head(x1, y1, x2, y2, colour);
    if (labels && !isFlying) this.arrowLabel(kind.name, [x1, y1, x2, y2], colour, taken);
    c.globalAlpha = 1;
  }

  stroke(x1, y1, x2, y2, solid, colour, width) {
    const { context: c } = this;
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.setLineDash(solid ? [] : [4, 4]);
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
    c.stroke();
    c.setLineDash([]);
  }

  head(x1, y1, x2, y2, colour) {
    const { context: c } = this;
    const angle = Math.atan2(y2 - y1, x2 - x1);
    c.fillStyle = colour;
    c.beginPath();
    c.moveTo(x2, y2);
    c.lineTo(x2 - 9 * Math.cos(angle - 0.35), y2 - 9 * Math.sin(angle - 0.35));
    c.lineTo(x2 - 9 * Math.cos(angle + 0.35), y2 - 9 * Math.sin(angle + 0.35));
    c.fill();
  }

  cross(x, y, colour) {
    const { context: c } = this;
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.beginPath();
    c.moveTo(x - 4, y - 4);
    c.lineTo(x + 4, y + 4);
    c.moveTo(x + 4, y - 4);
    c.lineTo(x - 4, y + 4);
    c.stroke();
  }

  /// The name of the message beside its arrow, where no other name is.
  arrowLabel(text, [x1, y1, x2, y2], colour, taken) {
    const { context: c } = this;
    c.font = `11px ${this.colour.font}`;
    const width = c.measureText(text).width;
    for (const share of [0.5, 0.35, 0.65, 0.25, 0.75]) {
      const x = x1 + (x2 - x1) * share;
      const y = y1 + (y2 - y1) * share;
      const box = [x - width / 2 - 2, y - 7, x + width / 2 + 2, y + 7];
      // Names stay between the lines of processes, which have bars.
      const nearLine = Math.abs(((y - this.top) / this.rowHeight + this.view.top) % 1 - 0.5) < 9 / this.rowHeight;
      const free = taken.every(([l, t, r, b]) => box[2] < l || box[0] > r || box[3] < t || box[1] > b);
      if (free && !nearLine) {
        taken.push(box);
        this.label(text, x, y, colour, "center");
        return;
      }
    }
  }

  /// Marks of faults and commands on the lines, with a letter each.
  drawMarks() {
    const { context: c } = this;
    const { event_at: at, event_ref: ref, mark_node: node } = this.run.c;
    if (this.rowHeight < 12) return;
    const first = Math.max(0, this.run.eventAfter(this.view.from) - 1);
    const last = Math.min(this.run.eventAfter(this.view.to), first + 20000);
    const glyphs = { commanded: "●", suspected: "?", restored: "!", crashed: "✕", recovered: "◇", resumed: "◇", jumped: "↷", ranked: "±" };
    for (let event = first; event < last; event += 1) {
      const type = this.run.type(event);
      const glyph = glyphs[type];
      if (!glyph || this.run.isMessage(event)) continue;
      const slot = node[ref[event]];
      if (slot === NONE || !this.inView(slot)) continue;
      const [x, y] = [this.x(at[event]), this.y(slot)];
      c.globalAlpha = at[event] > this.time ? 0.25 : 1;
      c.fillStyle = this.colour.surface;
      c.strokeStyle = type === "crashed" ? this.colour.bad : type === "suspected" ? this.colour.warn : this.colour.text;
      c.lineWidth = this.selected === event ? 3 : 1.4;
      c.beginPath();
      c.arc(x, y, 7.5, 0, Math.PI * 2);
      c.fill();
      c.stroke();
      c.fillStyle = c.strokeStyle;
      c.font = `700 11px ${this.colour.font}`;
      c.textAlign = "center";
      c.fillText(glyph, x, y + 0.5);
      c.globalAlpha = 1;
    }
    if (this.selected >= 0 && !this.run.isMessage(this.selected)) {
      const slot = this.run.node(this.selected);
      if (slot !== NONE) {
        c.strokeStyle = this.colour.accent;
        c.lineWidth = 2.5;
        c.beginPath();
        c.arc(this.x(at[this.selected]), this.y(slot), 11, 0, Math.PI * 2);
        c.stroke();
      }
    }
  }

  /// What has not happened yet is pale.
  drawFuture() {
    const x = this.x(this.time);
    if (this.time >= this.run.end || x >= this.width) return;
    const { context: c } = this;
    c.globalAlpha = 0.62;
    c.fillStyle = this.colour.surface;
    c.fillRect(Math.max(x, this.left - 6), this.top - 4, this.width, this.height);
    c.globalAlpha = 1;
  }

  drawAxis() {
    const { context: c } = this;
    const width = this.view.to - this.view.from;
    const most = Math.max(2, Math.floor((this.width - this.left) / 80));
    const raw = width / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    let step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw) ?? power * 10;
    if (this.run.header.steps) step = Math.max(1, Math.round(step));
    c.font = `11px ${this.colour.font}`;
    c.textAlign = "center";
    c.fillStyle = this.colour.muted;
    c.strokeStyle = this.colour.line;
    c.lineWidth = 1;
    for (let time = Math.max(0, Math.ceil(this.view.from / step) * step); time <= Math.min(this.view.to, this.run.end * 1.0001); time += step) {
      const x = this.x(time);
      if (x < this.left - 1) continue;
      c.fillText(number(Number(time.toPrecision(10))), x, 10);
      c.beginPath();
      c.moveTo(x, 18);
      c.lineTo(x, AXIS - 3);
      c.stroke();
    }
    c.textAlign = "left";
    c.fillText(this.run.unit, 4, 10);
  }

  /// The lane of leaders: nobody, one, or more than one at the same time.
  drawLane() {
    const { context: c } = this;
    const counts = this.run.leaderCounts;
    c.save();
    c.beginPath();
    c.rect(this.left - 6, AXIS, this.width, LANE);
    c.clip();
    counts.forEach(({ from, leaders }, index) => {
      const span = this.span(from, counts[index + 1]?.from ?? Infinity);
      if (!span || span[1] <= this.left) return;
      const [left, right] = [Math.max(span[0], this.left), span[1]];
      c.fillStyle = leaders === 0 ? this.colour.raised : leaders === 1 ? this.colour.good : this.colour.bad;
      c.fillRect(left, AXIS, right - left, LANE - 2);
      const text = leaders === 0 ? "no leader" : leaders === 1 ? "1 leader" : `${leaders} leaders`;
      c.font = `600 10.5px ${this.colour.font}`;
      const width = c.measureText(text).width;
      if (right - left > width + 10) {
        c.fillStyle = leaders === 0 ? this.colour.muted : this.colour.surface;
        c.textAlign = "left";
        c.fillText(text, left + 5, AXIS + LANE / 2 - 0.5);
      }
    });
    c.restore();
    c.globalAlpha = 0.6;
    c.fillStyle = this.colour.surface;
    const x = Math.max(this.left, this.x(this.time));
    if (this.time < this.run.end) c.fillRect(x, AXIS, this.width, LANE);
    c.globalAlpha = 1;
  }

  drawNames() {
    const { context: c } = this;
    c.fillStyle = this.colour.surface;
    c.fillRect(0, this.top - 4, this.left - 7, this.height);
    c.textAlign = "right";
    const every = Math.max(1, Math.ceil(14 / this.rowHeight));
    const first = Math.ceil(Math.max(0, this.view.top - 0.5) / every) * every;
    for (let slot = first; slot < Math.min(this.run.ids.length, this.view.bottom); slot += every) {
      const y = this.y(slot);
      if (y < this.top - 2) continue;
      c.font = `600 12px ${this.colour.font}`;
      c.fillStyle = every === 1 ? this.nodeColour(slot) : this.colour.muted;
      c.fillText(this.run.name(slot), this.left - 12, y);
    }
  }

  drawViolations() {
    const { context: c } = this;
    for (const { at } of this.run.violations) {
      const x = this.x(at);
      if (x < this.left || x > this.width) continue;
      c.strokeStyle = this.colour.bad;
      c.lineWidth = 2;
      c.setLineDash([6, 3]);
      c.beginPath();
      c.moveTo(x, AXIS);
      c.lineTo(x, this.height);
      c.stroke();
      c.setLineDash([]);
      this.label("broken promise", Math.min(x + 4, this.width - 92), this.height - 10, this.colour.bad);
    }
  }

  drawCursor() {
    const { context: c } = this;
    const x = this.x(this.time);
    if (x < this.left - 6 || x > this.width) return;
    c.strokeStyle = this.colour.accent;
    c.fillStyle = this.colour.accent;
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(x, AXIS - 4);
    c.lineTo(x, this.height);
    c.stroke();
    c.beginPath();
    c.moveTo(x - 6, AXIS - 9);
    c.lineTo(x + 6, AXIS - 9);
    c.lineTo(x, AXIS - 1);
    c.fill();
  }

  get selectedMessage() {
    return this.selected >= 0 && this.run.isMessage(this.selected) ? this.run.c.event_ref[this.selected] : -1;
  }

  /// The message nearest to a point, within ten pixels; -1 if there is none.
  messageAt(x, y) {
    let best = -1;
    let least = 100;
    for (const message of this.visible) {
      const [[x1, y1], [x2, y2]] = this.ends(message);
      const length = (x2 - x1) ** 2 + (y2 - y1) ** 2;
      const share = length === 0 ? 0 : Math.min(1, Math.max(0, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length));
      const distance = (x - x1 - share * (x2 - x1)) ** 2 + (y - y1 - share * (y2 - y1)) ** 2;
      if (distance < least) [best, least] = [message, distance];
    }
    return best;
  }
}
