// The cluster's page: what one node knows, live.

import { element, grouped, nodeLabel, setText, themeButton } from "../shared/base.js";
import { Live, Refused, hasToken, setToken } from "./api.js";
import { Detail } from "./detail.js";
import { ElectionList } from "./list.js";
import { showCluster } from "./voters.js";

const byId = (id) => document.getElementById(id);
/// The changes that are shown.
const FEED = 40;

let lostAt = null;
let node = null;
let lostReason = "";

themeButton(byId("theme"));

const detail = new Detail({
  close: () => list.close(),
  failed,
  confirm: (title, text, yes) => confirm(title, text, yes),
});
const list = new ElectionList({ open: (row) => detail.open(row), page: showCounts, failed });

const live = new Live({
  connected() {
    lostAt = null;
    byId("lost").hidden = true;
    document.body.classList.remove("lost");
    list.setStale(false);
    detail.setStale(false);
  },
  lost(reason) {
    lostAt ??= Date.now();
    lostReason = reason;
    showLost();
    list.setStale(true);
    detail.setStale(true);
  },
  event(event, data) {
    if (event === "node") {
      node = data.node;
      pill(data.stopping ? "stopping" : "live", data.stopping ? "warn" : "good");
      const name = data.cluster?.cluster.slice(0, 8);
      setText(byId("title"), `node ${node}${name ? `, cluster ${name}` : ""}`);
      setText(document.querySelector("title"), `node ${node} · suffrage`);
      showCluster(data);
    } else if (event === "leaders") {
      addToFeed(data);
      list.changed(data.changes, data.lagged);
      detail.changed(data.changes, data.lagged);
    }
  },
  unauthorized: () => askForToken(),
});

function pill(word, kind) {
  const connection = byId("connection");
  connection.className = `pill ${kind}`;
  setText(connection, word);
}

function showLost() {
  if (lostAt === null) return;
  pill("lost", "bad");
  document.body.classList.add("lost");
  const lost = byId("lost");
  lost.hidden = false;
  const who = node === null ? "The node" : `Node ${node}`;
  setText(lost, `${who} is lost: ${lostReason}. What this page shows is from before ${new Date(lostAt).toLocaleTimeString()}. The page tries again by itself.`);
}

/// An answer that is no answer. The stream tells of a lost node.
function failed(error) {
  if (error instanceof Refused && error.status === 401) askForToken();
}

function showCounts(answer) {
  const { matching, total } = answer;
  setText(byId("count"), matching === total ? `${grouped(total)}` : `${grouped(matching)} of ${grouped(total)}`);
  const select = byId("leader");
  const chosen = select.value;
  const wanted = [["", "all leaders"]];
  for (const { leader, elections } of answer.leaders) {
    wanted.push(leader === null ? ["none", `no leader (${grouped(elections)})`] : [String(leader), `node ${leader} (${grouped(elections)})`]);
  }
  if (chosen !== "" && !wanted.some(([value]) => value === chosen)) {
    wanted.push([chosen, chosen === "none" ? "no leader (0)" : `node ${chosen} (0)`]);
  }
  wanted.forEach(([value, text], index) => {
    const option = select.options[index] ?? select.appendChild(element("option"));
    if (option.value !== value) option.value = value;
    setText(option, text);
  });
  while (select.options.length > wanted.length) select.lastElementChild.remove();
  if (select.value !== chosen) select.value = chosen;
}

function addToFeed({ changes, lagged }) {
  const feed = byId("feed");
  byId("no-feed").hidden = true;
  const time = new Date().toLocaleTimeString();
  const items = changes.slice(-FEED).map((change) => element("li", {},
    element("span", { class: "name", title: change.election }, change.election),
    change.leader === null ? element("span", { class: "muted" }, "no leader") : nodeLabel(change.leader),
    element("time", { class: "muted number" }, time)));
  if (lagged || changes.length > FEED) items.unshift(element("li", { class: "muted" }, "more changes than this page can show"));
  feed.prepend(...items.reverse());
  while (feed.children.length > FEED) feed.lastElementChild.remove();
}

let asking = false;

/// Asks for the token, and connects with it.
function askForToken() {
  if (asking) return;
  asking = true;
  pill("needs a token", "warn");
  setText(byId("ask-text"), hasToken()
    ? "The node does not accept this token."
    : "This node shows nothing without the token of its file http-token.");
  byId("ask-input").value = "";
  byId("ask").showModal();
}

byId("ask").addEventListener("close", () => {
  asking = false;
});
byId("ask-cancel").addEventListener("click", () => byId("ask").close());
byId("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("ask-input").value);
  byId("ask-input").value = "";
  byId("ask").close();
  live.wake();
  list.forget();
  list.refresh();
  detail.refresh();
});
byId("token").addEventListener("click", () => {
  if (asking) return;
  asking = true;
  setText(byId("ask-text"), hasToken() ? "This page has a token. Another one replaces it." : "A node with the file http-token asks for it.");
  byId("ask").showModal();
});

/// Whether the user agrees.
function confirm(title, text, yes) {
  const dialog = byId("confirm");
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), yes);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
byId("confirm-cancel").addEventListener("click", () => byId("confirm").close(""));
byId("confirm-form").addEventListener("submit", (event) => {
  event.preventDefault();
  byId("confirm").close("yes");
});

let typing = null;
function search() {
  clearTimeout(typing);
  typing = setTimeout(() => list.setQuery({ search: byId("search").value, leader: byId("leader").value }), 120);
}
byId("search").addEventListener("input", search);
byId("leader").addEventListener("change", search);
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") {
    event.preventDefault();
    byId("list").focus();
  }
});
document.addEventListener("keydown", (event) => {
  const typed = event.target.closest("input, select, dialog");
  if (event.key === "/" && !typed) {
    event.preventDefault();
    byId("search").focus();
  }
});

setInterval(showLost, 1000);
live.wake();
list.setQuery({ search: "", leader: "" });
