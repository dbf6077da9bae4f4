import type { BigIntStats } from "node:fs";
import { constants } from "node:fs";
import { lstat, mkdir, open, rename, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { systemCode } from "../base/errors.ts";
import { randomText } from "../base/ids.ts";
import { childPath, reasonOf } from "./real-path.ts";
import { type CheckedPath, notRegularText, type PinnedDirectory, type Refused, type ScopeGuard, shown } from "./scope-guard.ts";

export interface Replacement {
  readonly path: CheckedPath;
  readonly content: Uint8Array;
  /** The file as it was when `content` was made from it; undefined = there was none. */
  readonly before: BigIntStats | undefined;
}

export interface Replaced {
  readonly ok: true;
  readonly stat: BigIntStats;
}

/**
 * Puts content in the place of a file, or makes it and the directories above it. The content goes into a new file beside it, which then
 * takes its name: a reader, a crash or a full disk never meets half a file. The permission bits stay; another name (hard link) of the old
 * file keeps the old bytes, so nothing reachable outside the scope changes; a link that was put in its place meanwhile is replaced, not
 * followed (B114). Refuses when the file is no longer the one in `before` (B120).
 */
export async function replaceFile(guard: ScopeGuard, replacement: Replacement): Promise<Replaced | Refused> {
  const { path } = replacement;
  const directory = await openParent(guard, path);
  if (!directory.ok) return directory;
  try {
    return await replaceIn(guard, directory, replacement);
  } catch (thrown) {
    return { ok: false, reason: `${shown(path.realPath)} ${reasonOf(thrown)}.` };
  } finally {
    await directory.close();
  }
}

/** The directory the file is in, made where it is missing; each new one must be in scope itself. */
async function openParent(guard: ScopeGuard, path: CheckedPath): Promise<PinnedDirectory | Refused> {
  if (path.missing.length === 0) return guard.openDirectory(dirname(path.realPath));
  let realPath = path.base;
  let directory = await guard.openDirectory(realPath);
  for (const name of path.missing.slice(0, -1)) {
    if (!directory.ok) return directory;
    const child = childPath(realPath, name);
    try {
      const allowed = await guard.check({ realPath: child, base: realPath }, "write");
      if (!allowed.ok) return allowed;
      await makeDirectory(directory.entry(name));
    } catch (thrown) {
      return { ok: false, reason: `The directory ${shown(child)} ${reasonOf(thrown)}.` };
    } finally {
      await directory.close();
    }
    realPath = child;
    directory = await guard.openDirectory(realPath);
  }
  return directory;
}

async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (thrown) {
    // Somebody else made it meanwhile: whether it is a directory and where it leads is checked when it is opened.
    if (systemCode(thrown) !== "EEXIST") throw thrown;
  }
}

async function replaceIn(guard: ScopeGuard, directory: PinnedDirectory, replacement: Replacement): Promise<Replaced | Refused> {
  const { path, content, before } = replacement;
  const name = basename(path.realPath);
  const target = directory.entry(name);
  const temporary = directory.entry(`.wakeful-${randomText(12)}.tmp`);
  // Nobody else may read the content before it has the permissions of the file it replaces.
  const handle = await open(
    temporary,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
    before ? 0o600 : 0o666,
  );
  let placed = false;
  try {
    let stat: BigIntStats;
    try {
      await handle.writeFile(content);
      if (before !== undefined) await handle.chmod(Number(before.mode) & 0o777);
      stat = await handle.stat({ bigint: true });
    } finally {
      await handle.close();
    }
    const base = path.missing.length === 0 ? path.realPath : dirname(path.realPath);
    const allowed = await guard.check({ realPath: path.realPath, base }, "write");
    if (!allowed.ok) return allowed;
    const conflict = await conflictAt(target, path.realPath, before);
    if (conflict !== undefined) return { ok: false, reason: conflict };
    await rename(temporary, target);
    placed = true;
    return { ok: true, stat };
  } finally {
    if (!placed) await removeQuietly(temporary);
  }
}

async function removeQuietly(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch {
    // Gone with its directory, or the disk fails: what is answered is why nothing was written.
  }
}

/** Why the file must not be replaced: it is not the one that was looked at. */
async function conflictAt(target: string, realPath: string, before: BigIntStats | undefined): Promise<string | undefined> {
  let now: BigIntStats;
  try {
    now = await lstat(target, { bigint: true });
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
  if (!now.isFile()) return notRegularText(realPath, now);
  if (
    before !== undefined &&
    now.dev === before.dev &&
    now.ino === before.ino &&
    now.mtimeNs === before.mtimeNs &&
    now.size === before.size
  ) {
    return undefined;
  }
  return `${shown(realPath)} was changed by somebody else just now; nothing was written. Read it again.`;
}
