// The driver of the suite: clients/suite/README.md.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Client, Fence, InUse, Invalid, type Leadership, Unauthorized } from "../src/index.js";
import { integer, messageOf, parseObject, type Body } from "../src/http.js";

/** CLOCK_BOOTTIME less `process.hrtime`, in nanoseconds: read when `/proc/uptime`, which is rounded, changes. */
function measureOffset(): bigint {
  let offset: bigint | undefined;
  for (let ticks = 0; ticks < 3; ticks += 1) {
    const before = readFileSync("/proc/uptime", "latin1").split(" ")[0];
    let after = before;
    while (after === before) {
      after = readFileSync("/proc/uptime", "latin1").split(" ")[0];
    }
    const found = BigInt((after ?? "").replace(".", "")) * 10_000_000n - process.hrtime.bigint();
    // A late look at the clock makes the offset too small.
    offset = offset === undefined || found > offset ? found : offset;
  }
  return offset ?? 0n;
}

const offset = measureOffset();
const boottime = (hrtime: bigint): bigint => hrtime + offset;
const now = (): bigint => boottime(process.hrtime.bigint());

function tell(event: string, members: Record<string, string | number | bigint | boolean>): void {
  const parts = Object.entries({ event, ...members }).map(
    ([key, value]) => `${JSON.stringify(key)}:${typeof value === "bigint" ? value : JSON.stringify(value)}`,
  );
  process.stdout.write(`{${parts.join(",")}}\n`);
}

const clients = new Map<string, Client>();
const campaigns = new Map<number, AbortController>();
const leaderships = new Map<number, Leadership>();
const fences = new Map<string, Fence>();

function clientOf(command: Body): Client {
  const { endpoints, token_file: tokenFile, ca_file: caFile } = command;
  const key = JSON.stringify([endpoints, tokenFile, caFile]);
  let client = clients.get(key);
  if (client === undefined) {
    client = new Client({
      endpoints: endpoints as string[],
      ...(typeof tokenFile === "string" ? { tokenFile } : {}),
      ...(typeof caFile === "string" ? { caFile } : {}),
      onProblem: (reason) => console.error(reason),
    });
    clients.set(key, client);
  }
  return client;
}

async function lead(id: number, command: Body): Promise<void> {
  const controller = new AbortController();
  campaigns.set(id, controller);
  try {
    const margin = command["stop_margin_ms"];
    const election = clientOf(command).election(String(command["election"]), {
      ttlMs: Number(command["ttl_ms"]),
      ...(typeof margin === "number" ? { stopMarginMs: margin } : {}),
      ...(typeof command["value"] === "string" ? { value: command["value"] } : {}),
    });
    const leadership = await election.lead({ signal: controller.signal });
    leaderships.set(id, leadership);
    tell("leading", { id, token: leadership.token, at_ns: now() });
    leadership.onHandOver(() => tell("hand_over_wanted", { id }));
    const stop = (): void => tell("stop", { id, at_ns: now() });
    if (leadership.signal.aborted) {
      stop();
    } else {
      leadership.signal.addEventListener("abort", stop);
    }
    const end = await leadership.ended;
    const atNs = end.reason === "expired" ? BigInt(end.atMs) * 1_000_000n : boottime(end.noticedNs);
    tell("ended", { id, reason: end.reason, at_ns: atNs });
  } catch (error) {
    if (controller.signal.aborted) {
      tell("ended", { id, reason: "cancelled", at_ns: now() });
      return;
    }
    const kinds = [
      [InUse, "in_use"],
      [Unauthorized, "unauthorized"],
      [Invalid, "invalid"],
    ] as const;
    const kind = kinds.find(([type]) => error instanceof type)?.[1] ?? "other";
    tell("error", { id, kind, message: messageOf(error) });
  }
}

async function setValue(id: number, value: unknown): Promise<void> {
  try {
    await leaderships.get(id)?.setValue(typeof value === "string" ? value : undefined);
    tell("value_set", { id });
  } catch (error) {
    tell("value_refused", { id, message: messageOf(error) });
  }
}

async function tellLeader(command: Body): Promise<void> {
  const election = String(command["election"]);
  try {
    const leader = await clientOf(command).election(election).leader();
    const known = leader === undefined ? {} : { node: leader.node, token: leader.token };
    tell("leader", { election, ...known, ...(leader?.value === undefined ? {} : { value: leader.value }) });
  } catch (error) {
    tell("leader_unknown", { election, message: messageOf(error) });
  }
}

async function exit(): Promise<void> {
  for (const controller of campaigns.values()) {
    controller.abort();
  }
  await Promise.all([...clients.values()].map((client) => client.close()));
  process.exit(0);
}

function handle(command: Body): void {
  const id = Number(command["id"] ?? 0);
  switch (command["op"]) {
    case "lead":
      void lead(id, command);
      break;
    case "check": {
      const atNs = now();
      let valid = false;
      try {
        const leadership = leaderships.get(id);
        leadership?.check();
        valid = leadership !== undefined;
      } catch {
        // It has ended.
      }
      tell("checked", { id, valid, at_ns: atNs });
      break;
    }
    case "resign": {
      const leadership = leaderships.get(id);
      if (leadership === undefined) {
        campaigns.get(id)?.abort();
      } else {
        void leadership.resign();
      }
      break;
    }
    case "fence": {
      const name = String(command["fence"]);
      const token = integer(command, "token");
      const fence = fences.get(name) ?? new Fence();
      fences.set(name, fence);
      tell("fenced", { fence: name, token, accepted: fence.accepts(token) });
      break;
    }
    case "value":
      void setValue(id, command["value"]);
      break;
    case "leader":
      void tellLeader(command);
      break;
    case "exit":
      void exit();
      break;
    default:
      tell("malformed", { message: JSON.stringify(command) });
  }
}

tell("ready", { clock: "boottime" });
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => handle(parseObject(line)));
lines.on("close", () => void exit());
