import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { connectUnix, listenUnix } from "../transport/unix-socket.ts";
import { FakeModel, say } from "../turn/test-support.ts";
import { Controller } from "./controller.ts";
import { ClientConnection } from "./socket-server.ts";
import { PodBench } from "./test-support.ts";

/** A Pod behind a real socket: the client's end and ours. */
async function connected(bench: PodBench) {
  const folder = mkdtempSync(join(tmpdir(), "wakeful-socket-"));
  const controller = new Controller(bench.pod, () => {});
  let connection: ClientConnection | undefined;
  const accepted = Promise.withResolvers<Socket>();
  const listener = await listenUnix(join(folder, "run", "s"), (socket) => {
    connection = new ClientConnection(socket, controller, { info: () => {}, warn: () => {} });
    accepted.resolve(socket);
  });
  const client = await connectUnix(listener.path, { deadlineMs: 5000 });
  const server = await accepted.promise;
  return {
    client,
    server,
    isAttached: () => connection !== undefined && controller.isAttached(connection),
    async [Symbol.asyncDispose]() {
      client.destroy();
      server.destroy();
      await listener.close();
      rmSync(folder, { recursive: true });
    },
  };
}

const line = (method: string, params: unknown, id?: number) => `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
const newBench = () => new PodBench({ openModel: async () => new FakeModel(say("ok")) });

verifies(
  ["I6"],
  "short requests for long answers are begun only as the client takes the answers",
  async () => {
    using bench = newBench();
    await bench.run("x".repeat(900_000));
    await using both = await connected(bench);
    both.client.pause();
    both.client.write(line("attach", {}, 1).repeat(1000));
    await expect.poll(() => both.server.writableLength).toBeGreaterThan(900_000);
    // Everything that one read brought has been looked at by then.
    await new Promise((resolve) => setImmediate(resolve));
    expect(both.server.writableLength).toBeLessThan(4_000_000);
    let answers = 0;
    both.client.on("data", (chunk: Buffer) => {
      answers += chunk.toString("latin1").split("\n").length - 1;
    });
    both.client.resume();
    await expect.poll(() => answers, { timeout: 60_000, interval: 200 }).toBeGreaterThanOrEqual(20);
  },
  { timeoutMs: 70_000 },
);

verifies(["I4"], "a snapshot is written before the first event that is newer, also when both come of one read", async () => {
  using bench = newBench();
  await using both = await connected(bench);
  both.client.write(line("attach", {}, 1) + line("notify", { source: "ci", message: "n" }, 2));
  let text = "";
  while (!text.includes('"id":2')) {
    const [chunk]: unknown[] = await once(both.client, "data");
    text += String(chunk);
  }
  const lines = text.trim().split("\n");
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ id: 1, result: { cursor: { seq: 1 } } });
  expect(JSON.parse(lines[1] ?? "")).toMatchObject({ method: "event", params: { type: "system_item", seq: 2 } });
});

verifies(["I6"], "a client that is gone is not attached any more, though its last line asked for that", async () => {
  using bench = newBench();
  await bench.run("x".repeat(900_000));
  await using both = await connected(bench);
  const gone = new Promise<void>((resolve) => both.server.once("close", () => resolve()));
  both.client.pause();
  both.client.write(line("attach", {}, 1).repeat(50));
  await expect.poll(() => both.server.writableNeedDrain).toBe(true);
  both.client.destroy();
  await gone;
  await new Promise((resolve) => setImmediate(resolve));
  expect(both.isAttached()).toBe(false);
});
