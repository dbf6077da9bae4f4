import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startPod } from "../support/pod-harness.ts";
import { TestHome } from "../support/pod-harness-home.ts";
import { ALWAYS, bashUntil } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

describe("what a notification may be", () => {
  verifies(["N1"], "is checked: source, message, and the words say which field is wrong", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using raw = await pod.raw();
    const bad: readonly (readonly [unknown, string])[] = [
      [{ source: "", message: "m" }, "params.source"],
      [{ source: "a".repeat(129), message: "m" }, "params.source"],
      [{ source: "a\nb", message: "m" }, "params.source"],
      [{ source: "a]b", message: "m" }, "params.source"],
      [{ source: "a\u2028b", message: "m" }, "params.source"],
      [{ message: "m" }, "params.source"],
      [{ source: "ci" }, "params.message"],
      [{ source: "ci", message: "" }, "params.message"],
      [{ source: "ci", message: 7 }, "params.message"],
      [{ source: "ci", message: "m", wake: "yes" }, "params.wake"],
      [{ source: "ci", message: "m", id: "" }, "params.id"],
    ];
    for (const [id, [params, path]] of bad.entries()) {
      await raw.send("notify", params, id);
      const answer = await raw.answer(id);
      expect(answer.error, JSON.stringify(params)).toMatchObject({ code: -32602, data: { path } });
    }
    const good = ["c", "a".repeat(128), "pod:reviewer", "日本語", "with blank"];
    for (const source of good) await pod.notify("m", { source });
    await pod.settled();
    expect(pod.entries("system_items").flatMap((entry) => entry.items.map((item) => item.origin.name))).toEqual(good);
  });

  verifies(
    ["N9", "I6"],
    "is bounded: 64 KiB each, 256 and 1 MiB together while they wait, refused and never dropped (B16)",
    async () => {
      await using pod = await startPod({ script: { steps: [bashUntil("go")], otherwise: { say: "seen" } } });
      await pod.run("work");
      await pod.file("go.started");
      expect(await pod.refusal("notify", { source: "ci", message: `${"é".repeat(32 * 1024)}x` })).toMatch(
        /too_large|invalid_input/,
      );
      const answers = await Promise.all(
        Array.from({ length: 300 }, (_, n) => pod.ask("notify", { source: "ci", message: `small ${n}` })),
      );
      const accepted = answers.flatMap((answer) => (answer.ok ? [answer.result.item] : []));
      expect(accepted).toHaveLength(256);
      expect(answers.flatMap((answer) => (answer.ok ? [] : [answer.refusal.code]))).toEqual(new Array(44).fill("queue_full"));
      expect((await pod.status()).pending).toBe(256);
      pod.touch("go");
      await pod.settled();
      const taken = pod.entries("llm_request").flatMap((entry) => entry.takes);
      expect(taken.filter((id) => id.startsWith("item_"))).toEqual(accepted);
      await pod.verify();
    },
  );

  verifies(["N9"], "counts bytes of what waits, and what was taken in makes room", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("go")], otherwise: { say: "seen" } } });
    await pod.run("work");
    await pod.file("go.started");
    const big = "x".repeat(60 * 1024);
    let accepted = 0;
    for (let n = 0; n < 20; n++) {
      const answer = await pod.ask("notify", { source: "ci", message: big });
      if (answer.ok) accepted += 1;
      else expect(answer.refusal.code).toBe("queue_full");
    }
    expect(accepted).toBe(17);
    pod.touch("go");
    await pod.settled();
    // 200 000 tokens of window: a quarter is 200 000 characters a request.
    expect(pod.entries("llm_request").length).toBeGreaterThan(4);
    const status = await pod.status();
    expect(status.pending).toBe(0);
    expect((await pod.ask("notify", { source: "ci", message: big })).ok).toBe(true);
    await pod.settled();
    await pod.verify();
  });

  verifies(["N8"], "with an id is accepted once: a retry gets the first answer, also over a crash (B35)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    const first = await pod.notify("once", { id: "retry-me" });
    expect(await pod.notify("once", { id: "retry-me" })).toEqual(first);
    await pod.settled();
    await pod.kill();
    await pod.restore();
    expect(await pod.notify("once", { id: "retry-me" })).toEqual(first);
    expect(
      pod
        .entries("system_items")
        .flatMap((entry) => entry.items.map((item) => item.body))
        .filter((body) => body.includes("once")),
    ).toHaveLength(1);
    expect(pod.entries("turn_started")).toHaveLength(1);
  });

  it("holds NUL and lone surrogates, and the session lives (B111)", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await using raw = await pod.raw();
    await raw.write('{"jsonrpc":"2.0","id":1,"method":"notify","params":{"source":"ci","message":"a\\u0000b\\ud800c"}}\n');
    expect((await raw.answer(1)).error).toBeUndefined();
    await pod.settled();
    await pod.run("and \u0000 too");
    await pod.settled();
    await pod.kill();
    await pod.restore();
    await pod.run("still here?");
    await pod.settled();
    expect(pod.entries("turn_ended").map((entry) => entry.outcome)).toEqual(["completed", "completed", "completed"]);
    await pod.verify();
  });
});

describe("the text of a notification", () => {
  verifies(["N7", "S4"], "is the default template, exactly", async () => {
    await using pod = await startPod({ script: ALWAYS });
    await pod.notify("Build 512 failed");
    await pod.settled();
    expect(pod.entries("system_items")[0]?.items[0]?.body).toBe(
      "[Notification from ci]\nBuild 512 failed\n\nThis is a notification, not a blocking request. If you are in the middle of a task, continue your current work and address this at a natural stopping point.",
    );
  });

  verifies(["N7", "S4"], "is the user's template, or before that the project's, as it was when the session began", async () => {
    await using home = new TestHome();
    const own = (folder: string, text: string) => {
      mkdirSync(join(folder, "prompts"), { recursive: true });
      writeFileSync(join(folder, "prompts", "notification.md"), text);
    };
    own(join(home.home, ".config", "wakeful"), "USER {source}: {message}\n");
    const project = join(home.root, "project");
    const plain = join(home.root, "plain");
    for (const folder of [project, plain]) mkdirSync(folder);
    own(join(project, ".wakeful"), "PROJECT {message} ({source}) {{braces}}\n");
    await using users = await startPod({ home, script: ALWAYS, name: "users", cwd: plain });
    await using projects = await startPod({ home, script: ALWAYS, name: "projects", cwd: project });
    const bodies = async (pod: typeof users) => {
      await pod.notify("{source} is no placeholder");
      await pod.settled();
      return pod.entries("system_items").flatMap((entry) => entry.items.map((item) => item.body));
    };
    expect(await bodies(users)).toEqual(["USER ci: {source} is no placeholder"]);
    const [body] = await bodies(projects);
    expect(body).toMatch(/^PROJECT \{source\} is no placeholder \(ci\)/);
    // A later change of the template changes neither the past nor this session.
    own(join(home.home, ".config", "wakeful"), "CHANGED {source}: {message}\n");
    await users.kill();
    await users.restore();
    expect(await bodies(users)).toEqual(["USER ci: {source} is no placeholder", "USER ci: {source} is no placeholder"]);
  });
});
