// The validity of one leadership: the part on which safety depends. Each operation first looks at the clock: a lease whose
// deadline has passed has ended, whatever comes later.

import type { Clock } from "./clock.js";
import { LeadershipEnded } from "./errors.js";

/** The end of a leadership. */
export interface End {
  readonly reason: "expired" | "resigned" | "lost";
  /** The moment from which on `check` fails, in milliseconds of the clock of leases: the deadline if it has passed. */
  readonly atMs: number;
  /** `process.hrtime.bigint()` when this program noticed. */
  readonly noticedNs: bigint;
}

/** A token and a deadline. */
export class Lease {
  #token: bigint;
  #deadlineMs: number;
  #end: End | undefined;

  constructor(
    token: bigint,
    deadlineMs: number,
    readonly marginMs: number,
    readonly clock: Clock,
  ) {
    this.#token = token;
    this.#deadlineMs = deadlineMs;
  }

  /** Ends the lease if its deadline has passed. Called first by every operation. */
  #lapse(): number {
    const nowMs = this.clock.atMost();
    if (this.#end === undefined && nowMs > this.#deadlineMs) {
      this.#end = { reason: "expired", atMs: this.#deadlineMs, noticedNs: process.hrtime.bigint() };
    }
    return nowMs;
  }

  get token(): bigint {
    return this.#token;
  }

  /** The end of the lease; undefined while it is valid. */
  get end(): End | undefined {
    this.#lapse();
    return this.#end;
  }

  /** Throws `LeadershipEnded` if the lease has ended. */
  check(): void {
    const end = this.end;
    if (end !== undefined) {
      throw new LeadershipEnded(end.reason);
    }
  }

  /** The time until the deadline: 0 if the lease has ended. */
  remainingMs(): number {
    const nowMs = this.#lapse();
    return this.#end === undefined ? this.#deadlineMs - nowMs : 0;
  }

  /** The time until the work has to stop: 0 if that moment has passed. */
  beforeStopMs(): number {
    return Math.max(0, this.remainingMs() - this.marginMs);
  }

  /** Extends the lease, unless it has ended. A reply that was overtaken does not shorten it. */
  extend(token: bigint, deadlineMs: number): boolean {
    this.#lapse();
    if (this.#end !== undefined) {
      return false;
    }
    this.#token = token > this.#token ? token : this.#token;
    this.#deadlineMs = Math.max(this.#deadlineMs, deadlineMs);
    return true;
  }

  /** Ends the lease now, unless it has ended before. */
  finish(reason: "resigned" | "lost"): End {
    const nowMs = this.#lapse();
    this.#end ??= { reason, atMs: nowMs, noticedNs: process.hrtime.bigint() };
    return this.#end;
  }
}
