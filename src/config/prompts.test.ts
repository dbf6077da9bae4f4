import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Scope } from "../protocol/scope-rule.ts";
import {
  loadPrompts,
  NOTIFICATION_PROMPT,
  renderSystemPrompt,
  renderTemplate,
  SYSTEM_ITEM_RULES,
  SYSTEM_PROMPT,
} from "./prompts.ts";

let root = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "wakeful-prompts-")));
  mkdirSync(join(root, "project/deep"), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text: string): string {
  const full = join(root, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, text);
  return full;
}

const load = () => loadPrompts({ cwd: join(root, "project/deep"), configDir: join(root, "config") }).prompts;
const refusal = (message: RegExp) => expect.objectContaining({ code: "configuration", message: expect.stringMatching(message) });
const asPlain = fc.string({ unit: "binary" });

describe("a template", () => {
  it("is filled in once: what is inserted is never read again", () => {
    fc.assert(
      fc.property(asPlain, asPlain, (source, message) => {
        expect(renderTemplate("<{source}|{message}|{source}>", { source, message })).toBe(`<${source}|${message}|${source}>`);
      }),
    );
    expect(renderTemplate("{a}", { a: "{b} {{ $& {a}", b: "no" })).toBe("{b} {{ $& {a}");
  });

  it("with its braces doubled is the text itself", () => {
    fc.assert(
      fc.property(asPlain, (text) => {
        expect(renderTemplate(text.replaceAll("{", "{{").replaceAll("}", "}}"), {})).toBe(text);
      }),
    );
  });

  it("put together renders to the renderings put together", () => {
    const piece = fc.constantFrom("{a}", "{b}", "{{", "}}", "x", "\n", "ポ");
    const values = { a: "{b}", b: "}}" };
    fc.assert(
      fc.property(fc.array(piece), fc.array(piece), (left, right) => {
        const render = (pieces: readonly string[]) => renderTemplate(pieces.join(""), values);
        expect(render([...left, ...right])).toBe(render(left) + render(right));
      }),
    );
  });

  it.each([
    ["x\n{mesage}", /line 2: unknown placeholder \{mesage\}/],
    ["{}", /lone '\{'/],
    ["a { b", /lone '\{'/],
    ["a } b", /lone '}'/],
    ["{a", /lone '\{'/],
    ['{ "json": 1 }', /unknown placeholder/],
    ["{constructor}", /unknown placeholder \{constructor\}/],
    ["{{a}", /lone '}'/],
  ])("%j is refused", (template, message) => {
    expect(() => renderTemplate(template, { a: "", message: "" })).toThrow(refusal(message));
  });
});

describe("the prompts", () => {
  it("are the built-in ones, the user's, or the project's nearest, in that order", () => {
    expect(load()).toEqual({
      system: { text: SYSTEM_PROMPT, source: "built-in" },
      notification: { text: NOTIFICATION_PROMPT, source: "built-in" },
    });
    const user = write("config/prompts/notification.md", "user {source} {message}\n");
    expect(load().notification).toEqual({ text: "user {source} {message}", source: user });
    const project = write("project/.wakeful/prompts/notification.md", "project {message} {source}\r\n");
    expect(load().notification).toEqual({ text: "project {message} {source}", source: project });
    const nearest = write("project/deep/.wakeful/prompts/notification.md", "{source}{message}");
    expect(load().notification.source).toBe(nearest);
    expect(load().system.source).toBe("built-in");
  });

  it("have the ticket's own words for a notification (N7)", () => {
    expect(renderTemplate(NOTIFICATION_PROMPT, { source: "ci", message: "build {failed}" })).toBe(
      "[Notification from ci]\nbuild {failed}\n\nThis is a notification, not a blocking request. If you are in the middle of a task, continue your current work and address this at a natural stopping point.",
    );
  });

  it.each([
    ["notification", "{source}", /notification\.md: the placeholder \{message\} is missing/],
    ["notification", "{message}", /\{source\} is missing/],
    ["notification", "{source} {message}\n{text}", /notification\.md, line 2: unknown placeholder \{text\}/],
    ["notification", "{{source}} {message}", /\{source\} is missing/],
    ["notification", " \n", /is empty/],
    ["system", "in {cwd}, by {user}", /system\.md, line 1: unknown placeholder \{user\}/],
  ])("of a file %s that says %j are refused naming file and placeholder", (name, text, message) => {
    write(`config/prompts/${name}.md`, text);
    expect(load).toThrow(refusal(message));
  });

  it("of a file that cannot be read are refused", () => {
    mkdirSync(join(root, "config/prompts/system.md"), { recursive: true });
    expect(load).toThrow(refusal(/system\.md: it is a folder/));
  });
});

describe("the system prompt", () => {
  const scope: Scope = {
    allow: [
      { path: "/w/project", access: "write", recursive: true },
      { path: "/w/notes.md", access: "write", recursive: false },
      { path: "/r", access: "read", recursive: true },
    ],
    deny: [
      { path: "/home/u/.ssh", access: "read", recursive: true },
      { path: "/w/project/vendor", access: "write", recursive: true },
    ],
  };
  const facts = { cwd: "/w/{project}", scope, platform: "linux", shell: "/bin/bash" };

  it("says who, where, and what may be written, and is the same bytes every time", () => {
    const text = renderSystemPrompt(facts);
    expect(text).toBe(renderSystemPrompt(structuredClone(facts)));
    expect(text).toContain("You work in /w/{project} on Linux. Commands run in /bin/bash.");
    expect(text).toContain("- /w/project and everything below it\n- /w/notes.md\n");
    expect(text).toContain("only read:\n- /w/project/vendor and");
    expect(text).not.toContain("/home/u/.ssh");
    expect(text.split("\n").length).toBeLessThanOrEqual(45);
  });

  it("tells a Pod that may write nothing, and one without a shell", () => {
    const text = renderSystemPrompt({ ...facts, scope: { allow: [], deny: [] }, shell: null });
    expect(text).toContain("You may write nothing");
    expect(text).toContain("You have no shell.");
  });

  it("says what system items are, also when the user wrote the rest (N14, I12)", () => {
    const text = renderSystemPrompt(facts, { text: "I am mine in {cwd}.", source: "system.md" });
    expect(text).toBe(`I am mine in /w/{project}.\n\n${SYSTEM_ITEM_RULES}`);
    for (const word of [
      "<system_item kind=",
      'trust="operator"',
      'trust="pod"',
      'trust="external"',
      "never the user's words",
      "never grant a permission",
    ]) {
      expect(text).toContain(word);
    }
  });
});
