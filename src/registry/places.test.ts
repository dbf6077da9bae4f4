import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_SOCKET_PATH_BYTES } from "../base/socket-path.ts";
import { type Places, resolvePlaces, sessionDir, socketPath } from "./places.ts";
import { makePrivateDir } from "./private-dir.ts";
import { startProcess, testFolder } from "./test-support.ts";

describe("places", () => {
  it("come from WAKEFUL_HOME, else XDG_DATA_HOME, else the home directory", () => {
    using folder = testFolder();
    const env = { HOME: folder.path };
    const data = (more: Record<string, string>) => resolvePlaces({ ...env, ...more }).data;
    expect(data({})).toBe(join(folder.path, ".local/share/wakeful"));
    expect(data({ XDG_DATA_HOME: join(folder.path, "x") })).toBe(join(folder.path, "x/wakeful"));
    expect(data({ XDG_DATA_HOME: join(folder.path, "x"), WAKEFUL_HOME: join(folder.path, "w") })).toBe(join(folder.path, "w"));
    expect(data({ XDG_DATA_HOME: "", WAKEFUL_HOME: "" })).toBe(join(folder.path, ".local/share/wakeful"));
    expect(resolvePlaces(env).config).toBe(join(folder.path, ".config/wakeful"));
    expect(resolvePlaces({ ...env, XDG_CONFIG_HOME: join(folder.path, "c") }).config).toBe(join(folder.path, "c/wakeful"));
    expect(resolvePlaces(env).notes).toEqual([]);
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it("are real paths, so that two ways to one folder are one place", () => {
    using folder = testFolder();
    mkdirSync(join(folder.path, "real"));
    symlinkSync(join(folder.path, "real"), join(folder.path, "link"));
    const env = { HOME: join(folder.path, "link") };
    expect(resolvePlaces(env).data).toBe(join(folder.path, "real/.local/share/wakeful"));
    expect(resolvePlaces({ WAKEFUL_HOME: join(folder.path, "link/w"), ...env }).data).toBe(join(folder.path, "real/w"));
  });

  it("without HOME fall back to the user database and say so (B107)", () => {
    const places = resolvePlaces({});
    expect(places.home).toBe(userInfo().homedir);
    expect(places.notes.join()).toContain("HOME is not set");
    expect(resolvePlaces({ HOME: "relative" }).notes.join()).toContain("'relative', which is not absolute");
  });

  it("with a HOME that does not exist are refused in one line, unless WAKEFUL_HOME says where", () => {
    using folder = testFolder();
    const HOME = join(folder.path, "nonexistent");
    expect(() => resolvePlaces({ HOME })).toThrow(
      expect.objectContaining({ code: "configuration", message: expect.stringContaining(HOME) }),
    );
    expect(resolvePlaces({ HOME, WAKEFUL_HOME: join(folder.path, "w") }).data).toBe(join(folder.path, "w"));
    expect(existsSync(HOME)).toBe(false);
    expect(() => resolvePlaces({ HOME, WAKEFUL_HOME: "w" })).toThrow(expect.objectContaining({ code: "configuration" }));
  });

  it("put sockets into XDG_RUNTIME_DIR only when it can be trusted, and say why not (B107)", () => {
    using folder = testFolder();
    const runtime = join(folder.path, "run-user");
    const resolve = (XDG_RUNTIME_DIR: string) => resolvePlaces({ HOME: folder.path, XDG_RUNTIME_DIR });
    const fallback = join(folder.path, ".local/share/wakeful/run");
    expect(resolve("")).toMatchObject({ runtime: fallback, notes: [] });
    expect(resolve(runtime)).toMatchObject({ runtime: fallback, notes: [expect.stringContaining("does not exist")] });
    expect(resolve("run-user")).toMatchObject({ runtime: fallback, notes: [expect.stringContaining("is not absolute")] });
    mkdirSync(runtime);
    chmodSync(runtime, 0o777);
    expect(resolve(runtime)).toMatchObject({ runtime: fallback, notes: [expect.stringContaining("mode 0777")] });
    chmodSync(runtime, 0o700);
    expect(resolve(runtime)).toMatchObject({ runtime: join(runtime, "wakeful"), notes: [] });
    writeFileSync(join(folder.path, "file"), "");
    expect(resolve(join(folder.path, "file"))).toMatchObject({
      runtime: fallback,
      notes: [expect.stringContaining("not a folder")],
    });
  });

  it.runIf(process.getuid?.() === 0)("do not trust a runtime folder of somebody else", () => {
    using folder = testFolder();
    const runtime = join(folder.path, "run-user");
    mkdirSync(runtime, { mode: 0o700 });
    chownSync(runtime, 4711, 4711);
    const places = resolvePlaces({ HOME: folder.path, XDG_RUNTIME_DIR: runtime });
    expect(places.runtime).toBe(join(folder.path, ".local/share/wakeful/run"));
    expect(places.notes).toEqual([expect.stringContaining("uid 4711")]);
  });

  it("with a TMPDIR that is missing use /tmp and say so", () => {
    using folder = testFolder();
    const places = resolvePlaces({ HOME: folder.path, TMPDIR: join(folder.path, "none") });
    expect(places.notes).toEqual([expect.stringContaining("TMPDIR")]);
    expect(places.temporary).toHaveLength(1);
  });

  it("give a session a folder, and refuse what is no session id", () => {
    using folder = testFolder();
    expect(sessionDir(folder.places, "ses_abc")).toBe(join(folder.places.data, "sessions/ses_abc"));
    for (const bad of ["", "..", "a/b", "../x", "a\0"])
      expect(() => sessionDir(folder.places, bad)).toThrow(expect.objectContaining({ code: "invalid_input" }));
  });
});

describe("a private folder", () => {
  it("is 0700 with its parents whatever the umask (B95)", async () => {
    using folder = testFolder();
    const script = `import { makePrivateDir } from "$URLprivate-dir.ts"; say(makePrivateDir(args));`;
    for (const umask of ["000", "022", "077"]) {
      await using child = startProcess(script, join(folder.path, umask, "a/b"), { umask });
      await child.next();
      for (const name of ["", "a", "a/b"]) expect(statSync(join(folder.path, umask, name)).mode & 0o777).toBe(0o700);
    }
  });

  it("that is ours or empty is closed; one with other things in it is left alone and refused", () => {
    using folder = testFolder();
    const make = (name: string, content: string | undefined) => {
      const path = join(folder.path, name);
      mkdirSync(path);
      if (content !== undefined) writeFileSync(join(path, content), "");
      chmodSync(path, 0o755);
      return path;
    };
    for (const path of [make("empty", undefined), make("ours", "registry.db")]) {
      expect(makePrivateDir(path)).toBe(path);
      expect(statSync(path).mode & 0o777).toBe(0o700);
    }
    const home = make("home", ".bashrc");
    expect(() => makePrivateDir(home)).toThrow(
      expect.objectContaining({ code: "configuration", message: expect.stringContaining(home) }),
    );
    expect(statSync(home).mode & 0o777).toBe(0o755);
  });

  it("that cannot be made is reported with its path and a remedy", () => {
    using folder = testFolder();
    writeFileSync(join(folder.path, "file"), "");
    for (const path of [join(folder.path, "file"), join(folder.path, "file/below"), "/proc/none"]) {
      expect(() => makePrivateDir(path)).toThrow(
        expect.objectContaining({
          code: "configuration",
          message: expect.stringContaining(path.split("/below")[0] ?? ""),
          hint: expect.stringContaining("WAKEFUL_HOME"),
        }),
      );
    }
  });
});

describe("socket paths", () => {
  const LONG = "n".repeat(255);
  const NAMES = [
    "a",
    "a.sock",
    "A",
    "n".repeat(64),
    LONG,
    `${"n".repeat(254)}m`,
    `${"n".repeat(100)}-1`,
    `${"n".repeat(100)}-2`,
    "ポ".repeat(40),
    "ポ".repeat(85),
    "x y",
    "+a",
  ];

  function withRuntimeOf(root: string, bytes: number): Places {
    const runtime = join(
      root,
      "r".repeat(Math.min(200, bytes - root.length - 1)),
      ...(bytes - root.length - 1 > 200 ? ["s"] : []),
    );
    expect(Buffer.byteLength(runtime)).toBe(bytes);
    return { ...resolvePlaces({ HOME: root, TMPDIR: root }), runtime };
  }

  it.each([40, 60, 85, 90, 100, 107, 108, 200])(
    "below a runtime folder of %i bytes fit, differ, and can be used (B100)",
    async (bytes) => {
      using folder = testFolder();
      const places = withRuntimeOf(folder.path, Math.max(bytes, folder.path.length + 2));
      const paths = NAMES.map((name) => socketPath(places, name));
      expect(new Set(paths).size).toBe(NAMES.length);
      expect(paths).toEqual(NAMES.map((name) => socketPath(places, name)));
      for (const path of paths) {
        expect(Buffer.byteLength(path)).toBeLessThanOrEqual(MAX_SOCKET_PATH_BYTES);
        expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
        const server = createServer((socket) => socket.end("hello")).listen(path);
        await once(server, "listening");
        const client = connect(path);
        const [greeting] = await once(client, "data");
        expect(String(greeting)).toBe("hello");
        client.destroy();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  );

  it("stay in the runtime folder and keep the name where both are short", () => {
    using folder = testFolder();
    expect(socketPath(folder.places, "reviewer-1")).toBe(join(folder.places.runtime, "reviewer-1.sock"));
  });

  it("never meet, whatever the names (also on a file system that folds case and forms)", () => {
    using folder = testFolder();
    const folded = (path: string) => path.normalize("NFC").toLowerCase();
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.string({ minLength: 1, maxLength: 40, unit: "grapheme" }), { minLength: 2, maxLength: 8 }),
        (names) => {
          const paths = names.map((name) => folded(socketPath(folder.places, name.replaceAll("/", "_"))));
          expect(new Set(paths).size).toBe(new Set(names.map((name) => name.replaceAll("/", "_"))).size);
        },
      ),
      { numRuns: 50 },
    );
  });

  it("of two runtime folders that are too long do not meet under the temporary one", () => {
    using folder = testFolder();
    const a = withRuntimeOf(folder.path, 150);
    expect(dirname(socketPath(a, "x"))).not.toBe(dirname(socketPath({ ...a, runtime: `${a.runtime}2` }, "x")));
  });

  it("are refused where nothing is short enough, before anything is made", () => {
    using folder = testFolder();
    const places = { ...withRuntimeOf(folder.path, 150), temporary: [join(folder.path, "t".repeat(100))] };
    expect(() => socketPath(places, "x")).toThrow(
      expect.objectContaining({ code: "configuration", message: expect.stringContaining(String(MAX_SOCKET_PATH_BYTES)) }),
    );
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it("do not go into a folder under the temporary one that somebody planted", () => {
    using folder = testFolder();
    const places = { ...withRuntimeOf(folder.path, 150), temporary: [folder.path] };
    const planted = dirname(socketPath(places, "x"));
    chmodSync(planted, 0o777);
    expect(() => socketPath(places, "x")).toThrow(expect.objectContaining({ code: "configuration" }));
  });
});
