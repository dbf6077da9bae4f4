import { describe, expect, test } from "vitest";
import { COMMANDS } from "./commands.ts";
import { parseArgs } from "./parse-args.ts";

function parse(command: string, ...args: string[]) {
  const spec = COMMANDS.find((one) => one.name === command);
  if (spec === undefined) throw new Error(`no command ${command}`);
  const parsed = parseArgs(args, spec);
  return { positionals: parsed.positionals, given: Object.keys(spec.options).filter((name) => parsed.has(name)), parsed };
}

describe("parseArgs", () => {
  test("takes every way of writing an option, before and behind the text", () => {
    for (const args of [
      ["-n", "a", "do it"],
      ["do it", "-na"],
      ["--name=a", "do it"],
      ["do it", "--name", "a"],
      ["-n=a", "do it"],
    ]) {
      const { positionals, parsed } = parse("run", ...args);
      expect([positionals, parsed.value("name")]).toEqual([["do it"], "a"]);
    }
    expect(parse("run", "--scope", "a", "--scope=b:read", "x").parsed.values("scope")).toEqual(["a", "b:read"]);
    expect(parse("run", "--json", "-").positionals).toEqual(["-"]);
    expect(parse("run", "--", "--json").given).toEqual([]);
    expect(parse("run", "--model=-odd", "x").parsed.value("model")).toBe("-odd");
  });

  test.each([
    [["run"], "run: TEXT|- is missing"],
    [["run", "a", "b"], "run: unexpected argument 'b'"],
    [["run", "--modle", "x", "y"], "run: unknown option --modle"],
    [["run", "--model"], "--model needs a value: MODEL"],
    [["run", "--model", "--json", "x"], "--model needs a value: MODEL"],
    [["run", "--json=1", "x"], "--json takes no value"],
    [["run", "-n", "a", "-n", "b", "x"], "-n is given twice"],
    [["run", "-z", "x"], "run: unknown option -z"],
    [["run", "--__proto__", "x"], "run: unknown option --__proto__"],
  ])("%j is refused", ([command = "", ...args], message) => {
    expect(() => parse(command, ...args)).toThrow(expect.objectContaining({ code: "invalid_input", message }));
  });

  test("an unknown option names the nearest", () => {
    expect(() => parse("run", "--modle", "x")).toThrow(expect.objectContaining({ hint: "did you mean --model?" }));
    expect(() => parse("notify", "--sauce", "x")).toThrow(expect.objectContaining({ hint: "did you mean --source?" }));
  });
});
