import { StaleToken } from "./errors.js";

/**
 * The greatest token that a resource has seen.
 *
 * A resource that keeps its state in this process checks each write with it. A resource with a database stores the token
 * in the same transaction as the write instead: see the README.
 */
export class Fence {
  #greatest: bigint;

  constructor(greatest = 0n) {
    this.#greatest = greatest;
  }

  /** The greatest token seen. */
  get greatest(): bigint {
    return this.#greatest;
  }

  /** Tells whether a write with this token is in order, and remembers the token if it is. */
  accepts(token: bigint): boolean {
    if (token < this.#greatest) {
      return false;
    }
    this.#greatest = token;
    return true;
  }

  /** Throws `StaleToken` if a write with this token is from a former leader. */
  check(token: bigint): void {
    if (!this.accepts(token)) {
      throw new StaleToken(`token ${token} is smaller than ${this.#greatest}, which this resource has seen`);
    }
  }
}
