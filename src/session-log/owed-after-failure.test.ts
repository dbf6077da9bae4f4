import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { input, items, MemorySession, notification, STARTED, turnEnded, turnStarted } from "./test-support.ts";
import { decideWake, FAILURE_WAIT_MS, MAX_PROVIDER_WAIT_MS } from "./wake-rule.ts";

const T0 = 1_000_000_000;

/** A session in which a notification's turn failed as often as waits are named: what the provider asked for each time. */
function failed(...retryAfterMs: readonly number[]): MemorySession {
  const session = new MemorySession().commit(STARTED, T0).commit(items(notification("n")), T0);
  for (const [index, wait] of retryAfterMs.entries()) {
    const error = { code: "overloaded", message: "busy", retry_after_ms: wait };
    session.commit(turnStarted(index + 1, "notification"), T0).request();
    session.commit({ type: "turn_ended", turn: index + 1, outcome: "failed", error }, T0);
  }
  return session;
}

const waitOf = (session: MemorySession): number => {
  const decision = decideWake(session.state, T0);
  if (decision.kind !== "held" || decision.held.reason !== "after_failure") throw new Error(decision.kind);
  return decision.held.until - T0;
};

describe("a cancel", () => {
  verifies(["N6"], "settles what its own turn took, not what an earlier turn took and failed with", () => {
    const session = failed(7000);
    session
      .commit(input("i"), T0)
      .commit(turnStarted(2), T0)
      .commit(items(notification("own")), T0)
      .request();
    session.commit(turnEnded(2, "cancelled"), T0);
    expect([...session.state.owed]).toEqual([["n", "taken"]]);
    expect(waitOf(session)).toBe(7000); // It proves nothing about the provider.
  });
});

describe("what a stopped answer left behind", () => {
  verifies(["N6", "N8"], "is no answer: after a shutdown the wake is still owed, after a cancel it is not", () => {
    for (const [outcome, owed] of [
      ["interrupted", ["n"]],
      ["cancelled", []],
    ] as const) {
      const session = new MemorySession().commit(STARTED).commit(items(notification("n")));
      session.commit(turnStarted(1, "notification")).request();
      session.commit({ type: "assistant_items", items: [], usage: session.state.usage, stop: "cancelled" });
      session.commit(turnEnded(1, outcome));
      expect([...session.state.owed.keys()]).toEqual(owed);
    }
  });
});

describe("the wait that a provider asks for", () => {
  verifies(["N6"], "is bounded by a week: no header silences a Pod for ever", () => {
    expect(waitOf(failed(1e300))).toBe(MAX_PROVIDER_WAIT_MS);
  });

  it("is not taken at its word again when it did not help", () => {
    expect(waitOf(failed(0.5))).toBe(0.5);
    expect(waitOf(failed(1, 1))).toBe(2 * FAILURE_WAIT_MS);
    expect(waitOf(failed(1, 1e7))).toBe(1e7);
  });
});
