import { lstat, readlink, realpath } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, systemCode } from "../base/errors.ts";

/** Where a path really leads, links followed, the last ones too. What does not exist yet is `missing` below the real directory `base`. */
export interface RealPath {
  readonly ok: true;
  readonly realPath: string;
  /** The deepest part that exists; equal to `realPath` when nothing is missing. */
  readonly base: string;
  readonly missing: readonly string[];
}

/** The path leads nowhere; `reason` completes a sentence that names the path. */
export interface NoPath {
  readonly ok: false;
  readonly reason: string;
}

// As the kernel counts.
const MAX_LINKS = 40;

/**
 * Finds the real target of an absolute path as the kernel would: `..` is taken after links (`link/../x`), a dangling link leads to what it
 * would create, and case is what the file system stores where it tells (field reports B114, B116).
 */
export async function findRealPath(path: string): Promise<RealPath | NoPath> {
  try {
    const realPath = await realpath(path);
    return { ok: true, realPath, base: realPath, missing: [] };
  } catch (thrown) {
    if (systemCode(thrown) !== "ENOENT") return { ok: false, reason: reasonOf(thrown) };
  }
  try {
    return await walk(path);
  } catch (thrown) {
    return { ok: false, reason: reasonOf(thrown) };
  }
}

/** The path below a directory, which may be the root. */
export function childPath(directory: string, name: string): string {
  return directory === "/" ? `/${name}` : `${directory}/${name}`;
}

/** `realpath` cannot say where a path leads whose end does not exist: this walks it component by component. */
async function walk(path: string): Promise<RealPath | NoPath> {
  // The next component is the last of the list.
  const ahead = path.split("/").reverse();
  let current = "/";
  let links = 0;
  for (let component = ahead.pop(); component !== undefined; component = ahead.pop()) {
    if (component === "" || component === ".") continue;
    if (component === "..") {
      current = dirname(current);
      continue;
    }
    const next = childPath(current, component);
    const stat = await lstatOrUndefined(next);
    if (stat === undefined) return missingBelow(current, [component, ...ahead.reverse()]);
    if (stat.isSymbolicLink()) {
      links++;
      if (links > MAX_LINKS) return { ok: false, reason: "goes through too many symbolic links" };
      const target = await readlink(next);
      if (target.startsWith("/")) current = "/";
      ahead.push(...target.split("/").reverse());
    } else if (!stat.isDirectory() && ahead.length > 0) {
      return { ok: false, reason: `goes through ${next}, which is not a directory` };
    } else {
      current = next;
    }
  }
  return { ok: true, realPath: current, base: current, missing: [] };
}

async function missingBelow(directory: string, components: readonly string[]): Promise<RealPath | NoPath> {
  const missing = components.filter((component) => component !== "" && component !== ".");
  if (missing.includes(".."))
    return { ok: false, reason: `goes back with '..' from a directory that does not exist in ${directory}` };
  const base = await realpath(directory);
  return { ok: true, realPath: missing.reduce(childPath, base), base, missing };
}

async function lstatOrUndefined(path: string) {
  try {
    return await lstat(path);
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
}

/** What a failed file operation means, to complete a sentence that names the file. */
export function reasonOf(thrown: unknown): string {
  switch (systemCode(thrown)) {
    case "ENOENT":
      return "does not exist";
    case "EACCES":
    case "EPERM":
      return "is not accessible: the operating system denies permission";
    case "ELOOP":
      return "goes through too many symbolic links";
    case "ENOTDIR":
      return "goes through something that is not a directory";
    case "EISDIR":
      return "is a directory";
    case "ENAMETOOLONG":
      return "is too long for the file system";
    case "ENOSPC":
      return "cannot be written: the disk is full";
    case "EDQUOT":
      return "cannot be written: the disk quota is used up";
    case "EROFS":
      return "is on a file system that is mounted read-only";
    default:
      return `failed: ${messageOf(thrown)}`;
  }
}
