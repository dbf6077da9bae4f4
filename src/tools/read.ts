import { Buffer } from "node:buffer";
import { opendir } from "node:fs/promises";
import { resolve as lexicalPath } from "node:path";
import * as z from "zod";
import { plural, toSafeText } from "../base/text.ts";
import { binaryKindOf } from "./file-kind.ts";
import { inOrder } from "./file-lock.ts";
import { hashFingerprint, MAX_HASHED_BYTES, statFingerprint } from "./fingerprint.ts";
import { type LineWindow, readLines } from "./read-lines.ts";
import { reasonOf } from "./real-path.ts";
import { type CheckedPath, type OpenedFile, shown } from "./scope-guard.ts";
import { type TextForm, textFormOf } from "./text-form.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";
import { failure, sizeText, toSummary } from "./tool-output.ts";

const DEFAULT_LINES = 2000;
/** What tells text from binary, and UTF-16 from the rest. */
const HEAD_BYTES = 8 * 1024;
/** Room for the note in front of the text. */
const NOTE_CHARS = 300;
const MAX_SIBLINGS_SCANNED = 2000;

const Input = z.strictObject({
  path: z.string().describe("File, absolute or relative to the working directory"),
  offset: z.int().min(1).optional().describe("First line, from 1"),
  limit: z.int().min(1).optional().describe(`Most lines (default ${DEFAULT_LINES})`),
});
type Input = z.infer<typeof Input>;

/** Shows a text file, or a part of it by lines, as it is: without line numbers, so that Edit finds what is copied from it. */
export const readTool: Tool<Input> = {
  name: "Read",
  description:
    "Shows a text file, or lines of it, exactly as stored (CRLF as LF, no line numbers). A first line in brackets is a note, not content. Names binary files without showing them. Not for directories: list those with Glob.",
  input: Input,
  effect: "read",
  // The order of calls on one file is kept by the name the model used; the real path is known only later.
  run: (input, context) => inOrder(`typed:${lexicalPath(context.cwd, input.path)}`, () => read(input, context)),
};

async function read(input: Input, context: ToolContext): Promise<ToolOutput> {
  const { scope, cwd, limits } = context;
  const summary = `Read ${shown(input.path)}`;
  const refused = (reason: string) => failure(summary, reason, limits.outputChars);
  if (context.signal.aborted) return refused("The call was cancelled.");
  const path = await scope.resolve(input.path, { cwd, access: "read" });
  if (!path.ok) return refused(path.reason);
  if (path.missing.length > 0) return refused(await missingText(input.path, path));
  const opened = await scope.openFile(path);
  if (!opened.ok) {
    const hint = opened.reason.endsWith("is a directory.") ? " List it with Glob." : "";
    return refused(`${opened.reason}${hint}`);
  }
  try {
    return await inOrder(`real:${path.realPath}`, () => show(input, path, opened, context));
  } catch (thrown) {
    return refused(context.signal.aborted ? "The call was cancelled." : `${shown(path.realPath)} ${reasonOf(thrown)}.`);
  } finally {
    await opened.handle.close();
  }
}

async function show(input: Input, path: CheckedPath, { handle, stat }: OpenedFile, context: ToolContext): Promise<ToolOutput> {
  const name = `Read ${shown(input.path)}`;
  const head = Buffer.alloc(HEAD_BYTES);
  const { bytesRead } = await handle.read(head, 0, HEAD_BYTES, 0);
  const form = textFormOf(head.subarray(0, bytesRead));
  const binary = binaryKindOf(head.subarray(0, bytesRead), form);
  if (binary !== undefined) {
    const kind = binary === "unknown kind" ? binary : `a ${binary}`;
    const text = `[binary file (${kind}), ${sizeText(stat.size)}: not shown]`;
    return { summary: toSummary(`${name}: ${text.slice(1, -1)}`), content: text, isError: false };
  }
  const offset = input.offset ?? 1;
  const limit = input.limit ?? DEFAULT_LINES;
  const maxChars = Math.max(1, context.limits.outputChars - NOTE_CHARS);
  const window = await readLines(handle, { size: stat.size, form, offset, limit, maxChars, signal: context.signal });
  remember(path, stat, window, context);
  if (window.lines === 0) return nothingShown(name, offset, window, context.limits.outputChars);
  const notes = notesOf(offset, window, form);
  const text = toSafeText(window.text);
  const shownLines = `${plural(window.lines, "line")}${window.totalLines === window.lines ? "" : ` from line ${offset}`}`;
  return {
    summary: toSummary(`${name}: ${shownLines}`),
    content: notes.length === 0 ? text : `[${notes.join("; ")}]\n${text}`,
    isError: false,
  };
}

function remember(path: CheckedPath, stat: OpenedFile["stat"], window: LineWindow, context: ToolContext): void {
  if (window.sha256 !== undefined) context.readFiles.set(path.realPath, hashFingerprint(window.sha256));
  else if (stat.size > MAX_HASHED_BYTES) context.readFiles.set(path.realPath, statFingerprint(stat));
}

function nothingShown(name: string, offset: number, window: LineWindow, maxChars: number): ToolOutput {
  const { totalLines } = window;
  if (totalLines === 0) return { summary: toSummary(`${name}: empty`), content: "[the file is empty]", isError: false };
  if (totalLines === undefined)
    return failure(name, `Line ${offset} is further into the file than Read searches. Use Bash: sed -n.`, maxChars);
  return failure(name, `The file has only ${plural(totalLines, "line")}; offset ${offset} is behind its end.`, maxChars);
}

function notesOf(offset: number, window: LineWindow, form: TextForm): readonly string[] {
  const last = offset + window.lines - 1;
  const notes: string[] = [];
  if (window.cutInLine) {
    notes.push(
      `line ${offset} is cut after ${window.text.length} characters; use Bash (cut -c) for the rest, or go on with offset ${offset + 1}`,
    );
  } else if (last !== window.totalLines) {
    notes.push(`lines ${offset}-${last} of ${window.totalLines ?? "more"}; go on with offset ${last + 1}`);
  } else if (offset > 1) {
    notes.push(`lines ${offset}-${last} of ${window.totalLines}`);
  }
  if (window.crlf) notes.push("line ends are CRLF; Edit and Write keep them");
  if (form.encoding !== "utf8") notes.push("UTF-16; Edit and Write keep it");
  if (window.text.includes("\ufffd")) notes.push("bytes that are not valid text are shown as \ufffd"); // B113
  return notes;
}

/** What is missing, and what the model may have meant. */
async function missingText(typed: string, path: CheckedPath): Promise<string> {
  const [name] = path.missing;
  if (name === undefined || path.missing.length > 1)
    return `${shown(typed)} does not exist: in ${shown(path.base)} there is no ${shown(name ?? "")}.`;
  const near = await nearNames(path.base, name);
  const hint = near.length === 0 ? "" : ` In ${shown(path.base)} there is: ${near.map(shown).join(", ")}.`;
  return `${shown(typed)} does not exist.${hint}`;
}

async function nearNames(directory: string, name: string): Promise<readonly string[]> {
  const wanted = nearKey(name);
  const near: string[] = [];
  try {
    let scanned = 0;
    for await (const entry of await opendir(directory)) {
      const key = nearKey(entry.name);
      if (key !== "" && wanted !== "" && (key === wanted || key.startsWith(wanted) || wanted.startsWith(key)))
        near.push(entry.name);
      scanned++;
      if (scanned >= MAX_SIBLINGS_SCANNED || near.length >= 5) break;
    }
  } catch {
    // Only a hint: a directory that cannot be listed gives none.
  }
  return near.sort();
}

/** Names that differ in case, Unicode form, punctuation or extension are near each other. */
function nearKey(name: string): string {
  const stem = name.replace(/(?<=.)\.[^.]*$/, "");
  return stem
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, "");
}
