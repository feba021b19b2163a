// The nodes with their buttons, and the links between them.

import { duration, element, nodeColour, nodeLabel, setAttribute, setText, svg } from "../shared/base.js";

const byId = (id) => document.getElementById(id);

/// What is to be said of a node: a word, and a class of pills.
function stateOf(node, state) {
  if (node.role === "dead") return ["dead", "bad"];
  if (node.paused) return ["paused", "warn"];
  if (node.role === "leads") return [state.has_leases ? `leads, token ${node.number}` : `leads, term ${node.number}`, "accent"];
  if (node.role === "follows") return [`follows node ${node.leader}`, ""];
  if (node.role === "starts") return ["starts", ""];
  return ["knows no leader", ""];
}

export class Nodes {
  /// `act` sends an action.
  constructor(act) {
    this.act = act;
    this.cards = new Map();
    this.fields = new Map();
    this.drawn = "";
  }

  show(state) {
    this.state = state;
    for (const node of state.nodes) this.showCard(node);
    if (this.fields.size === 0) this.makeMatrix();
    const cut = new Set(state.cuts.map(([from, to]) => `${from} ${to}`));
    this.isCut = (from, to) => cut.has(`${from} ${to}`);
    for (const [key, field] of this.fields) {
      const pressed = String(cut.has(key));
      if (field.getAttribute("aria-pressed") === pressed) continue;
      field.setAttribute("aria-pressed", pressed);
      setText(field, pressed === "true" ? "✕" : "→");
    }
    this.drawRing();
  }

  showCard(node) {
    let card = this.cards.get(node.id);
    if (!card) {
      card = this.makeCard(node.id);
      this.cards.set(node.id, card);
      byId("nodes").append(card.root);
    }
    const [word, kind] = stateOf(node, this.state);
    setAttribute(card.state, "class", `pill ${kind}`);
    setText(card.state, word);
    const left = node.lease_until === null || node.lease_until === undefined ? null : node.lease_until - this.state.now;
    setText(card.more, left !== null && !node.paused ? `lease ${duration(Math.max(left, 0))}` : node.suspects.length > 0 ? `suspects ${node.suspects.join(", ")}` : `process ${node.pid}`);
    const dead = node.role === "dead";
    setText(card.live, dead ? "Start again" : "Kill");
    setAttribute(card.live, "class", dead ? "primary" : "danger");
    setAttribute(card.live, "aria-label", dead ? `Start node ${node.id} again` : `Kill node ${node.id}`);
    setText(card.pause, node.paused ? "Resume" : "Pause");
    setAttribute(card.pause, "aria-label", `${card.pause.textContent} node ${node.id}`);
    card.pause.disabled = dead;
    if (card.call) card.call.disabled = dead || node.paused;
    card.root.classList.toggle("leads", node.role === "leads" && !node.paused);
    card.dead = dead;
    card.paused = node.paused;
  }

  makeCard(id) {
    const card = {};
    const button = (text, onclick, label) => element("button", { type: "button", onclick, "aria-label": label ?? null }, text);
    card.state = element("span", { class: "pill" });
    card.more = element("span", { class: "muted small number more" });
    card.live = button("Kill", () => this.act({ do: card.dead ? "start" : "kill", node: id }));
    card.pause = button("Pause", () => this.act({ do: card.paused ? "resume" : "pause", node: id }));
    const isolate = button("Cut off", () => this.act({ do: "isolate", node: id }), `Cut all links of node ${id}`);
    card.call = this.state.has_leases ? null : button("Campaign", () => this.act({ do: "campaign", node: id }), `Tell node ${id} to call an election`);
    card.root = element("li", { class: "one", "data-node": nodeColour(id), id: `node-${id}` },
      element("span", { class: "who" }, nodeLabel(id), card.state, card.more),
      element("span", { class: "buttons" }, card.live, card.pause, isolate, card.call));
    return card;
  }

  makeMatrix() {
    const ids = this.state.nodes.map((node) => node.id);
    const table = byId("matrix");
    table.tHead.replaceChildren(element("tr", {}, element("th", { scope: "col" }, "from \\ to"),
      ...ids.map((id) => element("th", { scope: "col" }, String(id)))));
    table.tBodies[0].replaceChildren(...ids.map((from) => element("tr", {}, element("th", { scope: "row" }, nodeLabel(from)),
      ...ids.map((to) => {
        if (from === to) return element("td", { class: "muted" }, "");
        const onclick = () => this.act({ do: this.isCut(from, to) ? "restore" : "cut", from, to });
        const field = element("button", { type: "button", onclick, "aria-pressed": "false", "aria-label": `Cut the link from node ${from} to node ${to}` }, "→");
        this.fields.set(`${from} ${to}`, field);
        return element("td", {}, field);
      }))));
  }

  /// The nodes in a circle, with a line for each link. A line does what two fields of the table do; the table is for the
  /// keyboard.
  drawRing() {
    const { nodes, cuts } = this.state;
    const look = JSON.stringify([cuts, nodes.map((node) => [node.id, node.role, node.paused])]);
    if (look === this.drawn) return;
    this.drawn = look;
    const [width, height, radius] = [320, 260, 100];
    const place = (index) => {
      const angle = -Math.PI / 2 + (2 * Math.PI * index) / nodes.length;
      return [width / 2 + Math.cos(angle) * radius * 1.2, height / 2 + Math.sin(angle) * radius];
    };
    const lines = [];
    nodes.forEach((a, first) => nodes.slice(first + 1).forEach((b, rest) => {
      lines.push(this.link(a.id, b.id, place(first), place(first + 1 + rest)));
    }));
    const dots = nodes.map((node, index) => {
      const [x, y] = place(index);
      const kind = node.role === "dead" ? "dead" : node.paused ? "paused" : node.role === "leads" ? "leader" : "";
      return svg("g", { "data-node": nodeColour(node.id), class: `dot ${kind}` },
        svg("circle", { cx: x, cy: y, r: node.role === "leads" && !node.paused ? 24 : 19 }),
        svg("text", { x, y: y + 6 }, String(node.id)));
    });
    byId("ring").replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...lines, ...dots));
  }

  link(a, b, [x1, y1], [x2, y2]) {
    const [there, back] = [this.isCut(a, b), this.isCut(b, a)];
    const toggle = async () => {
      const verb = there && back ? "restore" : "cut";
      await this.act({ do: verb, from: a, to: b });
      await this.act({ do: verb, from: b, to: a });
    };
    const kind = there && back ? "cut" : there || back ? "half" : "whole";
    const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
    const parts = [
      svg("line", { x1, y1, x2, y2, class: "touch" }),
      svg("line", { x1, y1, x2, y2, class: "seen" }),
    ];
    if (kind === "cut") parts.push(svg("path", { d: `M${mx - 6} ${my - 6}l12 12m0 -12l-12 12`, class: "cross" }));
    if (kind === "half") {
      // An arrow in the direction that still works.
      const [fx, fy, tx, ty] = there ? [x2, y2, x1, y1] : [x1, y1, x2, y2];
      const angle = (Math.atan2(ty - fy, tx - fx) * 180) / Math.PI;
      parts.push(svg("path", { d: "M-7 -7L7 0L-7 7Z", class: "arrow", transform: `translate(${mx} ${my}) rotate(${angle})` }));
    }
    return svg("g", { class: `link ${kind}`, onclick: toggle }, ...parts);
  }
}
