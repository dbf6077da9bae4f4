import { describe, expect, it } from "vitest";
import { stream, text, toolCall } from "../support/provider-server/answer.ts";
import { startProviderServer } from "../support/provider-server/provider-server.ts";
import { untilFile } from "../support/scripts.ts";
import { checkRequests, startWirePod } from "../support/wire-pod.ts";
import { describeTrials } from "../support/wire-trials.ts";

describeTrials("chat");

describe("a chat server", () => {
  it.each([["stop"], ["missing"], ["empty reason"]])("that ends calls with the reason %s has them run (B73)", async (reason) => {
    await using server = await startProviderServer();
    await using pod = await startWirePod(server, "chat");
    server.enqueue(stream(toolCall("Bash", { command: "echo ran > ran" }), { kind: "stop", reason }), stream(text("done")));
    await pod.run("work");
    await pod.settled();
    expect(await pod.file("ran")).toBe("ran\n");
    expect(await checkRequests(pod, server)).toBe(2);
  });

  it.each(["chat", "strict"] as const)(
    "that wants roles to alternate gets them so, however much is said at once: %s (B44)",
    async (wire) => {
      await using server = await startProviderServer();
      await using pod = await startWirePod(server, wire);
      server.enqueue(stream(toolCall("Bash", { command: untilFile("go") })));
      await pod.notify("begin");
      await pod.file("go.started");
      for (const news of ["one", "two", "three"]) await pod.notify(news);
      await pod.run("and me", { if_running: "steer" });
      pod.touch("go");
      server.enqueue(stream(text("I see.")), stream(text("Good.")));
      await pod.settled();
      await pod.run("on");
      await pod.settled();
      const body: { readonly messages: readonly { readonly role: string }[] } = JSON.parse(server.requests[2]?.text ?? "");
      const filler = wire === "strict" ? ["assistant"] : [];
      const roles = ["system", "user", "assistant", "tool", ...filler, "user", "assistant", "user"];
      expect(body.messages.map((message) => message.role)).toEqual(roles);
      expect(await checkRequests(pod, server)).toBe(3);
    },
  );
});
