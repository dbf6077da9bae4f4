import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { FakeModel, fails, hangs, say, signal } from "../turn/test-support.ts";
import { PodBench } from "./test-support.ts";

const OVERLOADED = { code: "overloaded", retryable: true } as const;

/** A Pod whose turn waits for its second attempt. */
async function waitingForRetry(input: (bench: PodBench) => Promise<unknown>): Promise<PodBench> {
  const bench = new PodBench({ openModel: async () => new FakeModel(fails(OVERLOADED)), retryBaseMs: 60_000 });
  await input(bench);
  await expect.poll(() => bench.events.some((event) => event.type === "retry")).toBe(true);
  return bench;
}

describe("the status that clients and registry are told", () => {
  verifies(["I6"], "counts a queued input at once, and what a request took no more", async () => {
    const streams = signal();
    using bench = new PodBench({ openModel: async () => new FakeModel(hangs("partial", streams.reached)) });
    await bench.run("r");
    await streams.promise;
    expect(bench.statuses.at(-1)).toMatchObject({ state: "running", pending: 0 });
    await bench.run("q", { if_running: "queue" });
    expect(bench.statuses.at(-1)).toMatchObject({ state: "running", pending: 1 });
  });

  it("tells no held wake any more once a cancel settled it", async () => {
    using bench = await waitingForRetry((pod) => pod.notify("n"));
    await bench.ask("pause");
    expect(bench.statuses.at(-1)).toMatchObject({ state: "paused", wake_held: { reason: "paused" } });
    await bench.ask("cancel");
    expect(bench.statuses.at(-1)).toMatchObject({ state: "idle", wake_held: null });
  });

  it("is told after a restore that changes nothing, so that the registry's row is mended", async () => {
    using bench = await waitingForRetry((pod) => pod.run("r"));
    await bench.ask("pause");
    await bench.ask("shutdown");
    using restored = new PodBench({ openModel: async () => new FakeModel(say("ok")), restores: bench });
    await restored.pod.restore();
    expect(restored.statuses).toMatchObject([{ state: "paused", turn: 1 }]);
  });
});

describe("a pause", () => {
  it("is refused when the turn fails before it comes to a safe point", async () => {
    const streams = signal();
    const goOn = signal();
    using bench = new PodBench({
      openModel: async () =>
        new FakeModel(async function* () {
          streams.reached();
          await goOn.promise;
          yield { type: "failure", failure: { code: "authentication", message: "no", retryable: false } };
        }),
    });
    await bench.run("r");
    await streams.promise;
    const pausing = bench.ask("pause");
    goOn.reached();
    expect(await pausing).toMatchObject({ ok: false, refusal: { code: "not_running" } });
    expect(bench.pod.phase).toBe("idle");
  });

  it("ends the wait for another attempt, also for who attaches afterwards", async () => {
    using bench = await waitingForRetry((pod) => pod.run("r"));
    expect(bench.live()).toMatchObject([{ type: "retry" }]);
    await bench.ask("pause");
    expect(bench.live()).toEqual([]);
  });
});

verifies(["N6", "N8"], "a shutdown in the middle of an answer leaves the wake owed that the answer was for", async () => {
  const streams = signal();
  using bench = new PodBench({ openModel: async () => new FakeModel(hangs("partial", streams.reached)) });
  await bench.notify("n");
  await streams.promise;
  await bench.ask("shutdown");
  expect(bench.state.history.at(-1)).toMatchObject({ kind: "message", content: [{ text: "partial" }] });
  using restored = new PodBench({ openModel: async () => new FakeModel(say("done")), restores: bench });
  await restored.pod.restore();
  await expect.poll(() => restored.state.lastOutcome).toBe("completed");
  expect(restored.state.owed.size).toBe(0);
});
