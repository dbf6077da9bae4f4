import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import type { LogEntry, NewEntry } from "./entry.ts";
import { applyEntry } from "./fold.ts";
import type { LoggedItem } from "./logged-item.ts";
import { chooseTake } from "./pending.ts";
import type { SessionState } from "./session-state.ts";
import {
  answer,
  call,
  DiskSession,
  input,
  items,
  MemorySession,
  notification,
  RandomSession,
  replay,
  request,
  result,
  STARTED,
  says,
  testSession,
  turnEnded,
  turnStarted,
} from "./test-support.ts";

function idOf(item: LoggedItem): string | undefined {
  return item.kind === "user" ? item.id : item.kind === "system" ? item.item.id : undefined;
}

/** F2: the results of an answer's calls stand directly behind it, in the order of the calls. */
function callsAreAnswered(state: SessionState): boolean {
  const { history } = state;
  const open = new Set(state.batch?.calls.keys() ?? []);
  for (let at = 0; at < history.length; at++) {
    const item = history[at];
    if (item?.kind !== "tool_call" || history[at - 1]?.kind === "tool_call") continue;
    const calls: string[] = [];
    let next = at;
    for (let one = history[next]; one?.kind === "tool_call"; one = history[++next]) calls.push(one.call_id);
    if (calls.every((id) => open.has(id))) continue; // Results join when all are there.
    const results = history.slice(next, next + calls.length).map((one) => (one.kind === "tool_result" ? one.call_id : undefined));
    if (!isDeepStrictEqual(results, calls)) return false;
  }
  return true;
}

describe("the fold", () => {
  verifies(
    ["I4", "L8", "L5", "I11", "N8", "I5"],
    "of any legal session is the same live and replayed, loses no item, repeats none, and lets each request extend the one before",
    () => {
      let requests = 0;
      let batches = 0;
      fc.assert(
        fc.property(fc.infiniteStream(fc.nat(1_000_000)), fc.integer({ min: 5, max: 45 }), (numbers, steps) => {
          using folder = testSession();
          using disk = new DiskSession(folder.directory);
          const { state } = disk;
          const random = new RandomSession();
          const choose = (options: number) => (numbers.next().value ?? 0) % options;
          let shown: readonly LoggedItem[] = [];
          for (let step = 0; step < steps; step++) {
            for (const entry of random.next(state, choose)) {
              disk.commit(entry);
              if (entry.type === "llm_request") {
                requests += 1;
                expect(state.promptDigest).toBe(entry.prompt_digest);
                expect(state.history.slice(0, shown.length)).toEqual(shown); // I11
                shown = [...state.history];
              }
              if (entry.type === "tool_results" && state.batch === undefined) batches += 1;
            }
            expect(isDeepStrictEqual(replay(folder.file), state)).toBe(true); // I4
            const inHistory = state.history.map(idOf).filter((id) => id !== undefined);
            expect(new Set(inHistory).size).toBe(inHistory.length); // N8: never twice
            expect(new Set([...inHistory, ...state.pending.keys()])).toEqual(random.accepted); // N8: never lost
            expect(inHistory.some((id) => state.pending.has(id))).toBe(false);
            expect(callsAreAnswered(state)).toBe(true); // F2
            expect(state.items.length).toBe(state.history.length);
          }
        }),
        { numRuns: 80 },
      );
      expect(requests).toBeGreaterThan(50);
      expect(batches).toBeGreaterThan(20);
    },
    { timeoutMs: 60_000 },
  );

  verifies(
    ["N4", "N5", "S4"],
    "moves exactly what a request takes to the end of the history, in order, each as an item of its own",
    () => {
      const session = new MemorySession()
        .commit(STARTED)
        .commit(items(notification("a"), notification("b")))
        .commit(items(notification("c")));
      session.commit(turnStarted(1, "notification")).request();
      expect(session.state.history.map(idOf)).toEqual(["a", "b", "c"]);
      expect(session.state.history[0]).toEqual({ kind: "system", item: notification("a") });
      expect(session.state.pending.size).toBe(0);
    },
  );

  verifies(["N3", "N8", "I1"], "keeps pending what came between building a request and recording it", () => {
    const session = new MemorySession()
      .commit(STARTED)
      .commit(items(notification("early")))
      .commit(turnStarted(1));
    const built = request(session.state);
    session.commit(items(notification("late"))).commit(built);
    expect(session.state.history.map(idOf)).toEqual(["early"]);
    expect([...session.state.pending.keys()]).toEqual(["late"]);
    expect(session.state.promptDigest).toBe(built.prompt_digest);
  });

  verifies(
    ["I5", "N3"],
    "lays results behind their calls in the order of the calls, and what was injected meanwhile behind them",
    () => {
      const session = new MemorySession().commit(STARTED).commit(input("i")).commit(turnStarted(1)).request();
      session.commit(answer(call("one"), call("two"), call("three")));
      expect(() => session.request()).toThrow("before every call has its result");
      expect(() => session.commit(turnEnded(1))).toThrow("a call has no result yet");
      const legacy: LogEntry = {
        seq: session.state.lastSeq + 1,
        ts: 0,
        type: "hook_injected_items",
        items: [notification("old")],
      };
      applyEntry(session.state, legacy);
      session
        .commit(result("three"))
        .commit(items(notification("n")))
        .commit(result("one"));
      expect(session.state.history.some((item) => item.kind === "tool_result")).toBe(false);
      session.commit(result("two")).request();
      const tail = session.state.history.slice(-5).map((item) => (item.kind === "tool_result" ? item.call_id : idOf(item)));
      expect(tail).toEqual(["one", "two", "three", "old", "n"]);
    },
  );

  it("lets an input that waits for a turn enter with the next turn, and one that steers with the next request", () => {
    const session = new MemorySession().commit(STARTED).commit(input("first")).commit(turnStarted(1)).request();
    session
      .commit(input("queued"))
      .commit(input("steer", { waitsFor: "request" }))
      .commit(items(notification("with_queued", { for: "queued" })));
    session.request();
    expect([...session.state.pending.keys()]).toEqual(["queued", "with_queued"]);
    session
      .commit(answer(says("done")))
      .commit(turnEnded(1))
      .commit(turnStarted(2))
      .request();
    expect(session.state.history.map(idOf).filter(Boolean)).toEqual(["first", "steer", "queued", "with_queued"]);
  });

  it("takes no more than the cap, at least one, and the rest next time", () => {
    const session = new MemorySession().commit(STARTED);
    for (const id of ["a", "b", "c"]) session.commit(items(notification(id, { text: "x".repeat(100) })));
    session.commit(turnStarted(1));
    expect(chooseTake(session.state, 1).ids).toEqual(["a"]);
    expect(chooseTake(session.state, 260).ids).toEqual(["a", "b"]);
    session.commit(request(session.state, { take: chooseTake(session.state, 1) }));
    expect(chooseTake(session.state, 1).ids).toEqual(["b"]);
  });

  verifies(["S4"], "shows the model the text that was rendered when the item was made, whatever the template is now", () => {
    const item = { ...notification("n"), body: "rendered long ago" };
    const session = new MemorySession().commit(STARTED).commit(items(item)).commit(turnStarted(1, "notification")).request();
    expect(session.state.items.at(-1)).toEqual({ kind: "system", item });
  });

  it("refuses what may not stand there", () => {
    const fresh = () => new MemorySession();
    const started = () => fresh().commit(STARTED);
    const running = () => started().commit(input("i")).commit(turnStarted(1));
    const cases: [() => MemorySession, NewEntry, string][] = [
      [fresh, turnStarted(1), "the first entry is not session_started"],
      [started, STARTED, "a session starts only once"],
      [started, turnStarted(2), "turn 2 follows turn 0"],
      [running, turnStarted(2), "turn 1 is still open"],
      [started, turnEnded(1), "turn 1 is not open"],
      [started, { type: "turn_paused", turn: 1 }, "turn 1 is not open"],
      [started, answer(says("hi")), "an answer without a request"],
      [started, { type: "tool_started", call_id: "c" }, "call c is not open"],
      [started, result("c"), "a result without an open call"],
      [running, input("i"), "id i is taken"],
      [() => started().commit(items(notification("n"))), items(notification("n")), "an item's id is taken"],
      [running, { ...request(running().state), n: 7 }, "request 7 follows request 0"],
      [running, { ...request(running().state), takes: ["nobody"] }, "it takes what is not pending"],
      [() => running().commit({ type: "turn_paused", turn: 1 }), request(running().state), "a request outside a running turn"],
    ];
    for (const [session, entry, message] of cases) expect(() => session().commit(entry), message).toThrow(message);
  });

  it("answers a repeated submission or notify id as the first time, and forgets only the oldest", () => {
    const session = new MemorySession()
      .commit(STARTED)
      .commit(input("i", { submission: "sub_1" }))
      .commit(turnStarted(1))
      .commit(input("j", { submission: "sub_2" }));
    session.commit({ ...items(notification("n")), answers: { id: "ci-1", state: "next_request" } });
    const { answered } = session.state;
    expect(answered.get("sub_1")).toEqual({ kind: "run", result: { turn: 1, seq: 2 } });
    expect(answered.get("sub_2")).toEqual({ kind: "run", result: { queued: true, seq: 4 } });
    expect(answered.get("ci-1")).toEqual({ kind: "notify", result: { item: "n", seq: 5, state: "next_request" } });
    for (let n = 0; n < 999; n++) session.commit(input(`more_${n}`, { submission: `more_${n}` }));
    expect(answered.size).toBe(1000);
    expect([answered.has("sub_1"), answered.has("sub_2"), answered.has("ci-1")]).toEqual([false, false, true]);
  });
});
