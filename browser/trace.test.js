// Traces, and the schemas of their formats, by a validator of others: ajv.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import Ajv from "ajv/dist/2020.js";
import { LONG, program } from "./support.js";

/// Faults of every kind, a detector that errs, a rank that changes.
const FAULTS = ["--crash", "5@10", "--recover", "5@40", "--pause", "4@12..19", "--partition", "1,2|3,4,5@50..70", "--jump", "2@30+3",
  "--rerank", "3=9@80", "--loss", "0.1", "--duplicate", "0.1", "--latency", "uniform:0.5,1.5", "--detector", "ideal:2",
  "--heal-all-at", "90", "--until", "120"];

/// Runs with every event of the format among them.
const RUNS = [
  ["bully", ...FAULTS],
  ["announce", ...FAULTS],
  ["announce", "--crash", "5@10", "--detector", "ideal:2", "--until", "40"],
  ["invitation", ...FAULTS],
  ["quorum-lease", "--slow", "2@20", "--late", "0.5:3@35", "--slow-disk", "1@20", "--until", "120"],
  ["raft", "--loss", "0.3", "--until", "100", "--seed", "4"],
  ["raft", "--partition", "1,2|3,4,5@20..60", "--until", "90", "--vector-clocks"],
];

function simulate(run, ...flags) {
  const words = ["simulate", ...run, "--trace", "-", ...flags];
  return execFileSync(program("SUFFRAGE_LAB"), words, { encoding: "utf8", maxBuffer: 1 << 28 });
}

/// The validator of a schema. Strict: a keyword that the validator does not know is an error of the schema.
function validator(path) {
  const schema = JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
  return new Ajv({ strict: true, strictTypes: false, strictRequired: false, allErrors: false }).compile(schema);
}

const lines = (text) => text.trimEnd().split("\n").map((line) => JSON.parse(line));

test("every line of several runs fits the schema of the trace, and every event is among them", { timeout: 2 * LONG }, () => {
  const fits = validator("../docs/trace-format.schema.json");
  const seen = new Set();
  for (const run of RUNS) {
    for (const line of lines(simulate(run))) {
      assert.ok(fits(line), `${run.join(" ")}\n${JSON.stringify(line)}\n${JSON.stringify(fits.errors)}`);
      seen.add(line.event);
    }
  }
  const all = fits.schema.oneOf.map((one) => one.properties.event.const);
  assert.deepEqual(all.filter((event) => !seen.has(event)), []);
});

test("the schema of the trace refuses what is wrong", { timeout: LONG }, () => {
  const fits = validator("../docs/trace-format.schema.json");
  const trace = lines(simulate(RUNS[0]));
  // Of each event, a line without one of its fields, with a field too many, and with a field of another type.
  const first = new Map(trace.map((line) => [line.event, line]).toReversed());
  assert.ok(first.size > 15, String(first.size));
  for (const [event, line] of first) {
    assert.ok(fits(line), event);
    const required = fits.schema.oneOf.find((one) => one.properties.event.const === event).required;
    for (const name of required) {
      const { [name]: _, ...missing } = line;
      assert.ok(!fits(missing), `${event} without ${name}`);
      // The content of a message may be any value.
      if (name !== "content") assert.ok(!fits({ ...line, [name]: { wrong: null } }), `${event} with another ${name}`);
    }
    assert.ok(!fits({ ...line, more: 1 }), `${event} with a field too many`);
  }
});

test("traces for Perfetto have the fields that its format documents", { timeout: LONG }, () => {
  const fits = validator("trace-event.schema.json");
  const phases = new Map();
  for (const run of RUNS.filter((run) => !run.includes("--vector-clocks"))) {
    const trace = JSON.parse(simulate(run, "--format", "perfetto"));
    assert.ok(fits(trace), `${run.join(" ")}\n${JSON.stringify(fits.errors)}`);
    trace.traceEvents.forEach((event) => phases.set(event.ph, event));
  }
  assert.deepEqual([...phases.keys()].sort(), ["B", "E", "M", "X", "b", "e", "f", "i", "s"]);
  // What is wrong is refused: no time, no length of a slice, no id of a flow, an unknown phase.
  const wrong = { X: ["ts", "dur", "pid"], s: ["id", "cat"], b: ["id"], M: ["args"], i: ["name"], f: ["tid"] };
  for (const [phase, names] of Object.entries(wrong)) {
    const event = phases.get(phase);
    assert.ok(fits({ traceEvents: [event] }), phase);
    for (const name of names) {
      const { [name]: _, ...missing } = event;
      assert.ok(!fits({ traceEvents: [missing] }), `${phase} without ${name}`);
    }
    assert.ok(!fits({ traceEvents: [{ ...event, ph: "Q" }] }), `${phase} as Q`);
  }
  assert.ok(!fits({ traceEvents: [{ ...phases.get("X"), id: 1 }] }), "a slice with an id");
});
