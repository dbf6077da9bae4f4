import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "../base/errors.ts";
import { loadConfig } from "./load-config.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "wk-"));
  for (const folder of ["config", "cwd/.wakeful"]) mkdirSync(join(root, folder), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function load(user: string, env: Record<string, string> = {}, project = "") {
  writeFileSync(join(root, "config", "config.toml"), user);
  writeFileSync(join(root, "cwd", ".wakeful", "config.toml"), project);
  return loadConfig({ cwd: join(root, "cwd"), env, places: { config: join(root, "config"), home: root } });
}

function failure(user: string, project = ""): AppError {
  try {
    load(user, {}, project);
  } catch (thrown) {
    if (thrown instanceof AppError) return thrown;
    throw thrown;
  }
  throw new Error("it was taken");
}

describe("providers", () => {
  it("are the three built-in ones, with the base URLs and keys of the usual variables", () => {
    const env = { OPENAI_BASE_URL: " http://proxy/openai ", GOOGLE_BASE_URL: "http://g2", GEMINI_BASE_URL: "http://g1" };
    const config = load("[providers.google]\nbase_url = 'http://g3'\n", env);
    expect([...config.providers.all.keys()].toSorted()).toEqual(["anthropic", "google", "openai"]);
    expect(config.providers.all.get("openai")).toMatchObject({
      baseUrl: "http://proxy/openai",
      baseUrlSource: "OPENAI_BASE_URL",
    });
    expect(config.providers.all.get("google")).toMatchObject({ baseUrl: "http://g1", baseUrlSource: "GEMINI_BASE_URL" });
    expect(config.model.default).toBeUndefined();
  });

  it.each([
    [{ GOOGLE_API_KEY: "g" }, "google/gemini-3.5-flash"],
    [{ GEMINI_API_KEY: "g", OPENAI_API_KEY: "o" }, "openai/gpt-5.5"],
    [{ OPENAI_API_KEY: "o", ANTHROPIC_API_KEY: "a" }, "anthropic/claude-sonnet-5-5"],
  ])("with the keys of %j make %s the default model", (env, model) => {
    expect(load("", env).model.default).toBe(model);
  });

  it("can be any server the user names, and show in the configuration with their place", () => {
    const config = load(
      `[providers.ollama]\nbase_url = "http://127.0.0.1:11434/v1"\n[providers.my-vllm]\nbase_url = "https://gpu/v1"\napi_key_env = "GPU_KEY"\n` +
        `api = "responses"\nstrict_roles = true\nreasoning = true\nreturn_reasoning = true\nsystem_in_place = false\ncontext_window = 32768\nmax_output_tokens = 4096\n`,
    );
    expect(config.providers.all.get("ollama")).toMatchObject({
      api: "chat",
      keyVariables: [],
      baseUrl: "http://127.0.0.1:11434/v1",
    });
    expect(config.providers.all.get("my-vllm")).toEqual({
      api: "responses",
      keyVariables: ["GPU_KEY"],
      baseUrl: "https://gpu/v1",
      baseUrlSource: join(root, "config", "config.toml"),
      strictRoles: true,
      reasoning: true,
      returnsReasoning: true,
      systemInPlace: false,
      contextWindow: 32_768,
      maxOutputTokens: 4096,
    });
    expect(config.entries.find(({ key }) => key === "providers.ollama.base_url")?.value).toBe("http://127.0.0.1:11434/v1");
  });

  it("are taken as docs/models.md writes them", () => {
    const docs = readFileSync(join(import.meta.dirname, "../../docs/models.md"), "utf8");
    const example = /```toml\n([\s\S]*?)```/.exec(docs)?.[1] ?? "";
    const named = [...load(example).providers.all].filter(([name]) => example.includes(`[providers.${name}]`));
    expect(named.map(([name, { api }]) => `${name} ${api}`)).toEqual([
      "ollama chat",
      "llamacpp chat",
      "vllm chat",
      "deepseek chat",
      "gateway messages",
    ]);
  });

  it("are the user's alone: a project cannot add one, nor move one", () => {
    for (const name of ["ollama", "openai"]) {
      const refused = failure("", `[providers.${name}]\nbase_url = "http://evil"\n`);
      expect(refused.message).toContain(`providers.${name}.base_url may not be set by a project`);
    }
  });

  it.each([
    ['[providers.x]\napi = "chat"\n', "[providers.x] has no base_url", "base_url ="],
    ['[providers.x]\nbase_url = "nope"\n', "providers.x.base_url cannot be", "text"],
    ['[providers.x]\nbase_url = "http://h"\napi = "soap"\n', "providers.x.api cannot be", "chat"],
    ['[providers.x]\nbase_url = "http://h"\nstrict_roles = 1\n', "providers.x.strict_roles cannot be 1", "true or false"],
    ['[providers.x]\nbase_ulr = "http://h"\n', "unknown key 'providers.x.base_ulr'", "providers.x.base_url"],
    ['[providers.openai]\napi = "chat"\n', "unknown key 'providers.openai.api'", "providers.openai.base_url"],
    ["[providers]\nx = 1\n", "'providers.x' is a table, not a value", "[providers.x]"],
    ['[providers."a.b"]\nbase_url = "http://h"\n', "unknown key", "nearest"],
    ['[providers.__proto__]\nbase_url = "http://h"\n', "__proto__", ""],
  ])("that are written wrongly, such as %j, are refused with the place and what would be right", (text, message, hint) => {
    const refused = failure(text);
    expect(refused.code).toBe("configuration");
    expect(refused.message).toContain(message);
    expect(`${refused.hint}`).toContain(hint);
  });
});
