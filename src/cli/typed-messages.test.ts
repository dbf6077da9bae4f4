import { describe, expect, test } from "vitest";
import { fakeIo } from "../../test/support/fake-io.ts";
import { typedMessages } from "./typed-messages.ts";

async function collect(io: Parameters<typeof typedMessages>[0]): Promise<string[]> {
  const messages: string[] = [];
  for await (const message of typedMessages(io)) messages.push(message);
  return messages;
}

describe("typedMessages", () => {
  test("each line of a pipe is a message, the last one also without its end", async () => {
    expect(await collect(fakeIo({ stdin: "one\r\n\ntwo\nthree" }))).toEqual(["one", "two", "three"]);
    expect(await collect(fakeIo({ stdin: "" }))).toEqual([]);
  });

  test("lines pasted into a terminal stay one message (B136)", async () => {
    const io = fakeIo({ isTTY: true });
    const messages = typedMessages(io);
    io.type("first line\nsecond line\n");
    io.type("third line\n");
    expect((await messages.next()).value).toBe("first line\nsecond line\nthird line");
    io.type("typed later\n");
    expect((await messages.next()).value).toBe("typed later");
    io.type(null);
    expect((await messages.next()).done).toBe(true);
  });

  test("input that is not text is an error, not a message", async () => {
    await expect(collect(fakeIo({ stdin: Uint8Array.of(0xff, 0x0a) }))).rejects.toMatchObject({ code: "invalid_input" });
  });
});
