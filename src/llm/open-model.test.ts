import { describe, expect, it } from "vitest";
import { AppError } from "../base/errors.ts";
import { anthropicCapabilities } from "./capabilities.ts";
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
