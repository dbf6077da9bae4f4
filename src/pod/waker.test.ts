import { afterEach, describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import type { Clock } from "../base/clock.ts";
import type { Alert } from "../protocol/alert.ts";
import { WAKE_REFILL_MS, WAKE_WINDOW_MS } from "../protocol/limits.ts";
import { emptyState } from "../session-log/session-state.ts";
import { Alerter } from "./alerter.ts";
import { Waker } from "./waker.ts";

const open: Waker[] = [];
afterEach(() => {
  for (const waker of open.splice(0)) waker.stop();
});

/** A waker over a state of the test's own. `ahead` moves the clock that the rule sees. */
function bench() {
  const state = emptyState();
  const time = { ahead: 0 };
  const clock: Clock = { nowMs: () => Date.now() + time.ahead, sleep: () => Promise.reject(new Error("not used")) };
  const alerts: Alert[] = [];
  const alerter = new Alerter(clock, (alert) => alerts.push(alert));
  const starts: string[] = [];
  const started = Promise.withResolvers<void>();
  const may = { start: true };
  state.bucket = { tokens: 10, ts: clock.nowMs() };
  const waker = new Waker({
    state,
    clock,
    alerter,
    mayStart: () => may.start,
    inputsAfter: () => 0,
    start: (trigger) => {
      starts.push(trigger);
      may.start = false;
      started.resolve();
    },
    onHeld: () => {},
  });
  open.push(waker);
  return { state, time, alerter, alerts, starts, started: started.promise, may, waker, clock };
}

describe("a wake", () => {
  verifies(["N5"], "waits a moment for the rest of a burst, and is one turn", async () => {
    const { state, waker, starts, started } = bench();
    const begin = performance.now();
    for (let n = 0; n < 5; n++) {
      state.owed.set(`item_${n}`, "pending");
      waker.ifDue();
    }
    expect(starts).toEqual([]);
    await started;
    expect(performance.now() - begin).toBeGreaterThanOrEqual(WAKE_WINDOW_MS - 2);
    await new Promise((resolve) => setTimeout(resolve, 3 * WAKE_WINDOW_MS));
    expect(starts).toEqual(["notification"]);
  });

  it("does not start when somebody else started a turn within the window", async () => {
    const { state, waker, starts, may } = bench();
    state.owed.set("item_1", "pending");
    waker.ifDue();
    may.start = false;
    await new Promise((resolve) => setTimeout(resolve, 4 * WAKE_WINDOW_MS));
    expect(starts).toEqual([]);
  });

  it("is not put off by what keeps arriving", async () => {
    const { state, waker, starts } = bench();
    for (let n = 0; n < 40 && starts.length === 0; n++) {
      state.owed.set(`item_${n}`, "pending");
      waker.ifDue();
      await new Promise((resolve) => setTimeout(resolve, WAKE_WINDOW_MS / 4));
    }
    expect(starts).toEqual(["notification"]);
    expect(state.owed.size).toBeLessThan(40);
  });

  it("for nothing is none", async () => {
    const { waker, starts } = bench();
    waker.ifDue();
    await new Promise((resolve) => setTimeout(resolve, 4 * WAKE_WINDOW_MS));
    expect(starts).toEqual([]);
    expect(waker.held).toBeUndefined();
  });
});

describe("a held wake", () => {
  verifies(["N11"], "says that the bucket is empty and until when, and happens by itself then", async () => {
    const { state, waker, starts, started, alerts, alerter, clock } = bench();
    state.owed.set("item_1", "pending");
    // Full in 40 ms.
    state.bucket = { tokens: 0, ts: clock.nowMs() - WAKE_REFILL_MS + 40 };
    waker.ifDue();
    expect(waker.held).toMatchObject({ reason: "bucket_empty" });
    expect(alerter.snapshot()).toMatchObject([{ code: "wake_held", message: expect.stringContaining("budget") }]);
    await started;
    expect(starts).toEqual(["notification"]);
    expect(waker.held).toBeUndefined();
    expect(alerts.at(-1)).toMatchObject({ code: "wake_held", active: false });
  });

  verifies(["N6"], "after a failed turn happens when the wait is over, and the provider's own wait counts", async () => {
    const { state, waker, starts, started, clock } = bench();
    state.owed.set("item_1", "pending");
    state.failures = 1;
    state.lastFailure = { ts: clock.nowMs(), retryAfterMs: 60 };
    const begin = performance.now();
    waker.ifDue();
    expect(waker.held).toMatchObject({ reason: "after_failure" });
    await started;
    expect(performance.now() - begin).toBeGreaterThanOrEqual(55);
    expect(starts).toEqual(["notification"]);
  });

  it("is a minute after one failure, and doubles to an hour", () => {
    const waits = [1, 2, 3, 6, 7, 8, 40].map((failures) => {
      const { state, waker, clock } = bench();
      const now = clock.nowMs();
      state.owed.set("item_1", "pending");
      state.failures = failures;
      state.lastFailure = { ts: now, retryAfterMs: undefined };
      waker.ifDue();
      if (waker.held?.reason !== "after_failure") throw new Error("not held");
      return Math.round((waker.held.until - now) / 60_000);
    });
    expect(waits).toEqual([1, 2, 4, 32, 60, 60, 60]);
  });

  it("of a paused Pod is no alert: whoever paused it knows", () => {
    const { state, waker, alerter } = bench();
    state.owed.set("item_1", "pending");
    state.turn = { turn: 1, trigger: "user", chain: { id: "c", hops: 0 }, phase: "paused", requests: 1, finished: false };
    waker.ifDue();
    expect(waker.held).toEqual({ reason: "paused" });
    expect(alerter.snapshot()).toEqual([]);
  });

  it("asked about again and again is one alert", () => {
    const { state, waker, alerter, clock } = bench();
    state.owed.set("item_1", "pending");
    state.failures = 1;
    state.lastFailure = { ts: clock.nowMs(), retryAfterMs: undefined };
    for (let n = 0; n < 5; n++) waker.ifDue();
    expect(alerter.snapshot()).toHaveLength(1);
  });
});
