import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { fakeIo } from "../../test/support/fake-io.ts";
import { runModelsCommand } from "./models-command.ts";
import type { ParsedArgs } from "./parse-args.ts";

async function models(env: Record<string, string>, json: boolean): Promise<string> {
  const root = mkdtempSync(join(tmpdir(), "wk-"));
  try {
    mkdirSync(join(root, ".config", "wakeful"), { recursive: true });
    const config = '[providers.ollama]\nbase_url = "http://me:pass@127.0.0.1:11434/v1"\n';
    writeFileSync(join(root, ".config", "wakeful", "config.toml"), config);
    const io = fakeIo({ env: { HOME: root, ...env }, cwd: root });
    const args: ParsedArgs = { positionals: [], has: () => json, value: () => undefined, values: () => [] };
    expect(await runModelsCommand(args, io)).toBe(0);
    return io.out();
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

it("shows what can be used and what is missing, and no key or password", async () => {
  const out = await models({ OPENAI_API_KEY: "sk-secret" }, false);
  expect(out).toMatch(/^openai\/<model> +ready +OPENAI_API_KEY is set/m);
  expect(out).toMatch(/^anthropic\/<model> +no key +ANTHROPIC_API_KEY is not set/m);
  expect(out).toMatch(/^ollama\/<model> +ready +needs no key +chat, http:\/\/127\.0\.0\.1:11434$/m);
  expect(out).toContain("default: openai/gpt-5.5 (built-in, as OPENAI_API_KEY is set)");
  expect(out).not.toMatch(/sk-secret|me:pass/);
});

it("prints the same for programs, with what is known of each line of models", async () => {
  const report = JSON.parse(await models({ WAKEFUL_MODEL: "google/gemini-3.5-flash" }, true));
  expect(report.default).toMatchObject({ model: "google/gemini-3.5-flash", source: "WAKEFUL_MODEL" });
  expect(report.default.problem).toContain("GEMINI_API_KEY");
  const google = report.providers.find((provider: { name: string }) => provider.name === "google");
  expect(google).toMatchObject({ api: "gemini", base_url: null, key: { variable: "GEMINI_API_KEY", set: false }, ready: false });
  expect(google.known).toContainEqual(expect.objectContaining({ models: "google/gemini-*", context_window: 1_048_576 }));
});
