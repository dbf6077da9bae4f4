import type * as z from "zod";
import { isJsonObject, parseJson } from "../base/json.ts";
import { prefixOf, toSafeText } from "../base/text.ts";
import type { Tool } from "./tool.ts";

/** A call's arguments as the tool takes them, or what the model must mend. Then nothing was run. */
export type ParsedInput<Input = unknown> =
  | { readonly ok: true; readonly input: Input }
  | { readonly ok: false; readonly message: string };

const MAX_NAMED_ISSUES = 8;
const MAX_NAME_CHARS = 100;

/**
 * Reads the arguments of a call, which are text from a model: cut off, malformed, of wrong types or with invented fields (field report B74).
 * Nothing is patched up: a call that was cut is never carried out. Empty text stands for no arguments.
 */
export function parseToolInput<Input>(tool: Tool<Input>, argumentsText: string): ParsedInput<Input> {
  const text = argumentsText.trim() === "" ? "{}" : argumentsText;
  const json = parseJson(text);
  if (!json.ok) return { ok: false, message: malformedText(tool.name, text, json.reason) };
  if (!isJsonObject(json.value)) {
    return {
      ok: false,
      message: `The arguments of ${tool.name} must be a JSON object, not ${kindOf(json.value)}. Nothing was run.`,
    };
  }
  const parsed = tool.input.safeParse(json.value);
  if (parsed.success) return { ok: true, input: parsed.data };
  const { issues } = parsed.error;
  const lines = issues.slice(0, MAX_NAMED_ISSUES).map((issue) => `- ${issueText(issue)}`);
  if (issues.length > MAX_NAMED_ISSUES) lines.push(`- and ${issues.length - MAX_NAMED_ISSUES} more`);
  const fields = fieldNames(tool);
  const known = fields.length === 0 ? "" : `\nIts fields are: ${fields.join(", ")}.`;
  return { ok: false, message: `The arguments of ${tool.name} are wrong; nothing was run.\n${lines.join("\n")}${known}` };
}

/** The tool of exactly this name, or undefined. `__proto__`, another case or a blank more are other names (B76). */
export function findTool(tools: readonly Tool[], name: string): Tool | undefined {
  return tools.find((tool) => tool.name === name);
}

/** Tells the model which tools there are, and which one it probably meant (B76). */
export function unknownToolMessage(name: string, tools: readonly Tool[]): string {
  const asked = nameKey(name);
  const near = tools.find(
    (tool) => asked.length > 1 && (asked.includes(nameKey(tool.name)) || nameKey(tool.name).startsWith(asked)),
  );
  const shownName = JSON.stringify(toSafeText(prefixOf(name, MAX_NAME_CHARS)));
  const guess = near === undefined ? "" : ` Did you mean ${near.name}?`;
  const list =
    tools.length === 0 ? "There are no tools in this session." : `The tools are: ${tools.map((tool) => tool.name).join(", ")}.`;
  return `There is no tool ${shownName}.${guess} ${list}`;
}

function nameKey(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

function malformedText(name: string, text: string, reason: string): string {
  if (isCutOff(text)) {
    return `The arguments of ${name} are cut off after ${text.length} characters; nothing was run. If the output limit cut them, send less at once.`;
  }
  return `The arguments of ${name} are not valid JSON (${prefixOf(toSafeText(reason), 200)}); nothing was run. Send the call again.`;
}

/** True when the text is the beginning of a JSON value: it ends inside a string or with open brackets. */
function isCutOff(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (inString) {
      if (character === "\\") i++;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") depth--;
  }
  return inString || depth > 0;
}

function issueText(issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys")
    return `unknown field ${issue.keys.map((key) => prefixOf(key, MAX_NAME_CHARS)).join(", ")}`;
  return `${path === "" ? "arguments" : path}: ${issue.message}`;
}

function fieldNames(tool: Tool): readonly string[] {
  const { input } = tool;
  return "shape" in input && isJsonObject(input.shape) ? Object.keys(input.shape) : [];
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : `a ${typeof value}`;
}
