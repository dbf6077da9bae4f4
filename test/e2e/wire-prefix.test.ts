import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startPod } from "../support/pod-harness.ts";
import { replay, stream, text, thinking, toolCall } from "../support/provider-server/answer.ts";
import { type ReceivedRequest, startProviderServer } from "../support/provider-server/provider-server.ts";
import { verifies } from "../support/verifies.ts";

const FIXTURES = join(import.meta.dirname, "..", "fixtures", "provider-streams");

interface Body {
  readonly system: unknown;
  readonly tools: unknown;
  readonly messages: readonly { readonly role: string; readonly content: readonly unknown[] }[];
}

/** The blocks of a request one after another, each with its role; cache marks left out. */
function blocksOf(request: ReceivedRequest): string[] {
  const { messages } = request.body as Body;
  return messages.flatMap(({ role, content }) =>
    content.map((block) =>
      JSON.stringify({ role, block }, (key, value: unknown) => (key === "cache_control" ? undefined : value)),
    ),
  );
}

describe("the requests of a session", () => {
  verifies(
    ["I11", "S4", "L5"],
    "each begin with all of the one before, also after kill -9 and restore in another environment (B61)",
    async () => {
      await using server = await startProviderServer();
      await using pod = await startPod({ server });
      const answers = [
        stream(
          thinking("s1", "hm"),
          text("one"),
          toolCall("Bash", { command: "echo a" }),
          toolCall("Bash", { command: "echo b" }),
        ),
        stream(text("two")),
        stream(text("three"), toolCall("Read", { path: "x.txt" })),
        stream(text("four")),
        stream(text("five")),
        stream(text("six")),
        stream(text("seven")),
      ];
      server.enqueue(...answers);
      writeFileSync(join(pod.cwd, "x.txt"), "content");
      await pod.run("first");
      await pod.settled();
      await pod.notify("a notification");
      await pod.settled();
      await pod.run("with a file", { if_running: "queue" });
      await pod.settled();
      const before = server.requests.length;
      await pod.kill();
      // Another day, another environment, other files: nothing of it may show in what was frozen.
      writeFileSync(join(pod.cwd, "new-file.txt"), "new");
      await pod.restore({ env: { LANG: "de_DE.UTF-8", TZ: "Asia/Tokyo", A_NEW_VARIABLE: "1", LC_ALL: "C" } });
      await pod.run("after the crash");
      await pod.settled();
      await pod.run("and on");
      await pod.settled();
      expect(server.requests.length).toBeGreaterThan(before + 1);
      const [first] = server.requests;
      for (const [index, request] of server.requests.entries()) {
        const body = request.body as Body;
        const frozen = first?.body as Body;
        expect(JSON.stringify(body.system)).toBe(JSON.stringify(frozen.system));
        expect(JSON.stringify(body.tools)).toBe(JSON.stringify(frozen.tools));
        const former = index === 0 ? [] : blocksOf(server.requests[index - 1] ?? expect.fail("no request"));
        const blocks = blocksOf(request);
        expect(blocks.slice(0, former.length)).toEqual(former);
        expect(blocks.length).toBeGreaterThan(former.length);
      }
      expect(server.violations).toEqual([]);
      await pod.verify();
    },
  );

  verifies(["I11"], "send the bytes of a frozen prefix: the same up to where the former one's messages end", async () => {
    await using server = await startProviderServer({ answer: () => stream(text("ok")) });
    await using pod = await startPod({ server });
    for (let turn = 1; turn <= 4; turn++) {
      await pod.run(`turn ${turn}`);
      await pod.waitForEntries("turn_ended", turn);
      if (turn === 2) {
        await pod.kill();
        await pod.restore();
      }
    }
    const upToEnd = (body: string) => body.slice(0, body.lastIndexOf("}]}"));
    for (let n = 1; n < server.requests.length; n++) {
      const [former, later] = [server.requests[n - 1]?.text ?? "", server.requests[n]?.text ?? ""];
      const messagesAt = former.indexOf('"messages":[');
      expect(messagesAt).toBeGreaterThan(0);
      // From the beginning to the last block of the former request not a byte differs.
      const lastBlock = upToEnd(former.slice(0, former.indexOf("]}]", messagesAt) + 1));
      expect(later.startsWith(lastBlock)).toBe(true);
    }
  });

  verifies(["I1", "L4"], "are what their log entries say: the digest of the body is that of the bytes that arrived", async () => {
    const { createHash } = await import("node:crypto");
    await using server = await startProviderServer();
    await using pod = await startPod({ server });
    server.enqueue(stream(toolCall("Bash", { command: "true" })), stream(text("ok")), stream(text("ok")));
    await pod.run("one");
    await pod.settled();
    await pod.notify("two");
    await pod.settled();
    const entries = pod.entries("llm_request");
    expect(entries.map((entry) => [entry.body_digest, entry.bytes])).toEqual(
      server.requests.map((request) => [createHash("sha256").update(request.bytes).digest("hex"), request.bytes.length]),
    );
  });
});

describe("streams that a real provider sent", () => {
  const recordings = readdirSync(FIXTURES).filter((name) => name.startsWith("anthropic-") && name.endsWith(".chunks.txt"));

  it("are there", () => {
    expect(recordings.length).toBeGreaterThan(8);
  });

  it.each(recordings)("leave a session that goes on and is restored: %s", async (name) => {
    const recording = readFileSync(join(FIXTURES, name), "utf8");
    let played = 0;
    await using server = await startProviderServer({
      answer: () => (played++ === 0 ? replay(recording) : stream(text("and on"))),
    });
    await using pod = await startPod({ server, config: { limits: { attempts_per_request: 2 } } });
    await pod.run("go");
    await pod.waitForEntries("turn_ended");
    await pod.run("again");
    await pod.waitForEntries("turn_ended", 2);
    await pod.kill();
    await pod.restore();
    await pod.run("after the restore");
    const ends = await pod.waitForEntries("turn_ended", 3);
    expect(ends.slice(1).map((entry) => entry.outcome)).toEqual(["completed", "completed"]);
    expect(server.violations).toEqual([]);
    await pod.verify();
  });
});
