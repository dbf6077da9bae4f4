import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { FakeUser, jsonLines } from "../support/fake-user.ts";

/** What is left of a demo: its folder, or a process that works in it. */
function leftovers(user: FakeUser): string[] {
  const folders = readdirSync(user.home.root).filter((name) => name.startsWith("wakeful-"));
  const processes = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => environmentOf(pid).includes(`TMPDIR=${user.home.root}`));
  return [...folders, ...processes];
}

function environmentOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  } catch {
    return []; // Not ours, or gone.
  }
}

describe("wakeful demo", () => {
  it("tells the story, proves every claim, and leaves nothing", async () => {
    await using user = new FakeUser();
    const result = await user.wakeful(["demo"], { env: { TMPDIR: user.home.root } });
    expect({ code: result.code, stderr: result.stderr }).toEqual({ code: 0, stderr: "" });
    expect(result.stdout.match(/^ {2}✓ /gm)?.length).toBeGreaterThan(5);
    expect(result.stdout).not.toContain("✗");
    expect(result.stdout).not.toContain("\u001b");
    expect(leftovers(user)).toEqual([]);
  });

  it("with --json prints a claim a line, each of them true, and leaves nothing", async () => {
    await using user = new FakeUser();
    const result = await user.wakeful(["demo", "--json"], { env: { TMPDIR: user.home.root } });
    expect({ code: result.code, stderr: result.stderr }).toEqual({ code: 0, stderr: "" });
    const claims = jsonLines(result.stdout);
    expect(claims.length).toBeGreaterThan(5);
    const claim = { step: expect.any(String), claim: expect.any(String), ok: true, detail: expect.any(String) };
    expect(claims).toEqual(claims.map(() => claim));
    expect(leftovers(user)).toEqual([]);
  });

  it("is what npm start shows where there is no terminal", async () => {
    await using user = new FakeUser();
    const start = resolve(import.meta.dirname, "..", "..", "scripts", "start.js");
    const result = await user.home.shell(`${process.execPath} ${start}`, { TMPDIR: user.home.root });
    expect({ code: result.code, stderr: result.stderr }).toEqual({ code: 0, stderr: "" });
    expect(result.stdout).toContain("All of it is true.");
    expect(leftovers(user)).toEqual([]);
    const passed = await user.home.shell(`${process.execPath} ${start} ps --json`);
    expect(passed).toMatchObject({ code: 0, stdout: "[]\n" });
  });
});
