import { describe, expect, it } from "vitest";
import { type Step, stream, text, thinking, toolCall } from "../support/provider-server/answer.ts";
import { MODELS, WIRES } from "../support/provider-server/ask-model.ts";
import { startProviderServer } from "../support/provider-server/provider-server.ts";
import { untilFile } from "../support/scripts.ts";
import { checkRequests, startWirePod } from "../support/wire-pod.ts";

describe("a session that switches its model", () => {
  it("goes from any provider to any other: ids are rewritten, foreign reasoning is left out, all text stays (B52)", async () => {
    await using server = await startProviderServer();
    await using pod = await startWirePod(server, "chat");
    const oddIds = ["functions.read:0", "x".repeat(120), "a|b", "é"];
    const order = ["chat", "messages", "responses", "gemini", "chat", "responses", "messages"] as const;
    for (const [turn, wire] of order.entries()) {
      if (turn > 0) await pod.request("set_config", { model: MODELS[wire] });
      if (turn === 2 || turn === 4) {
        await pod.kill();
        await pod.restore();
      }
      const calls = oddIds.map(
        (id, index): Step => toolCall("Bash", { command: `echo ${turn}.${index}` }, turn === 0 ? id : `${turn}-${id}`),
      );
      server.enqueue(
        stream(thinking(`proof ${turn}`, `thought ${turn}`), text(`I look, turn ${turn}.`), ...calls),
        stream(text(`Done with turn ${turn}.`)),
      );
      await pod.run(`task ${turn}`);
      await pod.waitForEntries("turn_ended", turn + 1);
      expect(pod.entries("turn_ended").at(-1)).toMatchObject({ outcome: "completed" });
    }
    const last = server.requests.at(-1)?.text ?? "";
    for (const [turn] of order.entries()) {
      for (const said of [`task ${turn}`, `I look, turn ${turn}.`, `${turn}.3`]) expect(last).toContain(said);
    }
    // The last provider's own reasoning of turn 1 is back in its place, the others' is not there.
    expect(last.match(/proof \d/g)).toEqual(["proof 1", "proof 6"]);
    expect(pod.entries("llm_request").map((entry) => entry.model)).toEqual(order.flatMap((wire) => [MODELS[wire], MODELS[wire]]));
    expect(await checkRequests(pod, server)).toBe(order.length * 2);
  });
});

describe("the same conversation over every wire", () => {
  it.each([...WIRES, "strict"] as const)(
    "is taken by the strict server and rebuilt by audit, killed in the middle of a batch and restored: %s (B40, B42, B46, B47)",
    async (wire) => {
      await using server = await startProviderServer();
      await using pod = await startWirePod(server, wire);
      // Nobody has said anything yet: it begins with notifications.
      await pod.notify("first news");
      await server.nextRequest();
      server.enqueue(
        stream(
          thinking("proof", "I should look"),
          text("I look."),
          toolCall("Bash", { command: "echo quick >> quick" }),
          toolCall("Bash", { command: `echo slow >> slow; ${untilFile("go")}` }),
          toolCall("Bash", { command: "echo third" }),
        ),
      );
      await pod.file("go.started");
      await pod.waitForLog((entries) => entries.filter((entry) => entry.type === "tool_results").length >= 2);
      await pod.notify("NEWS-42");
      await pod.kill();
      server.enqueue(stream(text("I see.")));
      await pod.restore();
      await pod.settled();
      server.enqueue(stream(text("And on.")));
      await pod.notify("a");
      await pod.settled();
      await pod.run("and now me");
      server.enqueue(stream(text("Good.")));
      await pod.settled();
      expect(await pod.file("slow")).toBe("slow\n");
      const results = pod.entries("tool_results").flatMap((entry) => entry.items);
      expect(results.map((item) => item.is_error).toSorted()).toEqual([false, false, true]);
      const [, second] = server.requests;
      // Results first, then what came between.
      expect(second?.text.lastIndexOf("third")).toBeLessThan(second?.text.indexOf("NEWS-42") ?? 0);
      expect(await checkRequests(pod, server)).toBe(server.requests.length);
    },
  );
});
