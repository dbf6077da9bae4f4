import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { fakeIo } from "../../test/support/fake-io.ts";
import { connect, resultOf } from "../client/connection.ts";
import { findPod } from "../client/find-pod.ts";
import { launchedPod, launchPod } from "../client/launched-pod.ts";
import { spawnPod } from "../client/spawn-pod.ts";
import { resolvePlaces, sessionDir } from "../registry/places.ts";
import { runCli } from "./dispatch.ts";

let home = "";
let env: Record<string, string> = {};
beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "wk-")));
  env = { WAKEFUL_HOME: join(home, "data"), HOME: home, PATH: process.env["PATH"] ?? "" };
  writeFileSync(join(home, "s.yaml"), "steps:\n  - say: Hello\n");
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const options = () => ({ env, places: resolvePlaces(env) });
const order = () => ({ cwd: home, open: { kind: "named" as const, name: "worker" }, model: `script:${join(home, "s.yaml")}` });
const logs = () => readdirSync(join(home, "data", "logs"));
const isThere = (pid: number | undefined) => {
  try {
    return pid !== undefined && process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe("a launched Pod", () => {
  test("is reachable, found by name, keeps its standard error in its session, and stays stopped and restorable after its end", async () => {
    const pod = await launchPod(order(), options());
    try {
      expect(pod).toMatchObject({ ok: true, name: "worker", restored: false });
      const { places } = options();
      expect(await findPod(places, "worker")).toMatchObject({
        kind: "living",
        row: { session: pod.session, address: pod.address },
      });
      expect(existsSync(join(sessionDir(places, pod.session), "pod.stderr"))).toBe(true);
      expect(logs()).toEqual([]);
      await using connection = await connect(pod.address);
      expect(resultOf(await connection.request("status", {}))).toMatchObject({ state: "idle" });
      const io = fakeIo({ env, cwd: home });
      expect(await runCli(["stop", "worker"], io)).toBe(0);
      expect(isThere(pod.pid)).toBe(false);
      expect(await findPod(places, "worker")).toMatchObject({ kind: "stopped", row: { session: pod.session } });
      expect(await runCli(["send", "worker", "x"], io)).toBe(3);
      expect(io.err()).toContain("Pod worker is not running. Bring it back: wakeful restore worker");
    } finally {
      if (isThere(pod.pid)) process.kill(pod.pid, "SIGKILL");
    }
  }, 30_000);

  test("that reports a refusal throws it and leaves nothing", async () => {
    await expect(launchPod({ ...order(), open: { kind: "restore", target: "nobody" } }, options())).rejects.toMatchObject({
      code: "not_found",
    });
    expect(logs()).toEqual([]);
  }, 30_000);

  test("that is not ready in time is ended", async () => {
    const spawned = spawnPod(order(), options());
    await expect(launchedPod(spawned, { ...options(), deadlineMs: 1 })).rejects.toMatchObject({ code: "timed_out" });
    await new Promise((resolve) =>
      (spawned.child.exitCode ?? spawned.child.signalCode) === null ? spawned.child.once("exit", resolve) : resolve(0),
    );
    expect(isThere(spawned.child.pid)).toBe(false);
    expect(logs()).toEqual([]);
  }, 30_000);

  test("that dies before it is ready is an error with its last words", async () => {
    const spawned = spawnPod(order(), options());
    writeFileSync(spawned.stderrPath, "out of cheese\n");
    spawned.child.kill("SIGKILL");
    await expect(launchedPod(spawned, options())).rejects.toThrow(
      /ended before it was ready \(SIGKILL\); its last words: out of cheese/,
    );
    expect(logs()).toEqual([]);
  }, 30_000);

  test("is not started in a directory that is gone, which is named (B96)", () => {
    expect(() => spawnPod({ ...order(), cwd: join(home, "gone") }, options())).toThrow(/gone is not there/);
    expect(existsSync(join(home, "data", "logs"))).toBe(false);
  });
});
