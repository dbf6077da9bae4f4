import { readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { continuationOf, fromCarried, toCarried } from "./carried.ts";
import type { LogEntry, NewEntry } from "./entry.ts";
import { listFiles } from "./file-names.ts";
import { applyEntry, checkEntry } from "./fold.ts";
import { LogFile } from "./log-file.ts";
import { scanLines } from "./log-scan.ts";
import { chooseTake, promptDigestWith } from "./pending.ts";
import { type Answered, emptyState, type SessionState } from "./session-state.ts";
import {
  answer,
  call,
  DiskSession,
  input,
  items,
  linesOf,
  MemorySession,
  notification,
  RandomSession,
  replayAll,
  replayNewest,
  request,
  result,
  STARTED,
  says,
  testSession,
  turnEnded,
  turnStarted,
} from "./test-support.ts";
import { toEvents } from "./to-events.ts";
import { verify } from "./verify.ts";
import { walkNewest, walkSession } from "./walk-session.ts";

/** A session that is rotated, and the same one that never is: fed the same entries. Their places differ, and nothing else may. */
class Twins implements Disposable {
  readonly rotated: DiskSession;
  readonly plain = new MemorySession().commit(STARTED, 1_000_000);
  /** Place in the plain one, by place in the rotated one. */
  readonly #places = new Map([
    [0, 0],
    [1, 1],
  ]);

  constructor(directory: string) {
    this.rotated = new DiskSession(directory);
  }

  commit(entry: NewEntry): void {
    const ts = 1_000_000 + this.rotated.state.lastSeq;
    this.rotated.commit(entry);
    const through = entry.type === "llm_request" ? { through: this.place(entry.through) } : {};
    this.plain.commit({ ...entry, ...through }, ts);
    this.#places.set(this.rotated.state.lastSeq, this.plain.state.lastSeq);
  }

  rotate(): void {
    this.rotated.rotate();
    this.#places.set(this.rotated.state.lastSeq, this.plain.state.lastSeq);
  }

  place(seq: number): number {
    return this.#places.get(seq) ?? Number.NaN;
  }

  /** The rotated state with the places of the plain one. */
  normalised(state: SessionState): SessionState {
    const { pending, answered } = state;
    return {
      ...state,
      lastSeq: this.place(state.lastSeq),
      lastTurnStartSeq: this.place(state.lastTurnStartSeq),
      pending: new Map([...pending].map(([id, one]) => [id, { ...one, seq: this.place(one.seq) }])),
      answered: new Map(
        [...answered].map(([id, one]): [string, Answered] => {
          const seq = this.place(one.result.seq);
          if (one.kind === "notify") return [id, { ...one, result: { ...one.result, seq } }];
          return [id, { ...one, result: { ...one.result, seq } }];
        }),
      ),
    };
  }

  [Symbol.dispose](): void {
    this.rotated[Symbol.dispose]();
  }
}

function entriesOf(directory: string): LogEntry[] {
  const entries: LogEntry[] = [];
  scanLines(walkSession(directory), ({ entry }) => {
    entries.push(entry);
    return undefined;
  });
  return entries;
}

describe("a rotation", () => {
  verifies(
    ["L8-rotation", "I4", "L5", "I11"],
    "at any place of any legal session changes nothing: not the state, not a request, not what clients see, live and restored alike",
    () => {
      let rotations = 0;
      const met = new Set<string>();
      fc.assert(
        fc.property(fc.infiniteStream(fc.nat(1_000_000)), fc.integer({ min: 5, max: 40 }), (numbers, steps) => {
          using folder = testSession();
          using twins = new Twins(folder.directory);
          const { state } = twins.rotated;
          const random = new RandomSession();
          const choose = (options: number) => (numbers.next().value ?? 0) % options;
          for (let step = 0; step < steps; step++) {
            for (const entry of random.next(state, choose)) {
              twins.commit(entry);
              if (choose(4) > 0) continue;
              const before = { ...structuredClone({ ...state, lastSeq: 0 }) };
              twins.rotate();
              rotations += 1;
              expect(isDeepStrictEqual({ ...state, lastSeq: 0 }, before)).toBe(true);
              for (const [what, is] of Object.entries({
                turn: state.turn?.phase === "running",
                paused: state.turn?.phase === "paused",
                batch: state.batch !== undefined,
                partOfBatch: [...(state.batch?.calls.values() ?? [])].some((one) => one.result),
                request: state.requestOpen,
                pending: state.pending.size > 0,
                owed: state.owed.size > 0,
                answered: state.answered.size > 0,
                failed: state.failures > 0,
                closed: state.closed !== undefined,
              })) {
                if (is) met.add(what);
              }
            }
            expect(isDeepStrictEqual(replayNewest(folder.directory), state)).toBe(true); // I4
            expect(isDeepStrictEqual(twins.normalised(state), twins.plain.state)).toBe(true);
            const take = chooseTake(state, 60);
            expect(take).toEqual(chooseTake(twins.plain.state, 60));
            expect(promptDigestWith(state, take)).toBe(promptDigestWith(twins.plain.state, take));
          }
          expect(isDeepStrictEqual(replayAll(folder.directory), state)).toBe(true);
          const seen = entriesOf(folder.directory).flatMap(toEvents);
          expect(seen.map((event) => ({ ...event, seq: twins.place(event.seq) }))).toEqual(twins.plain.entries.flatMap(toEvents));
        }),
        { numRuns: 40 },
      );
      expect(rotations).toBeGreaterThan(50);
      expect([...met].sort()).toEqual([
        ...["answered", "batch", "closed", "failed", "owed", "partOfBatch", "paused", "pending", "request", "turn"],
      ]);
    },
    { timeoutMs: 120_000 },
  );

  verifies(
    ["L8-rotation", "L8", "I1"],
    "happens 0, 1, 10 or 100 times, and the restored session makes the same next request, byte for byte",
    () => {
      const bodies: string[] = [];
      for (const rotations of [0, 1, 10, 100]) {
        using folder = testSession();
        {
          using disk = new DiskSession(folder.directory);
          for (let turn = 1; turn <= 12; turn++) {
            disk.turn();
            for (let n = 0; n < Math.ceil(rotations / 12) && listFiles(folder.directory).length <= rotations; n++) disk.rotate();
          }
          disk.commit(input("next", { text: "and now?" }), items(notification("late", { for: "next" })), turnStarted(13));
        }
        expect(listFiles(folder.directory)).toHaveLength(rotations + 1);
        const state = emptyState();
        using log = LogFile.open(folder.directory, (entry) => {
          const objection = checkEntry(state, entry);
          if (objection === undefined) applyEntry(state, entry);
          return objection;
        });
        const take = chooseTake(state, 1_000_000);
        const { prompt_digest: promptDigest, n, takes } = request(state, { take });
        const body = JSON.stringify({
          system: state.system,
          tools: state.tools,
          items: state.items,
          take,
          n,
          takes,
          promptDigest,
        });
        bodies.push(body);
        expect(body).toContain("output of call_1");
        expect(log.head.seq).toBe(1 + 12 * 9 + 3 + rotations);
      }
      expect(new Set(bodies).size).toBe(1);
    },
    { timeoutMs: 60_000 },
  );

  it("is wanted only of a file over its size and over three times the state it began with", () => {
    using folder = testSession();
    using disk = new DiskSession(folder.directory);
    const { log } = disk;
    log.rotateBytes = 20_000;
    const sizes: number[] = [];
    for (let turn = 1; turn <= 400; turn++) {
      disk.turn();
      if (!log.wantsRotation) continue;
      const { size } = log;
      disk.rotate();
      expect(log.wantsRotation).toBe(false);
      sizes.push(size / statSync(log.file).size);
    }
    // The state only grows here, so each file is longer than the one before, and no more is written again than half of what is new.
    const all = listFiles(folder.directory).map((file) => statSync(file.path).size);
    expect(all.length).toBeGreaterThan(3);
    expect(all.slice(0, -1).every((size) => size > 20_000)).toBe(true);
    const states = listFiles(folder.directory).map((file) => linesOf(file.path)[0]?.length ?? 0);
    for (const [index, size] of all.slice(0, -1).entries()) expect(size).toBeGreaterThan(3 * (states[index] ?? 0));
    expect(states.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(all.reduce((sum, bytes) => sum + bytes, 0) / 2);
  });

  it("carries legacy items, in the middle of a batch too, as they are (S10)", () => {
    const state = emptyState();
    const apply = (entry: NewEntry) => applyEntry(state, { seq: state.lastSeq + 1, ts: 1, ...structuredClone(entry) });
    for (const entry of [STARTED, input("i"), turnStarted(1)]) apply(entry);
    apply(request(state));
    apply(answer(says("x"), call("a"), call("b")));
    apply(result("b"));
    applyEntry(state, { seq: state.lastSeq + 1, ts: 1, type: "hook_injected_items", items: [notification("old")] });
    const start = { ...continuationOf(state, { seq: state.lastSeq, hash: "0".repeat(64) }), seq: state.lastSeq + 1, ts: 2 };
    const restored = emptyState();
    applyEntry(restored, JSON.parse(JSON.stringify(start)));
    applyEntry(state, start);
    expect(isDeepStrictEqual(restored, state)).toBe(true);
    expect(state.batch?.after).toHaveLength(1);
    expect([...restored.callIds]).toEqual(["a", "b"]);
    expect(toCarried(restored)).toEqual(toCarried(state));
    expect(fromCarried(toCarried(state)).batch).toEqual(state.batch);
  });

  it("may continue only the very place it stands behind, with the very state", () => {
    const session = new MemorySession().commit(STARTED).commit(input("i")).commit(turnStarted(1));
    const { state } = session;
    const good = continuationOf(state, { seq: state.lastSeq, hash: "0".repeat(64) });
    const place = { seq: state.lastSeq + 1, ts: 1 };
    expect(checkEntry(state, { ...good, ...place })).toBeUndefined();
    expect(checkEntry(state, { ...good, ...place, continues: { seq: 2, hash: "0".repeat(64) } })).toContain("continues entry 2");
    const { carried } = good;
    if (!carried) throw new Error("it carries nothing");
    const wrong: [object, string][] = [
      [{ carried: { ...carried, turns: 7 } }, "turns"],
      [{ carried: { ...carried, pending: [] } }, "pending"],
      [{ system: "You are somebody else." }, "system"],
      [{ history: [{ kind: "message", role: "assistant", content: [{ kind: "text", text: "forged" }] }] }, "promptDigest"],
      [{ pod: "other" }, "pod"],
    ];
    for (const [change, what] of wrong) expect(checkEntry(state, { ...good, ...place, ...change })).toContain(`(${what})`);
  });
});

describe("a restore", () => {
  verifies(
    ["L8-rotation", "L9"],
    "reads the newest file only: whatever became of the older ones, the session goes on, and verify names what is wrong",
    async () => {
      const harms: [string, (first: string, second: string) => void, object][] = [
        ["damaged", (first) => writeFileSync(first, "rubbish\n"), { problem: "not_a_line", line: 1 }],
        ["missing", (_, second) => rmSync(second), { problem: "missing" }],
        ["the first missing", (first) => rmSync(first), { problem: "missing" }],
        [
          "shorter",
          (_, second) => writeFileSync(second, `${linesOf(second).slice(0, -1).join("\n")}\n`),
          { problem: "bad_prev" },
        ],
        ["torn", (_, second) => writeFileSync(second, linesOf(second).join("\n")), { problem: "not_a_line" }],
      ];
      for (const [name, harm, problem] of harms) {
        using folder = testSession();
        let state: SessionState;
        {
          using disk = new DiskSession(folder.directory);
          disk.turn().rotate().turn().rotate().turn();
          state = disk.state;
        }
        const [first, second] = listFiles(folder.directory).map((file) => file.path);
        harm(first ?? "", second ?? "");
        const restored = emptyState();
        using log = LogFile.open(folder.directory, (entry) => {
          applyEntry(restored, entry);
          return undefined;
        });
        expect(isDeepStrictEqual(restored, state), name).toBe(true);
        for (const entry of log.append([{ type: "closed", reason: "x" }], 5)) applyEntry(restored, entry);
        const report = await verify(folder.directory);
        expect(report, name).toMatchObject({ ok: false, first_bad: problem });
        expect([first, second, log.file]).toContain(report.first_bad?.file);
      }
    },
  );

  verifies(["L8-rotation"], "costs what the newest file holds, however much is behind it", () => {
    using folder = testSession();
    {
      using disk = new DiskSession(folder.directory);
      for (let n = 0; n < 20; n++) {
        disk.commit(
          ...Array.from({ length: 50 }, (_, i) => items(notification(`n${n}_${i}`, { wake: false, text: "x".repeat(2000) }))),
        );
        disk.commit(turnStarted(disk.state.turns + 1));
        disk.commit(request(disk.state)).commit(answer(says("ok")), turnEnded(disk.state.turns));
      }
      disk.rotate();
    }
    let lines = 0;
    const end = scanLines(walkNewest(folder.directory), () => {
      lines += 1;
      return undefined;
    });
    expect(lines).toBe(1);
    expect(end.size).toBe(statSync(listFiles(folder.directory).at(-1)?.path ?? "").size);
    // And a restore that writes nothing makes no new file.
    for (let n = 0; n < 3; n++) {
      using _log = LogFile.open(folder.directory, () => undefined);
    }
    expect(readdirSync(folder.directory).sort()).toEqual(["000001.jsonl", "000002.jsonl"]);
    expect(join(folder.directory, "000002.jsonl")).toBe(listFiles(folder.directory).at(-1)?.path);
  });
});
