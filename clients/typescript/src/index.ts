// Leader election: a client of suffrage nodes.

export { Client, type ClientOptions, Election, type ElectionOptions, type Leader, Leadership } from "./election.js";
export { InUse, Invalid, LeadershipEnded, StaleToken, SuffrageError, Unauthorized, Unavailable } from "./errors.js";
export { Fence } from "./fence.js";
export { type End } from "./lease.js";
