// The helpers of all pages: elements, texts, theme.
//
// Nothing here makes markup of a text. `element` sets properties, attributes and text nodes only.

const SVG = "http://www.w3.org/2000/svg";

/// An element with these attributes and children. A child is a node, a text, or null. `onclick` and other functions
/// become listeners; `true` is an attribute without a value; null and false leave an attribute out.
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/// The same for elements of SVG.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/// Sets the text of an element, if it differs: an unchanged text keeps the selection and costs no layout.
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/// Sets an attribute, if it differs.
export function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

/// A node: a dot in its colour, and its number.
export function nodeLabel(id, text = `node ${id}`) {
  return element("span", { class: "node", "data-node": nodeColour(id) }, text);
}

/// The number of a node's colour, 1 to 9.
export function nodeColour(id) {
  return ((Number(id) - 1) % 9 + 9) % 9 + 1;
}

/// A duration in milliseconds as text, with two digits that matter.
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "";
  if (milliseconds < 1) return `${milliseconds.toFixed(2)} ms`;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, length]) => seconds >= length);
  const [unit, length] = units[first];
  const whole = Math.floor(seconds / length);
  const next = units[first + 1];
  const rest = next ? Math.floor((seconds - whole * length) / next[1]) : 0;
  return rest ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

/// A duration in milliseconds as a short text of about the same width: `2.3 s`, then `2:15`.
export function countdown(milliseconds) {
  if (milliseconds < 60_000) return duration(milliseconds);
  const seconds = Math.floor(milliseconds / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/// A whole number with thin spaces between thousands.
export function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/// Makes a button switch between light and dark. The choice stays in this browser; without one, the system decides.
export function themeButton(button) {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem("suffrage-theme");
    } catch {
      // A page in a file may have no storage.
      return null;
    }
  };
  const current = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");
  const show = () => {
    const other = current() === "dark" ? "light" : "dark";
    setText(button, other === "dark" ? "Dark" : "Light");
    button.setAttribute("aria-label", `Switch to ${other} colours`);
  };
  const choice = stored();
  if (choice === "light" || choice === "dark") root.dataset.theme = choice;
  button.addEventListener("click", () => {
    root.dataset.theme = current() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("suffrage-theme", root.dataset.theme);
    } catch {
      // The choice then holds until the page is closed.
    }
    show();
  });
  dark.addEventListener("change", show);
  show();
}

/// The events of a stream of server-sent events, as `[event, data]`. `fetch` carries the token in a header, which
/// `EventSource` cannot.
export async function* serverSentEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      pending += value;
      let end;
      while ((end = pending.indexOf("\n\n")) >= 0) {
        const lines = pending.slice(0, end).split("\n");
        pending = pending.slice(end + 2);
        let event = "message";
        const data = [];
        for (const line of lines) {
          if (line.startsWith("event:")) event = line.slice(6).trim();
          else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
        }
        if (data.length > 0) yield [event, data.join("\n")];
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
