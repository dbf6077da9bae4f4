import { describe, expect, it } from "vitest";
import { bashTool } from "./bash.ts";
import { readTool } from "./read.ts";
import { findTool, parseToolInput, unknownToolMessage } from "./tool-input.ts";
import { toolDefinitions, toolSet } from "./tool-set.ts";
import { writeTool } from "./write.ts";

const tools = toolSet({ readOnly: false });

describe("arguments of a tool call", () => {
  it("become the tool's input", () => {
    expect(parseToolInput(readTool, '{"path":"a","offset":2}')).toEqual({ ok: true, input: { path: "a", offset: 2 } });
  });

  it.each<[string, string, RegExp]>([
    ["cut off in a text", '{"path":"a","content":"abc', /cut off after 26 characters; nothing was run/],
    ["cut off behind a value", '{"path":"a"', /cut off/],
    ["malformed", '{"path": a}', /not valid JSON/],
    ["two objects", '{"path":"a"}{"path":"b"}', /not valid JSON/],
    ["a list", "[]", /must be a JSON object, not a list/],
    ["null", "null", /not null/],
    ["a text", '"x"', /not a string/],
    ["nothing at all", "", /path: .*\n- content: .*\nIts fields are: path, content/],
    ["of a wrong type", '{"path":1,"content":"x"}', /- path: .*string/],
    ["with an invented field", '{"path":"a","content":"x","mode":1}', /unknown field mode/],
    ["with __proto__", '{"path":"a","content":"x","__proto__":{}}', /unknown field __proto__/],
  ])("that are %s are refused with what to mend", (_title, text, message) => {
    const parsed = parseToolInput(writeTool, text);
    expect(parsed.ok ? "taken" : parsed.message).toMatch(message);
  });

  it("stay out of the message when they are long", () => {
    const parsed = parseToolInput(bashTool, `{"command":1,"${"x".repeat(10_000)}":2}`);
    expect(parsed.ok ? "" : parsed.message.length).toBeLessThan(1000);
  });
});

describe("a tool's name", () => {
  it.each(["read_file", "Bash ", "bash", "__proto__", "constructor", "toString", ""])("is not %j (B76)", (name) => {
    expect(findTool(tools, name)).toBeUndefined();
    expect(unknownToolMessage(name, tools)).toContain("The tools are: Bash, Read, Write, Edit, Glob, Grep.");
  });

  it("is guessed where it is near", () => {
    expect(unknownToolMessage("read_file", tools)).toContain("Did you mean Read?");
    expect(unknownToolMessage("Bash ", tools)).toContain('"Bash ". Did you mean Bash?');
    expect(unknownToolMessage("__proto__", tools)).not.toContain("Did you mean");
    expect(findTool(tools, "Edit")?.name).toBe("Edit");
  });
});

describe("the tool set", () => {
  it("of a read-only Pod has nothing that writes (B118)", () => {
    const readOnly = toolSet({ readOnly: true });
    expect(readOnly.map((tool) => tool.name)).toEqual(["Read", "Glob", "Grep"]);
    expect(readOnly.every((tool) => tool.effect === "read")).toBe(true);
  });

  it("is told to the model in the same bytes every time, as closed objects", () => {
    const definitions = toolDefinitions(tools);
    expect(JSON.stringify(toolDefinitions(toolSet({ readOnly: false })))).toBe(JSON.stringify(definitions));
    for (const { inputSchema } of definitions) {
      expect(inputSchema).toMatchObject({ type: "object", additionalProperties: false });
      expect(inputSchema).not.toHaveProperty("$schema");
    }
    expect(definitions[1]).toEqual({
      name: "Read",
      description: readTool.description,
      inputSchema: {
        type: "object",
        properties: {
          path: { type: "string", description: "File, absolute or relative to the working directory" },
          offset: { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: "First line, from 1" },
          limit: { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: "Most lines (default 2000)" },
        },
        required: ["path"],
        additionalProperties: false,
      },
    });
  });
});
