import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { AppError } from "../base/errors.ts";
import type { Status } from "../protocol/status.ts";
import type { PodPatch, Registry, UpdateResult } from "../registry/registry.ts";
import { LogFile } from "../session-log/log-file.ts";
import { RegistryReporter } from "./registry-reporter.ts";

const STATUS: Status = {
  state: "idle",
  turn: 1,
  trigger: null,
  last_outcome: null,
  pending: 0,
  wake_held: null,
  model: "m",
  usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
  scope_enforcement: "tools_only",
};

/** A registry that writes down what it is told; it takes its time, and fails when the test says so. */
class FakeRegistry {
  readonly told: unknown[] = [];
  failure: Error | undefined;
  open = 0;
  mostOpen = 0;

  async #tell(what: unknown): Promise<UpdateResult> {
    this.open += 1;
    this.mostOpen = Math.max(this.mostOpen, this.open);
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.open -= 1;
    if (this.failure) throw this.failure;
    this.told.push(what);
    return "updated";
  }
  update = (_: string, patch: PodPatch) => this.#tell({ status: patch.state, turn: patch.turn });
  setHead = (_: string, head: { readonly seq: number }) => this.#tell({ head: head.seq });
  setProcessGroups = (_: string, groups: readonly number[]) => this.#tell({ groups: [...groups] });
  release = (_: string, reason: string) => this.#tell({ released: reason });
}

function bench() {
  const directory = mkdtempSync(join(tmpdir(), "wakeful-reporter-"));
  const log = LogFile.create(join(directory, "s"));
  const registry = new FakeRegistry();
  const warnings: string[] = [];
  const reporter = new RegistryReporter({
    registry: registry as unknown as Registry,
    session: "s_1",
    log,
    logger: { info: () => {}, warn: (message) => void warnings.push(message) },
  });
  const dispose = () => {
    log[Symbol.dispose]();
    rmSync(directory, { recursive: true, force: true });
  };
  return { registry, reporter, log, warnings, [Symbol.dispose]: dispose };
}

const quiet = () => new Promise((resolve) => setTimeout(resolve, 120));

describe("the registry", () => {
  it("is told the last of many changes, once, and never by two at a time", async () => {
    using at = bench();
    for (let turn = 1; turn <= 100; turn++) at.reporter.noteStatus({ ...STATUS, turn });
    await expect.poll(() => at.registry.told).toEqual([{ status: "idle", turn: 100 }]);
    at.reporter.noteStatus({ ...STATUS, state: "running", turn: 101 });
    at.reporter.started(4242);
    await expect.poll(() => at.registry.told).toHaveLength(3);
    expect(at.registry.told.slice(1)).toEqual([{ status: "running", turn: 101 }, { groups: [4242] }]);
    expect(at.registry.mostOpen).toBe(1);
  });

  it("is not told of a tool's process that was gone at once", async () => {
    using at = bench();
    at.reporter.started(4242);
    at.reporter.ended(4242);
    await quiet();
    expect(at.registry.told).toEqual([]);
  });

  it("is told at the end what was not told yet, and then that the Pod left", async () => {
    using at = bench();
    at.log.append([{ type: "closed", reason: "x" }], 1);
    await at.log.sync();
    at.reporter.noteGrowth();
    at.reporter.noteStatus({ ...STATUS, state: "stopped" });
    await at.reporter.release("shutdown");
    expect(at.registry.told).toEqual([{ status: "stopped", turn: 1 }, { head: 1 }, { released: "shutdown" }]);
    at.reporter.noteStatus(STATUS);
    at.reporter.started(4242);
    await quiet();
    expect(at.registry.told).toHaveLength(3);
  });

  it("that cannot be written is told again with the next change: nothing is lost by one failure", async () => {
    using at = bench();
    at.registry.failure = new AppError("busy", "others write");
    at.reporter.started(4242);
    at.reporter.noteStatus({ ...STATUS, state: "running" });
    await expect.poll(() => at.warnings.length).toBe(1);
    at.registry.failure = undefined;
    at.reporter.ended(1); // Any change at all.
    await expect.poll(() => at.registry.told).toEqual([{ status: "running", turn: 1 }, { groups: [4242] }]);
  });
});
