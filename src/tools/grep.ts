import { Buffer } from "node:buffer";
import * as z from "zod";
import { binaryKindOf } from "./file-kind.ts";
import { type BadGlob, type GlobPattern, parseGlob } from "./glob-pattern.ts";
import { GrepMatches, MAX_LINE_CHARS } from "./grep-matches.ts";
import { childPath, reasonOf } from "./real-path.ts";
import { type RipgrepEnd, type RipgrepRun, runRipgrep } from "./ripgrep.ts";
import { type Refused, shown } from "./scope-guard.ts";
import {
  endingNotes,
  FIXED_ARGUMENTS,
  findSearchRoot,
  NO_RIPGREP,
  ReadableFiles,
  type SearchOptions,
  type SearchRoot,
  walkArguments,
  withDefaults,
} from "./search-root.ts";
import { textFormOf } from "./text-form.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";
import { failure, sizeText, toSummary } from "./tool-output.ts";

const DEFAULT_LIMIT = 200;
const MAX_LIMIT = 10_000;
const MAX_CONTEXT_LINES = 50;
/** What tells text from binary. */
const HEAD_BYTES = 8 * 1024;
const NEWLINE = 10;

const Input = z.strictObject({
  pattern: z.string().min(1).describe("Regular expression (ripgrep's), matched within one line; escape ( [ { . for plain text"),
  path: z.string().optional().describe("Folder or file to search (default: working directory)"),
  glob: z
    .string()
    .min(1)
    .optional()
    .describe("Only files whose path matches, such as *.ts or src/**/*.css; '!' in front: all others"),
  type: z
    .string()
    .regex(/^[\p{L}\p{N}]+$/u)
    .optional()
    .describe("Only files of ripgrep's type, such as ts, py, rust"),
  case_insensitive: z.boolean().optional(),
  output: z
    .enum(["content", "files", "count"])
    .optional()
    .describe("content: matching lines with numbers (default); files: names only; count: matching lines per file"),
  context: z.int().min(0).max(MAX_CONTEXT_LINES).optional().describe("Lines to show before and after each match"),
  limit: z.int().min(1).max(MAX_LIMIT).optional().describe(`Most matching lines, or files (default ${DEFAULT_LIMIT})`),
  ignored: z.boolean().optional().describe("Also files that .gitignore hides (default false)"),
});
type Input = z.infer<typeof Input>;

/** Finds lines by a regular expression. */
export const grepTool: Tool<Input> = createGrepTool();

/** Makes the tool; the options are for tests. */
export function createGrepTool(options: SearchOptions = {}): Tool<Input> {
  return {
    name: "Grep",
    description:
      "Searches the content of files for a regular expression, sorted by path; prefer it to grep or rg in Bash. Long lines are cut. Skips binary files, .git, links and what .gitignore hides. To find files by name use Glob, to see a whole file Read.",
    input: Input,
    effect: "read",
    run: (input, context) => grep(input, context, withDefaults(options)),
  };
}

async function grep(input: Input, context: ToolContext, options: Required<SearchOptions>): Promise<ToolOutput> {
  const { limits } = context;
  const label = `Grep ${shown(input.pattern)}${input.path === undefined ? "" : ` in ${shown(input.path)}`}`;
  const refused = (reason: string) => failure(label, reason, limits.outputChars);
  if (context.signal.aborted) return refused("The call was cancelled.");
  // B111: no argument of a process can hold it.
  if (input.pattern.includes("\0")) return refused("The pattern holds a NUL character: write it as \\x00.");
  const filter = input.glob === undefined ? undefined : parseFilter(input.glob);
  if (filter?.ok === false) return refused(`The glob ${shown(input.glob ?? "")} ${filter.reason}.`);
  const root = await findSearchRoot(input.path ?? ".", context);
  if (!root.ok) return refused(root.reason);
  const binary = await options.findBinary(context.env["PATH"]);
  if (binary === undefined) return refused(NO_RIPGREP);

  const search: Search = {
    input,
    filter,
    root,
    context,
    run: { binary, terminator: NEWLINE, timeoutMs: options.timeoutMs, context },
  };
  const matches = new GrepMatches({
    output: input.output ?? "content",
    limit: input.limit ?? DEFAULT_LIMIT,
    context: input.context ?? 0,
    maxChars: limits.outputChars,
    nameOf: nameFinder(search),
  });
  const end = root.kind === "directory" ? await searchFolder(search, matches) : await searchFile(search, matches);
  if ("reason" in end) return refused(end.reason);
  switch (end.how) {
    case "not_text":
      return { summary: toSummary(`${label}: ${end.what}`), content: `[${end.what}: not searched]`, isError: false };
    case "cancelled":
      return refused("The call was cancelled.");
    case "failed":
      return refused(failureText(end.message));
    case "ended":
    case "stopped":
    case "timed_out":
      return matches.answer(label, endingNotes(end, options.timeoutMs), { isError: end.how === "timed_out" && matches.isEmpty });
  }
}

interface Filter {
  readonly ok: true;
  readonly negated: boolean;
  readonly pattern: GlobPattern;
}

interface Search {
  readonly input: Input;
  readonly filter: Filter | undefined;
  readonly root: SearchRoot;
  readonly context: ToolContext;
  readonly run: Omit<RipgrepRun, "args" | "where">;
}

function parseFilter(glob: string): Filter | BadGlob {
  const negated = glob.startsWith("!");
  const pattern = parseGlob(negated ? glob.slice(1) : glob);
  return pattern.ok ? { ok: true, negated, pattern } : pattern;
}

/** Which files may be shown, and how they are called. */
function nameFinder({ filter, root, context }: Search): (path: string) => Promise<string | undefined> {
  const { realPath } = root.path;
  if (root.kind === "file") return async () => root.nameOf(realPath);
  const readable = new ReadableFiles(context.scope, realPath);
  return async (path) => {
    const relative = path.replace(/^\.\//, "");
    if (filter !== undefined && filter.pattern.matches(relative) === filter.negated) return undefined;
    const file = childPath(realPath, relative);
    return (await readable.has(file)) ? root.nameOf(file) : undefined;
  };
}

async function searchFolder(search: Search, matches: GrepMatches): Promise<RipgrepEnd | Refused> {
  const { input, root, context, run } = search;
  const directory = await context.scope.openDirectory(root.path.realPath);
  if (!directory.ok) return directory;
  try {
    const args = [
      ...walkArguments(root, { ignored: input.ignored === true }),
      // A path is then one line, and no line of output can be taken for another file's.
      "--glob=!*\n*",
      ...typeArguments(search),
      ...patternArguments(input),
      "./",
    ];
    return await runRipgrep({ ...run, args, where: { directory: directory.entry(".") } }, (record) => matches.take(record));
  } finally {
    await directory.close();
  }
}

/** A named file is not searched because it holds no text; `what` it is. */
interface NotText {
  readonly how: "not_text";
  readonly what: string;
}

/** One file is opened here and handed over: what is searched is what was checked, and opening it cannot wait (B109). */
async function searchFile(search: Search, matches: GrepMatches): Promise<RipgrepEnd | Refused | NotText> {
  const { input, root, context, run } = search;
  const opened = await context.scope.openFile(root.path);
  if (!opened.ok) return opened;
  const { handle, stat } = opened;
  try {
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await handle.read(head, 0, HEAD_BYTES, 0);
    const start = head.subarray(0, bytesRead);
    const kind = binaryKindOf(start, textFormOf(start));
    if (kind !== undefined)
      return { how: "not_text", what: `binary file (${kind === "unknown kind" ? kind : `a ${kind}`}), ${sizeText(stat.size)}` };
    const args = [...FIXED_ARGUMENTS, ...patternArguments(input), "-"];
    return await runRipgrep({ ...run, args, where: { input: handle.fd } }, (record) => matches.take(record));
  } catch (thrown) {
    return { ok: false, reason: `${shown(root.path.realPath)} ${reasonOf(thrown)}.` };
  } finally {
    await handle.close();
  }
}

/** Only narrows what ripgrep looks into: the filter decides. `--type` keeps to ignore files, which `--glob` overrules. */
function typeArguments({ input, filter }: Search): readonly string[] {
  if (input.type !== undefined) return [`--type=${input.type}`];
  const names = filter === undefined || filter.negated ? undefined : filter.pattern.names;
  return names === undefined ? [] : [...names.map((name) => `--type-add=wakeful:${name}`), "--type=wakeful"];
}

function patternArguments(input: Input): readonly string[] {
  const output = input.output ?? "content";
  return [
    "--with-filename",
    "--null",
    "--no-heading",
    input.case_insensitive === true ? "--ignore-case" : "--case-sensitive",
    ...(output === "content"
      ? ["--line-number", `--max-columns=${MAX_LINE_CHARS}`, "--max-columns-preview", `--context=${input.context ?? 0}`]
      : ["--count", ...(output === "files" ? ["--max-count=1"] : [])]),
    `--regexp=${input.pattern}`,
  ];
}

/** ripgrep says best what is wrong; the options it proposes are not to be had here. */
function failureText(message: string): string {
  const hint = /--(multiline|pcre2)/.test(message)
    ? "\nGrep has no such option: a pattern matches within one line, without look-around."
    : "";
  return `ripgrep: ${message}${hint}`;
}
