// The requests of the page, and the stream of events.
//
// The token is a variable of this module: it is in no storage, in no address, and gone when the page is closed.

import { serverSentEvents } from "../shared/base.js";

/// The time without an event after which the node counts as lost. The node sends one every second.
const SILENCE = 3500;
const FIRST_RETRY = 250;
const LAST_RETRY = 2000;

let token = null;

export function setToken(text) {
  token = text;
}

export function hasToken() {
  return token !== null;
}

/// An answer of the node that is not 200 or 202.
export class Refused extends Error {
  constructor(status, text, reason) {
    super(text);
    this.status = status;
    this.reason = reason;
  }
}

function headers(more = {}) {
  return token === null ? more : { ...more, Authorization: `Bearer ${token}` };
}

async function check(response) {
  if (response.ok) return response;
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy may answer with something else.
  }
  throw new Refused(response.status, body.error ?? `the answer is ${response.status}`, body.reason);
}

/// The JSON object of a path.
export async function get(path, signal) {
  const response = await check(await fetch(path, { headers: headers(), signal, cache: "no-store" }));
  return response.json();
}

/// Sends a JSON object and returns the answer's.
export async function post(path, body) {
  const response = await check(await fetch(path, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
  }));
  return response.json();
}

/// The path of an election. null if a browser cannot ask for it: it would take `.` and `..` for folders.
export function pathOf(name) {
  if (name === null || name === "." || name === "..") return null;
  return `elections/${encodeURIComponent(name)}`;
}

/// Follows `live` for as long as the page is visible, and comes back when the node does.
///
/// `on.event(event, data)`, `on.connected()`, `on.lost(reason)` and `on.unauthorized()` are called. `wake` tries at once.
export class Live {
  constructor(on) {
    this.on = on;
    this.retry = FIRST_RETRY;
    this.attempt = null;
    this.timer = null;
    document.addEventListener("visibilitychange", () => this.wake());
  }

  /// Begins, or begins anew.
  wake() {
    clearTimeout(this.timer);
    this.attempt?.abort();
    this.attempt = null;
    // A browser has six connections to one host: hidden pages give theirs back.
    if (!document.hidden) this.follow();
  }

  async follow() {
    const attempt = new AbortController();
    this.attempt = attempt;
    let silent = false;
    let watchdog = null;
    const feed = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => {
        silent = true;
        attempt.abort();
      }, SILENCE);
    };
    let reason = "the connection ended";
    feed();
    try {
      const options = { headers: headers(), signal: attempt.signal, cache: "no-store" };
      const response = await check(await fetch("live", options));
      for await (const [event, data] of serverSentEvents(response)) {
        if (this.attempt !== attempt) return;
        feed();
        if (this.retry !== 0) {
          this.retry = 0;
          this.on.connected();
        }
        this.on.event(event, JSON.parse(data));
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        if (this.attempt === attempt) this.on.unauthorized();
        return;
      }
      if (silent) reason = "it says nothing";
      else if (error instanceof Refused) reason = error.message;
      else reason = "it cannot be reached";
    } finally {
      clearTimeout(watchdog);
    }
    if (this.attempt !== attempt) return;
    this.on.lost(reason);
    this.retry = Math.min(Math.max(this.retry * 2, FIRST_RETRY), LAST_RETRY);
    this.timer = setTimeout(() => this.wake(), this.retry);
  }
}
