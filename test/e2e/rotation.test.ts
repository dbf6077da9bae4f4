import { describe, expect } from "vitest";
import { listFiles } from "../../src/session-log/file-names.ts";
import { startPod, type TestPod } from "../support/pod-harness.ts";
import { bash, bashUntil, type ScriptInput } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

/** Files over 20 KiB are followed by a new one: a few calls with some output each. */
const CONFIG = { log: { rotate_mib: 0.02 } };
const NOISE = "head -c 6000 /dev/zero | tr '\\\\0' x";

function filesOf(pod: TestPod): number {
  return listFiles(pod.logDirectory).length;
}

async function proven(pod: TestPod): Promise<void> {
  await pod.verify();
  const verified = await pod.cli("log", "verify", pod.session, "--json");
  expect(JSON.parse(verified.stdout)).toMatchObject({ ok: true, files: filesOf(pod) });
  const audited = await pod.cli("log", "audit", pod.session, "--json");
  expect(JSON.parse(audited.stdout)).toMatchObject({ ok: true, body_checked: pod.entries("llm_request").length });
}

describe("a session whose log has several files", () => {
  verifies(
    ["L8-rotation", "I1", "I4", "N8", "L7"],
    "is killed again and again, in the middle of a call too, and goes on from its newest file as if it had one",
    async () => {
      const script: ScriptInput = {
        steps: [
          bash(NOISE, NOISE),
          bash(NOISE),
          { say: "first" },
          bash(NOISE, NOISE, NOISE),
          bashUntil("gate"),
          { expect: { last_contains: ["may or may not have taken effect"] }, say: "second" },
        ],
        otherwise: { say: "Noted." },
      };
      await using pod = await startPod({ script, config: CONFIG });
      await using watcher = await pod.client();
      await pod.run("one");
      await pod.waitForEntries("turn_ended", 1);
      await pod.notify("build broke", { id: "ci-1" });
      await pod.file("gate.started");
      const between = filesOf(pod);
      expect(between).toBeGreaterThan(1);
      await pod.notify("while it runs", { id: "ci-2" });
      await pod.kill();
      expect(watcher.events.filter((event) => event.type === "session_started")).toEqual([]);

      await pod.restore();
      expect(pod.log().filter((entry) => entry.type === "session_started")).toHaveLength(filesOf(pod));
      // The same id again, after a kill and over a rotation: the first answer.
      const again = await pod.notify("build broke", { id: "ci-1" });
      expect(pod.entries("system_items").filter((entry) => entry.answers?.id === "ci-1")).toHaveLength(1);
      expect(again.seq).toBe(pod.entries("system_items").find((entry) => entry.answers?.id === "ci-1")?.seq);
      await pod.waitForLog((entries) => entries.filter((entry) => entry.type === "turn_ended").length >= 3);
      await pod.settled();
      for (let n = 0; n < 4; n++) {
        await pod.run(`more ${n} ${"y".repeat(60_000)}`);
        await pod.settled();
        await pod.kill();
        await pod.restore();
      }
      expect(filesOf(pod)).toBeGreaterThan(between);

      // A client pages back through all of it: every event once, in order, and nothing of the files.
      await using client = await pod.client();
      const paged = [...client.snapshot.events];
      let more = client.snapshot.more;
      while (more) {
        const [first] = paged;
        if (first === undefined || !("seq" in first)) throw new Error("nothing to page from");
        const page = await pod.request("history", { before: { seq: first.seq, index: first.index }, limit: 7 });
        paged.unshift(...page.events);
        more = page.more;
      }
      expect(paged.filter((event) => event.type === "session_started")).toHaveLength(1);
      expect(paged.filter((event) => event.type === "tool_result")).toHaveLength(7);
      expect(paged.filter((event) => event.type === "turn_ended").length).toBe(pod.entries("turn_ended").length);
      expect(client.snapshot.cursor).toEqual({ seq: paged.at(-1)?.seq, index: paged.at(-1)?.index });
      await proven(pod);
    },
    { timeoutMs: 120_000 },
  );

  verifies(
    ["L8-rotation", "N12"],
    "begins a new file while a turn is paused, and the turn goes on after a kill",
    async () => {
      const script: ScriptInput = { steps: [bashUntil("gate"), { say: "went on" }], otherwise: { say: "Noted." } };
      await using pod = await startPod({ script, config: CONFIG });
      await pod.run("work");
      await pod.file("gate.started");
      const paused = pod.request("pause", {});
      pod.touch("gate");
      await paused;
      for (let n = 0; n < 6; n++) await pod.notify(`${n} ${"z".repeat(8000)}`);
      expect(filesOf(pod)).toBeGreaterThan(1);
      await pod.kill();
      await pod.restore();
      expect(await pod.status()).toMatchObject({ state: "paused", pending: 6 });
      await pod.request("resume", {});
      await pod.waitForEntries("turn_ended");
      expect(pod.entries("turn_ended")[0]).toMatchObject({ turn: 1, outcome: "completed" });
      await pod.settled();
      expect(pod.entries("llm_request").flatMap((entry) => entry.takes)).toHaveLength(7);
      await proven(pod);
    },
    { timeoutMs: 60_000 },
  );
});
