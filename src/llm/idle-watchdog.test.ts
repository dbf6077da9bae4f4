import { describe, expect, it } from "vitest";
import { IdleWatchdog } from "./idle-watchdog.ts";

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("the watch over a silent peer", () => {
  it("begins anew with each sign of life, does not run while nobody listens, and tells once", async () => {
    let told = 0;
    const watchdog = new IdleWatchdog(150, () => {
      told += 1;
    });
    for (let n = 0; n < 4; n++) {
      watchdog.alive();
      await wait(70);
    }
    watchdog.pause();
    await wait(250);
    expect(told).toBe(0);
    watchdog.resume();
    for (let n = 0; n < 6; n++) {
      watchdog.pause();
      watchdog.resume();
      await wait(60);
    }
    expect(told).toBe(1);
    watchdog.stop();
  });

  it("tells nothing after it was stopped", async () => {
    let told = 0;
    const watchdog = new IdleWatchdog(30, () => {
      told += 1;
    });
    watchdog.alive();
    watchdog.stop();
    await wait(100);
    expect(told).toBe(0);
  });

  it("does not take a standstill of its own process for silence (B70)", async () => {
    const toldAtMs: number[] = [];
    const watchdog = new IdleWatchdog(200, () => toldAtMs.push(performance.now()));
    watchdog.alive();
    // What a stopped process or a sleeping machine looks like from inside.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
    const wokeAtMs = performance.now();
    await wait(600);
    watchdog.stop();
    expect(toldAtMs).toHaveLength(1);
    expect((toldAtMs[0] ?? 0) - wokeAtMs).toBeGreaterThan(150);
  });
});
