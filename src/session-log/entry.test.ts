import { writeFileSync } from "node:fs";
import { describe, expect } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { NewEntry, readEntry } from "./entry.ts";
import { chainOf, input, replay, STARTED, testSession, turnStarted, writeLines } from "./test-support.ts";
import { verify } from "./verify.ts";

const LEGACY = {
  type: "hook_injected_items",
  items: [
    {
      role: "system",
      content: [
        { type: "text", text: "first" },
        { type: "text", text: "second" },
      ],
    },
    "just text",
    { body: "a body" },
    { content: { message: "deep" } },
    42,
  ],
};

describe("an entry of the former tag hook_injected_items", () => {
  verifies(["S10"], "is read as items of kind legacy that keep all text, never the operator's word, and owe no wake", () => {
    const read = readEntry({ seq: 7, ts: 5, ...LEGACY });
    if (!read.ok || read.entry.type !== "hook_injected_items") throw new Error("not read");
    const { items } = read.entry;
    expect(items.map((item) => item.body)).toEqual(["first\nsecond", "just text", "a body", "deep", ""]);
    expect(new Set(items.map((item) => item.id)).size).toBe(5);
    for (const item of items)
      expect(item).toMatchObject({ kind: "legacy", trust: "external", wake: false, payload: { text: item.body } });
  });

  verifies(["S10", "S6"], "stands in the history where it stood in the log", async () => {
    using folder = testSession();
    writeLines(folder.file, chainOf([STARTED, input("i"), LEGACY, turnStarted(1)]));
    const state = replay(folder.file);
    expect(state.history.map((item) => (item.kind === "system" ? item.item.kind : item.kind))).toEqual(Array(5).fill("legacy"));
    expect(await verify(folder.directory)).toMatchObject({ ok: true, entries: 4 });
  });

  verifies(["S10", "S2"], "is never written", () => {
    expect(NewEntry.safeParse(LEGACY).success).toBe(false);
    expect(NewEntry.safeParse({ type: "system_items", items: [] }).success).toBe(false);
  });

  verifies(["S10"], "of a shape nobody knows is still no damage", () => {
    using folder = testSession();
    for (const items of [undefined, "text", { a: 1 }, []]) {
      writeFileSync(folder.file, `${chainOf([STARTED, { type: "hook_injected_items", items }]).join("\n")}\n`);
      expect(replay(folder.file).history).toEqual([]);
    }
  });
});
