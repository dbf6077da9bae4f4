import { describe, expect } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { systemClock } from "../base/clock.ts";
import type { Alert } from "../protocol/alert.ts";
import { MAX_ALERTS } from "../protocol/limits.ts";
import { Alerter } from "./alerter.ts";

function alerter() {
  const published: Alert[] = [];
  return { published, alerts: new Alerter(systemClock, (alert) => published.push(alert)) };
}

describe("alerts", () => {
  verifies(["S8"], "are published when raised and kept for who comes later, until they are taken back", () => {
    const { published, alerts } = alerter();
    alerts.raise("warning", "wake_held", "notifications wait");
    alerts.raise("error", "turn_failed", "turn 1 failed");
    expect(published).toMatchObject([
      { level: "warning", code: "wake_held", message: "notifications wait", active: true },
      { level: "error", code: "turn_failed", active: true },
    ]);
    expect(alerts.snapshot()).toEqual(published);
    alerts.clear("wake_held");
    expect(published.at(-1)).toEqual({ ...published[0], active: false });
    expect(alerts.snapshot().map((alert) => alert.code)).toEqual(["turn_failed"]);
  });

  verifies(["S8"], "that say the same are raised once, and again after they were taken back", () => {
    const { published, alerts } = alerter();
    alerts.raise("warning", "w", "same");
    alerts.raise("warning", "w", "same");
    alerts.raise("warning", "w", "another");
    expect(alerts.snapshot()).toHaveLength(2);
    alerts.clear("w");
    expect(alerts.snapshot()).toEqual([]);
    alerts.raise("warning", "w", "same");
    expect(alerts.snapshot()).toHaveLength(1);
    expect(published).toHaveLength(5);
  });

  verifies(["S8", "I6"], "are bounded: the oldest leaves, and whoever watches is told", () => {
    const { published, alerts } = alerter();
    for (let n = 0; n <= MAX_ALERTS; n++) alerts.raise("info", "n", `number ${n}`);
    expect(alerts.snapshot()).toHaveLength(MAX_ALERTS);
    expect(alerts.snapshot()[0]?.message).toBe("number 1");
    expect(alerts.snapshot().at(-1)?.message).toBe(`number ${MAX_ALERTS}`);
    // A client's list is the fold of what was published: it must come to the same.
    const shown = new Map<string, Alert>();
    for (const alert of published) alert.active ? shown.set(alert.id, alert) : shown.delete(alert.id);
    expect([...shown.values()]).toEqual(alerts.snapshot());
  });
});
