// The validity of a leadership, with a clock that the tests set.

import assert from "node:assert/strict";
import { test } from "node:test";

import { clock } from "../src/clock.js";
import { Endpoint, integer, parseObject } from "../src/http.js";
import { Client, Fence, Invalid, LeadershipEnded, StaleToken } from "../src/index.js";
import { Lease } from "../src/lease.js";

class TestClock {
  nowMs = 1_000;
  atLeast = (): number => this.nowMs;
  atMost = (): number => this.nowMs + 10;
}

function setUp(): { clock: TestClock; lease: Lease } {
  const testClock = new TestClock();
  return { clock: testClock, lease: new Lease(7n, 2_000, 200, testClock) };
}

function endOf(lease: Lease): [string, number] | undefined {
  const end = lease.end;
  return end && [end.reason, end.atMs];
}

test("a lease is valid before its deadline only, also if the clock is rounded down", () => {
  const { clock, lease } = setUp();
  clock.nowMs = 1_990;
  lease.check();
  clock.nowMs = 1_991;
  assert.deepEqual(endOf(lease), ["expired", 2_000]);
  assert.throws(() => lease.check(), LeadershipEnded);
  assert.equal(lease.remainingMs(), 0);
});

test("the work stops before the deadline", () => {
  const { clock, lease } = setUp();
  assert.equal(lease.beforeStopMs(), 790);
  clock.nowMs = 1_900;
  assert.equal(lease.beforeStopMs(), 0);
  lease.check();
});

test("a renewal extends and never shortens", () => {
  const { lease } = setUp();
  assert.ok(lease.extend(8n, 3_000));
  assert.ok(lease.extend(7n, 2_500));
  assert.deepEqual([lease.token, lease.remainingMs()], [8n, 1_990]);
});

test("a renewal after the deadline or a resignation revives nothing", () => {
  const late = setUp();
  late.clock.nowMs = 2_000;
  assert.ok(!late.lease.extend(8n, 9_000));
  assert.equal(late.lease.finish("resigned").reason, "expired");
  const resigned = setUp().lease;
  assert.equal(resigned.finish("resigned").reason, "resigned");
  assert.ok(!resigned.extend(8n, 9_000));
  assert.equal(resigned.finish("lost").reason, "resigned");
});

test("the clock has a lower and an upper bound", () => {
  const [first, bound, last] = [clock.atLeast(), clock.atMost(), clock.atLeast()];
  assert.ok(first <= bound && last <= bound + 1_000, `${first} ${bound} ${last}`);
});

test("smaller tokens are refused", () => {
  const fence = new Fence(3n);
  fence.check(3n);
  fence.check(2n ** 53n + 1n);
  assert.throws(() => fence.check(2n ** 53n), StaleToken);
  assert.equal(fence.greatest, 2n ** 53n + 1n);
});

test("great integers are exact, and texts stay as they are", () => {
  const body = parseObject('{"token":9007199254740993,"text":"a \\" 1234567890123456789,","ms":12}');
  assert.equal(integer(body, "token"), 9007199254740993n);
  assert.equal(integer(body, "ms"), 12n);
  assert.equal(body["text"], 'a " 1234567890123456789,');
  assert.throws(() => integer(parseObject('{"token":1.5}'), "token"));
  assert.throws(() => parseObject("[]"));
});

test("wrong endpoints are refused", () => {
  const credentials = { tokenFile: undefined, caFile: undefined, allowPlain: false };
  for (const address of ["", "ftp://x", "http://", "http://x/path", "http://x:port", "unix:relative", "10.0.0.1:7480"]) {
    assert.throws(() => new Endpoint(address, credentials), Invalid, address);
  }
  for (const address of ["http://10.0.0.1:7480", "https://[::1]:7480/", "unix:/run/x.sock"]) {
    new Endpoint(address, credentials);
  }
  assert.throws(() => new Client({ endpoints: [] }), Invalid);
});

test("a token does not leave the machine unencrypted", () => {
  const credentials = { tokenFile: "token", caFile: undefined, allowPlain: false };
  for (const address of ["https://10.0.0.1:7480", "http://127.1.2.3:7480", "http://[::1]:7480", "http://localhost"]) {
    new Endpoint(address, credentials);
  }
  assert.throws(() => new Endpoint("http://10.0.0.1:7480", credentials), Invalid);
  new Endpoint("http://10.0.0.1:7480", { ...credentials, allowPlain: true });
});

test("a stop margin fits into the ttl", () => {
  const client = new Client({ endpoints: "http://127.0.0.1:1" });
  client.election("x", { ttlMs: 2_000, stopMarginMs: 1_000 });
  assert.throws(() => client.election("x", { ttlMs: 2_000, stopMarginMs: 1_001 }), Invalid);
});
