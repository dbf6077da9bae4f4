import { lstatSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/** The nearest existing `<folder>/<relative>`, from `cwd` upwards to the root; undefined when there is none. */
export function nearestUpwards(cwd: string, relative: string): string | undefined {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const path = join(folder, relative);
    if (exists(path)) return path;
    if (dirname(folder) === folder) return undefined;
  }
}

/**
 * True when a project file found upwards may be believed: it belongs to us, to root, or to whoever owns the working directory. Else anybody
 * could steer everybody's Pods below `/tmp` with a file there.
 */
export function isTrustedFile(path: string, cwd: string): boolean {
  if (process.getuid === undefined) return true;
  try {
    const trusted = [process.getuid(), 0, statSync(cwd).uid];
    // The link and what it leads to: neither may be somebody else's.
    return trusted.includes(lstatSync(path).uid) && trusted.includes(statSync(path).uid);
  } catch {
    // Whoever reads it says why it cannot be read.
    return true;
  }
}

function exists(path: string): boolean {
  try {
    // A dangling link is there, too: it is an error to be told, not a reason to look further up.
    lstatSync(path);
    return true;
  } catch {
    return false;
  }
}
