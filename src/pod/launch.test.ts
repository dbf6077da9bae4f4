import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { AppError } from "../base/errors.ts";
import { resolvePlaces, socketPath } from "../registry/places.ts";
import { openRegistry } from "../registry/registry.ts";
import { launchPod } from "./launch.ts";

/** A user's machine in a temporary folder. */
function machine() {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "wk-")));
  const cwd = join(root, "cwd");
  mkdirSync(cwd);
  const script = join(root, "s.yaml");
  writeFileSync(script, JSON.stringify({ otherwise: { say: "ok" } }));
  const env = { HOME: root, PATH: process.env["PATH"], WAKEFUL_HOME: join(root, "data") };
  const places = resolvePlaces(env);
  return {
    env,
    places,
    order: { cwd, open: { kind: "named" as const, name: "x" }, model: `script:${script}` },
    sessions: () => readdirSync(join(places.data, "sessions")),
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  };
}

describe("a launch that fails", () => {
  it("leaves no session behind and does not keep the name", async () => {
    using home = machine();
    const path = socketPath(home.places, "x");
    writeFileSync(path, "in the way");
    await expect(launchPod(home.order, home.env)).rejects.toMatchObject({ code: "already_exists" });
    expect(home.sessions()).toEqual([]);
    rmSync(path);
    const pod = await launchPod(home.order, home.env);
    expect(pod.report).toMatchObject({ name: "x", restored: false });
    await pod.end("test");
    expect(await pod.ended).toBe(0);
  });

  it("because its script cannot be read leaves nothing that could be restored", async () => {
    using home = machine();
    const order = { ...home.order, model: "script:/nowhere.yaml" };
    await expect(launchPod(order, home.env)).rejects.toMatchObject({ code: "not_found" });
    expect(home.sessions()).toEqual([]);
    await using registry = openRegistry(home.places);
    expect(await registry.list({ all: true })).toEqual([]);
  });

  it("because it was told to end leaves neither session nor socket nor living row", async () => {
    using home = machine();
    const told = new AbortController();
    told.abort(new AppError("cancelled", "told to end"));
    await expect(launchPod(home.order, home.env, told.signal)).rejects.toMatchObject({ code: "cancelled" });
    expect(home.sessions()).toEqual([]);
    expect(readdirSync(dirname(socketPath(home.places, "x")))).toEqual([]);
    await using registry = openRegistry(home.places);
    expect(await registry.list()).toEqual([]);
  });
});
