import { expect } from "vitest";
import { type StartPodOptions, startPod, type TestPod } from "./pod-harness.ts";
import { MODELS, serverEnv, type WireName } from "./provider-server/ask-model.ts";
import type { ProviderServer } from "./provider-server/provider-server.ts";

/** A real Pod whose every provider is the test server; its model is the one of `wire`, or the strictest kind of chat server. */
export function startWirePod(server: ProviderServer, wire: WireName | "strict", more: StartPodOptions = {}): Promise<TestPod> {
  return startPod({
    ...more,
    env: { ...serverEnv(server.baseUrl), ...more.env },
    model: wire === "strict" ? "strict/some-model" : MODELS[wire],
    config: {
      "providers.local": { base_url: server.baseUrl },
      "providers.strict": { base_url: `${server.baseUrl}/strict/v1`, strict_roles: true },
      ...more.config,
    },
  });
}

/** Checks that no request broke a rule and that `log audit` rebuilds every one of them byte for byte; gives how many there were. */
export async function checkRequests(pod: TestPod, server: ProviderServer): Promise<number> {
  expect(server.violations).toEqual([]);
  await pod.verify();
  const audit = await pod.cli("log", "audit", pod.name, "--json");
  const report: Record<string, unknown> = JSON.parse(audit.stdout);
  expect(report).toMatchObject({ ok: true, other_adapter: 0, body_unchecked: 0 });
  expect(report["body_checked"]).toBe(report["requests"]);
  return Number(report["requests"]);
}
