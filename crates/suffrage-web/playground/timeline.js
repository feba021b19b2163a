// Who led when: a lane for each node.

import { nodeColour, svg } from "../shared/base.js";

const LANE = 34;
const LEFT = 62;
const AXIS = 22;

/// The end of a leadership, as far as it is past.
function endOf(reign, now) {
  return Math.min(reign.to ?? now, now);
}

/// The times at which two nodes led at once, as pairs of beginning and end.
export function overlaps(reigns, now) {
  const found = [];
  reigns.forEach((reign, index) => reigns.slice(index + 1).forEach((other) => {
    if (other.node === reign.node) return;
    const [from, to] = [Math.max(reign.from, other.from), Math.min(endOf(reign, now), endOf(other, now))];
    if (from < to) found.push([from, to]);
  }));
  return found;
}

/// Draws the last `span` milliseconds.
export function drawTimeline(target, state, now, span) {
  const width = Math.max(target.clientWidth, 240);
  const height = state.nodes.length * LANE + AXIS;
  // A young demo fills the picture from the left.
  const start = Math.max(now - span, 0);
  const x = (time) => LEFT + (Math.max(time - start, 0) / span) * (width - LEFT - 2);
  const row = new Map(state.nodes.map((node, index) => [node.id, index]));
  const parts = [];
  const step = span / (width < 500 ? 3 : 6);
  for (let time = Math.ceil(start / step) * step; time <= now; time += step) {
    if (time < 0) continue;
    parts.push(svg("line", { x1: x(time), x2: x(time), y1: 0, y2: height - AXIS, class: "grid" }));
    parts.push(svg("text", { x: x(time), y: height - 6, class: "tick" }, `${Math.round(time / 100) / 10} s`));
  }
  for (const [from, to] of overlaps(state.reigns, now)) {
    if (to < start) continue;
    parts.push(svg("rect", { x: x(from), y: 0, width: Math.max(x(to) - x(from), 2), height: height - AXIS, class: "both" }));
  }
  state.nodes.forEach((node, index) => {
    const middle = index * LANE + LANE / 2;
    parts.push(svg("line", { x1: LEFT, x2: width, y1: middle, y2: middle, class: node.role === "dead" ? "lane dead" : "lane" }));
    parts.push(svg("text", { x: 0, y: middle + 5, class: "label" }, `node ${node.id}`));
  });
  for (const reign of state.reigns) {
    const end = endOf(reign, now);
    if (end < start || reign.from >= end) continue;
    const y = row.get(reign.node) * LANE + 6;
    const [from, to] = [x(reign.from), x(end)];
    const group = [svg("rect", { x: from, y, width: Math.max(to - from, 2), height: LANE - 12, rx: 3, class: "led" })];
    const room = String(reign.number).length * 8 + 12;
    if (to - from > room) group.push(svg("text", { x: from + 6, y: y + 16, class: "number" }, String(reign.number)));
    parts.push(svg("g", { "data-node": nodeColour(reign.node) }, ...group));
  }
  const leaders = state.nodes.filter((node) => node.role === "leads" && !node.paused).map((node) => `node ${node.id}`);
  const label = `${leaders.length === 0 ? "Nobody leads" : `Now ${leaders.join(" and ")} ${leaders.length > 1 ? "lead" : "leads"}`}. The events below say the same in words.`;
  let drawing = target.firstElementChild;
  if (!drawing) {
    drawing = svg("svg", { role: "img" });
    target.append(drawing);
  }
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawing.setAttribute("width", width);
  drawing.setAttribute("height", height);
  if (drawing.getAttribute("aria-label") !== label) drawing.setAttribute("aria-label", label);
  drawing.replaceChildren(...parts);
}
