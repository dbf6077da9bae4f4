import type { Buffer } from "node:buffer";
import { plural, prefixOf, toSafeText } from "../base/text.ts";
import type { Verdict } from "./ripgrep.ts";
import type { ToolOutput } from "./tool.ts";
import { cutEnd, toSummary } from "./tool-output.ts";

/** A minified file is one line: this much of it shows what it is. ripgrep cuts by what it takes for characters, so some more may come. */
export const MAX_LINE_CHARS = 500;
/** Room for the notes behind the matches. */
const NOTE_CHARS = 400;

/** What a search tells: `content` lines with numbers, `files` names, `count` names with the number of matching lines. */
export type GrepOutput = "content" | "files" | "count";

interface Options {
  readonly output: GrepOutput;
  /** Most matching lines (`content`) or files. */
  readonly limit: number;
  /** Lines that are shown before and after a match. */
  readonly context: number;
  /** Longest answer, notes included. */
  readonly maxChars: number;
  /** The name to show for a path as ripgrep tells it; undefined when nothing of that file may be shown. */
  readonly nameOf: (path: string) => Promise<string | undefined>;
}

/** Collects what ripgrep reports, up to the limit and the room there is: nothing of a file is kept before `nameOf` let it pass. */
export class GrepMatches {
  readonly #options: Options;
  readonly #lines: string[] = [];
  #chars = 0;
  #files = 0;
  #matches = 0;
  #more: string | undefined;
  /** The file that records are about now; no name when it is not to be shown. */
  #path: string | undefined;
  #name: string | undefined;
  #hasHeading = false;
  #hasGap = false;
  /** Line number of the last match of this file, and lines that stand before the next one. */
  #lastMatch = Number.NEGATIVE_INFINITY;
  #before: string[] = [];

  constructor(options: Options) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#lines.length === 0;
  }

  /** Takes one line of ripgrep: `path NUL number : text`, `path NUL number - text` (context), `path NUL count`, `--`, or a remark. */
  async take(record: Buffer): Promise<Verdict> {
    const end = record.indexOf(0);
    const text = toSafeText(record.subarray(end + 1).toString("utf8")).replace(/\r$/, ""); // B113, B111
    if (end === -1) {
      if (text === "--") this.#hasGap = true;
      // The only other line without a path: a NUL came after matches, and the search of this file ended there.
      else if (this.#hasHeading) return this.#add(["[binary from here on: not searched further]"]);
      return "go_on";
    }
    const path = record.subarray(0, end).toString("utf8");
    if (path !== this.#path) {
      this.#path = path;
      this.#name = await this.#options.nameOf(path);
      this.#hasHeading = false;
      this.#hasGap = false;
      this.#lastMatch = Number.NEGATIVE_INFINITY;
      this.#before = [];
    }
    if (this.#name === undefined) return "go_on";
    return this.#options.output === "content" ? this.#takeLine(this.#name, text) : this.#takeFile(this.#name, Number(text));
  }

  #takeLine(name: string, text: string): Verdict {
    const [, digits = "", sign] = /^(\d+)([:-])/.exec(text) ?? [];
    const number = Number(digits);
    const line = text.length > 2 * MAX_LINE_CHARS ? `${prefixOf(text, 2 * MAX_LINE_CHARS)} [... cut]` : text;
    if (sign !== ":") {
      if (number <= this.#lastMatch + this.#options.context) return this.#add([line]);
      // It belongs to a match that may be one too many.
      this.#before.push(line);
      return "go_on";
    }
    if (this.#matches >= this.#options.limit)
      return this.#stop(`the first ${plural(this.#matches, "matching line")}`, "raise limit");
    const heading = this.#hasHeading ? [] : this.isEmpty ? [name] : ["", name];
    const verdict = this.#add([...heading, ...(this.#hasHeading && this.#hasGap ? ["--"] : []), ...this.#before, line]);
    if (verdict === "stop") return verdict;
    if (!this.#hasHeading) this.#files++;
    this.#hasHeading = true;
    this.#hasGap = false;
    this.#before = [];
    this.#lastMatch = number;
    this.#matches++;
    return "go_on";
  }

  #takeFile(name: string, count: number): Verdict {
    if (this.#files >= this.#options.limit) return this.#stop(`the first ${plural(this.#files, "file")}`, "raise limit");
    const verdict = this.#add([this.#options.output === "count" ? `${name}: ${count}` : name]);
    if (verdict === "stop") return verdict;
    this.#files++;
    this.#matches += count;
    return "go_on";
  }

  #add(lines: readonly string[]): Verdict {
    const chars = lines.reduce((sum, line) => sum + line.length + 1, 0);
    if (this.#chars + chars > this.#options.maxChars - NOTE_CHARS) {
      return this.#stop(
        this.#options.output === "content"
          ? `the first ${plural(this.#matches, "matching line")}`
          : `the first ${plural(this.#files, "file")}`,
      );
    }
    this.#chars += chars;
    this.#lines.push(...lines);
    return "go_on";
  }

  #stop(shown: string, hint?: string): Verdict {
    this.#more = `${shown}; there are more: ${hint === undefined ? "" : `${hint}, or `}narrow pattern, path, glob or type`;
    return "stop";
  }

  /** The answer, with what else is to be said about it. */
  answer(label: string, notes: readonly string[], { isError }: { readonly isError: boolean }): ToolOutput {
    const all = this.#more === undefined ? notes : [...notes, this.#more];
    const note = all.length === 0 ? [] : [`[${all.join("; ")}]`];
    const lines = this.isEmpty ? ["No matches."] : this.#lines;
    const files = plural(this.#files, "file");
    const lineCount = plural(this.#matches, "matching line");
    const found = this.isEmpty ? "no matches" : this.#options.output === "files" ? files : `${lineCount} in ${files}`;
    return {
      summary: toSummary(`${label}: ${found}${note.length === 0 ? "" : ` ${note[0]}`}`),
      content: cutEnd([...lines, ...note].join("\n"), this.#options.maxChars),
      isError,
    };
  }
}
