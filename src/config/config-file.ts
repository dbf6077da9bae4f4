import { parse, TomlDate, TomlError } from "smol-toml";
import * as z from "zod";
import { AppError } from "../base/errors.ts";
import { isJsonObject } from "../base/json.ts";
import { findKey, isTablePath, nearestKey } from "./config-keys.ts";
import { readConfigText } from "./read-config-text.ts";

/**
 * The keys that a configuration file sets, each checked; undefined when there is no such file. `kind` decides which keys it may set.
 * Throws `configuration` naming file, line and the nearest known key.
 */
export function readConfigFile(path: string, kind: "user" | "project"): ReadonlyMap<string, unknown> | undefined {
  const text = readConfigText(path);
  if (text === undefined) return undefined;
  const values = new Map<string, unknown>();
  collect({ path, text, kind, values }, parseToml(path, text), []);
  return values;
}

/** Checks one value of a file or of the environment; throws `configuration` naming `where`. */
export function checkValue(key: string, value: unknown, where: string): unknown {
  return check(key, value, { code: "configuration", subject: `${where}: ${key}` });
}

/** Checks the value of a command's option; throws `invalid_input` naming the option: it was used wrongly. */
export function checkOption(key: string, value: unknown, option: string): unknown {
  return check(key, value, { code: "invalid_input", subject: option });
}

function check(
  key: string,
  value: unknown,
  told: { readonly code: "configuration" | "invalid_input"; readonly subject: string },
): unknown {
  const known = findKey(key);
  if (known === undefined) throw new AppError("internal", `'${key}' is not a configuration key`);
  const parsed = known.schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const reasons = parsed.error.issues.map((issue) => issue.message).join("; ");
  throw new AppError(told.code, `${told.subject} cannot be ${describe(value)}: ${reasons}`, {
    hint: hintFor(key, known.schema),
  });
}

interface Reading {
  readonly path: string;
  readonly text: string;
  readonly kind: "user" | "project";
  readonly values: Map<string, unknown>;
}

function collect(reading: Reading, table: Readonly<Record<string, unknown>>, above: readonly string[]): void {
  for (const [name, value] of Object.entries(table)) {
    const parts = [...above, name];
    const key = parts.join(".");
    const where = place(reading, parts);
    const known = findKey(key);
    if (known !== undefined) {
      if (known.place === "user_only" && reading.kind === "project") {
        throw new AppError("configuration", `${where}: ${key} may not be set by a project`, {
          hint: "It would decide where your API key is sent. Set it in your own configuration file.",
        });
      }
      reading.values.set(key, checkValue(key, value, where));
    } else if (isTable(value) && isTablePath(key)) {
      collect(reading, value, parts);
    } else if (isTablePath(key)) {
      throw new AppError("configuration", `${where}: '${key}' is a table, not a value`, {
        hint: `Write [${key}] and its keys below.`,
      });
    } else {
      throw new AppError("configuration", `${where}: unknown key '${key}'`, {
        hint: `The nearest known one is '${nearestKey(key)}'.`,
      });
    }
  }
}

function isTable(value: unknown): value is Record<string, unknown> {
  return isJsonObject(value) && !(value instanceof TomlDate);
}

function parseToml(path: string, text: string): Readonly<Record<string, unknown>> {
  try {
    return parse(text, { maxDepth: 20 });
  } catch (thrown) {
    const where = thrown instanceof TomlError ? `, line ${thrown.line}, column ${thrown.column}` : "";
    const reason = thrown instanceof Error ? (thrown.message.split("\n")[0] ?? "") : String(thrown);
    throw new AppError("configuration", `${path}${where}: ${reason}`, {
      hint: "The file must be TOML (https://toml.io).",
      cause: thrown,
    });
  }
}

function place(reading: Reading, parts: readonly string[]): string {
  const line = findLine(reading.text, parts);
  return line === undefined ? reading.path : `${reading.path}, line ${line}`;
}

/** Line of a key in TOML text: found by its look, as the parser does not tell. Undefined when it is written in an unusual way. */
export function findLine(text: string, parts: readonly string[]): number | undefined {
  let table: readonly string[] = [];
  let best: { readonly line: number; readonly length: number } | undefined;
  for (const [index, line] of text.split("\n").entries()) {
    const header = /^\s*\[{1,2}([^[\]]+)\]{1,2}\s*(#.*)?$/.exec(line)?.[1];
    const key = /^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=/.exec(line)?.[1];
    if (header !== undefined) table = splitKey(header);
    else if (key === undefined) continue;
    const found = key === undefined ? table : [...table, ...splitKey(key)];
    if (found.length > parts.length && key !== undefined) continue;
    // An inline table or a header names the beginning of a path: the longest beginning is the nearest line.
    const length = Math.min(found.length, parts.length);
    const fits = found.slice(0, length).every((part, position) => part === parts[position]);
    if (fits && (best === undefined || length > best.length)) best = { line: index + 1, length };
  }
  return best?.line;
}

function splitKey(key: string): readonly string[] {
  return key.split(".").map((part) => part.trim().replace(/^(["'])(.*)\1$/, "$2"));
}

function describe(value: unknown): string {
  if (value instanceof TomlDate) return "a date";
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function hintFor(key: string, schema: z.ZodType): string {
  if (key === "model.default") return "For example: anthropic/claude-sonnet-5-5, or script:./story.yaml.";
  const { type, minimum, maximum, enum: choices } = z.looseObject({}).parse(z.toJSONSchema(schema, { unrepresentable: "any" }));
  if (Array.isArray(choices)) return `It takes one of: ${choices.join(", ")}.`;
  if (minimum !== undefined && maximum !== undefined)
    return `It takes a whole number from ${String(minimum)} to ${String(maximum)}.`;
  if (type === "array") return "It takes a list of texts.";
  if (type === "boolean") return "It takes true or false.";
  return "It takes a text.";
}
