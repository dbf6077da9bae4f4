import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { type Cursor, compareCursors } from "../protocol/cursor.ts";
import { type CommittedEvent, cursorOf } from "../protocol/event.ts";
import { SNAPSHOT_MAX_BYTES, SNAPSHOT_MAX_EVENTS } from "../protocol/limits.ts";
import { continuationOf } from "../session-log/carried.ts";
import { type NewEntry, readEntry } from "../session-log/entry.ts";
import { listFiles } from "../session-log/file-names.ts";
import { applyEntry } from "../session-log/fold.ts";
import { LogFile } from "../session-log/log-file.ts";
import { emptyState, type SessionState } from "../session-log/session-state.ts";
import { toEvents } from "../session-log/to-events.ts";
import { eventsBefore, headCursor, newestEvents, olderPendingEvents, readOutput } from "./snapshot.ts";

const USAGE = { input: 0, output: 0, cache_read: 0, cache_write: 0 };

/**
 * A log of answers: one entry each, with as many texts as the list says, each of that many characters. Behind each entry for which
 * `rotatesAfter` says so (by its index), a new file begins.
 */
function logOf(
  entries: readonly (readonly number[])[],
  rotatesAfter: (index: number) => boolean = () => false,
): LogFile & Disposable {
  const directory = mkdtempSync(join(tmpdir(), "wakeful-snapshot-"));
  const log = LogFile.create(join(directory, "s"));
  let name = 0;
  for (const [index, texts] of entries.entries()) {
    const items = texts.map((length) => ({
      kind: "message" as const,
      role: "assistant" as const,
      content: [{ kind: "text" as const, text: `${name++}:`.padEnd(length, "x") }],
    }));
    const entry: NewEntry = { type: "assistant_items", items, usage: USAGE, stop: "end" };
    log.append([entry], 1);
    if (rotatesAfter(index)) log.rotate(continuationOf(emptyState(), log.head), 1);
  }
  const dispose = log[Symbol.dispose].bind(log);
  log[Symbol.dispose] = () => {
    dispose();
    rmSync(directory, { recursive: true, force: true });
  };
  return log;
}

function eventsOf(log: LogFile): CommittedEvent[] {
  return log.read(1, log.head.seq).flatMap(toEvents);
}

describe("the newest part of a log", () => {
  it("is bounded by count, and tells that there is more", () => {
    using log = logOf(Array.from({ length: 400 }, () => [3]));
    const all = eventsOf(log);
    const { events, more } = newestEvents(log, undefined);
    expect(events).toEqual(all.slice(-SNAPSHOT_MAX_EVENTS));
    expect(more).toBe(true);
    expect(headCursor(log)).toEqual({ seq: 400, index: 1 });
  });

  it("is bounded by bytes, but one event always fits", () => {
    using log = logOf([[10], [400_000], [400_000], [400_000]]);
    const { events, more } = newestEvents(log, undefined);
    expect(JSON.stringify(events).length).toBeLessThan(SNAPSHOT_MAX_BYTES + 1000);
    expect(more).toBe(true);
    using one = logOf([[10], [3 * SNAPSHOT_MAX_BYTES]]);
    const answered = newestEvents(one, { seq: 2, index: 0 });
    expect(answered).toEqual({ events: [expect.objectContaining({ type: "request_ended" })], more: false });
    expect(newestEvents(one, { seq: 1, index: 1 }).events.length).toBeGreaterThan(0);
  });

  it("behind a place is exactly what stands behind it, for every place", () => {
    using log = logOf([[3, 3, 3], [3], [], [3, 3]]);
    const all = eventsOf(log);
    for (const event of all) {
      const since = cursorOf(event);
      const expected = all.filter((other) => compareCursors(cursorOf(other), since) > 0);
      expect(newestEvents(log, since)).toEqual({ events: expected, more: false });
    }
    expect(newestEvents(log, { seq: 99, index: 0 }).events).toEqual(all);
    expect(newestEvents(log, { seq: 0, index: 0 }).events).toEqual(all);
  });
});

describe("paging backwards", () => {
  it("from any place with any page size meets every older event once, in order", () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.constant(4), { maxLength: 4 }), { minLength: 1, maxLength: 150 }),
        fc.integer({ min: 1, max: 20 }),
        fc.nat(),
        fc.infiniteStream(fc.nat(4)),
        (shape, limit, pick, rotates) => {
          using log = logOf(shape, () => rotates.next().value === 0);
          const all = eventsOf(log);
          const start = cursorOf(all[pick % all.length] ?? { seq: 1, index: 0 });
          let before: Cursor = start;
          let known: CommittedEvent[] = [];
          for (let more = true; more; ) {
            const page = eventsBefore(log, { before, limit });
            expect(page.events.length).toBeLessThanOrEqual(limit);
            if (page.more) expect(page.events.length).toBeGreaterThan(0);
            known = [...page.events, ...known];
            more = page.more;
            const [first] = page.events;
            if (first) before = cursorOf(first);
          }
          expect(known).toEqual(all.filter((event) => compareCursors(cursorOf(event), start) < 0));
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe("a log of several files", () => {
  const shape = [[3, 3], [3], [], [3, 3, 3], [3]];

  verifies(["L8-rotation", "S7"], "looks the same to clients as one of one file, from every place on", () => {
    using plain = logOf(shape);
    using rotated = logOf(shape, () => true);
    const bare = (events: readonly CommittedEvent[]) => events.map(({ seq: _, ...event }) => event);
    const all = eventsOf(rotated);
    expect(bare(all)).toEqual(bare(eventsOf(plain)));
    // The newest entry is the one a file begins with, and no event.
    expect(headCursor(rotated)).toEqual({ seq: rotated.head.seq - 1, index: 1 });
    expect(newestEvents(rotated, undefined)).toEqual({ events: all, more: false });
    for (const [index, event] of all.entries()) {
      expect(newestEvents(rotated, cursorOf(event))).toEqual({ events: all.slice(index + 1), more: false });
    }
    expect(newestEvents(rotated, { seq: rotated.head.seq, index: 0 })).toEqual({ events: [], more: false });
    expect(readOutput(rotated, { max_chars: 1000 }).text).toBe(readOutput(plain, { max_chars: 1000 }).text);
  });

  verifies(
    ["L8-rotation"],
    "of which an older one is gone shows what there is, and says which is missing to whoever wants more",
    () => {
      using log = logOf(shape, (index) => index === 0 || index === 2);
      const all = eventsOf(log);
      const { path: missing } = listFiles(dirname(log.file))[1] ?? { path: "" };
      rmSync(missing);
      const opened = LogFile.open(dirname(log.file), () => undefined);
      using _opened = opened;
      const shown = all.filter((event) => event.seq > 5);
      expect(newestEvents(opened, undefined)).toEqual({ events: shown, more: true });
      expect(newestEvents(opened, { seq: 1, index: 0 })).toEqual({ events: shown, more: true });
      expect(eventsBefore(opened, { before: headCursor(opened), limit: 100 })).toEqual({
        events: shown.slice(0, -1),
        more: true,
      });
      const [first] = shown;
      expect(() => eventsBefore(opened, { before: cursorOf(first ?? { seq: 0, index: 0 }), limit: 100 })).toThrow(
        `${missing} is missing`,
      );
      const output = readOutput(opened, { max_chars: 1000 }).text;
      expect(output).toMatch(/^\[earlier output cannot be read[^\n]*\]\n\n3:/);
    },
  );

  it("shows what is pending from the state, wherever its entry is", () => {
    const state: SessionState = emptyState();
    const input = {
      type: "user_input",
      id: "i",
      segments: [{ kind: "text", text: "hi" }],
      waits_for: "turn",
      origin: { by: "client" },
    };
    const chain = { id: "c", hops: 0 };
    const entry = readEntry({ ...input, chain, seq: 7, ts: 3 });
    if (!entry.ok) throw new Error(entry.problem);
    applyEntry(state, entry.entry);
    expect(olderPendingEvents(state, 8)).toEqual(toEvents(entry.entry));
    expect(olderPendingEvents(state, 7)).toEqual([]);
    const item = {
      kind: "reminder" as const,
      payload: { topic: "t", text: "x" },
      body: "x",
      trust: "operator" as const,
      wake: false,
    };
    const items = ["a", "b"].map((id) => ({ ...item, id, origin: { by: "process" as const }, chain }));
    const both = { type: "system_items" as const, items, seq: 9, ts: 4 };
    applyEntry(state, both);
    expect(olderPendingEvents(state, 10).slice(1)).toEqual(toEvents(both));
  });
});

describe("output", () => {
  it("is the newest that fits, and says what was left out", () => {
    using log = logOf([[10], [10, 10], [10]]);
    expect(readOutput(log, { max_chars: 1000 }).text.split("\n\n")).toHaveLength(4);
    const cut = readOutput(log, { max_chars: 25 });
    expect(cut.text).toBe("[earlier output left out; read it with history]\n\n2:xxxxxxxx\n\n3:xxxxxxxx");
    expect(cut.cursor).toEqual({ seq: 3, index: 1 });
    expect(readOutput(log, { max_chars: 4 }).text).toBe("[6 characters left out]\nxxxx");
  });

  it("from a place on comes once, page by page, to the end", () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.integer({ min: 4, max: 30 }), { maxLength: 3 }), { minLength: 1, maxLength: 90 }),
        fc.integer({ min: 1, max: 60 }),
        fc.infiniteStream(fc.nat(4)),
        (shape, maxChars, rotates) => {
          using log = logOf(shape, () => rotates.next().value === 0);
          const seen: string[] = [];
          let since: Cursor = { seq: 0, index: 0 };
          for (let pages = 0; pages < 500; pages++) {
            const page = readOutput(log, { since, max_chars: maxChars });
            if (page.text !== "") seen.push(...page.text.split("\n\n"));
            if (compareCursors(page.cursor, since) <= 0) break;
            since = page.cursor;
          }
          expect(seen).toHaveLength(shape.flat().length);
          expect(since).toEqual(headCursor(log));
        },
      ),
      { numRuns: 40 },
    );
  });
});
