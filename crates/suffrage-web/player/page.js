// The page of one run or several: `suffrage-lab simulate --html`, `play`, `check --html`, `torture --html`.

import { element, setText, themeButton } from "../shared/base.js";
import { Player } from "./player.js";
import { decodeRun } from "./model.js";

const sources = [...document.querySelectorAll("script[data-run]")];
const stage = document.getElementById("stage");
const note = document.getElementById("note");
const title = document.getElementById("title");
const choice = document.getElementById("choice");

function show(index) {
  const run = decodeRun(sources[index].textContent);
  setText(title, run.title);
  setText(note, run.note);
  note.hidden = run.note === "";
  stage.replaceChildren();
  const root = element("div");
  stage.append(root);
  window.player = new Player(root, run, { linked: sources.length > 1 ? String(index + 1) : true });
}

themeButton(document.getElementById("theme"));
const wanted = Number(new URLSearchParams(location.hash.slice(1)).get("run") ?? 1);
const first = sources[wanted - 1] ? wanted - 1 : 0;
if (sources.length > 1) {
  sources.forEach((source, index) => choice.append(element("option", { value: index, selected: index === first }, source.dataset.run)));
  choice.hidden = false;
  choice.addEventListener("change", () => {
    history.replaceState(null, "", "#");
    show(Number(choice.value));
  });
}
show(first);
