import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
import { shellWord } from "./shell-word.ts";

test.each([
  ["reviewer", "reviewer"],
  ["見張り-1", "見張り-1"],
  ["", "''"],
  ["my pod", "'my pod'"],
  ["it's $x", "'it'\\''s $x'"],
])("%j is written %s", (text, word) => {
  expect(shellWord(text)).toBe(word);
});

test("a shell reads every text back as it was", () => {
  const texts = fc.sample(
    fc.string({ unit: "binary", maxLength: 30 }).filter((text) => !text.includes("\0") && text.isWellFormed()),
    { numRuns: 60, seed: 1 },
  );
  const command = texts.map((text) => `printf '%s\\0' ${shellWord(text)}`).join("\n");
  expect(execFileSync("/bin/sh", ["-c", command]).toString("utf8").split("\0").slice(0, -1)).toEqual(texts);
});
