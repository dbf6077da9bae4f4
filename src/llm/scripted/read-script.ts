import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { type Document, isCollection, isMap, isNode, isScalar, LineCounter, type ParsedNode, parseAllDocuments } from "yaml";
import type * as z from "zod";
import { AppError, messageOf, systemCode } from "../../base/errors.ts";
import { nearestKey } from "./nearest-key.ts";
import { knownKeysAt, Script } from "./script-format.ts";

/** A script is written by hand; more is another file by mistake. */
const MAX_SCRIPT_BYTES = 8 * 1024 * 1024;
const HINT = "see docs/scripts.md for the format";

/**
 * Reads and validates a script. Throws `not_found` if there is no such file, `configuration` for everything else that is wrong with it,
 * with file, line, column and, for an unknown key, the nearest known one.
 */
export async function readScript(file: string): Promise<Script> {
  return parseScript(await readScriptText(file), file);
}

async function readScriptText(file: string): Promise<string> {
  // Not blocking: opening a FIFO would otherwise hold a thread until somebody writes to it.
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK).catch((thrown: unknown) => {
    throw openError(file, thrown);
  });
  try {
    return decode(file, await readRegularFile(file, handle));
  } finally {
    await handle.close();
  }
}

function openError(file: string, thrown: unknown): AppError {
  const code = systemCode(thrown);
  if (code === "ENOENT" || code === "ENOTDIR") {
    return new AppError("not_found", `there is no script ${file}`, { cause: thrown, hint: "check the path behind script:" });
  }
  return new AppError("configuration", `the script ${file} cannot be read: ${messageOf(thrown)}`, { cause: thrown });
}

async function readRegularFile(file: string, handle: FileHandle): Promise<Buffer> {
  const stat = await handle.stat();
  if (stat.isDirectory()) {
    throw new AppError("configuration", `the script ${file} is a directory`, { hint: "name a YAML file in it" });
  }
  if (!stat.isFile())
    throw new AppError("configuration", `the script ${file} is not a regular file`, { hint: "name a YAML file" });
  if (stat.size > MAX_SCRIPT_BYTES) {
    throw new AppError("configuration", `the script ${file} has ${stat.size} bytes, more than ${MAX_SCRIPT_BYTES}`, {
      hint: HINT,
    });
  }
  return handle.readFile();
}

function decode(file: string, bytes: Buffer): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {
    // Not UTF-8: the same message as for a NUL below says it.
  }
  throw new AppError("configuration", `the script ${file} is not UTF-8 text`, { hint: `a script is a YAML file; ${HINT}` });
}

/** Validates the text of a script; `file` is for messages. Throws `configuration`. */
export function parseScript(text: string, file: string): Script {
  const lines = new LineCounter();
  const fail = (offset: number, message: string, hint = HINT, cause?: unknown): AppError => {
    const { line, col } = lines.linePos(offset);
    return new AppError("configuration", `script ${file}, line ${line}, column ${col}: ${message}`, { hint, cause });
  };
  try {
    const document = parseDocument(text, lines, fail);
    const value: unknown = document.toJS();
    if (value === null || value === undefined) throw fail(0, "the script is empty");
    // An anchor that holds itself would be walked for ever below.
    JSON.stringify(value);
    const parsed = Script.safeParse(value);
    if (parsed.success) return parsed.data;
    throw issueError(parsed.error, document, fail);
  } catch (thrown) {
    if (thrown instanceof AppError) throw thrown;
    // Unresolved or circular aliases, too many of them, nesting deeper than the stack.
    throw fail(0, `cannot be read as YAML: ${firstLine(messageOf(thrown))}`, HINT, thrown);
  }
}

type Fail = (offset: number, message: string, hint?: string, cause?: unknown) => AppError;

function parseDocument(text: string, lines: LineCounter, fail: Fail): Document.Parsed {
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, stringKeys: true, logLevel: "silent" });
  const [document, second] = documents;
  if (document === undefined) throw fail(0, "the script is empty");
  const broken = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])[0];
  if (broken !== undefined) throw fail(broken.pos[0], broken.message, HINT, broken);
  if (second !== undefined) {
    throw fail(
      second.contents?.range[0] ?? second.range[0],
      "a second YAML document begins; a script is one",
      `remove the line "---"`,
    );
  }
  return document;
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}

function issueError(error: z.ZodError, document: Document.Parsed, fail: Fail): AppError {
  const found = error.issues.map((issue) => {
    const key = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
    return { issue, key, offset: offsetOf(document, issue.path, key) };
  });
  const first = found.sort((a, b) => a.offset - b.offset)[0];
  if (first === undefined) return fail(0, error.message);
  const { issue, key, offset } = first;
  if (key !== undefined) {
    const known = knownKeysAt(issue.path);
    const nearest = nearestKey(key, known);
    const list = `known keys here: ${known.join(", ")}`;
    return fail(
      offset,
      `unknown key ${JSON.stringify(key)}`,
      nearest === undefined ? list : `did you mean ${JSON.stringify(nearest)}? ${list}`,
    );
  }
  // Messages of refinements are sentences; all others of the schema are nouns.
  return fail(offset, `${placeOf(issue.path)} ${issue.code === "custom" ? "" : "must be "}${issue.message}`);
}

/** `steps[0].say`, as a person writes a path. */
function placeOf(path: readonly PropertyKey[]): string {
  const parts = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`));
  return path.length === 0 ? "the script" : parts.join("").slice(1);
}

/** Where the value at `path` begins, or, with `key`, that key of the map there. As near as the file allows if it has no such place. */
function offsetOf(document: Document.Parsed, path: readonly PropertyKey[], key: string | undefined): number {
  let node: ParsedNode | null = document.contents;
  for (const part of path) {
    const next: unknown = isCollection(node) ? node.get(part, true) : undefined;
    if (!isNode(next)) break;
    node = next as ParsedNode;
  }
  if (key !== undefined && isMap(node)) {
    const pair = node.items.find((item) => isScalar(item.key) && item.key.value === key);
    return pair?.key.range[0] ?? node.range[0];
  }
  return node?.range[0] ?? 0;
}
