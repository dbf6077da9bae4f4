import { spawn } from "node:child_process";
import { once } from "node:events";
import * as path from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { openModel } from "../../../src/llm/open-model.ts";
import { ask, itemsOf, words } from "./ask-model.ts";

it("the server by hand prints its URL, calls Bash first, then says its text, and ends on SIGTERM", async () => {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, "main.ts"), "--say", "bye"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  try {
    const [url] = await once(createInterface({ input: child.stdout }), "line", { signal: AbortSignal.timeout(8000) });
    const model = await openModel("anthropic/claude-opus-5", {
      env: { ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: String(url) },
    });
    const answer = itemsOf(await ask(model));
    const call = answer.find((item) => item.kind === "tool_call");
    expect(call).toMatchObject({ name: "Bash", arguments: '{"command":"ls"}' });
    const items = [
      words("hi"),
      ...answer,
      { kind: "tool_result", callId: call?.callId ?? "", name: "Bash", summary: "a file", isError: false } as const,
    ];
    expect(itemsOf(await ask(model, { items }))).toEqual([{ kind: "message", text: "bye" }]);
  } finally {
    child.kill("SIGTERM");
  }
  expect(await exited).toEqual([0, null]);
});
