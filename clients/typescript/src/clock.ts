// The clock of leases, in milliseconds.
//
// Node cannot read CLOCK_BOOTTIME, which counts while the machine is suspended. `/proc/uptime` shows it, rounded down to
// 10 ms: with a reading `u`, the clock shows at least `u` and less than `u + 10`. A lease begins at the first bound and
// ends at the second, so that both roundings shorten it. On systems without `/proc/uptime`, the clock is
// `performance.now()`, which may stop while the machine is suspended.

import { openSync, readSync } from "node:fs";
import { performance } from "node:perf_hooks";

/** Two bounds of the current moment. */
export interface Clock {
  /** A moment that has passed, or is just now. */
  atLeast(): number;
  /** A moment that has not passed yet. */
  atMost(): number;
}

const ROUNDING_MS = 10;

function uptime(): Clock | undefined {
  if (process.platform !== "linux") {
    return undefined;
  }
  try {
    const file = openSync("/proc/uptime", "r");
    const buffer = Buffer.alloc(64);
    const read = (): number => {
      const text = buffer.toString("latin1", 0, readSync(file, buffer, 0, buffer.length, 0));
      const found = /^(\d+)\.(\d\d) /.exec(text);
      if (found === null) {
        throw new Error(`/proc/uptime contains ${JSON.stringify(text)}`);
      }
      return Number(found[1]) * 1000 + Number(found[2]) * 10;
    };
    read();
    return { atLeast: read, atMost: () => read() + ROUNDING_MS };
  } catch {
    return undefined;
  }
}

const monotonic: Clock = { atLeast: () => performance.now(), atMost: () => performance.now() };

/** The clock of this machine. */
export const clock: Clock = uptime() ?? monotonic;
