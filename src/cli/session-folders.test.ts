import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { damagedSessions } from "./session-folders.ts";

test("a damaged beginning is told with its reason and hides no other session (B84)", async () => {
  const data = mkdtempSync(join(tmpdir(), "wk-"));
  try {
    const write = (session: string, text: string | undefined, file = "000001.jsonl") => {
      mkdirSync(join(data, "sessions", session), { recursive: true });
      if (text !== undefined) writeFileSync(join(data, "sessions", session, file), text);
    };
    write("s_good", '{"seq":1,"type":"session_started"}\n{"seq"');
    write("s_long", `{"seq":1,"type":"session_started","text":"${"x".repeat(100_000)}"}\n`);
    write("s_begun", '{"seq":1,"type":"session_started"}\n');
    write("s_begun", '{"seq":2,"ty', "000002.jsonl");
    write("s_newest", '{"seq":1,"type":"session_started"}\n');
    write("s_newest", "rubbish\n", "000002.jsonl");
    write("s_empty", "");
    write("s_newline", "\n");
    write("s_torn", '{"seq":1');
    write("s_rubbish", "\u0000\u0001\n");
    write("s_nothing", undefined);
    mkdirSync(join(data, "sessions", "s_directory", "000001.jsonl"), { recursive: true });
    const damaged = await damagedSessions({ data }, []);
    expect(Object.fromEntries(damaged.map(({ session, reason }) => [session, reason]))).toEqual({
      s_newest: "000002.jsonl: line 1 is not an entry",
      s_empty: "000001.jsonl is empty",
      s_newline: "000001.jsonl: line 1 is not an entry",
      s_torn: "000001.jsonl: line 1 is not finished",
      s_rubbish: "000001.jsonl: line 1 is not an entry",
      s_nothing: "it has no log",
      s_directory: "000001.jsonl is not a file",
    });
  } finally {
    rmSync(data, { recursive: true, force: true });
  }
});

test("no session folder at all is no damage", async () => {
  expect(await damagedSessions({ data: "/nonexistent" }, [])).toEqual([]);
});
