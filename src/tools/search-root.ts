import { lstat, realpath } from "node:fs/promises";
import { dirname } from "node:path";
import { toSafeText } from "../base/text.ts";
import { isWithin } from "../registry/scope.ts";
import { childPath, reasonOf } from "./real-path.ts";
import { findRipgrep, type RipgrepEnd } from "./ripgrep.ts";
import { type CheckedPath, notRegularText, type Refused, type ScopeGuard, shown } from "./scope-guard.ts";
import type { ToolContext } from "./tool.ts";

/**
 * Where a search tool searches, and which of what is found may be told.
 *
 * 1. ripgrep follows no links below the root, and the root is a real path: so what it finds has its real path already (B114).
 * 2. ripgrep knows nothing of scope: no name and no content goes on before the guard was asked for that very file.
 */

/** What tests put in place of the usual. */
export interface SearchOptions {
  readonly findBinary?: (path: string | undefined) => Promise<string | undefined>;
  readonly timeoutMs?: number;
}

/** Long enough for a big checkout on a slow disk. */
const TIMEOUT_MS = 60_000;

/** The tool options with what is left out. */
export function withDefaults({ findBinary = findRipgrep, timeoutMs = TIMEOUT_MS }: SearchOptions): Required<SearchOptions> {
  return { findBinary, timeoutMs };
}

/** Why nothing can be searched. */
export const NO_RIPGREP =
  "ripgrep is missing: there is no prebuilt one for this system, and no rg on PATH. Install ripgrep (https://github.com/BurntSushi/ripgrep) for Glob and Grep; until then use Read, or Bash with find and grep.";

/** A place to search in. */
export interface SearchRoot {
  readonly ok: true;
  readonly kind: "directory" | "file";
  readonly path: CheckedPath;
  /** How a path is told: relative to the working directory where it is below it, else absolute. */
  nameOf(realPath: string): string;
}

/** Finds where to search; refuses what scope hides, what is not there and what is neither a folder nor a file. */
export async function findSearchRoot(typed: string, { scope, cwd }: ToolContext): Promise<SearchRoot | Refused> {
  const path = await scope.resolve(typed, { cwd, access: "read" });
  if (!path.ok) return path;
  if (path.missing.length > 0) return { ok: false, reason: `${shown(typed)} does not exist.` };
  try {
    const stat = await lstat(path.realPath);
    if (!stat.isDirectory() && !stat.isFile()) return { ok: false, reason: notRegularText(path.realPath, stat) }; // B109
    const home = await realpath(cwd).catch(() => cwd);
    return { ok: true, kind: stat.isDirectory() ? "directory" : "file", path, nameOf: (realPath) => nameOf(realPath, home) };
  } catch (thrown) {
    return { ok: false, reason: `${shown(path.realPath)} ${reasonOf(thrown)}.` };
  }
}

/** Arguments of ripgrep for walking a folder and finding the same things everywhere, in one order. */
export function walkArguments(root: SearchRoot, options: { readonly ignored: boolean }): readonly string[] {
  // As a pattern of what to leave out, --glob brings nothing back that is ignored.
  const leftOut = [".git", ".hg", ".svn", ".jj"];
  // From the root down these are no files but the system itself; reading some of them waits for ever.
  if (root.path.realPath === "/") leftOut.push("/proc", "/sys", "/dev");
  return [
    ...FIXED_ARGUMENTS,
    "--hidden",
    "--sort=path",
    ...(options.ignored ? ["--no-ignore"] : ["--no-require-git"]),
    ...leftOut.map((glob) => `--glob=!${glob}`),
  ];
}

/** What every run has: nobody's configuration file, and no messages about files, which could name what scope hides. */
export const FIXED_ARGUMENTS: readonly string[] = ["--no-config", "--no-messages", "--no-ignore-messages", "--color=never"];

/** Asks the guard for what ripgrep found (law 2). Folders are asked once, so that a hidden tree costs one question a folder. */
export class ReadableFiles {
  readonly #scope: ScopeGuard;
  readonly #root: string;
  readonly #folders = new Map<string, boolean>();

  constructor(scope: ScopeGuard, root: string) {
    this.#scope = scope;
    this.#root = root;
  }

  /** True when the file may be read now. */
  async has(realPath: string): Promise<boolean> {
    if (!(await this.#hasFolder(dirname(realPath)))) return false;
    // The file itself too: rules may name single files, also under another name of theirs (B116).
    return (await this.#scope.check({ realPath, base: realPath }, "read")).ok;
  }

  /** False when nothing below this folder may be read. */
  async #hasFolder(folder: string): Promise<boolean> {
    const before = this.#folders.get(folder);
    if (before !== undefined) return before;
    const parentIsOpen = folder === this.#root || folder === "/" || (await this.#hasFolder(dirname(folder)));
    // A name that no file has: a rule that covers it covers everything here. Asking for the folder itself would also meet rules that
    // speak of the folder alone.
    const isOpen = parentIsOpen && (await this.#scope.check({ realPath: childPath(folder, "\0"), base: folder }, "read")).ok;
    this.#folders.set(folder, isOpen);
    return isOpen;
  }
}

/** What happened besides finding, for the note behind the results. */
export function endingNotes(end: RipgrepEnd, timeoutMs: number): readonly string[] {
  switch (end.how) {
    case "timed_out":
      return [`time limit of ${timeoutMs / 1000} s reached: not everything was searched; search a smaller folder`];
    case "ended":
      return end.someUnreadable ? ["some files could not be read"] : [];
    case "stopped":
    case "cancelled":
    case "failed":
      return [];
  }
}

function nameOf(realPath: string, cwd: string): string {
  const name = realPath !== cwd && isWithin(cwd, realPath) ? realPath.slice(cwd === "/" ? 1 : cwd.length + 1) : realPath;
  // Plain as long as it cannot break a line or pretend to be another: then Read finds it as it is shown.
  return /[\p{Cc}\u2028\u2029]/u.test(name) ? JSON.stringify(toSafeText(name)) : toSafeText(name);
}
