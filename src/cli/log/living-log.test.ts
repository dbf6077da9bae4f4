import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../../../test/support/source-files.ts";
import { verifies } from "../../../test/support/verifies.ts";

const DEADLINE_MS = 20_000;

/** Real processes of the program in a home of their own. */
class Machine implements AsyncDisposable {
  readonly path = realpathSync(mkdtempSync(join(tmpdir(), "wl-")));
  readonly script = join(this.path, "script.yaml");

  constructor() {
    const steps = [{ say: "one" }, { say: "two" }, { say: "three" }];
    writeFileSync(this.script, JSON.stringify({ steps }));
  }

  start(args: readonly string[], stdout: "pipe" | "inherit" = "pipe"): ChildProcess {
    return spawn(process.execPath, [join(ROOT, "src/cli/main.ts"), ...args], {
      cwd: this.path,
      env: { HOME: this.path, WAKEFUL_HOME: join(this.path, "data"), PATH: process.env["PATH"] },
      stdio: ["ignore", stdout, "pipe"],
    });
  }

  async run(...args: string[]): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
    const child = this.start(args);
    let out = "";
    let err = "";
    child.stdout?.on("data", (chunk) => {
      out += chunk;
    });
    child.stderr?.on("data", (chunk) => {
      err += chunk;
    });
    const [code] = await once(child, "close", { signal: AbortSignal.timeout(DEADLINE_MS) });
    return { code, out, err };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.run("stop", "--all");
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** What a process printed, with a wait for a text in it. */
class Watched {
  readonly child: ChildProcess;
  out = "";

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.on("data", (chunk) => {
      this.out += chunk;
    });
  }

  async until(text: string): Promise<void> {
    await expect.poll(() => this.out, { timeout: DEADLINE_MS, interval: 20 }).toContain(text);
  }

  async end(): Promise<number | null> {
    if (this.child.exitCode !== null) return this.child.exitCode;
    const [code] = await once(this.child, "exit", { signal: AbortSignal.timeout(DEADLINE_MS) });
    return code;
  }
}

describe("the log of a living Pod", () => {
  verifies(
    ["L7", "I1", "L9"],
    "is shown, verified with its head mark, audited, exported and followed, and is not repaired",
    async () => {
      await using machine = new Machine();
      const started = await machine.run("start", "-n", "pod", "-m", `script:${machine.script}`);
      expect(started.code, started.err).toBe(0);
      const raw = new Watched(machine.start(["log", "follow", "pod", "--json"]));
      const readable = new Watched(machine.start(["log", "follow", "pod", "--last", "0"]));
      try {
        await raw.until('"session_started"');
        expect((await machine.run("send", "pod", "hello", "--wait")).code).toBe(0);
        expect((await machine.run("notify", "pod", "build broke", "--source", "ci")).code).toBe(0);
        await raw.until('"turn":2,"outcome":"completed"');

        const shown = await machine.run("log", "show", "pod");
        expect(shown.code).toBe(0);
        expect(shown.out).toContain("build broke");
        expect(shown.out).not.toContain("[pending]");
        await expect
          .poll(async () => (await machine.run("log", "verify", "pod")).out, { timeout: DEADLINE_MS })
          .toContain("agrees with the head mark");
        const audited = JSON.parse((await machine.run("log", "audit", "pod", "--json")).out);
        expect(audited).toMatchObject({ ok: true, requests: 2, body_checked: 2, other_adapter: 0 });
        expect((await machine.run("log", "export", "pod")).out).toContain("### System item: notification");
        const repaired = await machine.run("log", "repair", "pod");
        expect(repaired).toMatchObject({ code: 4, out: "" });
        expect(repaired.err).toContain("is owned by process");

        expect((await machine.run("stop", "pod")).code).toBe(0);
        expect(await raw.end()).toBe(0);
        expect(await readable.end()).toBe(0);
      } finally {
        raw.child.kill();
        readable.child.kill();
      }
      // Every committed event once and in order, with the live lane in between.
      const events = raw.out
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      const places = events.filter((event) => "seq" in event).map((event) => [event.seq, event.index]);
      expect(places).toEqual([...places].sort(([a, b], [c, d]) => a - c || b - d));
      expect(new Set(places.map(String)).size).toBe(places.length);
      expect(events.map((event) => event.type)).toEqual(
        expect.arrayContaining(["text_delta", "system_item", "status", "closed"]),
      );
      expect(readable.out.match(/^#\d+ .*assistant_items$/gm)).toHaveLength(2);

      const after = JSON.parse((await machine.run("log", "verify", "pod", "--json")).out);
      expect(after).toMatchObject({ ok: true, head_mark_age_ms: expect.any(Number) });
      expect(after.torn).toBeUndefined();
    },
    { timeoutMs: 90_000 },
  );

  it("ends without a word when its reader goes away", { timeout: 60_000 }, async () => {
    await using machine = new Machine();
    expect((await machine.run("run", "hi", "-m", `script:${machine.script}`, "-n", "pod")).code).toBe(0);
    const child = machine.start(["log", "show", "pod"]);
    let err = "";
    child.stderr?.on("data", (chunk) => {
      err += chunk;
    });
    child.stdout?.destroy();
    const [code] = await once(child, "close", { signal: AbortSignal.timeout(DEADLINE_MS) });
    expect({ code, err }).toEqual({ code: 0, err: "" });
  });
});
