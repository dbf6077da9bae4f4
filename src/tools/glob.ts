import * as z from "zod";
import { plural } from "../base/text.ts";
import { parseGlob, splitLiteralFolders } from "./glob-pattern.ts";
import { childPath } from "./real-path.ts";
import { runRipgrep } from "./ripgrep.ts";
import { shown } from "./scope-guard.ts";
import {
  endingNotes,
  findSearchRoot,
  NO_RIPGREP,
  ReadableFiles,
  type SearchOptions,
  walkArguments,
  withDefaults,
} from "./search-root.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";
import { cutEnd, failure, toSummary } from "./tool-output.ts";

/** More names than a model can use; what matters is told by then. */
const MAX_FILES = 1000;
/** Room for the notes behind the names. */
const NOTE_CHARS = 300;

const Input = z.strictObject({
  pattern: z.string().min(1).describe("Glob such as **/*.ts or src/**/{a,b}*; without '/' it matches names in every folder"),
  path: z.string().optional().describe("Folder to search (default: working directory)"),
  ignored: z.boolean().optional().describe("Also files that .gitignore hides (default false)"),
});
type Input = z.infer<typeof Input>;

/** Finds files by name. Sorted by path: equal trees give equal text, which times of change would not. */
export const globTool: Tool<Input> = createGlobTool();

/** Makes the tool; the options are for tests. */
export function createGlobTool(options: SearchOptions = {}): Tool<Input> {
  return {
    name: "Glob",
    description: `Lists files whose path matches a glob pattern, sorted by path, at most ${MAX_FILES}. Hidden files are listed too; .git and what .gitignore hides are not; folders and links are not files and links are not followed. To find files by what is in them use Grep.`,
    input: Input,
    effect: "read",
    run: (input, context) => glob(input, context, withDefaults(options)),
  };
}

async function glob(input: Input, context: ToolContext, options: Required<SearchOptions>): Promise<ToolOutput> {
  const { scope, limits } = context;
  const name = `Glob ${shown(input.pattern)}${input.path === undefined ? "" : ` in ${shown(input.path)}`}`;
  const refused = (reason: string) => failure(name, reason, limits.outputChars);
  if (context.signal.aborted) return refused("The call was cancelled.");
  // The folders a pattern begins with are where to search: `/usr/include/**` and `../x/*` mean what they say, and nothing else is walked.
  const { folder, rest } = splitLiteralFolders(input.pattern);
  const pattern = parseGlob(rest, { anchored: folder !== "" });
  if (!pattern.ok) return refused(`The pattern ${shown(input.pattern)} ${pattern.reason}.`);
  const root = await findSearchRoot(joinTyped(input.path ?? ".", folder), context);
  if (!root.ok) return refused(root.reason);
  if (root.kind === "file") return refused(`${shown(root.path.realPath)} is a file; Glob searches folders. Use Read to see it.`);
  const binary = await options.findBinary(context.env["PATH"]);
  if (binary === undefined) return refused(NO_RIPGREP);
  const directory = await scope.openDirectory(root.path.realPath);
  if (!directory.ok) return refused(directory.reason);

  const readable = new ReadableFiles(scope, root.path.realPath);
  const maxChars = Math.max(1, limits.outputChars - NOTE_CHARS);
  const files: string[] = [];
  let chars = 0;
  let isFull = false;
  const args = [...walkArguments(root, { ignored: input.ignored === true }), "--files", "--null", "./"];
  const run = { binary, args, where: { directory: directory.entry(".") }, terminator: 0, timeoutMs: options.timeoutMs, context };
  try {
    const end = await runRipgrep(run, async (record) => {
      const path = record.toString("utf8").replace(/^\.\//, ""); // B113: a name that is not UTF-8 is shown with U+FFFD
      if (!pattern.matches(path)) return "go_on";
      const realPath = childPath(root.path.realPath, path);
      if (!(await readable.has(realPath))) return "go_on";
      const line = root.nameOf(realPath);
      isFull = files.length >= MAX_FILES || chars + line.length + 1 > maxChars;
      if (isFull) return "stop";
      files.push(line);
      chars += line.length + 1;
      return "go_on";
    });
    if (end.how === "cancelled") return refused("The call was cancelled.");
    if (end.how === "failed") return refused(`ripgrep failed: ${end.message}`);
    const notes = [...endingNotes(end, options.timeoutMs)];
    if (isFull) notes.push(`the first ${files.length}; there are more: narrow the pattern or give a path`);
    return answer(name, files, notes, { maxChars: limits.outputChars, isError: end.how === "timed_out" && files.length === 0 });
  } finally {
    await directory.close();
  }
}

function answer(
  name: string,
  files: readonly string[],
  notes: readonly string[],
  { maxChars, isError }: { readonly maxChars: number; readonly isError: boolean },
): ToolOutput {
  const note = notes.length === 0 ? "" : `[${notes.join("; ")}]`;
  const lines = files.length === 0 ? ["No files match."] : files;
  return {
    summary: toSummary(`${name}: ${plural(files.length, "file")}${notes.length === 0 ? "" : ` ${note}`}`),
    content: cutEnd([...lines, note].filter((line) => line !== "").join("\n"), maxChars),
    isError,
  };
}

/** As text, so that `link/..` is taken after the link (B114). */
function joinTyped(path: string, folder: string): string {
  if (folder === "") return path;
  return folder.startsWith("/") || /^~(\/|$)/.test(folder) || path === "." ? folder : childPath(path, folder);
}
