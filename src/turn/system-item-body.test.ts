import { describe, expect } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { readEvent } from "../protocol/event.ts";
import { emptyView, reduceRead } from "../protocol/view.ts";
import { makeReminder, makeSystemItem } from "./system-item-body.ts";

const PROMPTS = { notification: "{source} says: {message}" };
const common = { origin: { by: "client" }, chain: { id: "c", hops: 2 }, wake: true } as const;

describe("a system item", () => {
  verifies(
    ["S3", "S4", "S5"],
    "has one kind, whose renderer makes the text for the model once, and a trust that only its kind decides",
    () => {
      const notification = makeSystemItem(
        { ...common, content: { kind: "notification", payload: { source: "ci", message: "red {source}" } }, for: "input_1" },
        PROMPTS,
      );
      expect(notification).toEqual({
        id: expect.stringMatching(/^item_/),
        kind: "notification",
        payload: { source: "ci", message: "red {source}" },
        body: "ci says: red {source}",
        trust: "external",
        for: "input_1",
        ...common,
      });
      expect(makeReminder("turn_failed", "it failed", PROMPTS)).toMatchObject({
        kind: "reminder",
        payload: { topic: "turn_failed", text: "it failed" },
        body: "it failed",
        trust: "operator",
        wake: false,
        origin: { by: "process" },
      });
      const legacy = makeSystemItem({ ...common, content: { kind: "legacy", payload: { text: "old" } } }, PROMPTS);
      expect(legacy).toMatchObject({ body: "old", trust: "external" });
    },
  );

  verifies(["S3", "S7"], "of a kind that a client does not know is drawn by its body, in its place, once", () => {
    const event = {
      type: "system_item",
      seq: 3,
      index: 0,
      ts: 1,
      item: { id: "item_9", kind: "weather", payload: { sky: "grey" }, body: "It rains.", trust: "external", newer: true },
    };
    const view = [event, event].reduce((before, next) => reduceRead(before, readEvent(next)), emptyView);
    expect([...view.blocks]).toEqual([
      {
        kind: "system_item",
        place: { seq: 3, index: 0 },
        ts: 1,
        pending: true,
        item: expect.objectContaining({ kind: "weather", body: "It rains." }),
      },
    ]);
    expect(view.pending.has("item_9")).toBe(true);
  });
});
