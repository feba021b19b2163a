// A run, decoded from the page: columns of numbers, and what follows from them.
//
// `crates/suffrage-lab/src/player/encoder.rs` writes the columns.

export const NONE = 0xffffffff;

/// The types of events, in the order of `EventName`.
export const EVENT = [
  "opened", "sent", "multicast", "delivered", "dropped", "expired", "elected", "stepped_down", "undecided", "leased",
  "commanded", "suspected", "restored", "crashed", "recovered", "paused", "resumed", "jumped", "ranked", "cut", "healed",
  "healed_all", "conditions", "violated",
];
const TYPE = Object.fromEntries(EVENT.map((name, index) => [name, index]));

export const FATE = { flying: 0, delivered: 1, lost: 2, cut: 3, dead: 4, unknown: 5 };
const ROUTINE = 1;

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

const ARRAYS = { f64: Float64Array, u32: Uint32Array, u8: Uint8Array };

/// Decodes a run from the text of its element.
export function decodeRun(text) {
  const bytes = bytesOf(text.trim());
  const length = new DataView(bytes.buffer).getUint32(4, true);
  const meta = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const column = {};
  for (const [name, type, offset, count] of meta.columns) {
    column[name] = new ARRAYS[type](bytes.buffer, offset, count);
  }
  return new Run(meta, column);
}

/// A run with its events, messages and marks. A mark is an event that is no message.
export class Run {
  constructor(meta, column) {
    this.header = meta.header;
    this.title = meta.title;
    this.note = meta.note;
    this.kinds = meta.kinds;
    this.ids = meta.header.members;
    this.end = Math.max(meta.end, 1e-9);
    this.c = column;
    this.count = column.event_at.length;
    this.derive();
  }

  get unit() {
    return this.header.steps ? "step" : "time";
  }

  text(index) {
    const { text_offsets: offsets, text_bytes: bytes } = this.c;
    return new TextDecoder().decode(bytes.subarray(offsets[index], offsets[index + 1]));
  }

  name(slot) {
    return slot === NONE ? "?" : String(this.ids[slot]);
  }

  isMessage(event) {
    const type = this.c.event_type[event];
    return type === TYPE.sent || type === TYPE.delivered || type === TYPE.dropped;
  }

  type(event) {
    return EVENT[this.c.event_type[event]];
  }

  /// The slot of the process at which an event happens, or NONE.
  node(event) {
    const ref = this.c.event_ref[event];
    if (!this.isMessage(event)) return this.c.mark_node[ref];
    return this.type(event) === "delivered" ? this.c.message_to[ref] : this.c.message_from[ref];
  }

  /// The first event after this time.
  eventAfter(time) {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.c.event_at[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  isFolded(event) {
    return this.routine[event] === 1;
  }

  /// What follows from the marks: who was up, believed, led and suspected, and when.
  derive() {
    const { event_at: at, event_type: type, event_ref: ref, mark_node: node, mark_a: a, mark_b: b } = this.c;
    const count = this.ids.length;
    const open = {
      belief: new Array(count).fill(null), life: new Array(count).fill(null), lease: new Array(count).fill(null),
      suspicion: new Array(count).fill(null),
    };
    this.beliefs = [];
    this.lives = [];
    this.leases = [];
    this.suspicions = [];
    this.cuts = [];
    this.violations = [];
    this.routine = new Uint8Array(this.count);
    const close = (kind, list, slot, time) => {
      const interval = open[kind][slot];
      if (interval) {
        interval.to = Math.max(interval.from, Math.min(time, interval.to));
        list.push(interval);
      }
      open[kind][slot] = null;
    };
    const begin = (kind, slot, interval) => {
      open[kind][slot] = { slot, to: Infinity, ...interval };
    };
    for (const id of this.header.crashed) {
      const slot = this.ids.indexOf(id);
      begin("life", slot, { from: 0, down: true });
    }
    const openCuts = [];
    for (let event = 0; event < this.count; event += 1) {
      const index = ref[event];
      const time = at[event];
      switch (type[event]) {
        case TYPE.sent: case TYPE.delivered: case TYPE.dropped:
          this.routine[event] = this.c.message_flags[index] & ROUTINE;
          break;
        case TYPE.elected: {
          const slot = node[index];
          const belief = open.belief[slot];
          const same = belief && belief.leader === a[index] && belief.term === b[index];
          this.routine[event] = same ? 1 : 0;
          if (same) break;
          close("belief", this.beliefs, slot, time);
          begin("belief", slot, { from: time, leader: a[index], term: b[index] });
          if (a[index] !== slot) close("lease", this.leases, slot, time);
          break;
        }
        case TYPE.stepped_down: case TYPE.undecided:
          this.routine[event] = open.belief[node[index]] || type[event] === TYPE.stepped_down ? 0 : 1;
          close("belief", this.beliefs, node[index], time);
          close("lease", this.leases, node[index], time);
          break;
        case TYPE.leased: {
          const slot = node[index];
          const lease = open.lease[slot];
          this.routine[event] = lease ? 1 : 0;
          // A renewal prolongs the bar.
          if (lease && lease.to >= time) lease.to = b[index];
          else {
            close("lease", this.leases, slot, time);
            begin("lease", slot, { from: time, to: b[index] });
          }
          break;
        }
        case TYPE.crashed:
          for (const [kind, list] of [["belief", this.beliefs], ["lease", this.leases], ["suspicion", this.suspicions], ["life", this.lives]]) {
            close(kind, list, node[index], time);
          }
          begin("life", node[index], { from: time, down: true });
          break;
        case TYPE.paused:
          begin("life", node[index], { from: time, down: false });
          break;
        case TYPE.recovered: case TYPE.resumed:
          close("life", this.lives, node[index], time);
          break;
        case TYPE.suspected: {
          const slot = node[index];
          const peers = open.suspicion[slot] ? [...open.suspicion[slot].peers] : [];
          close("suspicion", this.suspicions, slot, time);
          begin("suspicion", slot, { from: time, peers: [...peers, a[index]] });
          break;
        }
        case TYPE.restored: {
          const slot = node[index];
          const peers = open.suspicion[slot] ? open.suspicion[slot].peers.filter((peer) => peer !== a[index]) : [];
          close("suspicion", this.suspicions, slot, time);
          if (peers.length > 0) begin("suspicion", slot, { from: time, peers });
          break;
        }
        case TYPE.cut: {
          const text = this.text(a[index]);
          const cut = { from: time, to: Infinity, text, ...JSON.parse(text) };
          openCuts.push(cut);
          this.cuts.push(cut);
          break;
        }
        case TYPE.healed: {
          const text = this.text(a[index]);
          const place = openCuts.findIndex((cut) => cut.text === text);
          if (place >= 0) openCuts.splice(place, 1)[0].to = time;
          break;
        }
        case TYPE.healed_all:
          openCuts.splice(0).forEach((cut) => { cut.to = time; });
          break;
        case TYPE.violated:
          this.violations.push({ at: time, text: this.text(a[index]), event });
          break;
        default:
      }
    }
    for (let slot = 0; slot < count; slot += 1) {
      close("belief", this.beliefs, slot, Infinity);
      close("lease", this.leases, slot, Infinity);
      close("life", this.lives, slot, Infinity);
      close("suspicion", this.suspicions, slot, Infinity);
    }
    this.foldIdleTimers();
    this.deriveLeaderships();
  }

  /// A timer is worth a step if its process does something at once.
  foldIdleTimers() {
    const { event_at: at, event_type: type } = this.c;
    for (let event = this.count - 1; event >= 0; event -= 1) {
      if (type[event] !== TYPE.expired) continue;
      const next = event + 1;
      const reacts = next < this.count && at[next] === at[event] && this.node(next) === this.node(event)
        && type[next] !== TYPE.expired && this.routine[next] === 0;
      this.routine[event] = reacts ? 0 : 1;
    }
  }

  /// Who led when, by the true clock: a belief in oneself, and only while the lease lasts, if there are leases.
  deriveLeaderships() {
    const leases = new Map();
    for (const lease of this.leases) {
      if (!leases.has(lease.slot)) leases.set(lease.slot, []);
      leases.get(lease.slot).push(lease);
    }
    this.leaderships = [];
    for (const belief of this.beliefs) {
      if (belief.leader !== belief.slot) continue;
      const own = leases.get(belief.slot) ?? [];
      const lease = own.find((one) => one.from <= belief.from && one.to >= belief.from);
      const to = lease ? Math.min(belief.to, lease.to) : belief.to;
      this.leaderships.push({ slot: belief.slot, from: belief.from, to, term: belief.term });
    }
    const changes = [];
    for (const { from, to } of this.leaderships) {
      changes.push([from, 1]);
      if (to < Infinity) changes.push([to, -1]);
    }
    // At equal times an end comes first: then nobody led twice.
    changes.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    this.leaderCounts = [{ from: 0, leaders: 0 }];
    let leaders = 0;
    for (const [time, change] of changes) {
      leaders += change;
      const last = this.leaderCounts[this.leaderCounts.length - 1];
      if (last.from === time) last.leaders = leaders;
      else this.leaderCounts.push({ from: time, leaders });
    }
  }

  /// The leaderships at this time.
  leadersAt(time) {
    return this.leaderships.filter(({ from, to }) => from <= time && time < to);
  }

  /// The event in words: who, and what.
  describe(event) {
    const type = this.type(event);
    const ref = this.c.event_ref[event];
    if (this.isMessage(event)) {
      const kind = this.kinds[this.c.message_kind[ref]].name;
      const from = this.name(this.c.message_from[ref]);
      const to = this.name(this.c.message_to[ref]);
      if (type === "sent") return [from, `sends ${kind} to ${to}`];
      if (type === "delivered") return [to, `gets ${kind} from ${from}`];
      const reason = { 2: "is lost", 3: "is cut off", 4: `finds ${to} down`, 5: "has no receiver" };
      return [from, `${kind} to ${to} ${reason[this.c.message_fate[ref]] ?? "is dropped"}`];
    }
    const who = this.name(this.c.mark_node[ref]);
    const a = this.c.mark_a[ref];
    const b = this.c.mark_b[ref];
    switch (type) {
      case "multicast": return [who, `sends ${this.text(a)} to all`];
      case "expired": return [who, `timer ${this.text(a)} expires`];
      case "elected":
        return [who, a === this.c.mark_node[ref] ? `leads in term ${b}` : `follows ${this.name(a)} in term ${b}`];
      case "stepped_down": return [who, "steps down"];
      case "undecided": return [who, "knows no leader"];
      case "leased": return [who, `holds a lease until ${number(b)}`];
      case "commanded": return [who, `gets the command ${this.text(a)}`];
      case "suspected": return [who, `suspects ${this.name(a)}`];
      case "restored": return [who, `no longer suspects ${this.name(a)}`];
      case "crashed": return [who, "crashes"];
      case "recovered": return [who, "recovers"];
      case "paused": return [who, "pauses"];
      case "resumed": return [who, "resumes"];
      case "jumped": return [who, `clock jumps by ${number(b)}`];
      case "ranked": return [who, `has attribute ${b}`];
      case "cut": return ["network", `cut: ${this.groups(a)}`];
      case "healed": return ["network", `healed: ${this.groups(a)}`];
      case "healed_all": return ["network", "all faults end"];
      case "conditions": return ["network", `${this.text(a).replace("_", " ")} is ${number(b)}`];
      case "violated": return ["promise", `broken: ${this.text(a)}`];
      default: return [who, type];
    }
  }

  groups(index) {
    const { groups, one_way: oneWay } = JSON.parse(this.text(index));
    const names = groups.map((group) => group.map((slot) => this.name(slot)).join(", "));
    return names.join(oneWay ? ", unheard by " : " | ");
  }

  /// The content of an event's message, as parsed JSON; undefined if the event has none.
  content(event) {
    const ref = this.c.event_ref[event];
    let index = NONE;
    if (this.isMessage(event)) index = this.c.message_content[ref];
    else if (this.type(event) === "multicast") index = this.c.mark_b[ref];
    return index === NONE ? undefined : JSON.parse(this.text(index));
  }
}

/// A number with at most four decimals.
export function number(value) {
  return Number.isInteger(value) ? String(value) : String(Number(value.toFixed(4)));
}
