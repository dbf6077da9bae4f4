import { lstat, opendir } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { childPath } from "./real-path.ts";

/** Entries of one directory that are looked at before its own name is asked. */
const MAX_PROBED = 32;

/**
 * True when the file system takes names in this directory that differ in case for one (field report B116). Asks for an existing entry under
 * its other case; a directory without entries is judged by its own name in its parent. True when nothing can be told: the caller refuses.
 */
export async function foldsCase(directory: string): Promise<boolean> {
  for (let current = directory; ; current = dirname(current)) {
    const answer = await probeEntries(current);
    if (answer !== undefined) return answer;
    if (current === "/") return true;
    const own = await probeName(dirname(current), basename(current));
    if (own !== undefined) return own;
  }
}

async function probeEntries(directory: string): Promise<boolean | undefined> {
  try {
    let looked = 0;
    for await (const entry of await opendir(directory)) {
      const answer = await probeName(directory, entry.name);
      if (answer !== undefined) return answer;
      looked++;
      if (looked >= MAX_PROBED) return undefined;
    }
  } catch {
    // A directory that cannot be listed tells nothing; its own name may.
  }
  return undefined;
}

/** Undefined when the name has no other case. */
async function probeName(directory: string, name: string): Promise<boolean | undefined> {
  const other = swapCase(name);
  if (other === name) return undefined;
  const [a, b] = await Promise.all([identityOf(childPath(directory, name)), identityOf(childPath(directory, other))]);
  return a === undefined ? undefined : a === b;
}

/** ASCII only: what every folding file system folds. */
function swapCase(name: string): string {
  return name.replaceAll(/[a-zA-Z]/g, (letter) => (letter < "a" ? letter.toLowerCase() : letter.toUpperCase()));
}

async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await lstat(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    // Not there, or not to be seen: it is not the same file as one that is there.
    return undefined;
  }
}
