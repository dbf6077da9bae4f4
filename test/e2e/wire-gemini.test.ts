import { describe, expect, it } from "vitest";
import { type Step, signedText, stream, text, toolCall } from "../support/provider-server/answer.ts";
import { startProviderServer } from "../support/provider-server/provider-server.ts";
import { untilFile } from "../support/scripts.ts";
import { checkRequests, startWirePod } from "../support/wire-pod.ts";
import { describeTrials } from "../support/wire-trials.ts";

describeTrials("gemini");

interface Part {
  readonly functionCall?: { readonly id: string };
  readonly functionResponse?: { readonly id: string };
  readonly thoughtSignature?: string;
  readonly text?: string;
}

describe("Gemini", () => {
  it("gets parallel results in the order of the calls, and every signature where it was, after a kill as well (B46, B47, B51)", async () => {
    await using server = await startProviderServer();
    await using pod = await startWirePod(server, "gemini");
    const signed: Step = {
      kind: "tool_call",
      id: "c1",
      name: "Bash",
      chunks: [JSON.stringify({ command: untilFile("first") })],
      signature: "on-call",
    };
    server.enqueue(
      stream(
        signedText("on-text", "Let me", " look."),
        signedText("on-empty", ""),
        signed,
        toolCall("Bash", { command: untilFile("second") }, "c2"),
        toolCall("Bash", { command: "echo quick" }, "c3"),
      ),
    );
    await pod.run("work");
    await pod.file("first.started");
    await pod.file("second.started");
    await pod.notify("NEWS");
    pod.touch("second");
    await pod.waitForLog((entries) => entries.filter((entry) => entry.type === "tool_results").length >= 2);
    pod.touch("first");
    server.enqueue(stream(signedText("on-end", "Done", "")));
    await pod.settled();
    await pod.kill();
    await pod.restore();
    server.enqueue(stream(text("ok")));
    await pod.run("go on");
    await pod.waitForEntries("turn_ended", 2);
    const body: { readonly contents: readonly { readonly parts: readonly Part[] }[] } = JSON.parse(
      server.requests[2]?.text ?? "",
    );
    const shown = body.contents.map(({ parts }) =>
      parts.map((part) =>
        [part.functionCall?.id ?? part.functionResponse?.id ?? part.text?.slice(-10), part.thoughtSignature].join(" "),
      ),
    );
    expect(shown.slice(1)).toEqual([
      ["Let me ", " look. on-text", " on-empty", "c1 on-call", "c2 ", "c3 "],
      ["c1 ", "c2 ", "c3 "],
      [expect.stringContaining("tem_item>")],
      ["Done ", " on-end"],
      ["go on "],
    ]);
    expect(await checkRequests(pod, server)).toBe(3);
  });

  it.each([
    ["MALFORMED_FUNCTION_CALL", "completed"],
    ["no content", "completed"],
    ["SAFETY", "failed"],
    ["blocked", "failed"],
  ])("that ends with %s and nothing said is asked again or says why; nothing empty is kept (B80)", async (reason, outcome) => {
    await using server = await startProviderServer();
    await using pod = await startWirePod(server, "gemini");
    server.enqueue(stream({ kind: "stop", reason }), stream(text("Here it is.")), stream(text("And again.")));
    await pod.run("work");
    const [ended] = await pod.waitForEntries("turn_ended");
    expect(ended).toMatchObject({ outcome, ...(outcome === "failed" ? { error: { code: "refused" } } : {}) });
    await pod.run("once more");
    await pod.waitForEntries("turn_ended", 2);
    expect(pod.entries("turn_ended")[1]).toMatchObject({ outcome: "completed" });
    for (const entry of pod.entries("assistant_items")) expect(entry.items).not.toEqual([]);
    await checkRequests(pod, server);
  });
});
