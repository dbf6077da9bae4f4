import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { type StartPodOptions, startPod, type TestPod } from "../support/pod-harness.ts";
import { stream, text } from "../support/provider-server/answer.ts";
import { startProviderServer } from "../support/provider-server/provider-server.ts";
import { bash, type ScriptInput } from "../support/scripts.ts";
import { verifies } from "../support/verifies.ts";

/** How long a round may take until everything is settled. */
const ROUND_MS = 20_000;

/** Every acknowledged id entered the context once, and a request that took it was answered. */
function expectAllAnswered(pod: TestPod, ids: readonly string[]): void {
  const takes = new Map<string, number>();
  const answered = new Set<string>();
  let open: readonly string[] = [];
  for (const entry of pod.log()) {
    if (entry.type === "llm_request") {
      for (const id of entry.takes) takes.set(id, (takes.get(id) ?? 0) + 1);
      open = [...open, ...entry.takes];
    }
    // A later request shows what an earlier one took: its answer answers both.
    if (entry.type === "assistant_items") {
      for (const id of open) answered.add(id);
      open = [];
    }
  }
  expect(ids.filter((id) => takes.get(id) !== 1)).toEqual([]);
  expect(ids.filter((id) => !answered.has(id))).toEqual([]);
}

describe("notifications at random moments around a turn's end", () => {
  const ROUNDS = 200;
  const sources: readonly (readonly [string, () => Promise<StartPodOptions & { readonly close: () => Promise<void> }>])[] = [
    ["the scripted model", async () => ({ script: { otherwise: { say: "ok" } } satisfies ScriptInput, close: async () => {} })],
    [
      "a provider that answers at once",
      async () => {
        const server = await startProviderServer({ answer: () => stream(text("ok")) });
        return { server, close: () => server.close() };
      },
    ],
  ];
  for (const [title, open] of sources) {
    verifies(
      ["N8", "N6", "I7"],
      `are none lost, none twice, each answered, with ${title}`,
      async () => {
        const options = await open();
        try {
          await using pod = await startPod(options);
          await using client = await pod.client();
          const ids: string[] = [];
          for (let round = 1; round <= ROUNDS / 2; round++) {
            const from = client.events.length;
            // The human's turn fills the bucket, so that the storm never runs it dry.
            const running = pod.run(`round ${round}`, { if_running: "queue" });
            const count = 1 + Math.floor(Math.random() * 4);
            const storm = Array.from({ length: count }, async () => {
              await sleep(Math.random() * 25);
              ids.push((await pod.notify(`note of round ${round}`)).item);
            });
            await Promise.all([running, ...storm]);
            await client
              .waitFor(() => isQuiet(client.view.status), { from, deadlineMs: ROUND_MS, what: "quiet" })
              .catch((thrown: unknown) => {
                // It may have been quiet before the last event of the round was looked at.
                if (!isQuiet(client.view.status)) throw thrown;
              });
          }
          await pod.settled();
          expect(ids.length).toBeGreaterThanOrEqual(ROUNDS / 2);
          expectAllAnswered(pod, ids);
          expect(pod.entries("turn_ended").every((entry) => entry.outcome === "completed")).toBe(true);
          await pod.verify();
        } finally {
          await options.close();
        }
      },
      { timeoutMs: 120_000 },
    );
  }
});

function isQuiet(status: { readonly state: string; readonly pending: number } | undefined): boolean {
  return status?.state === "idle" && status.pending === 0;
}

describe("kill -9 at random moments of a busy session", () => {
  /** Every step has a side effect of its own; which one runs depends only on how many answers there were. */
  const BUSY: ScriptInput = {
    pace: "1ms",
    chunk: 6,
    steps: Array.from({ length: 400 }, (_, n) =>
      n % 3 === 2
        ? { say: `The end of a turn, ${n}.` }
        : { say: `Step ${n}.`, ...bash(`echo ${n} >> effects`, `sleep 0.0${n % 7}; echo ${n}b >> effects`) },
    ),
    otherwise: { say: "no more" },
  };

  const laws = async (lives: number) => {
    await using pod = await startPod({ script: BUSY });
    const acknowledged: string[] = [];
    for (let life = 0; life < lives; life++) {
      let isOver = false;
      const send = async (which: number) => {
        for (let n = 0; !isOver; n++) {
          const text = `life ${life}, sender ${which}, ${n}`;
          const answer = await (which === 0
            ? pod.ask("run", { input: [{ kind: "text", text }], if_running: n % 2 === 0 ? "queue" : "steer" })
            : pod.ask("notify", { source: "storm", message: text })
          ).catch(() => undefined);
          if (answer?.ok && "item" in answer.result) acknowledged.push(answer.result.item);
          await sleep(Math.random() * 60);
        }
      };
      const senders = [send(0), send(1)];
      // Random, but never before something was acknowledged that must survive.
      const before = acknowledged.length;
      await expect.poll(() => acknowledged.length, { timeout: 15_000, interval: 10 }).toBeGreaterThan(before);
      await sleep(Math.random() * 200);
      await pod.kill();
      isOver = true;
      await Promise.all(senders);
      await pod.verify();
      await pod.restore();
    }
    // What the crashes left is worked off: the wake rule, and the human's resume for what does not wake by itself.
    await pod.ask("resume", {});
    await pod.settled(30_000);
    expect(acknowledged.length).toBeGreaterThanOrEqual(lives);
    expectAllAnswered(pod, acknowledged);
    const state = pod.log();
    const calls = state.flatMap((entry) =>
      entry.type === "assistant_items" ? entry.items.filter((item) => item.kind === "tool_call") : [],
    );
    const results = state.flatMap((entry) => (entry.type === "tool_results" ? entry.items : []));
    expect(results).toHaveLength(calls.length);
    const effects = (await pod.file("effects")).trimEnd().split("\n");
    expect(new Set(effects).size).toBe(effects.length);
    await pod.verify();
  };

  verifies(
    ["N8", "I5", "I4", "L9"],
    "loses no acknowledged notification, runs nothing twice, and leaves a sound log, over and over (B17, B40)",
    async () => {
      // Two Pods at a time: independent, and the waits overlap.
      await Promise.all([laws(13), laws(12)]);
      await Promise.all([laws(13), laws(12)]);
    },
    { timeoutMs: 240_000 },
  );
});
