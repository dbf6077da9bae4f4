import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "../../base/errors.ts";
import { nearestKey } from "./nearest-key.ts";
import { parseScript, readScript } from "./read-script.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "script-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

function refusal(text: string): { readonly code: string; readonly message: string; readonly hint: string | undefined } {
  try {
    parseScript(text, "s.yaml");
  } catch (thrown) {
    if (thrown instanceof AppError) return { code: thrown.code, message: thrown.message, hint: thrown.hint };
    throw thrown;
  }
  throw new Error(`accepted: ${text}`);
}

/** `read`, or the code it is refused with. */
function attempt(text: string): string {
  try {
    parseScript(text, "s.yaml");
    return "read";
  } catch (thrown) {
    return thrown instanceof AppError ? thrown.code : String(thrown);
  }
}

describe("a script", () => {
  test("is read with its durations in milliseconds and lone texts as lists", () => {
    const script = parseScript(
      `
# a comment
pace: 20ms
steps:
  - wait: 1.5s
    wait_for: { file: ready, within: 2m }
    expect: { contains: hello, order: [a, b], count: { x: 0 } }
    stall: true
    say: |
      two
      lines
otherwise: { say: more }
`,
      "s.yaml",
    );
    expect(script).toEqual({
      pace: 20,
      steps: [
        {
          wait: 1500,
          wait_for: { file: "ready", within: 120_000 },
          expect: { contains: ["hello"], order: ["a", "b"], count: { x: 0 } },
          stall: {},
          say: "two\nlines\n",
        },
      ],
      otherwise: { say: "more" },
    });
  });

  test("may use anchors, a document mark and a byte order mark", () => {
    expect(parseScript("---\nsteps:\n  - &hi { say: hi }\n  - *hi\n...\n", "s.yaml").steps).toEqual([
      { say: "hi" },
      { say: "hi" },
    ]);
    expect(parseScript("\ufeffsteps: [{ say: hi }]", "s.yaml").steps).toEqual([{ say: "hi" }]);
  });

  test.each([
    ["steps:\n  - sya: hi\n", 2, 5, /unknown key "sya"/, /^did you mean "say"\? known keys here: .*\bcall\b/],
    ["stepz: []\n", 1, 1, /unknown key "stepz"/, /"steps"/],
    ["steps:\n  - call:\n      - tool: Bash\n        inputs: {}\n", 4, 9, /unknown key "inputs"/, /"input"/],
    ["steps:\n  - say: hi\n    expect: { contain: x }\n", 3, 15, /unknown key "contain"/, /"contains"/],
    ["steps:\n  - say: hi\n    fail: { status: 529, retry-after: 2s }\n", 3, 26, /unknown key "retry-after"/, /"retry_after"/],
    ["steps:\n  - say: hi\n    drop: { afetr: 2 }\n", 3, 13, /unknown key "afetr"/, /"after"/],
    ["steps:\n  - say: hi\n    stall: { afetr: 2 }\n", 3, 14, /unknown key "afetr"/, /"after"/],
    ["steps:\n  - say: hi\n    usage: { inptu: 2 }\n", 3, 14, /unknown key "inptu"/, /"input"/],
    ["steps:\n  - say: hi\n    wait_for: { path: x, file: y }\n", 3, 17, /unknown key "path"/, /^known keys here: file, within$/],
    ["otherwise:\n  saying: hi\n", 2, 3, /unknown key "saying"/, /known keys here/],
    ["steps:\n  - say: 12\n", 2, 10, /steps\[0\]\.say must be a text \(put it in quotes/, /docs\/scripts\.md/],
    ["steps:\n  - wait: 2\n", 2, 11, /steps\[0\]\.wait must be a duration/, /./],
    ["steps:\n  - wait: 2h\n", 2, 11, /steps\[0\]\.wait is "2h", no duration/, /./],
    ["steps:\n  - wait: 9999m\n", 2, 11, /no duration of at most a day/, /./],
    ["steps:\n  - say: hi\n    stop: done\n", 3, 11, /steps\[0\]\.stop must be one of end, /, /./],
    ["steps:\n  - fail: { code: cancelled }\n", 2, 19, /fail\.code must be a failure code/, /./],
    ["steps:\n  - fail: { message: no }\n", 2, 11, /fail needs "code" or "status"/, /./],
    ["steps:\n  - fail: { status: 200 }\n", 2, 21, /fail\.status must be an HTTP status/, /./],
    ["steps:\n  - call: { tool: Bash }\n", 2, 11, /call must be a list of calls/, /./],
    ["steps:\n  - call: [{ tool: Bash, input: {}, arguments: '' }]\n", 2, 12, /call\[0\] has "input" and "arguments"/, /./],
    ["steps:\n  - call: [{ tool: Bash, input: { a: .nan } }]\n", 2, 38, /call\[0\]\.input\.a holds \.nan or \.inf/, /./],
    ["steps:\n  - chunk: 0\n", 2, 12, /chunk must be a whole number of characters, at least 1/, /./],
    ["steps:\n  - say: hi\n    expect: { contains: [] }\n", 3, 25, /contains must be at least one text/, /./],
    ["steps:\n  - say: hi\n    expect: { contains: { a: b } }\n", 3, 25, /contains must be a text or a list of texts/, /./],
    ["steps:\n  - say: hi\n    stall: yes\n", 3, 12, /stall must be "true", or a map/, /./],
    ["steps:\n  say: hi\n", 2, 3, /steps must be a list of steps/, /./],
    ["steps:\n  - hi\n", 2, 5, /steps\[0\] must be a map such as/, /./],
    ["- say: hi\n", 1, 1, /the script must be a map with "steps"/, /./],
    ["hello\n", 1, 1, /the script must be a map/, /./],
    ["steps: []\n", 1, 1, /the script needs "steps"/, /./],
    ["pace: 1s\n", 1, 1, /the script needs "steps"/, /./],
    ["", 1, 1, /the script is empty/, /./],
    ["# only a comment\n", 1, 1, /the script is empty/, /./],
    ["---\n", 1, 1, /the script is empty/, /./],
    ["steps:\n\t- say: hi\n", 2, 1, /Tabs are not allowed/, /./],
    ["steps:\n  - say: a: b\n", 2, 10, /Nested mappings/, /./],
    ["steps: [{ say: 'hi }]\n", 2, 1, /Missing closing 'quote/, /./],
    ["steps:\n  - say: a\n    say: b\n", 3, 5, /unique/, /./],
    ["steps: [{ say: !secret hi }]\n", 1, 16, /Unresolved tag/, /./],
    ["steps: [{ say: hi }]\n---\nsteps: [{ say: ho }]\n", 3, 1, /a second YAML document/, /remove the line "---"/],
    ["steps: &all [*all]\n", 1, 1, /cannot be read as YAML/, /./],
    ["steps: [*nobody]\n", 1, 1, /cannot be read as YAML: Unresolved alias/, /./],
  ] as const)("that is wrong is refused with its place: %j", (text, line, column, message, hint) => {
    const refused = refusal(text);
    expect(refused.code).toBe("configuration");
    expect(refused.message).toContain(`script s.yaml, line ${line}, column ${column}: `);
    expect(refused.message).toMatch(message);
    expect(refused.message).not.toContain("\n");
    expect(refused.hint).toMatch(hint);
  });

  test.each([100, 1500, 20_000])("nested %i deep is read or refused, whatever the stack bears", (depth) => {
    const text = `steps: [{ call: [{ tool: T, input: { deep: ${"[".repeat(depth)}${"]".repeat(depth)} } }] }]`;
    if (depth === 100) expect(parseScript(text, "s.yaml").steps).toHaveLength(1);
    else expect(attempt(text)).toMatch(/^(read|configuration)$/);
  });

  test("that is any text is either read or refused as configuration", () => {
    const word = fc.constantFrom(
      "steps:",
      "  - ",
      "say",
      ": ",
      "hi",
      "\n",
      "{",
      "}",
      "[",
      "]",
      "&a",
      "*a",
      "'",
      '"',
      "|",
      "#",
      "!",
      "?",
      "\t",
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: "grapheme" }),
          fc.array(word).map((words) => words.join("")),
        ),
        (text) => {
          try {
            parseScript(text, "s.yaml");
          } catch (thrown) {
            expect(thrown).toBeInstanceOf(AppError);
            expect(thrown).toMatchObject({ code: "configuration" });
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("a script file", () => {
  async function refused(file: string): Promise<unknown> {
    return readScript(file).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  }

  test("that is not there is not_found, also below a file", async () => {
    const file = join(folder, "no.yaml");
    expect(await refused(file)).toMatchObject({ code: "not_found", message: expect.stringContaining(file) });
    await writeFile(file, "steps: [{ say: hi }]");
    expect(await refused(join(file, "deeper.yaml"))).toMatchObject({ code: "not_found" });
  });

  test("that is a directory, a FIFO or too big is refused by name", async () => {
    expect(await refused(folder)).toMatchObject({ code: "configuration", message: expect.stringMatching(/is a directory/) });
    const fifo = join(folder, "fifo");
    await promisify(execFile)("mkfifo", [fifo]);
    expect(await refused(fifo)).toMatchObject({ code: "configuration", message: expect.stringMatching(/not a regular file/) });
    const big = join(folder, "big.yaml");
    await writeFile(big, Buffer.alloc(9 * 1024 * 1024, "#"));
    expect(await refused(big)).toMatchObject({ code: "configuration", message: expect.stringMatching(/more than/) });
  });

  test.each([
    ["NUL", Buffer.from("steps: [{ say: 'a\0b' }]")],
    ["UTF-16", Buffer.from("steps: [{ say: hi }]", "utf16le")],
    ["an image", Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])],
    ["Latin-1", Buffer.from("steps: [{ say: café }]", "latin1")],
  ])("that is not UTF-8 text is refused: %s", async (_name, bytes) => {
    const file = join(folder, "binary.yaml");
    await writeFile(file, bytes);
    expect(await refused(file)).toMatchObject({ code: "configuration", message: expect.stringMatching(/not UTF-8 text/) });
  });

  test("with CRLF line ends is read", async () => {
    const file = join(folder, "crlf.yaml");
    await writeFile(file, "steps:\r\n  - say: héllo 👩‍👩‍👧\r\n");
    expect((await readScript(file)).steps).toEqual([{ say: "héllo 👩‍👩‍👧" }]);
  });
});

test("the nearest key is the one with the fewest typing errors, and none that is far", () => {
  const known = ["say", "call", "wait", "wait_for", "not_contains", "stop"];
  expect(
    ["sya", "sai", "Call", "calls", "wait-for", "waitfor", "not_contain", "stopp"].map((key) => nearestKey(key, known)),
  ).toEqual(["say", "say", "call", "call", "wait_for", "wait_for", "not_contains", "stop"]);
  expect(["text", "a", "message", "x"].map((key) => nearestKey(key, known))).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
