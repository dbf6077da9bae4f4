import { realpathSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { AppError } from "../base/errors.ts";

/** Where a path stood, for resolving it and for telling about it. */
export interface PathOrigin {
  readonly source: string;
  readonly base: string;
  readonly home: string | undefined;
  readonly isRelativeAllowed: boolean;
}

/**
 * The real, absolute path that a `[scope] deny` entry means; it need not exist. `~` is the home directory. Throws `configuration` for what
 * would deny nothing without anybody noticing: a pattern, `~name`, a relative path where there is nothing to be relative to.
 */
export function denyPath(path: string, origin: PathOrigin): string {
  const fail = (what: string): AppError =>
    new AppError("configuration", `${origin.source}: scope.deny: '${path}' ${what}`, {
      hint: "Write a path, or one that begins with ~/.",
    });
  if (/[*?]/.test(path)) return raise(fail("is a pattern, and patterns are not supported"));
  if (path === "~" || path.startsWith("~/")) {
    if (origin.home === undefined) return raise(fail("needs a home directory, and there is none"));
    return realPathOf(join(origin.home, path.slice(1)));
  }
  if (path.startsWith("~")) return raise(fail("names the home of another user"));
  if (!isAbsolute(path) && !origin.isRelativeAllowed) return raise(fail("is relative"));
  return realPathOf(resolve(origin.base, path));
}

function raise(error: AppError): never {
  throw error;
}

function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // Not there yet: the real path of what is, and the rest as written.
    const parent = dirname(path);
    return parent === path ? path : join(realPathOf(parent), path.slice(parent.length));
  }
}
