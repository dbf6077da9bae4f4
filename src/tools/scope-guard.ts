import type { BigIntStats } from "node:fs";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { lstat, open, readlink, realpath, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "../base/errors.ts";
import { plural } from "../base/text.ts";
import type { Scope, ScopeRule } from "../protocol/scope-rule.ts";
import { accessTo, isReadOnly, isWithin, ruleCovers } from "../registry/scope.ts";
import { foldsCase } from "./folding.ts";
import { childPath, findRealPath, reasonOf } from "./real-path.ts";

/**
 * Keeps the file tools inside the scope.
 *
 * 1. What counts is where a path really leads: links, chains and dangling links are followed before the rules are asked (B114).
 * 2. Denied and closed places are recognised by name and by identity (device and inode of every directory above the target), so that
 *    another case, a bind mount or a hard link to a denied file is the same place (B116).
 * 3. Between check and use the path may be swapped: the last component is opened without following links, and the opened file must still
 *    be where it was checked. What is written goes through a pinned directory, never through a path that could lead elsewhere by then.
 * 4. Opening never blocks, and special files (FIFOs, devices, sockets) are refused (B109).
 *
 * A shell goes round it all: this fences the file tools only.
 */
export interface ScopeGuard {
  /** Where a path given by the model (relative to `cwd`) leads and whether the scope lets it be read or written now. */
  resolve(path: string, options: { readonly cwd: string; readonly access: Access }): Promise<CheckedPath | Refused>;
  /** Asks the rules again, for a real path from `resolve`: scope can change while a tool works. */
  check(path: { readonly realPath: string; readonly base: string }, access: Access): Promise<Allowed | Refused>;
  /** Opens a regular file that `resolve` found. The caller closes the handle. */
  openFile(path: CheckedPath): Promise<OpenedFile | Refused>;
  /** Opens a directory by its real path for changing what is in it. The caller closes it. */
  openDirectory(realPath: string): Promise<PinnedDirectory | Refused>;
}

export type Access = ScopeRule["access"];

export interface Allowed {
  readonly ok: true;
}

/** Why not, as a whole sentence for the model. */
export interface Refused {
  readonly ok: false;
  readonly reason: string;
}

export interface CheckedPath {
  readonly ok: true;
  readonly realPath: string;
  /** The deepest part that exists; equal to `realPath` when the file exists. */
  readonly base: string;
  /** Names below `base` that do not exist yet. */
  readonly missing: readonly string[];
}

export interface OpenedFile {
  readonly ok: true;
  readonly handle: FileHandle;
  readonly stat: BigIntStats;
}

export interface PinnedDirectory {
  readonly ok: true;
  /** The path of an entry, through the open directory where the system can do that: it leads here whatever happens to the path. */
  entry(name: string): string;
  close(): Promise<void>;
}

export interface ScopeGuardOptions {
  /** The scope in force now: asked at every check, because delegation changes it. */
  readonly scope: () => Scope;
  /** Directories that no scope lifts (Wakeful's own data, sockets and configuration). Absolute; they need not exist. */
  readonly closed: readonly string[];
  /** Whether a directory ignores the case of names; the default asks the file system. */
  readonly folds?: (directory: string) => Promise<boolean>;
}

/** Makes the guard of one Pod. */
export function createScopeGuard(options: ScopeGuardOptions): ScopeGuard {
  const check: ScopeGuard["check"] = (path, access) => verdict(path, access, options);
  return {
    check,
    async resolve(path, { cwd, access }) {
      const absolute = toAbsolute(path, cwd);
      if (typeof absolute !== "string") return absolute;
      const found = await findRealPath(absolute);
      if (!found.ok) return refuse(`${shown(path)} ${found.reason}.`);
      if (access === "write" && found.missing.length > 0 && /\/\.?$/.test(path)) {
        return refuse(`${shown(path)} names a directory, not a file.`);
      }
      const allowed = await check(found, access);
      return allowed.ok ? found : allowed;
    },
    openFile,
    openDirectory,
  };
}

function toAbsolute(path: string, cwd: string): string | Refused {
  if (path === "") return refuse("The path is empty.");
  if (path.includes("\0")) return refuse(`The path ${shown(path)} holds a NUL character, which no file name can.`); // B111
  if (/^~(\/|$)/.test(path))
    return refuse(`'~' is not expanded in ${shown(path)}: give the full path (or './~/...' for a folder named '~').`);
  // Joined as text: cleaning it up here would take `link/..` for nothing (B114).
  return path.startsWith("/") ? path : childPath(cwd, path);
}

interface Barrier {
  readonly rule: ScopeRule;
  readonly closed: boolean;
}

async function verdict(
  path: { readonly realPath: string; readonly base: string },
  access: Access,
  options: ScopeGuardOptions,
): Promise<Allowed | Refused> {
  const { realPath } = path;
  const scope = options.scope();
  if (isProcessSecret(realPath))
    return refuse(`${shown(realPath)} shows the memory or environment of a process and is closed to tools.`);
  if (access === "write" && accessTo({ allow: scope.allow, deny: [] }, realPath) !== "write")
    return refuse(outsideText(realPath, scope));
  const barriers: readonly Barrier[] = [
    ...options.closed.map((directory) => ({ rule: { path: directory, access: "read", recursive: true } as const, closed: true })),
    ...scope.deny.filter((rule) => access === "write" || rule.access === "read").map((rule) => ({ rule, closed: false })),
  ];
  const hit = await firstHit(barriers, path, options.folds ?? foldsCase);
  if (hit === undefined) return { ok: true };
  if (hit.closed) return refuse(`${shown(realPath)} belongs to Wakeful itself and is closed to tools.`);
  const what = access === "read" ? "reading" : "writing";
  return refuse(`The scope of this session denies ${what} ${shown(realPath)} (rule: ${hit.rule.path}).`);
}

/** The first barrier that covers the path, by name or by identity (law 2). */
async function firstHit(
  barriers: readonly Barrier[],
  path: { readonly realPath: string; readonly base: string },
  folds: (directory: string) => Promise<boolean>,
): Promise<Barrier | undefined> {
  const byName = barriers.find(({ rule }) => ruleCovers(rule, path.realPath));
  if (byName !== undefined || barriers.length === 0) return byName;
  const [above, barrierIds] = await Promise.all([
    Promise.all(selfAndAbove(path.base).map(identityOf)),
    Promise.all(barriers.map(({ rule }) => identityOf(rule.path))),
  ]);
  const own = path.base === path.realPath ? above[0] : undefined;
  for (const [i, barrier] of barriers.entries()) {
    const id = barrierIds[i];
    if (id !== undefined) {
      if (id === own || (barrier.rule.recursive && above.includes(id))) return barrier;
    } else if (ruleCovers(barrier.rule, path.realPath, { folds: true })) {
      // The denied place does not exist yet: what is about to be made may be it, under another case. Two names that differ in their
      // Unicode form alone are taken for one everywhere: no probe can tell, and nobody means two files by them.
      const sameButForm = ruleCovers(
        { ...barrier.rule, path: barrier.rule.path.normalize("NFC") },
        path.realPath.normalize("NFC"),
      );
      if (sameButForm || (await folds(path.base))) return barrier;
    }
  }
  return undefined;
}

function selfAndAbove(path: string): readonly string[] {
  const all = [path];
  for (let current = path; current !== "/"; current = dirname(current)) all.push(dirname(current));
  return all;
}

async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    // Not there or not to be seen: names decide.
    return undefined;
  }
}

/** Keys of the provider stand in a process's memory and perhaps in its first environment: no tool shows them. */
function isProcessSecret(realPath: string): boolean {
  return isWithin("/proc", realPath) && /\/(environ|mem|auxv)$/.test(realPath);
}

function outsideText(realPath: string, scope: Scope): string {
  if (isReadOnly(scope)) return `This session may not write anything, so not ${shown(realPath)} either.`;
  const writable = scope.allow.filter((rule) => rule.access === "write").map((rule) => rule.path);
  const named = writable.slice(0, 5).join(", ");
  const more = writable.length > 5 ? ` and ${plural(writable.length - 5, "more path")}` : "";
  return `${shown(realPath)} is outside the write scope of this session, which is: ${named}${more}.`;
}

async function openFile(path: CheckedPath): Promise<OpenedFile | Refused> {
  const { realPath } = path;
  try {
    // Before opening: opening some devices has effects, and a socket cannot be opened at all.
    const before = await lstat(realPath);
    if (!before.isFile()) return refuse(notRegularText(realPath, before));
    const handle = await open(realPath, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    return await verified(handle, realPath);
  } catch (thrown) {
    return refuse(openFailureText(realPath, thrown));
  }
}

async function verified(handle: FileHandle, realPath: string): Promise<OpenedFile | Refused> {
  try {
    const opened = await handle.stat({ bigint: true });
    if (!opened.isFile()) return await closeAndRefuse(handle, notRegularText(realPath, opened));
    if (await isStillAt(handle, opened, realPath)) return { ok: true, handle, stat: opened };
    return await closeAndRefuse(handle, swappedText(realPath));
  } catch (thrown) {
    return await closeAndRefuse(handle, openFailureText(realPath, thrown));
  }
}

async function openDirectory(realPath: string): Promise<PinnedDirectory | Refused> {
  let handle: FileHandle;
  try {
    handle = await open(realPath, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY | constants.O_NONBLOCK);
  } catch (thrown) {
    return refuse(openFailureText(realPath, thrown));
  }
  try {
    if (!(await isStillAt(handle, await handle.stat({ bigint: true }), realPath))) {
      return await closeAndRefuse(handle, swappedText(realPath));
    }
  } catch (thrown) {
    return await closeAndRefuse(handle, openFailureText(realPath, thrown));
  }
  // Node has no openat; on Linux an open directory has a path of its own, which does the same.
  const through = process.platform === "linux" ? `/proc/self/fd/${handle.fd}` : realPath;
  return { ok: true, entry: (name) => childPath(through, name), close: () => handle.close() };
}

/** True when the opened thing is reached by exactly this path and no link (law 3). */
async function isStillAt(handle: FileHandle, opened: BigIntStats, realPath: string): Promise<boolean> {
  if (process.platform === "linux") {
    try {
      return (await readlink(`/proc/self/fd/${handle.fd}`)) === realPath;
    } catch {
      // No /proc: the slower way.
    }
  }
  const [path, now] = await Promise.all([realpath(realPath), lstat(realPath, { bigint: true })]);
  return path === realPath && now.dev === opened.dev && now.ino === opened.ino;
}

async function closeAndRefuse(handle: FileHandle, reason: string): Promise<Refused> {
  await handle.close();
  return refuse(reason);
}

interface FileKind {
  isDirectory(): boolean;
  isFIFO(): boolean;
  isSocket(): boolean;
  isSymbolicLink(): boolean;
}

/** Why something that is no regular file is not opened. */
export function notRegularText(realPath: string, kind: FileKind): string {
  if (kind.isDirectory()) return `${shown(realPath)} is a directory.`;
  if (kind.isSymbolicLink()) return swappedText(realPath);
  const what = kind.isFIFO() ? "a FIFO" : kind.isSocket() ? "a socket" : "a device";
  return `${shown(realPath)} is ${what}, not a regular file: the file tools leave such files alone.`;
}

function openFailureText(realPath: string, thrown: unknown): string {
  const code = systemCode(thrown);
  // O_NOFOLLOW met a link where there was none a moment ago.
  if (code === "ELOOP" || code === "ENOTDIR") return swappedText(realPath);
  return `${shown(realPath)} ${reasonOf(thrown)}.`;
}

function swappedText(realPath: string): string {
  return `${shown(realPath)} was moved or replaced while it was being opened; nothing was done. Try again.`;
}

function refuse(reason: string): Refused {
  return { ok: false, reason };
}

/** A path as messages show it: with nothing that could break a line or a prompt, and not endless. */
export function shown(path: string): string {
  const quoted = JSON.stringify(path).slice(1, -1);
  return quoted.length <= 300 ? quoted : `${quoted.slice(0, 200)}...${quoted.slice(-90)}`;
}
