import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { WAKE_BUCKET_SIZE, WAKE_REFILL_MS } from "../protocol/limits.ts";
import type { EntryOf } from "./entry.ts";
import { answer, input, items, MemorySession, notification, STARTED, says, turnEnded, turnStarted } from "./test-support.ts";
import { bucketAt, decideWake, FAILURE_WAIT_MS, MAX_FAILURE_WAIT_MS } from "./wake-rule.ts";

const T0 = 1_000_000_000;

function started(): MemorySession {
  return new MemorySession().commit(STARTED, T0);
}

/** A turn that fails before any answer. */
function failTurn(session: MemorySession, ts: number, retryAfterMs?: number): MemorySession {
  const turn = session.state.turns + 1;
  const error = { code: "overloaded", message: "busy", ...(retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }) };
  const ended: EntryOf<"turn_ended"> = { type: "turn_ended", turn, outcome: "failed", error };
  return session.commit(turnStarted(turn), ts).request().commit(ended, ts);
}

describe("a wake that is owed", () => {
  verifies(["N6"], "stays owed until a request that took it is answered", () => {
    const session = started().commit(items(notification("n")), T0);
    const decide = () => decideWake(session.state, T0).kind;
    expect(decide()).toBe("start");
    session.commit(turnStarted(1, "notification"), T0);
    expect(decide()).toBe("none"); // The turn runs.
    session.request().commit(turnEnded(1, "interrupted"), T0);
    expect(session.state.owed.get("n")).toBe("taken");
    expect(decideWake(session.state, T0)).toEqual({ kind: "start", trigger: "notification" }); // The request died unanswered.
    session
      .commit(turnStarted(2, "notification"), T0)
      .request()
      .commit(answer(says("seen")), T0)
      .commit(turnEnded(2), T0);
    expect(decide()).toBe("none");
  });

  verifies(["N6", "I7"], "starts a turn at the end of the one whose last request came before it", () => {
    const session = started().commit(input("i"), T0).commit(turnStarted(1), T0).request();
    session
      .commit(items(notification("late")), T0)
      .commit(answer(says("done")), T0)
      .commit(turnEnded(1), T0);
    expect(decideWake(session.state, T0)).toEqual({ kind: "start", trigger: "notification" });
  });

  verifies(["N6"], "is settled by a cancel when the turn took it, and not when it only waited", () => {
    const session = started()
      .commit(items(notification("taken")), T0)
      .commit(turnStarted(1, "notification"), T0)
      .request();
    session.commit(items(notification("waits")), T0).commit(turnEnded(1, "cancelled"), T0);
    expect([...session.state.owed.keys()]).toEqual(["waits"]);
    expect(decideWake(session.state, T0).kind).toBe("start");
  });

  it("is not owed by an item that asks for none", () => {
    const session = started().commit(items(notification("n", { wake: false })), T0);
    expect(decideWake(session.state, T0)).toEqual({ kind: "none" });
    expect(session.state.pending.has("n")).toBe(true);
  });

  verifies(["N12"], "is held while a turn is paused", () => {
    const session = started().commit(input("i"), T0).commit(turnStarted(1), T0).commit({ type: "turn_paused", turn: 1 }, T0);
    expect(decideWake(session.state, T0)).toEqual({ kind: "none" });
    session.commit(items(notification("n")), T0);
    expect(decideWake(session.state, T0 + 1e9)).toEqual({ kind: "held", held: { reason: "paused" } });
    session.commit({ type: "turn_resumed", turn: 1 }, T0).request();
    expect(session.state.owed.get("n")).toBe("taken");
  });
});

describe("after failed turns", () => {
  verifies(["N6"], "the wait doubles from a minute to an hour", () => {
    const session = started().commit(items(notification("n")), T0);
    const waits: number[] = [];
    for (let failures = 1; failures <= 9; failures++) {
      failTurn(session, T0);
      const decision = decideWake(session.state, T0);
      if (decision.kind !== "held" || decision.held.reason !== "after_failure") throw new Error(`${failures}: ${decision.kind}`);
      waits.push((decision.held.until - T0) / FAILURE_WAIT_MS);
      expect(decideWake(session.state, decision.held.until - 1).kind).toBe("held");
      expect(decideWake(session.state, decision.held.until)).toEqual({ kind: "start", trigger: "notification" });
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
    expect(MAX_FAILURE_WAIT_MS).toBe(60 * FAILURE_WAIT_MS);
  });

  verifies(["N6"], "what the provider asks for is waited instead", () => {
    const session = failTurn(started().commit(items(notification("n")), T0), T0, 7000);
    expect(decideWake(session.state, T0)).toEqual({ kind: "held", held: { reason: "after_failure", until: T0 + 7000 } });
  });

  it("a turn that ends well clears the wait, an interrupted one does not", () => {
    const session = failTurn(started().commit(items(notification("n")), T0), T0);
    session.commit(turnStarted(2), T0).commit(turnEnded(2, "interrupted"), T0);
    expect(decideWake(session.state, T0).kind).toBe("held");
    session.commit(turnStarted(3), T0).commit(turnEnded(3), T0);
    expect(decideWake(session.state, T0).kind).toBe("start");
  });

  it("a clock that was set back does not stretch the wait", () => {
    const session = failTurn(started().commit(items(notification("n")), T0), T0);
    const day = 24 * 3600 * 1000;
    expect(decideWake(session.state, T0 - day)).toEqual({
      kind: "held",
      held: { reason: "after_failure", until: T0 - day + FAILURE_WAIT_MS },
    });
  });

  verifies(
    ["N6", "N6-restore"],
    "an input that waits starts a turn at once, but none that waited already when the session was restored",
    () => {
      const session = failTurn(started().commit(items(notification("n")), T0), T0).commit(input("i"), T0);
      expect(decideWake(session.state, T0)).toEqual({ kind: "start", trigger: "user" });
      expect(decideWake(session.state, T0, session.state.lastSeq).kind).toBe("held");
      session.commit(input("later"), T0);
      expect(decideWake(session.state, T0, session.state.lastSeq - 1)).toEqual({ kind: "start", trigger: "user" });
    },
  );
});

describe("the bucket of automatic turns", () => {
  /** Spends `count` automatic turns at `ts`. */
  const spend = (session: MemorySession, count: number, ts: number) => {
    for (let n = 0; n < count; n++) {
      const turn = session.state.turns + 1;
      session
        .commit(turnStarted(turn, "notification"), ts)
        .request()
        .commit(answer(says("ok")), ts)
        .commit(turnEnded(turn), ts);
    }
  };

  verifies(["N11"], "holds 50, gets one back every two minutes, and says when to look again", () => {
    const session = started();
    spend(session, WAKE_BUCKET_SIZE, T0);
    session.commit(items(notification("n")), T0);
    expect(bucketAt(session.state, T0)).toBe(0);
    expect(decideWake(session.state, T0)).toEqual({ kind: "held", held: { reason: "bucket_empty", until: T0 + WAKE_REFILL_MS } });
    const half = T0 + WAKE_REFILL_MS / 2;
    expect(decideWake(session.state, half)).toEqual({
      kind: "held",
      held: { reason: "bucket_empty", until: T0 + WAKE_REFILL_MS },
    });
    expect(decideWake(session.state, T0 + WAKE_REFILL_MS)).toEqual({ kind: "start", trigger: "notification" });
    expect(bucketAt(session.state, T0 + 1000 * WAKE_REFILL_MS)).toBe(WAKE_BUCKET_SIZE);
    expect(WAKE_BUCKET_SIZE).toBe(50);
    expect(WAKE_REFILL_MS).toBe(120_000);
  });

  verifies(["N11"], "is filled by a human's input and by resume, not by a pod's", () => {
    for (const [fill, full] of [
      [(session: MemorySession) => session.commit(input("i"), T0), true],
      [(session: MemorySession) => session.commit(turnStarted(session.state.turns + 1, "resume"), T0), true],
      [(session: MemorySession) => session.commit({ ...input("i"), origin: { by: "pod", name: "other" } }, T0), false],
      [(session: MemorySession) => session.commit(items(notification("n")), T0), false],
    ] as const) {
      const session = started();
      spend(session, 10, T0);
      fill(session);
      expect(bucketAt(session.state, T0)).toBe(full ? WAKE_BUCKET_SIZE : WAKE_BUCKET_SIZE - 10);
    }
  });

  it("gives nothing for a clock that was set back", () => {
    const session = started();
    spend(session, 10, T0);
    expect(bucketAt(session.state, T0 - 1e12)).toBe(WAKE_BUCKET_SIZE - 10);
  });
});
