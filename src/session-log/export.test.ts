import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { exportLog } from "./export.ts";
import {
  answer,
  call,
  chainOf,
  DiskSession,
  input,
  items,
  linesOf,
  notification,
  request,
  result,
  STARTED,
  says,
  testSession,
  turnEnded,
  turnStarted,
  writeLines,
} from "./test-support.ts";

async function exported(
  directory: string,
  format: "markdown" | "json",
): Promise<{ readonly text: string; readonly kind: string }> {
  let text = "";
  const end = await exportLog(directory, {
    format,
    write: (piece) => {
      text += piece;
    },
  });
  return { text, kind: end.kind };
}

function session(directory: string): void {
  using disk = new DiskSession(directory);
  disk.commit(input("i", { text: "Do ```it``` please" }), items(notification("n", { text: "build broke" })), turnStarted(1));
  disk.commit(request(disk.state)).commit(answer({ kind: "reasoning", text: "let me think" }, says("I **will**."), call("c1")));
  disk.commit({ type: "tool_started", call_id: "c1" }, result("c1"), turnEnded(1, "cancelled"), {
    type: "closed",
    reason: "stopped",
  });
}

describe("an export", () => {
  it("as Markdown shows users, answers, calls, results and system items by kind, in order", async () => {
    using folder = testSession();
    session(folder.directory);
    const { text, kind } = await exported(folder.directory, "markdown");
    expect(kind).toBe("whole");
    const landmarks = [
      "# Session s_test",
      "You are under test.",
      "### User",
      "Do ```it``` please",
      "### System item: notification (external)",
      "build broke",
      "## Turn 1 (user)",
      "Request 1",
      "### Assistant",
      "let me think",
      "I **will**.",
      "**Call Bash** `c1`",
      "**Result of Bash** `c1`: done",
      "output of c1",
      "Turn 1 ended: cancelled",
      "Closed: stopped",
    ];
    const places = landmarks.map((mark) => text.indexOf(mark));
    expect(places.every((place) => place >= 0)).toBe(true);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    // A text with a fence inside does not end its own.
    expect(text).toContain("````text\nDo ```it``` please\n````");
  });

  it("as JSON is one document that holds every entry", async () => {
    using folder = testSession();
    session(folder.directory);
    const { text } = await exported(folder.directory, "json");
    const document = JSON.parse(text);
    expect(document.end).toBe("whole");
    expect(document.entries.map((entry: { seq: number }) => entry.seq)).toEqual(
      linesOf(folder.file).map((_, index) => index + 1),
    );
    expect(document.entries[1]).toMatchObject({ type: "user_input", segments: [{ kind: "text", text: "Do ```it``` please" }] });
  });

  it("of a damaged log holds what is sound, and says so", async () => {
    using folder = testSession();
    session(folder.directory);
    writeLines(folder.file, linesOf(folder.file).with(4, "rubbish"));
    const document = JSON.parse((await exported(folder.directory, "json")).text);
    expect(document).toMatchObject({ end: "damaged", damage: { line: 5, code: "not_a_line" } });
    expect(document.entries).toHaveLength(4);
    expect((await exported(folder.directory, "markdown")).kind).toBe("damaged");
    writeFileSync(folder.file, "");
    expect(JSON.parse((await exported(folder.directory, "json")).text)).toEqual({ entries: [], end: "whole", damage: null });
  });

  verifies(["S10"], "shows items of the former tag as kind legacy", async () => {
    using folder = testSession();
    writeLines(folder.file, chainOf([STARTED, { type: "hook_injected_items", items: [{ text: "from long ago" }] }]));
    const { text } = await exported(folder.directory, "markdown");
    expect(text).toContain("### System item: legacy (external)");
    expect(text).toContain("from long ago");
  });
});
