import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { listFiles } from "../session-log/file-names.ts";
import { replayAll, replayNewest } from "../session-log/test-support.ts";
import { FakeModel, say } from "../turn/test-support.ts";
import { PodBench } from "./test-support.ts";

const SAYS_OK = () => Promise.resolve(new FakeModel(say("ok")));

function directoryOf(bench: PodBench): string {
  return bench.log.file.slice(0, bench.log.file.lastIndexOf("/"));
}

describe("a Pod whose log goes on in a new file", () => {
  verifies(
    ["L8-rotation", "I4", "S7"],
    "tells its clients nothing of it, and its state is what the newest file says",
    async () => {
      using bench = new PodBench({ openModel: async () => new FakeModel(...Array.from({ length: 12 }, () => say("ok"))) });
      bench.log.rotateBytes = 1;
      for (let turn = 1; turn <= 12; turn++) {
        await bench.run(`turn ${turn} ${"x".repeat(500)}`);
        await expect.poll(() => bench.pod.phase).toBe("idle");
      }
      const files = listFiles(directoryOf(bench));
      expect(files.length).toBeGreaterThan(2);
      expect(bench.state.turns).toBe(12);
      expect(isDeepStrictEqual(replayNewest(directoryOf(bench)), bench.state)).toBe(true);
      expect(isDeepStrictEqual(replayAll(directoryOf(bench)), bench.state)).toBe(true);
      const types = bench.events.map((event) => event.type);
      expect(types.filter((type) => type === "turn_ended")).toHaveLength(12);
      expect(types).not.toContain("session_started");
      expect(bench.pod.alerter.snapshot()).toEqual([]);
      // Who attaches late sees the same, whatever file it stands in.
      const late = bench.pod.attach({ send: () => true }, {});
      const seen = bench.events.filter((event) => "seq" in event);
      expect(late.events.slice(1)).toEqual(seen.slice(seen.length - late.events.length + 1));
      expect(late.events[0]).toMatchObject({ type: "session_started", seq: 1 });
      expect(late.cursor.seq).toBe(late.events.at(-1)?.seq);
    },
  );

  verifies(
    ["L8-rotation", "S8"],
    "goes on in the old one while the disk takes no new one, says so once, and takes it back",
    async () => {
      using bench = new PodBench({ openModel: SAYS_OK });
      bench.disk.refuses = (text) => text.includes('"continues"');
      bench.log.rotateBytes = 8000;
      for (let n = 0; n < 30; n++) {
        const message = `${n} ${"x".repeat(600)}`;
        expect(await bench.notify(message, { wake: false })).toMatchObject({ ok: true, result: { state: "pending" } });
      }
      expect(listFiles(directoryOf(bench))).toHaveLength(1);
      expect(bench.pod.alerter.snapshot()).toMatchObject([{ code: "log_not_rotated", level: "warning" }]);
      expect(bench.events.filter((event) => event.type === "alert")).toHaveLength(1);
      expect(bench.storageLost).toBeUndefined();
      bench.disk.refuses = () => false;
      for (let n = 0; n < 3; n++) await bench.notify(`more ${"x".repeat(600)}`, { wake: false });
      expect(listFiles(directoryOf(bench))).toHaveLength(2);
      expect(bench.pod.alerter.snapshot()).toEqual([]);
      expect(bench.state.pending.size).toBe(33);
      expect(isDeepStrictEqual(replayNewest(directoryOf(bench)), bench.state)).toBe(true);
    },
  );

  it("tells that nothing can be written any more when the new file can be trusted as little as the old one", async () => {
    using bench = new PodBench({ openModel: SAYS_OK });
    bench.log.rotateBytes = 1;
    bench.disk.syncDirectory = () => {
      throw new Error("EIO: i/o error, fsync");
    };
    await bench.notify("x".repeat(9000), { wake: false });
    expect(bench.storageLost).toMatchObject({ code: "storage_failed" });
    expect(await bench.notify("n")).toMatchObject({ ok: false, refusal: { code: "storage_failed" } });
  });
});
