import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { answer, FakeModel, hangs, say, signal } from "../turn/test-support.ts";
import { PodBench } from "./test-support.ts";

const SAYS_OK = () => Promise.resolve(new FakeModel(say("ok")));
const refusal = (code: string) => ({ ok: false, refusal: { code } });

describe("a disk that fails for good", () => {
  verifies(["I2"], "ends the process, whoever met it: also a notification of an idle Pod", async () => {
    using bench = new PodBench({ openModel: SAYS_OK });
    bench.disk.syncFails = true;
    expect(await bench.notify("n")).toMatchObject(refusal("storage_failed"));
    expect(bench.storageLost).toMatchObject({ code: "storage_failed" });
    expect(await bench.run("r")).toMatchObject(refusal("storage_failed"));
  });
});

describe("a full disk", () => {
  verifies(["N6", "N8"], "keeps an owed turn waiting only until it has room again, without anybody asking", async () => {
    using bench = new PodBench({ openModel: SAYS_OK });
    bench.disk.refuses = (text) => text.includes("turn_started");
    expect(await bench.notify("n")).toMatchObject({ ok: true, result: { state: "woke" } });
    await expect.poll(() => bench.pod.alerter.snapshot()).toMatchObject([{ code: "storage_failed" }]);
    bench.disk.refuses = () => false;
    await expect.poll(() => bench.state.lastOutcome, { timeout: 6000 }).toBe("completed");
    expect(bench.state.owed.size).toBe(0);
    expect(bench.pod.alerter.snapshot()).toEqual([]);
  });

  /** A Pod whose turn could not be ended: the disk was full when its answer came. */
  async function stuck(): Promise<PodBench> {
    const bench: PodBench = new PodBench({
      openModel: async () =>
        new FakeModel(function* () {
          bench.disk.refuses = () => true;
          yield* answer([{ kind: "message", text: "lost" }]);
        }),
    });
    await bench.run("r");
    await expect.poll(() => bench.pod.phase).toBe("idle");
    return bench;
  }

  it("does not keep a Pod from being shut down, even with a turn that could not be ended", async () => {
    using bench = await stuck();
    expect(await bench.run("more")).toMatchObject(refusal("storage_failed"));
    expect(await bench.ask("shutdown")).toEqual({ ok: true, result: {} });
  });

  verifies(
    ["I2"],
    "makes a cancel fail whose end is not on record, and the turn ends in the log once there is room",
    async () => {
      const streams = signal();
      using bench = new PodBench({ openModel: async () => new FakeModel(hangs("partial", streams.reached)) });
      await bench.run("r");
      await streams.promise;
      bench.disk.refuses = () => true;
      expect(await bench.ask("cancel")).toMatchObject(refusal("storage_failed"));
      bench.disk.refuses = () => false;
      await expect.poll(() => bench.state.turn, { timeout: 6000 }).toBeUndefined();
      expect(bench.state.lastOutcome).toBe("failed");
    },
  );

  verifies(["I2"], "leaves a paused turn paused when the input that would end it is refused", async () => {
    const streams = signal();
    const goOn = signal();
    using bench = new PodBench({
      openModel: async () =>
        new FakeModel(async function* () {
          streams.reached();
          await goOn.promise;
          yield* answer([{ kind: "message", text: "ok" }]);
        }),
    });
    await bench.run("r");
    await streams.promise;
    const pausing = bench.ask("pause");
    goOn.reached();
    expect(await pausing).toEqual({ ok: true, result: {} });
    bench.disk.refuses = (text) => text.includes("user_input");
    expect(await bench.run("other")).toMatchObject(refusal("storage_failed"));
    expect(bench.pod.phase).toBe("paused");
    bench.disk.refuses = () => false;
    expect(await bench.run("again")).toEqual({ ok: true, result: { turn: 2, seq: bench.state.lastTurnStartSeq - 1 } });
  });
});

verifies(["N8"], "an id that a killed process remembered is answered again only behind a sync of our own", async () => {
  using bench = new PodBench({ openModel: SAYS_OK });
  await bench.notify("n", { id: "once" });
  using restored = new PodBench({ openModel: SAYS_OK, restores: bench });
  expect(await restored.notify("n", { id: "once" })).toMatchObject({ ok: true });
  expect(restored.disk.syncs).toBe(1);
});
