import { describe, expect, it } from "vitest";
import { AppError } from "../base/errors.ts";
import { versionedBaseUrl } from "./base-url.ts";
import { anthropicCapabilities, geminiCapabilities, openaiCapabilities } from "./capabilities.ts";
import { checkModelRef, openModel } from "./open-model.ts";

const KEY = "sk-secret-1";
const env = { ANTHROPIC_API_KEY: KEY };

describe("a reference to a model", () => {
  it.each([["anthropic/claude-opus-5"], ["anthropic/org/some-model:1"], ["script:play.yaml"], ["script:/a b/c.yaml"]])(
    "can be %s",
    (ref) => {
      expect(checkModelRef(ref, env)).toBeUndefined();
    },
  );

  it.each([
    ["claude-opus-5", env, "not of the form"],
    ["", env, "not of the form"],
    ["anthropic/", env, "not of the form"],
    ["/claude", env, "not of the form"],
    ["anthropic/a b", env, "not of the form"],
    ["script:", env, "names no script file"],
    ["acme/x", env, 'unknown provider "acme"'],
    ["anthropic/x", {}, "needs ANTHROPIC_API_KEY"],
    ["anthropic/x", { ANTHROPIC_API_KEY: " " }, "needs ANTHROPIC_API_KEY"],
    ["anthropic/x", { ANTHROPIC_API_KEY: `${KEY}\n${KEY}` }, "ANTHROPIC_API_KEY holds characters"],
    ["anthropic/x", { ...env, ANTHROPIC_BASE_URL: `${KEY}:nope` }, "ANTHROPIC_BASE_URL is no http"],
    ["anthropic/x", { ...env, ANTHROPIC_BASE_URL: "file:///etc" }, "ANTHROPIC_BASE_URL is no http"],
  ])("%j with %j is refused: %s, and no key is shown", async (ref, env, problem) => {
    const error = checkModelRef(ref, env);
    expect(error).toMatchObject({ code: "configuration", message: expect.stringContaining(problem) });
    expect(error?.hint).toBeDefined();
    expect(JSON.stringify([error?.message, error?.hint, error?.details])).not.toContain(KEY);
    await expect(openModel(ref, { env })).rejects.toThrow(AppError);
  });
});

describe("any provider", () => {
  const named = new Map([
    ["ollama", { api: "chat", baseUrl: "http://127.0.0.1:11434/v1", keyVariables: [] }],
    ["house", { api: "responses", baseUrl: "http://127.0.0.1:1", keyVariables: ["HOUSE_KEY"] }],
  ] as const);

  it("needs its own key, and a server without one needs none", () => {
    expect(checkModelRef("openai/gpt-5.5", {})?.message).toContain("needs OPENAI_API_KEY, which is not set");
    expect(checkModelRef("google/gemini-3.5-flash", {})?.message).toContain("needs GEMINI_API_KEY or GOOGLE_API_KEY");
    expect(checkModelRef("google/gemini-3.5-flash", { GOOGLE_API_KEY: KEY })).toBeUndefined();
    expect(checkModelRef("ollama/qwen3:8b", {}, named)).toBeUndefined();
    expect(checkModelRef("house/m", {}, named)?.message).toContain("needs HOUSE_KEY");
  });

  it("that is unknown is named with what is known and how to add it", () => {
    const hint = checkModelRef("lmstudio/m", {}, named)?.hint;
    expect(hint).toContain("ollama/<model>");
    expect(hint).toContain("[providers.lmstudio]");
  });

  it("is opened with the adapter of its protocol, without a key when nothing is sent", async () => {
    const adapters = await Promise.all(
      ["anthropic/m", "openai/m", "google/m"].map(async (ref) => (await openModel(ref, { env: {}, rendersOnly: true })).adapter),
    );
    const named_ = await Promise.all(
      ["ollama/m", "house/m"].map(
        async (ref) => (await openModel(ref, { env: {}, providers: named, rendersOnly: true })).adapter,
      ),
    );
    expect([...adapters, ...named_].map((adapter) => adapter.replace(/@[^@]*$/, ""))).toEqual([
      "@ai-sdk/anthropic",
      "@ai-sdk/openai",
      "@ai-sdk/google",
      "@ai-sdk/openai-compatible",
      "@ai-sdk/openai",
    ]);
  });

  it.each([
    ["https://api.openai.com", "https://api.openai.com/v1"],
    ["https://api.openai.com/v1/", "https://api.openai.com/v1"],
    ["http://proxy/openai", "http://proxy/openai/v1"],
    ["https://api.z.ai/api/paas/v4", "https://api.z.ai/api/paas/v4"],
    ["https://generativelanguage.googleapis.com/v1beta/openai/", "https://generativelanguage.googleapis.com/v1beta/openai"],
  ])("at the base URL %s is asked below %s", (baseUrl, expected) => {
    expect(versionedBaseUrl(baseUrl, "v1")).toBe(expected);
  });

  it("has what the table says of its models, and little where it says nothing", () => {
    expect(openaiCapabilities("gpt-5.5")).toMatchObject({ systemInPlace: true, reasoning: true });
    expect(openaiCapabilities("gpt-4.1-mini")).toMatchObject({ reasoning: false, contextWindow: 1_000_000 });
    expect(openaiCapabilities("something")).toMatchObject({ reasoning: false, contextWindow: 128_000 });
    expect(geminiCapabilities("gemini-3.5-flash")).toMatchObject({ systemInPlace: false, reasoning: true });
    expect(geminiCapabilities("gemini-2.0-flash")).toMatchObject({ reasoning: false });
  });
});

describe("a model that is opened", () => {
  it("has the reference and the capabilities of its row", async () => {
    const model = await openModel("anthropic/claude-opus-4-8-20260528", { env });
    expect(model).toMatchObject({
      ref: "anthropic/claude-opus-4-8-20260528",
      capabilities: { systemInPlace: true, contextWindow: 1_000_000 },
    });
  });
});

describe("the capability table", () => {
  it.each([
    ["claude-opus-4-8", true, 128_000],
    ["claude-opus-5-5", true, 128_000],
    ["claude-fable-5-1", true, 128_000],
    ["claude-sonnet-5-5", true, 128_000],
    ["claude-sonnet-5", false, 128_000],
    ["claude-opus-4-7", false, 128_000],
    ["claude-opus-4-5-20251101", false, 64_000],
    ["claude-opus-4-1-20250805", false, 32_000],
    ["claude-opus-4-20250514", false, 32_000],
    ["claude-sonnet-4-5-20250929", false, 64_000],
    ["claude-3-5-sonnet-latest", false, 8192],
    ["claude-3-haiku-20240307", false, 4096],
    ["my-own-model", false, 8192],
  ])("knows %s: system in place %s, at most %i tokens of output", (modelId, systemInPlace, maxOutputTokens) => {
    expect(anthropicCapabilities(modelId)).toMatchObject({ systemInPlace, maxOutputTokens });
  });
});
