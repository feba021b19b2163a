// Who hears whom: this node's own contacts, and what the other voters report of theirs. Their clocks, too.

import { duration, element, nodeColour, nodeLabel, setText, svg } from "../shared/base.js";

const byId = (id) => document.getElementById(id);

/// What each node hears: `rows` maps a node to a map of voters; a node that does not report has null. This node comes
/// first if it is no voter.
export function matrixOf(cluster, me) {
  const rows = new Map();
  const own = new Map(cluster.voters.filter((voter) => voter.id !== me).map((voter) => [voter.id, {
    hears: voter.answers,
    trip: voter.round_trip_ms ?? null,
  }]));
  if (!cluster.voters.some((voter) => voter.id === me)) rows.set(me, own);
  for (const voter of cluster.voters) {
    const reported = voter.hears
      ? new Map(voter.hears.map(({ id, answers, round_trip_ms: trip }) => [id, { hears: answers, trip }])) : null;
    rows.set(voter.id, voter.id === me ? own : reported);
  }
  return rows;
}

const UNKNOWN = { hears: null, trip: null };
const heard = (rows, from, to) => rows.get(from)?.get(to) ?? UNKNOWN;

export function showHearing(cluster, me) {
  const rows = matrixOf(cluster, me);
  const voters = cluster.voters.map((voter) => voter.id);
  table(rows, voters);
  map(rows, voters, me);
  clocks(cluster, me);
}

/// The text of a cell, its class, and what it means.
function cellOf(rows, from, to) {
  if (from === to) return ["–", "same", ""];
  const { hears, trip } = heard(rows, from, to);
  if (hears === true) return [trip === null ? "yes" : duration(trip), "hears", `Node ${from} hears node ${to}.`];
  if (hears === false) return ["✕ no", "deaf", `Node ${from} does not hear node ${to}.`];
  const why = rows.get(from) ? `Node ${from} has not asked node ${to}.` : `Node ${from} has not reported.`;
  return ["?", "unknown", why];
}

function table(rows, voters) {
  const head = byId("hears").tHead.rows[0];
  const body = byId("hears").tBodies[0];
  const shape = JSON.stringify([[...rows.keys()], voters]);
  if (body.dataset.shape !== shape) {
    body.dataset.shape = shape;
    head.replaceChildren(element("td", {}, element("span", { class: "offscreen" }, "Hears")),
      ...voters.map((id) => element("th", { scope: "col" }, nodeLabel(id, String(id)))));
    body.replaceChildren(...[...rows.keys()].map((id) => element("tr", {},
      element("th", { scope: "row" }, nodeLabel(id)), ...voters.map(() => element("td")))));
  }
  [...rows.keys()].forEach((from, row) => voters.forEach((to, column) => {
    const cell = body.rows[row].cells[column + 1];
    const [text, kind, title] = cellOf(rows, from, to);
    setText(cell, text);
    if (cell.className !== kind) cell.className = kind;
    if (cell.title !== title) cell.title = title;
  }));
}

let drawn = "";

/// The voters in a circle: a full line between two that hear each other, a broken line with a cross if one does not hear
/// the other, a thin one if nobody has said.
function map(rows, voters, me) {
  const pairs = [];
  const nodes = [...new Set([me, ...voters])].sort((one, other) => one - other);
  nodes.forEach((one, index) => nodes.slice(index + 1).forEach((other) => {
    const ways = [heard(rows, one, other).hears, heard(rows, other, one).hears];
    // A node that is no voter hears, and is not heard.
    pairs.push([one, other, ways.includes(false) ? "silent" : ways.includes(true) ? "hears" : "unsaid"]);
  }));
  const label = sentence(rows, voters, me);
  const state = JSON.stringify([me, pairs, label]);
  if (state === drawn) return;
  drawn = state;
  // Two nodes lie on one line.
  const [width, radius] = [300, 62];
  const places = new Map(nodes.map((id, index) => {
    const angle = nodes.length < 3 ? Math.PI * (1 - index) : -Math.PI / 2 + (2 * Math.PI * index) / nodes.length;
    return [id, [width / 2 + Math.cos(angle) * radius * 1.6, Math.sin(angle) * radius]];
  }));
  const place = (id) => places.get(id);
  const heights = [...places.values()].map(([, y]) => y);
  const [top, height] = [Math.min(...heights) - 25, Math.max(...heights) - Math.min(...heights) + 50];
  const lines = pairs.flatMap(([one, other, kind]) => {
    const [[x1, y1], [x2, y2]] = [place(one), place(other)];
    const line = svg("line", { x1, y1, x2, y2, class: kind });
    const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
    return kind === "silent" ? [line, svg("path", { d: `M${mx - 5} ${my - 5}l10 10m0 -10l-10 10`, class: "cross" })] : [line];
  });
  const dots = nodes.map((id) => {
    const [x, y] = place(id);
    const unheard = id !== me && [...rows.keys()].some((from) => heard(rows, from, id).hears === false);
    return svg("g", { "data-node": nodeColour(id), class: id === me ? "own" : unheard ? "other away" : "other" },
      svg("circle", { cx: x, cy: y, r: id === me ? 19 : 15 }), svg("text", { x, y: y + 5 }, String(id)));
  });
  byId("map").replaceChildren(svg("svg", { viewBox: `0 ${top} ${width} ${height}`, role: "img", "aria-label": label }, ...lines, ...dots));
}

function sentence(rows, voters, me) {
  const deaf = [...rows.keys()].flatMap((from) => {
    const unheard = voters.filter((to) => to !== from && heard(rows, from, to).hears === false);
    return unheard.length > 0 ? [`Node ${from} does not hear ${unheard.join(", ")}.`] : [];
  });
  const silent = [...rows].filter(([, row]) => row === null).map(([id]) => id);
  if (silent.length > 0) deaf.push(`Nothing is known of what ${silent.join(", ")} hears.`);
  if (deaf.length === 0) deaf.push("All voters hear each other.");
  if (!voters.includes(me)) deaf.push(`Node ${me} is no voter.`);
  return deaf.join(" ");
}

/// A number with a sign and its error: `+0.12 ± 0.08 ms`. Digits below the error say nothing.
function withError(value, error, unit) {
  const digits = Math.min(2, Math.max(0, Math.ceil(-Math.log10(Math.max(error, 1e-9)))));
  const text = Math.abs(value).toFixed(digits);
  const sign = Number(text) === 0 ? "" : value > 0 ? "+" : "−";
  return `${sign}${text} ± ${error < 10 ** -digits ? (10 ** -digits).toFixed(digits) : error.toFixed(digits)} ${unit}`;
}

/// The rate of a clock, in parts per million, or in the unit of the drift bound while it is not known as well.
function rateText(ppm, error) {
  return error < 100 ? withError(ppm, error, "ppm") : withError(ppm / 1e4, error / 1e4, "%");
}

function clocks(cluster, me) {
  const body = byId("clocks").tBodies[0];
  const others = cluster.voters.filter((voter) => voter.id !== me);
  while (body.rows.length > others.length) body.lastElementChild.remove();
  others.forEach((voter, index) => {
    const row = body.rows[index] ?? body.appendChild(element("tr", {},
      element("th", { scope: "row" }), element("td", { class: "number" }), element("td", { class: "number" })));
    const [name, wall, rate] = row.cells;
    if (name.dataset.id !== String(voter.id)) {
      name.dataset.id = voter.id;
      name.replaceChildren(nodeLabel(voter.id));
    }
    const clock = voter.clock;
    setText(wall, clock ? withError(clock.wall_offset_ms, clock.wall_error_ms, "ms") : "?");
    const known = clock && clock.rate_ppm !== null;
    setText(rate, !clock ? "?" : !known ? "measuring" : `${rateText(clock.rate_ppm, clock.rate_error_ppm)}${clock.beyond_drift ? " ✕" : ""}`);
    rate.className = known && clock.beyond_drift ? "number deaf" : "number";
    rate.title = known && clock.beyond_drift ? "More than the drift bound allows: leases are not safe." : "";
  });
}
