import { resolve as lexicalPath } from "node:path";
import * as z from "zod";
import { plural } from "../base/text.ts";
import { explainMiss } from "./edit-miss.ts";
import { readExisting } from "./existing-file.ts";
import { binaryKindOf } from "./file-kind.ts";
import { inOrder } from "./file-lock.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { MAX_EDITED_UNITS, replaceLiterally } from "./literal-edit.ts";
import { replaceFile } from "./replace-file.ts";
import { type CheckedPath, shown } from "./scope-guard.ts";
import { fromUnits, textFormOf, textToUnits, toUnits, unitsToText } from "./text-form.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";
import { failure, sizeText, toSummary } from "./tool-output.ts";

/** Bigger files are for stream editors: Edit holds the whole file, more than once. */
const MAX_EDIT_BYTES = 16 * 1024 * 1024;

const Input = z.strictObject({
  path: z.string().describe("File, absolute or relative to the working directory"),
  old_text: z.string().describe("Text to replace, copied exactly from the file; must occur once unless replace_all is true"),
  new_text: z.string().describe("Text to put in its place"),
  replace_all: z.boolean().optional().describe("Replace every occurrence"),
});
type Input = z.infer<typeof Input>;

/** Replaces a text in a file, literally. */
export const editTool: Tool<Input> = {
  name: "Edit",
  description:
    "Replaces one exact text in an existing file (or all its occurrences with replace_all). Literal: no patterns. Keeps line ends and encoding. Refuses if old_text is absent or not unique, or if the file changed since it was read. To make a file use Write.",
  input: Input,
  effect: "write",
  run: (input, context) => inOrder(`typed:${lexicalPath(context.cwd, input.path)}`, () => resolveAndEdit(input, context)),
};

async function resolveAndEdit(input: Input, context: ToolContext): Promise<ToolOutput> {
  const { scope, cwd, limits, signal } = context;
  const refused = (reason: string) => failure(`Edit ${shown(input.path)}`, reason, limits.outputChars);
  if (signal.aborted) return refused("The call was cancelled; the file is as it was.");
  if (input.old_text === "")
    return refused("old_text is empty: there is nothing to look for. To make a file or replace all of it use Write.");
  if (flat(input.old_text) === flat(input.new_text)) {
    return refused("old_text and new_text are equal (line ends are not changed by Edit): there is nothing to do.");
  }
  const path = await scope.resolve(input.path, { cwd, access: "write" });
  if (!path.ok) return refused(path.reason);
  if (path.missing.length > 0) return refused(`${shown(input.path)} does not exist. To make it use Write.`);
  return inOrder(`real:${path.realPath}`, async () => {
    try {
      return await edit(input, path, context);
    } catch (thrown) {
      if (signal.aborted) return refused("The call was cancelled; the file is as it was.");
      throw thrown;
    }
  });
}

async function edit(input: Input, path: CheckedPath, context: ToolContext): Promise<ToolOutput> {
  const { scope, readFiles, limits, signal } = context;
  const name = `Edit ${shown(input.path)}`;
  const refused = (reason: string) => failure(name, reason, limits.outputChars);
  const existing = await readExisting(scope, path, { readFiles, maxBytes: MAX_EDIT_BYTES, signal });
  if (!existing.ok) return refused(existing.reason);
  if (existing.stat === undefined) return refused(`${shown(input.path)} does not exist. To make it use Write.`);
  if (!existing.complete) {
    return refused(
      `The file has ${sizeText(existing.stat.size)}; Edit takes up to ${sizeText(MAX_EDIT_BYTES)}. Use Bash (sed) instead.`,
    );
  }
  const form = textFormOf(existing.content);
  const units = toUnits(existing.content, form);
  if (units === undefined) return refused("The file claims to be UTF-16 but has an odd number of bytes: it is left as it is.");
  const all = input.replace_all ?? false;
  const outcome = replaceLiterally(units, {
    oldUnits: textToUnits(input.old_text, form),
    newUnits: textToUnits(input.new_text, form),
    all,
  });
  switch (outcome.kind) {
    case "absent": {
      const binary = binaryKindOf(existing.content.subarray(0, 8192), form);
      if (binary !== undefined) return refused("old_text is not in the file, which is binary.");
      return refused(explainMiss(flat(unitsToText(units, form)), input.old_text));
    }
    case "ambiguous": {
      const lines = outcome.lines.join(", ") + (outcome.lines.length < outcome.count ? ", ..." : "");
      return refused(
        `old_text occurs ${outcome.count} times (lines ${lines}). Take in more of the text around it so that it is unique, or set replace_all.`,
      );
    }
    case "too_large":
      return refused(`The file would grow beyond ${sizeText(MAX_EDITED_UNITS)}: it is left as it is.`);
    case "edited": {
      const content = fromUnits(outcome.units, form);
      const replaced = await replaceFile(scope, { path, content, before: existing.stat });
      if (!replaced.ok) return refused(replaced.reason);
      readFiles.set(path.realPath, fingerprintOf(content, replaced.stat));
      const where = outcome.count === 1 ? ` in line ${outcome.lines[0] ?? 1}` : "";
      return { summary: toSummary(`${name}: ${plural(outcome.count, "replacement")}${where}`), isError: false };
    }
  }
}

function flat(text: string): string {
  return text.replaceAll("\r\n", "\n");
}
