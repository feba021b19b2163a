// The voters, as this node hears them, and the facts about this node.

import { showHearing } from "./hears.js";
import { duration, element, nodeLabel, setText } from "../shared/base.js";

const byId = (id) => document.getElementById(id);

/// What is to be said of a voter: a word, and a class of pills.
function stateOf(voter, me) {
  if (voter.not_voting) return ["does not vote", "warn"];
  if (voter.id === me) return ["this node", "accent"];
  if (voter.answers) return ["answers", "good"];
  return voter.reply_age_ms === null ? ["never answered", "bad"] : ["silent", "bad"];
}

/// Shows the node's event.
export function showCluster(data) {
  const cluster = data.cluster;
  const trouble = byId("trouble");
  const problem = data.error ?? cluster?.not_ready ?? null;
  trouble.hidden = problem === null;
  if (problem !== null) setText(trouble, `Not ready: ${problem}`);
  if (!cluster) return;
  const heard = cluster.voters.filter((voter) => voter.answers).length;
  const majority = Math.floor(cluster.voters.length / 2) + 1;
  const quorum = byId("quorum");
  quorum.className = `pill ${heard >= majority ? "good" : "bad"}`;
  setText(quorum, `${heard} of ${cluster.voters.length} answer`);
  table(cluster, data.node);
  showHearing(cluster, data.node);
  facts(data);
}

function table(cluster, me) {
  const body = byId("voters").tBodies[0];
  while (body.rows.length > cluster.voters.length) body.lastElementChild.remove();
  cluster.voters.forEach((voter, index) => {
    const [word, kind] = stateOf(voter, me);
    const row = body.rows[index] ?? body.appendChild(element("tr", {},
      element("th", { scope: "row" }), element("td"), element("td", { class: "number" }),
      element("td", { class: "number" })));
    const [name, state, trip, age] = row.cells;
    if (name.dataset.id !== String(voter.id)) {
      name.dataset.id = voter.id;
      name.replaceChildren(nodeLabel(voter.id));
    }
    row.title = voter.not_voting ?? voter.address ?? "";
    if (state.dataset.word !== word) {
      state.dataset.word = word;
      state.replaceChildren(element("span", { class: `pill ${kind}` }, word));
    }
    setText(trip, voter.round_trip_ms === null || voter.round_trip_ms === undefined ? "" : duration(voter.round_trip_ms));
    setText(age, voter.id === me ? "" : voter.reply_age_ms === null ? "never" : duration(voter.reply_age_ms));
  });
}

/// The facts about this node.
function facts(data) {
  const cluster = data.cluster;
  const rows = [
    ["Cluster", cluster.cluster.slice(0, 12), cluster.cluster],
    ["Configuration", `version ${cluster.version}${cluster.certain ? "" : ", not confirmed"}`],
    ["Votes", cluster.votes === null ? "no voter" : cluster.votes ? "yes" : "not now"],
    ["Round trip", duration(cluster.round_trip_ms)],
    ["Clock", `at most ${data.drift} fast or slow`],
    ["Lease", `${duration(data.ttl_ms)}, at most ${duration(data.longest_ttl_ms)}`],
    ["Leaders learned of", String(cluster.leader_changes)],
    ["Version", data.program],
  ];
  if (cluster.change) rows.push(["Change", `${cluster.change.change}: ${cluster.change.progress}`]);
  if (data.save_pending_ms !== null) rows.push(["Disk", `writes for ${duration(data.save_pending_ms)}`]);
  for (const { node, reason } of cluster.mismatches) rows.push([`Ignores node ${node}`, reason]);
  define(byId("facts"), rows);
}

/// Fills a list of terms and texts.
export function define(list, rows) {
  while (list.children.length > rows.length) list.lastElementChild.remove();
  rows.forEach(([term, text, title], index) => {
    const pair = list.children[index] ?? list.appendChild(element("div", {}, element("dt"), element("dd")));
    setText(pair.firstElementChild, term);
    setText(pair.lastElementChild, text);
    pair.title = title ?? "";
  });
}
