import { Buffer } from "node:buffer";
import { resolve as lexicalPath } from "node:path";
import * as z from "zod";
import { readExisting } from "./existing-file.ts";
import { binaryKindOf } from "./file-kind.ts";
import { inOrder } from "./file-lock.ts";
import { fingerprintOf, MAX_HASHED_BYTES } from "./fingerprint.ts";
import { replaceFile } from "./replace-file.ts";
import { type CheckedPath, shown } from "./scope-guard.ts";
import { fromUnits, lineEndsOf, PLAIN_FORM, textFormOf, textToUnits, toUnits } from "./text-form.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";
import { failure, sizeText, toSummary } from "./tool-output.ts";

const Input = z.strictObject({
  path: z.string().describe("File, absolute or relative to the working directory"),
  content: z.string().describe("The whole new content"),
});
type Input = z.infer<typeof Input>;

/** Makes a file or replaces its whole content. */
export const writeTool: Tool<Input> = {
  name: "Write",
  description:
    "Makes a file (and missing directories), or replaces the whole content of one. Keeps permissions, byte order mark, UTF-16 and CRLF of a file it replaces. Refuses if the file changed since it was read. To change a part of a file use Edit.",
  input: Input,
  effect: "write",
  run: (input, context) => inOrder(`typed:${lexicalPath(context.cwd, input.path)}`, () => resolveAndWrite(input, context)),
};

async function resolveAndWrite(input: Input, context: ToolContext): Promise<ToolOutput> {
  const { scope, cwd, limits, signal } = context;
  const refused = (reason: string) => failure(`Write ${shown(input.path)}`, reason, limits.outputChars);
  if (signal.aborted) return refused("The call was cancelled; nothing was written.");
  const path = await scope.resolve(input.path, { cwd, access: "write" });
  if (!path.ok) return refused(path.reason);
  return inOrder(`real:${path.realPath}`, async () => {
    try {
      return await write(input, path, context);
    } catch (thrown) {
      if (signal.aborted) return refused("The call was cancelled; nothing was written.");
      throw thrown;
    }
  });
}

async function write(input: Input, path: CheckedPath, context: ToolContext): Promise<ToolOutput> {
  const { scope, readFiles, limits, signal } = context;
  const name = `Write ${shown(input.path)}`;
  const existing = await readExisting(scope, path, { readFiles, maxBytes: MAX_HASHED_BYTES, signal });
  if (!existing.ok) return failure(name, existing.reason, limits.outputChars);
  const content = existing.stat === undefined ? Buffer.from(input.content) : inFormOf(existing.content, input.content);
  const replaced = await replaceFile(scope, { path, content, before: existing.stat });
  if (!replaced.ok) return failure(name, replaced.reason, limits.outputChars);
  readFiles.set(path.realPath, fingerprintOf(content, replaced.stat));
  const did = existing.stat === undefined ? "made" : "replaced";
  return { summary: toSummary(`${name}: ${did}, ${sizeText(content.length)}`), isError: false };
}

/**
 * The new content in the form of the old file: byte order mark (once), UTF-16, and CRLF where every line had it and the new text has no CR of
 * its own (B129). The model is shown LF and no mark, so writing back what it read must not change them.
 */
function inFormOf(old: Buffer, text: string): Buffer {
  const form = textFormOf(old);
  if (binaryKindOf(old.subarray(0, 8192), form) !== undefined) return Buffer.from(text);
  const units = toUnits(form.encoding === "utf8" ? old : old.subarray(0, old.length & ~1), form);
  const crlf = units !== undefined && lineEndsOf(units) === "crlf" && !text.includes("\r");
  const body = crlf ? text.replaceAll("\n", "\r\n") : text;
  return form.mark ? fromUnits(textToUnits(body, form), form) : fromUnits(textToUnits(body, PLAIN_FORM), PLAIN_FORM);
}
