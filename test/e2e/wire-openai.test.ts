import { describe, expect, it } from "vitest";
import { httpJson, stream, text, thinking, toolCall } from "../support/provider-server/answer.ts";
import { startProviderServer } from "../support/provider-server/provider-server.ts";
import { checkRequests, startWirePod } from "../support/wire-pod.ts";
import { describeTrials } from "../support/wire-trials.ts";

describeTrials("responses");

describe("a provider that refuses what it encrypted", () => {
  const refusal = httpJson(400, {
    error: {
      message: "The encrypted content could not be verified.",
      type: "invalid_request_error",
      code: "invalid_encrypted_content",
    },
  });

  it("is asked once more without that, and never again with it, not even after a restore (B50)", async () => {
    await using server = await startProviderServer({
      answer: (request) =>
        request.text.includes('"encrypted_content":"old') ? refusal : stream(thinking("new", "hm"), text("fine")),
    });
    await using pod = await startWirePod(server, "responses");
    server.enqueue(
      stream(thinking("old-1", "so"), toolCall("Bash", { command: "echo x >> f" })),
      stream(thinking("old-2", "hm"), text("done")),
    );
    await pod.run("first");
    await pod.settled();
    await pod.kill();
    await pod.restore();
    await pod.run("second");
    await pod.waitForEntries("turn_ended", 2);
    await pod.kill();
    await pod.restore();
    await pod.run("third");
    await pod.waitForEntries("turn_ended", 3);
    expect(pod.entries("turn_ended").map((entry) => entry.outcome)).toEqual(["completed", "completed", "completed"]);
    const { before } = pod.entries("config_changed")[0]?.changes.adjustments?.refused_proofs ?? { before: 0 };
    expect(pod.entries("config_changed")).toMatchObject([
      { changes: { adjustments: { refused_proofs: { provider: "openai" } } } },
    ]);
    expect(before).toBeGreaterThan(4);
    const [, , refused, , third] = server.requests.map((request) => request.text);
    expect(server.requests.filter((request) => request.text.includes("old-1"))).toHaveLength(2);
    expect(refused).toContain("old-2");
    // What it encrypted since then goes back.
    expect(third).toContain('"encrypted_content":"new"');
    expect(third).toContain("done");
    expect(await pod.file("f")).toBe("x\n");
    expect(await checkRequests(pod, server)).toBe(5);
  });

  it("whatever it is that it encrypted, costs two refusals and no more (B50)", async () => {
    let n = 0;
    await using server = await startProviderServer({
      answer: (request) =>
        request.text.includes('"encrypted_content"') ? refusal : stream(thinking(`enc-${n++}`, "hm"), text("fine")),
    });
    await using pod = await startWirePod(server, "responses");
    for (let turn = 1; turn <= 4; turn++) {
      await pod.run(`task ${turn}`);
      await pod.waitForEntries("turn_ended", turn);
    }
    expect(pod.entries("turn_ended").every((entry) => entry.outcome === "completed")).toBe(true);
    expect(server.requests.filter((request) => request.text.includes('"encrypted_content"'))).toHaveLength(2);
    expect(await checkRequests(pod, server)).toBe(6);
  });
});
