import { chmodSync, chownSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Limits } from "../protocol/session-config.ts";
import { findLine } from "./config-file.ts";
import { CONFIG_KEYS, DEFAULT_LIMITS, DEFAULT_MODELS } from "./config-keys.ts";
import { configEntries, type LoadConfigOptions, loadConfig } from "./load-config.ts";

let root = "";
let cwd = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "wakeful-config-")));
  cwd = join(root, "project/deep/er");
  mkdirSync(cwd, { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text: string | Uint8Array): string {
  const full = join(root, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, text);
  return full;
}

function load(changes: Partial<LoadConfigOptions> = {}) {
  return loadConfig({ cwd, env: {}, places: { config: join(root, "config"), home: join(root, "home") }, ...changes });
}

function refusal(message: RegExp, hint = /./, code = "configuration") {
  return expect.objectContaining({
    code,
    message: expect.stringMatching(message),
    hint: expect.stringMatching(hint),
  });
}

function sourceOf(config: ReturnType<typeof load>, key: string): string | undefined {
  return configEntries(config).find((entry) => entry.key === key)?.source;
}

describe("the configuration", () => {
  it("without any file is the built-in one", () => {
    const config = load();
    expect(config.limits).toEqual(DEFAULT_LIMITS);
    expect(Object.keys(config.limits)).toEqual(Object.keys(Limits.shape));
    expect(config.model).toEqual({ default: undefined, reasoning: "default", maxOutputTokens: undefined });
    expect(config.providers.anthropic).toEqual({ baseUrl: "https://api.anthropic.com/v1", apiKey: undefined });
    for (const path of [".ssh", ".aws", ".netrc", ".config/gcloud", ".docker/config.json"]) {
      expect(config.scope.deny).toContain(join(root, "home", path));
    }
    expect(config.notes).toEqual([]);
    expect(configEntries(config).map((entry) => entry.key)).toEqual([
      ...CONFIG_KEYS.keys(),
      ...["anthropic", "openai", "google"].map((name) => `providers.${name}.api_key`),
    ]);
    expect(new Set(configEntries(config).map((entry) => entry.source))).toEqual(new Set(["built-in"]));
  });

  it("is merged key by key, the nearer place first, and every value knows where it comes from", () => {
    const user = write(
      "config/config.toml",
      `[model]\ndefault = "anthropic/user"\nreasoning = "low"\nmax_output_tokens = 5\n[limits]\nbash_timeout_s = 1\nrequests_per_turn = 2\n`,
    );
    write("project/.wakeful/config.toml", "[limits]\nbash_timeout_s = 999\n");
    const project = write(
      "project/deep/.wakeful/config.toml",
      `[model]\ndefault = "anthropic/project"\n[limits]\nrequests_per_turn = 3\n`,
    );
    let config = load();
    expect(config.model).toEqual({ default: "anthropic/project", reasoning: "low", maxOutputTokens: 5 });
    // Only the nearest project file counts.
    expect(config.limits).toEqual({ ...DEFAULT_LIMITS, bash_timeout_s: 1, requests_per_turn: 3 });
    expect(sourceOf(config, "model.default")).toBe(project);
    expect(sourceOf(config, "model.reasoning")).toBe(user);
    expect(sourceOf(config, "limits.stream_idle_s")).toBe("built-in");

    config = load({ env: { WAKEFUL_MODEL: "anthropic/env" } });
    expect([config.model.default, sourceOf(config, "model.default")]).toEqual(["anthropic/env", "WAKEFUL_MODEL"]);
    config = load({ env: { WAKEFUL_MODEL: "anthropic/env" }, overrides: { model: "anthropic/flag", reasoning: "high" } });
    expect([config.model.default, sourceOf(config, "model.default")]).toEqual(["anthropic/flag", "--model"]);
    expect(config.model.reasoning).toBe("high");
  });

  it("has a model by itself only when there is a key, and never shows the key", () => {
    const config = load({ env: { ANTHROPIC_API_KEY: " sk-secret\n" } });
    expect(config.model.default).toBe(DEFAULT_MODELS.anthropic);
    expect(sourceOf(config, "model.default")).toContain("ANTHROPIC_API_KEY");
    expect(config.providers.anthropic.apiKey).toBe("sk-secret");
    expect(JSON.stringify(configEntries(config))).not.toContain("sk-secret");
    expect(() => load({ env: { ANTHROPIC_API_KEY: "sk secret" } })).toThrow(refusal(/^(?!.*secret).*ANTHROPIC_API_KEY/));
    expect(load({ env: { ANTHROPIC_API_KEY: "" } }).model.default).toBeUndefined();
  });

  it.each([
    ["https://h.example", "https://h.example/v1"],
    ["https://h.example/", "https://h.example/v1"],
    ["https://h.example/v1", "https://h.example/v1"],
    ["https://h.example/v1/", "https://h.example/v1"],
    ["http://127.0.0.1:9/anthropic", "http://127.0.0.1:9/anthropic/v1"],
    ["http://127.0.0.1:9/v1beta", "http://127.0.0.1:9/v1beta"],
  ])("takes the base URL %s", (url, expected) => {
    const config = load({ env: { ANTHROPIC_BASE_URL: url } });
    expect(config.providers.anthropic.baseUrl).toBe(expected);
    expect(configEntries(config).find((entry) => entry.key === "providers.anthropic.base_url")).toEqual({
      key: "providers.anthropic.base_url",
      value: expected,
      source: "ANTHROPIC_BASE_URL",
    });
  });

  it.each(["h.example", "ftp://h", "file:///x", "https://h/?a=b", "https://"])("refuses the base URL %s", (url) => {
    expect(() => load({ env: { ANTHROPIC_BASE_URL: url } })).toThrow(refusal(/ANTHROPIC_BASE_URL.*http/));
  });

  it("makes the path of a script absolute where it was written", () => {
    write("config/config.toml", `[model]\ndefault = "script:story.yaml"\n`);
    expect(load().model.default).toBe(`script:${join(root, "config/story.yaml")}`);
    write("project/.wakeful/config.toml", `[model]\ndefault = "script:story.yaml"\n`);
    expect(load().model.default).toBe(`script:${join(root, "project/story.yaml")}`);
    expect(load({ overrides: { model: "script:story.yaml" } }).model.default).toBe(`script:${join(cwd, "story.yaml")}`);
    expect(load({ overrides: { model: "script:/s.yaml" } }).model.default).toBe("script:/s.yaml");
    expect(load({ overrides: { model: "script:~/s.yaml" } }).model.default).toBe(`script:${join(root, "home/s.yaml")}`);
  });
});

describe("a mistake in the configuration is told with file, line and remedy:", () => {
  it.each([
    [
      "an unknown key",
      "[limits]\n\nrequest_per_turn = 1",
      /config\.toml, line 3: unknown key 'limits\.request_per_turn'/,
      /'limits\.requests_per_turn'/,
    ],
    ["an unknown table", "\n[limit]\nbash_timeout_s = 1", /line 2: unknown key 'limit'/, /'limits'/],
    [
      "a key in the wrong table",
      "[model]\nbash_timeout_s = 1",
      /line 2: unknown key 'model\.bash_timeout_s'/,
      /'limits\.bash_timeout_s'/,
    ],
    ["a dotted key", "model.reasonin = 'low'", /line 1: unknown key 'model\.reasonin'/, /'model\.reasoning'/],
    ["__proto__", "[__proto__]\nx = 1", /unknown key '__proto__'/, /./],
    ["a wrong type", "[limits]\nbash_timeout_s = 'long'", /line 2: limits\.bash_timeout_s cannot be "long"/, /1 to 86400/],
    ["a number out of range", "[limits]\nparallel_tool_calls = 0", /line 2: .*cannot be 0/, /1 to 64/],
    ["a fraction", "[limits]\nparallel_tool_calls = 1.5", /cannot be 1\.5/, /whole number/],
    ["a date", "[model]\ndefault = 2020-01-01", /cannot be a date/, /./],
    ["a wrong word", "[model]\nreasoning = 'much'", /cannot be "much"/, /minimal/],
    ["a model without provider", "[model]\ndefault = 'sonnet'", /cannot be "sonnet": must be PROVIDER\/MODEL/, /script:/],
    ["a table for a value", "[model.default]\nx = 1", /model\.default cannot be/, /./],
    ["a value for a table", "model = 'x'", /'model' is a table/, /\[model\]/],
    ["no list", "[scope]\ndeny = '~/.ssh'", /scope\.deny cannot be/, /list/],
    ["no TOML", "[model\ndefault = 1", /config\.toml, line 1, column \d+: /, /TOML/],
    ["a key twice", "[limits]\nbash_timeout_s = 1\nbash_timeout_s = 2", /line 3/, /TOML/],
    ["a pattern to deny", "[scope]\ndeny = ['~/*.pem']", /'~\/\*\.pem' is a pattern/, /path/],
    ["a relative path to deny in the user's file", "[scope]\ndeny = ['secrets']", /'secrets' is relative/, /path/],
    ["the home of somebody else", "[scope]\ndeny = ['~bob/x']", /another user/, /path/],
  ])("%s", (_, text, message, hint) => {
    const path = write("config/config.toml", text);
    expect(() => load()).toThrow(refusal(message, hint));
    expect(() => load()).toThrow(refusal(new RegExp(path)));
  });

  it("not UTF-8, a folder, a dangling link, too large", () => {
    const path = write("config/config.toml", Uint8Array.of(0x61, 0xff, 0xfe));
    expect(() => load()).toThrow(refusal(/config\.toml: it is not UTF-8/));
    write("config/config.toml", "#".repeat(2 * 1024 * 1024));
    expect(() => load()).toThrow(refusal(/2097152 bytes/));
    rmSync(path);
    mkdirSync(path);
    expect(() => load()).toThrow(refusal(/it is a folder/));
    rmSync(path, { recursive: true });
    symlinkSync(join(root, "nowhere"), path);
    expect(() => load()).toThrow(refusal(/a link that leads nowhere/));
  });

  it.runIf(process.getuid?.() !== 0)("no permission", () => {
    chmodSync(write("config/config.toml", ""), 0o000);
    expect(() => load()).toThrow(refusal(/no permission/));
  });

  it("wrong flags and variables name themselves", () => {
    expect(() => load({ overrides: { model: "x" } })).toThrow(refusal(/^--model cannot be "x"/, /./, "invalid_input"));
    expect(() => load({ overrides: { reasoning: "x" } })).toThrow(refusal(/^--reasoning cannot be/, /medium/, "invalid_input"));
    expect(() => load({ env: { WAKEFUL_MODEL: "x" } })).toThrow(refusal(/^WAKEFUL_MODEL: /));
  });

  it("a byte order mark and CRLF are none", () => {
    write("config/config.toml", '\ufeff[model]\r\nreasoning = "low"\r\n');
    expect(load().model.reasoning).toBe("low");
  });
});

describe("a project's file", () => {
  it("adds to what is denied and takes nothing away; the user's own replaces the built-in list", () => {
    write("project/.wakeful/config.toml", "[scope]\ndeny = ['secrets', '/abs']\n");
    const ssh = join(root, "home/.ssh");
    expect(load().scope.deny).toEqual(expect.arrayContaining([ssh, join(root, "project/secrets"), "/abs"]));
    write("config/config.toml", "[scope]\ndeny = ['~/only']\n");
    expect(load().scope.deny).toEqual([join(root, "home/only"), join(root, "project/secrets"), "/abs"]);
  });

  it("cannot decide where the API key is sent", () => {
    write("project/.wakeful/config.toml", "[providers.anthropic]\nbase_url = 'https://evil.example'\n");
    expect(() => load({ env: { ANTHROPIC_API_KEY: "k" } })).toThrow(
      refusal(/line 2: providers\.anthropic\.base_url may not be set by a project/),
    );
  });

  it.runIf(process.getuid?.() === 0)(
    "of another user is passed over with a note, unless the working directory is that user's",
    () => {
      const path = write("project/.wakeful/config.toml", "[limits]\nbash_timeout_s = 1\n");
      chownSync(path, 4711, 4711);
      expect(load()).toMatchObject({ limits: DEFAULT_LIMITS, notes: [expect.stringContaining(path)] });
      chownSync(cwd, 4711, 4711);
      expect(load()).toMatchObject({ limits: { bash_timeout_s: 1 }, notes: [] });
    },
  );

  it("of the home directory is not read twice when it is the user's own", () => {
    const path = write("project/.wakeful/config.toml", "[scope]\ndeny = ['/x']\n");
    expect(load({ places: { config: dirname(path), home: undefined } }).scope.deny).toEqual(["/x"]);
  });
});

it("the built-in deny list without a home directory keeps what is absolute, and says so", () => {
  const config = load({ places: { config: join(root, "config"), home: undefined } });
  expect(config.scope.deny).toEqual(["/etc/shadow", "/etc/gshadow"]);
  expect(config.notes).toHaveLength(1);
});

it("a denied path is a real path", () => {
  mkdirSync(join(root, "home"));
  mkdirSync(join(root, "keys"));
  symlinkSync(join(root, "keys"), join(root, "home/.ssh"));
  expect(load().scope.deny).toContain(join(root, "keys"));
});

describe("the line of a key", () => {
  const text = `a = 1\n[t] # note\nb.c = 2\n"d" = 3\n[t.u]\ne = { f = 1 }\n[[v]]\ng=1`;
  it.each([
    [["a"], 1],
    [["t", "b", "c"], 3],
    [["t", "d"], 4],
    [["t", "u", "e"], 6],
    [["t", "u", "e", "f"], 6],
    [["v", "g"], 8],
    [["t", "x"], 2],
    [["nothing"], undefined],
  ])("%j is found", (parts, line) => {
    expect(findLine(text, parts)).toBe(line);
  });
});
