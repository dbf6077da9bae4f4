import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { httpJson, type Step, stream, streamInPieces, text, toolCall } from "./provider-server/answer.ts";
import type { WireName } from "./provider-server/ask-model.ts";
import { startProviderServer } from "./provider-server/provider-server.ts";
import { checkRequests, startWirePod } from "./wire-pod.ts";

const HARD = "日本語 👩‍👩‍👧 é";

/** What must hold of a Pod over every wire, as trials with a real one. */
export function describeTrials(wire: WireName): void {
  describe(`a Pod over ${wire}`, () => {
    it("writes exactly what came byte by byte, and runs nothing that was cut off (B74, B78)", async () => {
      await using server = await startProviderServer();
      await using pod = await startWirePod(server, wire);
      const cut = '{"path":"cut.txt","content":"abc';
      const open: Step = { kind: wire === "responses" ? "open_tool_call" : "tool_call", name: "Write", chunks: [cut] };
      server.enqueue(
        streamInPieces(1, toolCall("Write", { path: "whole.txt", content: HARD })),
        stream(text("next"), open, { kind: "stop", reason: "max_tokens" }),
        stream(text("I see.")),
      );
      await pod.run("write");
      await pod.settled();
      expect(readFileSync(join(pod.cwd, "whole.txt"), "utf8")).toBe(HARD);
      expect(() => readFileSync(join(pod.cwd, "cut.txt"))).toThrow("ENOENT");
      const results = pod.entries("tool_results").flatMap((entry) => entry.items);
      expect(results.map((item) => item.is_error)).toEqual([false, true]);
      expect(await checkRequests(pod, server)).toBe(3);
    });

    it("tries again after every trouble that passes, and does nothing twice (B64, B66, B67, B68)", async () => {
      await using server = await startProviderServer();
      await using pod = await startWirePod(server, wire);
      await using client = await pod.client();
      const overloaded = wire === "gemini" ? "UNAVAILABLE" : "overloaded_error";
      server.enqueue(
        stream(toolCall("Bash", { command: "echo x >> f" })),
        stream(text("half of"), { kind: "error", type: overloaded, message: "overloaded" }),
        stream({ kind: "open_text", chunks: ["half of it"] }, { kind: "end" }),
        stream(text("half"), { kind: "close" }),
        httpJson(529, { error: { message: "overloaded" } }),
        stream(text("all of it")),
      );
      await pod.run("work");
      await pod.settled();
      expect(readFileSync(join(pod.cwd, "f"), "utf8")).toBe("x\n");
      const said = pod.entries("assistant_items").flatMap((entry) => entry.items);
      expect(said.map((item) => (item.kind === "message" ? item.content.map((part) => part.text).join("") : item.kind))).toEqual([
        "tool_call",
        "all of it",
      ]);
      const retries = client.events.flatMap((event) => (event.type === "retry" ? [event.error.code] : []));
      expect(retries).toEqual(["overloaded", "stream_cut", "stream_cut", "overloaded"]);
      expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
      expect(await checkRequests(pod, server)).toBe(6);
    });

    it("answers calls of tools that do not exist, and runs the others of the batch (B76)", async () => {
      await using server = await startProviderServer();
      await using pod = await startWirePod(server, wire);
      const unknown = ["read_file", "Bash ", "bash", "__proto__", "constructor"];
      server.enqueue(
        stream(...unknown.map((name) => toolCall(name, {})), toolCall("Bash", { command: "echo ran > ran" })),
        stream(text("I see.")),
      );
      await pod.run("work");
      await pod.settled();
      expect(await pod.file("ran")).toBe("ran\n");
      const results = pod.entries("tool_results").flatMap((entry) => entry.items);
      const failed = results.filter((item) => item.is_error);
      expect(failed.map((item) => item.name).toSorted()).toEqual(unknown.toSorted());
      for (const item of failed) expect(`${item.summary} ${item.content}`).toContain("Write");
      expect(pod.entries("turn_ended")).toMatchObject([{ outcome: "completed" }]);
      expect(await checkRequests(pod, server)).toBe(2);
    });
  });
}
