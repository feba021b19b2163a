// The client: campaigns, renewals and resignations.
//
// Three rules make a leadership safe. Its validity counts from before the request was sent. At the deadline it ends,
// whatever replies come later (`lease.ts`). A resignation ends it first and then tells the node.

import { existsSync } from "node:fs";

import { clock } from "./clock.js";
import { InUse, Invalid, LeadershipEnded, NoAnswer, Unauthorized, Unavailable } from "./errors.js";
import { type Answer, type Body, type Stream, Endpoint, integer, messageOf, text } from "./http.js";
import { type End, Lease } from "./lease.js";

/** The usual socket of a node on this machine. */
export const LOCAL_SOCKET = "/run/suffrage/suffrage.sock";
/** The usual HTTP address of a node on this machine. */
export const LOCAL_HTTP = "http://127.0.0.1:7480";

/** The longest time between two looks at the clock: timers stop while the machine is suspended. */
const LOOK_MS = 500;
/** The time for an answer, besides the time that the node was asked to wait. */
const REPLY_TIMEOUT_MS = 3_000;
/** The time for the resignations of all elections of a client. */
const CLOSE_TIMEOUT_MS = 10_000;
/** The shortest time between two campaigns at a node that answers at once. */
const PAUSE_MS = 100;
const FIRST_BACKOFF_MS = 50;
const LAST_BACKOFF_MS = 1_000;
/** Statuses that trying again does not change. */
const REFUSED = [400, 404, 405, 413, 415, 421, 422];

/** The settings of a client. */
export interface ClientOptions {
  /**
   * Tried in order. Default: the socket of the node on this machine if there is one, and the environment variable
   * `SUFFRAGE_NODE`.
   */
  readonly endpoints?: string | readonly string[];
  /** A file with the bearer token. Default: `SUFFRAGE_TOKEN_FILE`. */
  readonly tokenFile?: string;
  /** The certificates of trusted authorities, in PEM. Default: `SUFFRAGE_CA`. */
  readonly caFile?: string;
  /** Whether the token may be sent to other machines over `http://`. */
  readonly allowPlain?: boolean;
  /** Called with the reason if an endpoint cannot be used. */
  readonly onProblem?: (reason: string) => void;
}

/** The settings of an election. */
export interface ElectionOptions {
  /** The length of a lease in milliseconds: after a crash nobody leads for that long. Default: 10 s. */
  readonly ttlMs?: number;
  /** The work is told to stop this long before the deadline. Default: a quarter of the ttl. */
  readonly stopMarginMs?: number;
  /** A candidate of a greater rank is better. */
  readonly rank?: number;
  /** What this program says about itself while it leads, such as its address: up to 4096 bytes of UTF-8. */
  readonly value?: string;
}

/** The leader of an election, as a node knows it: for people and load balancers. It may be old. */
export interface Leader {
  /** The id of the leader's node. */
  readonly node: bigint;
  /** The leader's token. */
  readonly token: bigint;
  /** What the leader says about itself. */
  readonly value: string | undefined;
}

function addresses(endpoints: string | readonly string[] | undefined): readonly string[] {
  if (endpoints !== undefined) {
    return typeof endpoints === "string" ? [endpoints] : endpoints;
  }
  const local = existsSync(LOCAL_SOCKET) ? [`unix:${LOCAL_SOCKET}`] : [];
  const node = process.env["SUFFRAGE_NODE"];
  const found = node ? [...local, node] : local;
  return found.length > 0 ? found : [LOCAL_HTTP];
}

/** A client of a cluster. */
export class Client {
  /** @internal */
  readonly endpoints: readonly Endpoint[];
  /** @internal Elections that this client leads, or waits to lead (null). */
  readonly claims = new Map<string, Leadership | null>();
  /** @internal */
  readonly problem: (reason: string) => void;
  readonly #background = new Set<Promise<void>>();

  constructor(options: ClientOptions = {}) {
    const credentials = {
      tokenFile: options.tokenFile ?? (process.env["SUFFRAGE_TOKEN_FILE"] || undefined),
      caFile: options.caFile ?? (process.env["SUFFRAGE_CA"] || undefined),
      allowPlain: options.allowPlain ?? false,
    };
    this.endpoints = addresses(options.endpoints).map((address) => new Endpoint(address, credentials));
    if (this.endpoints.length === 0) {
      throw new Invalid("endpoints: there must be one at least");
    }
    this.problem = options.onProblem ?? (() => undefined);
  }

  /** An election of this name. */
  election(name: string, options: ElectionOptions = {}): Election {
    return new Election(this, name, options);
  }

  /** Resigns everything, and closes all connections. */
  async close(): Promise<void> {
    for (const leadership of [...this.claims.values()]) {
      leadership?.finish("resigned");
    }
    await Promise.race([Promise.all(this.#background), sleep(CLOSE_TIMEOUT_MS)]);
    for (const endpoint of this.endpoints) {
      endpoint.close();
    }
  }

  /** @internal Work whose failure nobody waits for. */
  spawn(work: Promise<void>): Promise<void> {
    const done = work
      .catch((error: unknown) => this.problem(messageOf(error)))
      .finally(() => this.#background.delete(done));
    this.#background.add(done);
    return done;
  }
}

/** A named election. */
export class Election {
  readonly #client: Client;
  readonly #ttlMs: number;
  readonly #marginMs: number;
  readonly #request: Body;

  /** @internal */
  constructor(
    client: Client,
    readonly name: string,
    options: ElectionOptions,
  ) {
    this.#client = client;
    this.#ttlMs = options.ttlMs ?? 10_000;
    this.#marginMs = options.stopMarginMs ?? this.#ttlMs / 4;
    if (!(this.#marginMs >= 0 && this.#marginMs <= this.#ttlMs / 2)) {
      throw new Invalid(
        `stopMarginMs: ${this.#marginMs} ms must be between 0 and half of the ttl of ${this.#ttlMs} ms`,
      );
    }
    this.#request = { ttl: `${Math.trunc(this.#ttlMs)}ms`, rank: options.rank ?? 0 };
    if (options.value !== undefined) {
      this.#request["value"] = options.value;
    }
  }

  /** Waits until this program leads. The signal ends the wait, and not the leadership. */
  async lead(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<Leadership> {
    const { claims } = this.#client;
    options.signal?.throwIfAborted();
    // The deadline of a leadership may have passed without anybody having looked.
    claims.get(this.name)?.look();
    if (claims.has(this.name)) {
      throw new InUse(`this client leads ${this.name} already, or waits to lead it`);
    }
    claims.set(this.name, null);
    try {
      const leadership = await this.#campaign(options.signal);
      claims.set(this.name, leadership);
      // Its end may have come before the claim.
      leadership.look();
      return leadership;
    } catch (error) {
      claims.delete(this.name);
      throw error;
    }
  }

  /**
   * Leads again and again, until the signal is aborted. Each leadership is resigned when the body of the loop ends.
   *
   *     for await (const leadership of election.leaderships({ signal })) { … }
   */
  async *leaderships(
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<Leadership, void, undefined> {
    while (!options.signal?.aborted) {
      let leadership: Leadership;
      try {
        leadership = await this.lead(options);
      } catch (error) {
        if (options.signal?.aborted) {
          return;
        }
        throw error;
      }
      try {
        yield leadership;
      } finally {
        await leadership.resign();
      }
    }
  }

  /**
   * Asks the nodes, in order, who leads: undefined if nobody does, as far as the node that answers knows. Only a
   * `Leadership` proves that this program leads.
   */
  async leader(): Promise<Leader | undefined> {
    let failed: Error = new NoAnswer("there is no endpoint");
    for (const endpoint of this.#client.endpoints) {
      try {
        const { status, body } = await endpoint.get(`/elections/${encodeURIComponent(this.name)}`, REPLY_TIMEOUT_MS);
        if (status !== 200) {
          throw failure(status, body, endpoint);
        }
        if (body["leader"] === null) {
          return undefined;
        }
        const value = typeof body["value"] === "string" ? body["value"] : undefined;
        return { node: integer(body, "leader"), token: integer(body, "token"), value };
      } catch (error) {
        if (!(error instanceof NoAnswer || error instanceof Unauthorized)) {
          throw error;
        }
        failed = error;
      }
    }
    throw failed instanceof Unauthorized ? failed : new Unavailable(failed.message);
  }

  /** @internal */
  path(action: string): string {
    return `/elections/${encodeURIComponent(this.name)}/${action}`;
  }

  async #campaign(signal: AbortSignal | undefined): Promise<Leadership> {
    for (let backoffMs = FIRST_BACKOFF_MS; ; backoffMs = Math.min(backoffMs * 2, LAST_BACKOFF_MS)) {
      let refused: Unauthorized | undefined;
      for (const endpoint of this.#client.endpoints) {
        try {
          return await (endpoint.isLocal ? this.#hold(endpoint, signal) : this.#campaignAt(endpoint, signal));
        } catch (error) {
          if (error instanceof Unauthorized) {
            // Another node may have another token, while tokens are rotated.
            refused = error;
          } else if (!(error instanceof NoAnswer)) {
            throw error;
          }
          this.#client.problem(`cannot lead ${this.name}: ${error.message}`);
        }
      }
      if (refused !== undefined) {
        throw refused;
      }
      await sleep(backoffMs * (0.5 + Math.random() / 2), signal);
    }
  }

  /** Campaigns at this endpoint until it leads, and keeps the place in the queue of the node. */
  async #campaignAt(endpoint: Endpoint, signal: AbortSignal | undefined): Promise<Leadership> {
    const waitMs = Math.min(Math.max(this.#ttlMs, 1_000), 10_000);
    const body = { ...this.#request, wait: `${Math.trunc(waitMs)}ms` };
    let session: string | undefined;
    try {
      for (;;) {
        const request = session === undefined ? body : { ...body, session };
        const timeoutMs = waitMs + REPLY_TIMEOUT_MS;
        const answer = await endpoint.post(this.path("campaign"), request, timeoutMs, session === undefined, signal);
        if (answer.status === 200) {
          session = text(answer.body, "session");
          const lease = this.#lease(integer(answer.body, "token"), deadlineOf(answer));
          if (lease.end === undefined) {
            const held = new Remote(this, endpoint, session, this.#client.problem);
            session = undefined;
            return new Leadership(this.#client, this, lease, held);
          }
          // The reply took too long. The session leads, so that a campaign with it is a renewal.
          continue;
        }
        if (answer.status === 202) {
          session = text(answer.body, "session");
          if (answer.body["your_turn"] === true) {
            // The lease begins with the next request, which does not wait.
            continue;
          }
        } else if (answer.status === 409) {
          const reason = answer.body["reason"];
          if (reason === "revoked" && session !== undefined) {
            void this.#client.spawn(this.giveUp(endpoint, session));
          }
          session = reason === "superseded" ? session : undefined;
        } else {
          throw failure(answer.status, answer.body, endpoint);
        }
        await sleep(Math.max(0, PAUSE_MS - (clock.atLeast() - answer.sentMs)), signal);
      }
    } finally {
      if (session !== undefined) {
        void this.#client.spawn(this.giveUp(endpoint, session));
      }
    }
  }

  /** Leads for as long as a connection to the node of this machine is open. */
  async #hold(endpoint: Endpoint, signal: AbortSignal | undefined): Promise<Leadership> {
    const request = { ...this.#request, hold: "connection" };
    const stream = await endpoint.stream(this.path("campaign"), request, REPLY_TIMEOUT_MS, signal);
    const close = (): void => stream.close();
    signal?.addEventListener("abort", close, { once: true });
    let leadership: Leadership | undefined;
    try {
      signal?.throwIfAborted();
      // Not `for await`, which would close the stream at its end.
      for (let next = await stream.objects.next(); !next.done; next = await stream.objects.next()) {
        const event = next.value;
        if (stream.status !== 200) {
          throw failure(stream.status, event, endpoint);
        }
        if (event["event"] === "leading") {
          const lease = this.#lease(integer(event, "token"), absoluteDeadline(event));
          if (lease.end !== undefined) {
            break;
          }
          const held = new Local(stream, endpoint, text(event, "session"));
          leadership = new Leadership(this.#client, this, lease, held);
          return leadership;
        }
        if (event["event"] !== "waiting") {
          throw new NoAnswer(`${endpoint.address}: ${String(event["reason"] ?? "no lease")}`);
        }
      }
      throw new NoAnswer(`${endpoint.address}: the node has closed the connection`);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof NoAnswer || error instanceof Invalid || error instanceof Unauthorized) {
        throw error;
      }
      throw new NoAnswer(`${endpoint.address}: ${messageOf(error)}`);
    } finally {
      signal?.removeEventListener("abort", close);
      if (leadership === undefined) {
        stream.close();
      }
    }
  }

  #lease(token: bigint, deadlineMs: number): Lease {
    return new Lease(token, deadlineMs, this.#marginMs, clock);
  }

  /** @internal Resigns a session, so that nobody waits for its ttl. After the ttl the node has forgotten it anyway. */
  async giveUp(endpoint: Endpoint, session: string): Promise<void> {
    const giveUpMs = clock.atLeast() + this.#ttlMs;
    for (let pauseMs = FIRST_BACKOFF_MS; clock.atLeast() < giveUpMs; pauseMs = Math.min(pauseMs * 2, LAST_BACKOFF_MS)) {
      try {
        const answer = await endpoint.post(this.path("resign"), { session }, REPLY_TIMEOUT_MS, false);
        if (answer.status < 500) {
          return;
        }
      } catch (error) {
        this.#client.problem(`cannot resign ${this.name}: ${messageOf(error)}`);
      }
      await sleep(pauseMs);
    }
  }
}

/** A leadership that this program holds. */
export class Leadership {
  /** Aborted when the work should stop: the deadline is near or past, or a hand-over is wanted. */
  readonly signal: AbortSignal;
  /** Resolves when the leadership is over. */
  readonly ended: Promise<End>;
  readonly #client: Client;
  readonly #election: Election;
  readonly #lease: Lease;
  readonly #held: Remote | Local;
  readonly #stop = new AbortController();
  #resolveEnded!: (end: End) => void;
  #isOver = false;
  #values = 0;
  #handOverWanted = false;
  #onHandOver: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #releasing: Promise<void> | undefined;

  /** @internal */
  constructor(client: Client, election: Election, lease: Lease, held: Remote | Local) {
    this.#client = client;
    this.#election = election;
    this.#lease = lease;
    this.#held = held;
    this.signal = this.#stop.signal;
    this.ended = new Promise((resolve) => (this.#resolveEnded = resolve));
    this.look();
    void client.spawn(held.keep(this, lease));
  }

  /** The fencing token. It may grow during a leadership. */
  get token(): bigint {
    return this.#lease.token;
  }

  /** Whether this program leads at this moment, by the clock. */
  get isValid(): boolean {
    return this.#lease.end === undefined;
  }

  /** Throws `LeadershipEnded` if this program does not lead any more. */
  check(): void {
    this.#lease.check();
  }

  /** The time until the deadline, unless the lease is renewed: 0 if the leadership is over. */
  remainingMs(): number {
    return this.#lease.remainingMs();
  }

  /** Whether the node wants to hand over: stop the work and resign. The leadership is valid until its deadline. */
  get handOverWanted(): boolean {
    return this.#handOverWanted;
  }

  /** Calls this once, when a hand-over is wanted. */
  onHandOver(callback: () => void): void {
    if (this.#handOverWanted) {
      queueMicrotask(callback);
    } else {
      this.#onHandOver.push(callback);
    }
  }

  /**
   * Changes what this program says about itself while it leads: up to 4096 bytes of UTF-8, or undefined for nothing.
   * Resolves when the node of this leadership has it; other nodes show it soon. Rejects with `LeadershipEnded` if the
   * leadership is over, and with `Invalid` if the node refuses the value. Of several calls the last one counts.
   */
  async setValue(value: string | undefined): Promise<void> {
    this.#values += 1;
    const { endpoint, session } = this.#held;
    const request = { session, value: value ?? "", order: this.#values };
    for (let pauseMs = FIRST_BACKOFF_MS; ; pauseMs = Math.min(pauseMs * 2, LAST_BACKOFF_MS)) {
      this.check();
      try {
        const { status, body } = await endpoint.post(this.#election.path("value"), request, REPLY_TIMEOUT_MS, false);
        if (status === 200) {
          return;
        }
        throw status === 409 ? new LeadershipEnded("lost") : failure(status, body, endpoint);
      } catch (error) {
        if (!(error instanceof NoAnswer)) {
          throw error;
        }
        this.#client.problem(`cannot set the value: ${error.message}`);
      }
      await sleep(pauseMs);
    }
  }

  /** Stops leading, and then tells the node. */
  async resign(): Promise<void> {
    this.finish("resigned");
    if (this.#releasing !== undefined) {
      // If the node does not answer, the attempts go on in the background.
      await Promise.race([this.#releasing, sleep(REPLY_TIMEOUT_MS)]);
    }
  }

  /** @internal Looks at the clock, and does what is due. */
  look(): void {
    if (this.#isOver) {
      return;
    }
    clearTimeout(this.#timer);
    if (this.#lease.end !== undefined) {
      this.finish("lost");
      return;
    }
    const beforeStopMs = this.#lease.beforeStopMs();
    if (beforeStopMs === 0) {
      this.#tellStop("the deadline is near");
    }
    const dueMs = beforeStopMs || this.#lease.remainingMs();
    this.#timer = setTimeout(() => this.look(), Math.min(dueMs + 1, LOOK_MS));
  }

  #tellStop(reason: string): void {
    if (!this.#stop.signal.aborted) {
      this.#stop.abort(new LeadershipEnded(reason));
    }
  }

  /** @internal */
  wantHandOver(): void {
    if (!this.#handOverWanted) {
      this.#handOverWanted = true;
      for (const callback of this.#onHandOver.splice(0)) {
        queueMicrotask(callback);
      }
      this.#tellStop("a hand-over is wanted");
    }
  }

  /** @internal Ends the leadership first, and then tells the node. */
  finish(reason: "resigned" | "lost"): void {
    const end = this.#lease.finish(reason);
    if (this.#isOver) {
      return;
    }
    this.#isOver = true;
    clearTimeout(this.#timer);
    if (this.#client.claims.get(this.#election.name) === this) {
      this.#client.claims.delete(this.#election.name);
    }
    this.#held.stop();
    if (end.reason !== "lost") {
      this.#releasing = this.#client.spawn(this.#held.release(this.#election));
    }
    this.#tellStop(end.reason);
    this.#resolveEnded(end);
  }
}

/** A session that is renewed by requests, at the node that gave it. */
class Remote {
  readonly #stopped = new AbortController();
  readonly #path: string;

  constructor(
    election: Election,
    readonly endpoint: Endpoint,
    readonly session: string,
    readonly problem: (reason: string) => void,
  ) {
    this.#path = election.path("renew");
  }

  /** Renews until the leadership is over. */
  async keep(leadership: Leadership, lease: Lease): Promise<void> {
    try {
      await this.#renew(leadership, lease, this.#stopped.signal);
    } catch (error) {
      if (!this.#stopped.signal.aborted) {
        throw error;
      }
    }
  }

  async #renew(leadership: Leadership, lease: Lease, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let waitMs = spread(lease.remainingMs() / 3);
    while (!leadership.handOverWanted) {
      await sleepUntil(clock.atLeast() + waitMs, signal);
      const remainingMs = lease.remainingMs();
      if (remainingMs === 0) {
        leadership.look();
        return;
      }
      const answer = await this.#ask(Math.max(remainingMs / 3, 100), signal);
      if (answer?.status === 200) {
        lease.extend(integer(answer.body, "token"), deadlineOf(answer));
        failures = 0;
        const leftMs = lease.remainingMs();
        waitMs = Math.max(0, Math.min(spread(leftMs / 3), leftMs - 2 * (clock.atLeast() - answer.sentMs)));
        continue;
      }
      if (answer?.status === 409 && answer.body["reason"] === "revoked") {
        leadership.wantHandOver();
        return;
      }
      if (answer?.status === 409 && answer.body["reason"] !== "superseded") {
        leadership.finish("lost");
        return;
      }
      failures += 1;
      waitMs = Math.min(FIRST_BACKOFF_MS * 2 ** Math.min(failures, 6), lease.remainingMs() / 4);
    }
  }

  /** Sends one renewal. No answer is no reason to give up: the lease may be renewed until its deadline. */
  async #ask(timeoutMs: number, signal: AbortSignal): Promise<Answer | undefined> {
    try {
      return await this.endpoint.post(this.#path, { session: this.session }, timeoutMs, false, signal);
    } catch (error) {
      if (error instanceof NoAnswer || error instanceof Unauthorized) {
        this.problem(`cannot renew the lease: ${error.message}`);
        return undefined;
      }
      throw error;
    }
  }

  stop(): void {
    this.#stopped.abort(new LeadershipEnded("over"));
  }

  /** Tells the node that the session is over. */
  async release(election: Election): Promise<void> {
    await election.giveUp(this.endpoint, this.session);
  }
}

/** A session that lasts as long as its connection to the node of this machine. The node renews it. */
class Local {
  constructor(
    readonly stream: Stream,
    readonly endpoint: Endpoint,
    readonly session: string,
  ) {}

  /** Follows the events of the node until the leadership is over. */
  async keep(leadership: Leadership, lease: Lease): Promise<void> {
    try {
      for await (const event of this.stream.objects) {
        const kind = event["event"];
        if (kind === "lost") {
          break;
        }
        if (kind === "renewed" || kind === "leading" || kind === "hand_over_wanted") {
          // An event that is read after the deadline revives nothing.
          if (!lease.extend(integer(event, "token"), absoluteDeadline(event))) {
            break;
          }
          if (kind === "hand_over_wanted") {
            leadership.wantHandOver();
          }
        }
      }
    } catch {
      // The connection is broken, or closed by `stop`.
    }
    leadership.finish("lost");
    this.stream.close();
  }

  stop(): void {
    this.stream.close();
  }

  /** The connection is closed: the node releases the lease by itself. */
  async release(): Promise<void> {}
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Up to a fifth less, so that the renewals of many elections do not come all at once. */
function spread(ms: number): number {
  return ms * (1 - Math.random() / 5);
}

/** Sleeps until this moment of the clock of leases. */
async function sleepUntil(momentMs: number, signal: AbortSignal): Promise<void> {
  for (let left = momentMs - clock.atLeast(); left > 0; left = momentMs - clock.atLeast()) {
    await sleep(Math.min(left, LOOK_MS), signal);
  }
}

/** The error for a status that is no answer to a campaign. */
function failure(status: number, body: Body, endpoint: Endpoint): Error {
  const told = String(body["error"] ?? `status ${status}`);
  if (status === 401) {
    return new Unauthorized(`${endpoint.address}: the bearer token is missing or wrong: ${told}`);
  }
  return REFUSED.includes(status)
    ? new Invalid(`${endpoint.address}: ${told}`)
    : new NoAnswer(`${endpoint.address}: ${told}`);
}

/** The deadline of a reply: it counts from before the request was sent. */
function deadlineOf(answer: Answer): number {
  return answer.sentMs + Number(integer(answer.body, "valid_for_ms"));
}

/** The deadline of an event of the node of this machine, which has the same clock: rounded down. */
function absoluteDeadline(event: Body): number {
  if (Number(integer(event, "now_ns") / 1_000_000n) > clock.atMost()) {
    throw new NoAnswer(
      "the clock of this process is behind that of the node (a container with its own /proc/uptime?); use an " +
        "endpoint of http:// or https://",
    );
  }
  return Number(integer(event, "deadline_ns") / 1_000_000n);
}
