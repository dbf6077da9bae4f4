import { describe, expect } from "vitest";
import { startPod, type TestPod } from "../support/pod-harness.ts";
import { ALWAYS, bashUntil, sayWhen } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

/** How often each item or input entered the context. */
function timesTaken(pod: TestPod, id: string): number {
  return pod
    .entries("llm_request")
    .flatMap((entry) => entry.takes)
    .filter((taken) => taken === id).length;
}

describe("after kill -9", () => {
  verifies(
    ["N6-restore", "N8", "N6"],
    "between a request that took a notification and its answer, the restored Pod wakes by itself and answers it",
    async () => {
      await using pod = await startPod({
        script: { steps: [sayWhen("go", "I saw it.")], otherwise: { say: "nothing more" } },
      });
      const sent = await pod.notify("important");
      await pod.waitForEntries("llm_request");
      expect(timesTaken(pod, sent.item)).toBe(1);
      await pod.kill();
      pod.touch("go");
      await pod.restore();
      const ended = await pod.waitForEntries("turn_ended", 2);
      expect(ended.map((entry) => entry.outcome)).toEqual(["interrupted", "completed"]);
      // It is in the context once, and the answer follows it.
      expect(timesTaken(pod, sent.item)).toBe(1);
      expect(pod.entries("assistant_items").at(-1)?.items).toMatchObject([{ content: [{ text: "I saw it." }] }]);
      expect((await pod.settled()).turn).toBe(2);
      await pod.verify();
    },
  );

  verifies(
    ["N8", "N6-restore"],
    "a notification that was acknowledged a moment before is there, and acted on (B17)",
    async () => {
      await using pod = await startPod({ script: ALWAYS });
      const sent = await pod.notify("just now");
      await pod.kill();
      expect(timesTaken(pod, sent.item)).toBeLessThanOrEqual(1);
      await pod.restore();
      await pod.settled();
      expect(timesTaken(pod, sent.item)).toBe(1);
      expect(pod.entries("turn_ended").at(-1)?.outcome).toBe("completed");
      await pod.verify();
    },
  );

  verifies(
    ["N6-restore", "S8"],
    "a human's input that waited starts no turn; people are told, and it enters the next request once (B36)",
    async () => {
      await using pod = await startPod({ script: { steps: [bashUntil("go")], otherwise: { say: "ok" } } });
      await pod.run("first");
      await pod.file("go.started");
      await pod.run("queued before the crash", { if_running: "queue" });
      await pod.kill();
      await pod.restore();
      await using client = await pod.client();
      expect(client.snapshot.alerts.map((alert) => alert.code)).toEqual(["turn_interrupted", "input_waits"]);
      expect(client.snapshot.status).toMatchObject({ state: "idle", last_outcome: "interrupted" });
      // A client that attaches causes nothing either.
      await using _second = await pod.client();
      await pod.request("status", {});
      expect(pod.entries("turn_started")).toHaveLength(1);
      expect(pod.entries("llm_request")).toHaveLength(1);
      await pod.run("another text");
      await client.event("turn_ended");
      const inputs = pod.entries("user_input").map((entry) => entry.id);
      for (const id of inputs) expect(timesTaken(pod, id)).toBe(1);
      expect(
        pod
          .entries("llm_request")
          .at(-1)
          ?.takes.filter((id) => id.startsWith("input_")),
      ).toEqual(inputs.slice(1));
      await pod.verify();
    },
  );

  verifies(["N6-restore", "M-resume-idle"], "resume goes on with what waits", async () => {
    await using pod = await startPod({ script: { steps: [sayWhen("never", "x")], otherwise: { say: "ok" } } });
    await pod.run("first");
    await pod.waitForEntries("llm_request");
    await pod.kill();
    await pod.restore();
    pod.touch("never");
    expect(await pod.request("resume", {})).toEqual({ turn: 2 });
    await pod.waitForEntries("turn_ended", 2);
    expect(pod.entries("turn_started").at(-1)?.trigger).toBe("resume");
    expect(pod.entries("assistant_items").at(-1)?.items).toMatchObject([{ content: [{ text: "x" }] }]);
    await pod.verify();
  });
});

describe("a restore", () => {
  verifies(["I4", "L8", "S7"], "repeated writes nothing but closed, and sends nothing (B04, B92)", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("go")], otherwise: { say: "ok" } } });
    await pod.run("first");
    await pod.file("go.started");
    await pod.notify("news");
    await pod.kill();
    await pod.restore();
    await pod.settled();
    await using before = await pod.client();
    const blocks = [...before.view.blocks];
    await pod.terminate();
    const length = pod.log().length;
    expect(pod.log().at(-1)).toMatchObject({ type: "closed", reason: "SIGTERM" });
    for (let round = 1; round <= 3; round++) {
      await pod.restore();
      const clients = await Promise.all([pod.client(), pod.client()]);
      for (const client of clients) {
        expect([...client.view.blocks].slice(0, blocks.length)).toEqual(blocks);
        expect(
          client.snapshot.events.filter((event) => event.type === "system_item" && event.item.kind === "notification"),
        ).toHaveLength(1);
        await client[Symbol.asyncDispose]();
      }
      expect(await pod.terminate()).toBe(0);
      expect(
        pod
          .log()
          .slice(length)
          .map((entry) => entry.type),
      ).toEqual(new Array(round).fill("closed"));
    }
    // A kill -9 of an idle Pod leaves nothing to mend either.
    await pod.restore();
    await pod.kill();
    await pod.restore();
    expect(pod.log()).toHaveLength(length + 3);
    await pod.verify();
  });
});

describe("after a turn that failed", () => {
  verifies(["N6", "N8"], "what it took is still owed: the Pod waits, says so, and wakes when the wait is over", async () => {
    await using pod = await startPod({
      script: { steps: [{ fail: { status: 529, retry_after: "300ms", times: 1 }, say: "now I can" }] },
      config: { limits: { attempts_per_request: 1 } },
    });
    await using client = await pod.client();
    const sent = await pod.notify("news");
    const failed = await client.event("turn_ended");
    expect(failed).toMatchObject({ outcome: "failed", error: { code: "overloaded", retry_after_ms: 300 } });
    const held = await client.event("status", (event) => event.status.wake_held !== null);
    expect(held.status.wake_held).toMatchObject({ reason: "after_failure" });
    expect((await client.event("alert", (event) => event.alert.code === "wake_held")).alert.active).toBe(true);
    await client.event("turn_started", (event) => event.turn === 2);
    // A script plays a failure's `times` anew for each turn; that the second attempt came is what counts here.
    const second = await client.event("turn_ended", (event) => event.turn === 2);
    expect(second).toBeDefined();
    expect(timesTaken(pod, sent.item)).toBe(1);
  });

  verifies(["N6", "M-resume-idle", "S8"], "the usual wait is a minute; resume and a human's message do not wait", async () => {
    await using pod = await startPod({
      script: { steps: [{ fail: { status: 401, message: "invalid key" } }] },
    });
    await using client = await pod.client();
    const sent = await pod.notify("news");
    const failed = await client.event("turn_ended");
    expect(failed.error?.message).toContain("invalid key");
    const { status } = await client.event("status", (event) => event.status.wake_held !== null);
    if (status.wake_held?.reason !== "after_failure") throw new Error("not held by the failure");
    expect(status.wake_held.until - failed.ts).toBe(60_000);
    expect((await pod.notify("more")).state).toBe("pending");
    expect(await pod.request("resume", {})).toEqual({ turn: 2 });
    await client.event("turn_ended", (event) => event.turn === 2);
    await pod.run("now then");
    const third = await client.event("turn_ended", (event) => event.turn === 3);
    expect(timesTaken(pod, sent.item)).toBe(1);
    // The wait doubles with each failure.
    const until = third.ts + 240_000;
    await client.event(
      "status",
      ({ status }) => status.wake_held?.reason === "after_failure" && status.wake_held.until === until,
    );
    await pod.kill();
    await pod.restore();
    expect((await pod.status()).wake_held).toMatchObject({ reason: "after_failure" });
    expect(pod.entries("turn_started")).toHaveLength(3);
    await pod.verify();
  });
});

describe("cancel", () => {
  verifies(["N6", "M-cancel-running", "I5"], "settles what its turn took and leaves what it did not take", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("never")], otherwise: { say: "ok" } } });
    const taken = await pod.notify("taken");
    await pod.file("never.started");
    const late = await pod.notify("late");
    expect(await pod.request("cancel", {})).toEqual({});
    // What was not taken wakes the Pod again; what was taken and cancelled does not.
    const ended = await pod.waitForEntries("turn_ended", 2);
    expect(ended.map((entry) => entry.outcome)).toEqual(["cancelled", "completed"]);
    expect(timesTaken(pod, taken.item)).toBe(1);
    expect(timesTaken(pod, late.item)).toBe(1);
    expect((await pod.settled()).turn).toBe(2);
    await pod.verify();
  });

  verifies(["N6", "N6-restore"], "of everything is remembered over a crash: nothing wakes", async () => {
    await using pod = await startPod({ script: { steps: [bashUntil("never")], otherwise: { say: "ok" } } });
    await pod.notify("taken");
    await pod.file("never.started");
    await pod.request("cancel", {});
    expect(await pod.status()).toMatchObject({ state: "idle", last_outcome: "cancelled", pending: 0 });
    await pod.kill();
    await pod.restore();
    expect(await pod.status()).toMatchObject({ state: "idle", turn: 1, wake_held: null });
    expect(pod.entries("turn_started")).toHaveLength(1);
  });
});
