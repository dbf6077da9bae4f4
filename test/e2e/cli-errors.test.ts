import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { sha256 } from "../../src/base/digest.ts";
import { FakeUser, jsonLines, PROGRAM } from "../support/fake-user.ts";
import { ALWAYS } from "../support/scripts.ts";

/** What every error is: one line for people, nothing on standard output, no stack trace. */
function expectOneLine(result: { stdout: string; stderr: string }, line: RegExp): void {
  const told = result.stderr.split("\n").filter((text) => text !== "" && !text.startsWith("note: "));
  expect({ stdout: result.stdout, told }).toEqual({ stdout: "", told: [expect.stringMatching(line)] });
}

describe("a task that cannot be run", () => {
  it("for want of a model names the variables and offers the demo", async () => {
    await using user = new FakeUser();
    const result = await user.wakeful(["run", "hi"]);
    expect(result.code).toBe(1);
    expectOneLine(result, /^wakeful: no model is configured\. .*ANTHROPIC_API_KEY.*wakeful demo/);
  });

  it("because its script is missing fails once, with one line", async () => {
    await using user = new FakeUser();
    const result = await user.wakeful(["run", "-m", "script:/nope", "x"]);
    expect(result.code).toBe(1);
    expectOneLine(result, /^wakeful: there is no script \/nope\. /);
    const json = await user.wakeful(["run", "--json", "-m", "script:/nope", "x"]);
    expect(json.code).toBe(1);
    expect(jsonLines(json.stdout)).toEqual([
      { error: { code: "configuration", message: "there is no script /nope", hint: expect.any(String) } },
    ]);
  });

  it("because an option, the configuration or a script is wrong says where, and leaves no Pod", async () => {
    await using user = new FakeUser();
    const broken = join(user.home.root, "broken.yaml");
    writeFileSync(broken, "steps:\n  - sya: hi\n");
    const flag = await user.wakeful(["run", "-m", "bogus", "x"]);
    expect(flag.code).toBe(2);
    expectOneLine(flag, /^wakeful: --model cannot be "bogus"/);
    const script = await user.wakeful(["run", "-m", `script:${broken}`, "x"]);
    expect(script.code).toBe(1);
    expectOneLine(script, /broken\.yaml.*line 2/);
    const scope = await user.wakeful(["run", "-m", user.script(ALWAYS), "--scope", "/nope", "x"]);
    expect(scope.code).toBe(2);
    expectOneLine(scope, /^wakeful: scope '\/nope': there is no \/nope/);
    user.home.writeConfig({ model: { defualt: "x" } });
    const config = await user.wakeful(["run", "x"]);
    expect(config.code).toBe(1);
    expectOneLine(config, /^wakeful: .*config\.toml, line 2: unknown key 'model\.defualt'.*'model\.default'/);
    expect(jsonLines((await user.wakeful(["ps", "--json"])).stdout)).toEqual([[]]);
  });
});

describe("with --json", () => {
  it("an error is one object on standard output, whatever the command", { timeout: 120_000 }, async () => {
    await using user = new FakeUser();
    for (const [args, code, errorCode] of JSON_ERRORS) {
      const { stdout, ...result } = await user.wakeful([...args, "--json"]);
      expect({ args, ...result }).toEqual({ args, code, stderr: "" });
      const error = { code: errorCode, message: expect.any(String), hint: expect.any(String) };
      expect([args, jsonLines(stdout)]).toEqual([args, [{ error }]]);
    }
  });
});

const JSON_ERRORS: readonly (readonly [args: readonly string[], exitCode: number, errorCode: string])[] = [
  [["run", "x"], 1, "configuration"],
  [["run", "-r", "nope", "x"], 3, "not_found"],
  [["run", "-m", "bogus", "x"], 2, "invalid_input"],
  [["start"], 1, "configuration"],
  [["send", "nope", "x"], 3, "not_found"],
  [["send", "nope", "x", "--wait"], 3, "not_found"],
  [["notify", "nope", "x"], 3, "not_found"],
  [["output", "nope"], 3, "not_found"],
  [["attach", "nope"], 3, "not_found"],
  [["pause", "nope"], 3, "not_found"],
  [["resume", "nope"], 3, "not_found"],
  [["cancel", "nope"], 3, "not_found"],
  [["stop", "nope"], 3, "not_found"],
  [["restore", "nope"], 3, "not_found"],
  [["log", "show", "nope"], 3, "not_found"],
  [["log", "verify", "nope"], 3, "not_found"],
  [["doctor", "nope"], 3, "not_found"],
  [["ps", "nope"], 2, "invalid_input"],
  [["config", "nope"], 2, "invalid_input"],
  [["demo", "nope"], 2, "invalid_input"],
  [["rnu"], 2, "invalid_input"],
];

describe("a machine that is not as it should be (B107)", () => {
  it.each([
    [
      "HOME that does not exist",
      { WAKEFUL_HOME: undefined, HOME: "/nonexistent" },
      /^wakeful: the home directory \/nonexistent does not exist/,
    ],
    ["WAKEFUL_HOME that cannot be made", { WAKEFUL_HOME: "/proc/nope" }, /^wakeful: cannot make the folder \/proc\/nope/],
    ["WAKEFUL_HOME that is a file", { WAKEFUL_HOME: "/etc/passwd" }, /^wakeful: .*\/etc\/passwd/],
    [
      "WAKEFUL_HOME that is relative",
      { WAKEFUL_HOME: "data" },
      /^wakeful: WAKEFUL_HOME is 'data', which is not an absolute path/,
    ],
  ])("%s: one clear line and no success", async (_what, env, line) => {
    await using user = new FakeUser();
    const result = await user.wakeful(["run", "-m", user.script(ALWAYS), "x"], { env });
    expect(result.code).toBe(1);
    expectOneLine(result, line);
  });

  it("works by a fall-back that it names: runtime directory, temporary directory, locale, PATH", async () => {
    await using user = new FakeUser();
    const open = join(user.home.root, "open");
    mkdirSync(open);
    chmodSync(open, 0o777);
    const model = user.script({ otherwise: { say: "日本語" } });
    for (const env of [
      { XDG_RUNTIME_DIR: "/nonexistent" },
      { XDG_RUNTIME_DIR: "relative" },
      { XDG_RUNTIME_DIR: open },
      { TMPDIR: "/nonexistent" },
    ]) {
      const [name = ""] = Object.keys(env);
      const result = await user.wakeful(["run", "-m", model, "x"], { env });
      expect(result).toMatchObject({
        code: 0,
        stdout: "日本語\n",
        stderr: expect.stringMatching(new RegExp(`^note: ${name} is`)),
      });
    }
    const bare = await user.wakeful(["run", "-m", model, "x"], { env: { PATH: "", LANG: "C", LC_ALL: "C" } });
    expect(bare).toMatchObject({ code: 0, stdout: "日本語\n" });
  });

  it("out of file descriptors, or in a directory that was deleted, says so (B96)", async () => {
    await using user = new FakeUser();
    const model = user.script(ALWAYS);
    const few = await user.home.shell(`ulimit -n 24; exec ${process.execPath} ${PROGRAM} run -m ${model} x`);
    expect(few.code).toBe(1);
    expectOneLine(few, /^wakeful: the Pod process cannot be started: no more files/);
    for (const command of [`run -m ${model} x`, "run -c x", `start -m ${model}`]) {
      const gone = await user.home.shell(
        `mkdir gone && cd gone && rmdir ../gone && exec ${process.execPath} ${PROGRAM} ${command}`,
      );
      expect(gone.code).toBe(3);
      expectOneLine(gone, /^wakeful: the working directory \S+\/gone is not there/);
    }
  });
});

describe("standard input and output", () => {
  it("that nobody reads any more ends the command without a word; one that is full is an error of storage", async () => {
    await using user = new FakeUser();
    const run = `${process.execPath} ${PROGRAM} run -m ${user.script(ALWAYS)} x`;
    const left = await user.home.shell(`${run} 2>err.txt | true; echo "\${PIPESTATUS[0]}" >&2; cat err.txt`);
    expect(left.stderr).toBe("0\n");
    expect(left.stdout).toMatch(/^(note: .*\n)?$/);
    for (const command of [
      run,
      `${run} --json`,
      `${process.execPath} ${PROGRAM} ps --json`,
      `${process.execPath} ${PROGRAM} --help`,
    ]) {
      const full = await user.home.shell(`${command} > /dev/full`);
      expect(full.code).toBe(5);
      expectOneLine(full, /^wakeful: standard output cannot be written \(ENOSPC\)/);
    }
    expect(jsonLines((await user.wakeful(["ps", "--json"])).stdout)).toEqual([[]]);
  });

  it("that is no text, empty or too long starts nothing; a NUL is only a character", async () => {
    await using user = new FakeUser();
    const run = ["run", "-m", user.script(ALWAYS), "-"];
    expectOneLine(
      await user.wakeful(run, { input: Uint8Array.of(0xff, 0xfe, 0x41) }),
      /^wakeful: standard input is not valid UTF-8/,
    );
    expectOneLine(await user.wakeful(run), /^wakeful: the text is empty/);
    expectOneLine(
      await user.wakeful(run, { input: "a".repeat(1024 * 1024 + 3) }),
      /^wakeful: the text is longer than 1048576 bytes/,
    );
    expect(jsonLines((await user.wakeful(["ps", "--all", "--json"])).stdout)).toEqual([[]]);
    expect(await user.wakeful(run, { input: "a\0b" })).toMatchObject({ code: 0, stdout: "Noted.\n" });
  });
});

describe("sessions that cannot be opened", () => {
  it("are listed with the reason beside the others, and opening one changes no byte of any log (B84, B85)", async () => {
    await using user = new FakeUser();
    const model = user.script(ALWAYS);
    for (const name of ["good", "bad"]) expect((await user.wakeful(["run", "-n", name, "-m", model, "x"])).code).toBe(0);
    const [bad] = sessionsNamed(await user.wakeful(["ps", "--all", "--json"]), "bad");
    const sessions = join(user.home.data, "sessions");
    const log = join(sessions, String(bad), "000001.jsonl");
    const text = readFileSync(log, "utf8");
    writeFileSync(log, `x${text}`);
    mkdirSync(join(sessions, "s_empty"));
    writeFileSync(join(sessions, "s_empty", "000001.jsonl"), "");
    mkdirSync(join(sessions, "s_folder", "000001.jsonl"), { recursive: true });
    const listed: unknown = JSON.parse((await user.wakeful(["ps", "--all", "--json"])).stdout);
    expect(listed).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: "good", status: "stopped" }),
        expect.objectContaining({ name: "bad", status: "damaged", reason: "000001.jsonl: line 1 is not an entry" }),
        expect.objectContaining({ session: "s_empty", status: "damaged", reason: "000001.jsonl is empty" }),
        expect.objectContaining({ session: "s_folder", status: "damaged", reason: "000001.jsonl is not a file" }),
      ]),
    );
    const before = hashes(sessions);
    for (const [target, code] of [
      ["bad", 5],
      ["s_empty", 5],
      ["s_folder", 5],
      ["goo", 3],
      ["../sessions", 3],
      ["GOOD", 3],
    ] as const) {
      const result = await user.wakeful(["restore", target]);
      expect([target, result.code]).toEqual([target, code]);
      expectOneLine(result, /^wakeful: /);
    }
    expect(hashes(sessions)).toEqual(before);
  });

  it("because a living Pod has them name that Pod: a name, a session, a scope", async () => {
    await using user = new FakeUser();
    const model = user.script(ALWAYS);
    expect((await user.wakeful(["start", "-n", "the holder", "-m", model])).stdout).toBe("the holder\n");
    const twice = await user.wakeful(["start", "-n", "the holder", "-m", model]);
    expect(twice.code).toBe(4);
    expectOneLine(
      twice,
      /^wakeful: the Pod the holder is alive already \(process \d+, session s_\w+\)\. .*wakeful attach 'the holder'$/,
    );
    const second = await user.wakeful(["start", "-n", "second", "-m", model]);
    expect(second.code).toBe(4);
    expectOneLine(second, new RegExp(`^wakeful: ${user.home.cwd} may be written by the Pod the holder \\(process \\d+\\) only`));
  });
});

function sessionsNamed(result: { stdout: string }, name: string): unknown[] {
  const rows: readonly Record<string, unknown>[] = JSON.parse(result.stdout);
  return rows.filter((row) => row["name"] === name).map((row) => row["session"]);
}

/** Every log below `folder` with the hash of its bytes. */
function hashes(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && entry.name.endsWith(".jsonl"),
  );
  return Object.fromEntries(
    files.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path, sha256(readFileSync(path))];
    }),
  );
}
