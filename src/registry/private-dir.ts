import { chmodSync, lstatSync, mkdirSync, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError, systemCode } from "../base/errors.ts";

/** What stands only in folders of ours: such a folder may be closed to others without asking. */
const OURS = /^(registry\.db|sessions|run|owner\.lock|\d{6}\.jsonl|ses_.+|.+\.sock)$/;

/**
 * Makes `path` a folder that only we can enter: made 0700 whatever the umask (B95), with the parents it needs, or checked and closed
 * if it is there. Returns its real path.
 *
 * Throws `configuration` naming the path and the remedy: not a folder, somebody else's, or open to others while it holds things that
 * are not ours (closing a home directory to others because a variable names it would do harm).
 */
export function makePrivateDir(path: string): string {
  const existing = statOrUndefined(path);
  if (existing === undefined) {
    makeMissing(path);
  } else {
    checkOwn(path, existing);
    if (isOpenToOthers(existing)) closeToOthers(path);
  }
  return realpathSync(path);
}

/** Like {@link makePrivateDir} for a name below a folder that everybody may write (`/tmp`): what is there already must be ours as it is. */
export function makePrivateDirInShared(path: string): string {
  try {
    mkdirSync(path, { mode: 0o700 });
    chmodSync(path, 0o700);
  } catch (thrown) {
    if (systemCode(thrown) !== "EEXIST") throw cannotMake(path, thrown);
    // lstat: a link planted there by somebody else must not be followed.
    const there = lstatSync(path);
    checkOwn(path, there);
    if (isOpenToOthers(there)) throw openToOthers(path);
  }
  return realpathSync(path);
}

/** The stat of what `path` leads to; undefined when there is nothing or no way to it. */
export function statOrUndefined(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    // Whoever needs more than "not there for us" gets the reason from the call that makes or opens it.
    return undefined;
  }
}

/** Real path of `path`, of which the last parts need not exist yet. */
export function realPathOfFuture(path: string): string {
  try {
    return realpathSync(path);
  } catch (thrown) {
    const parent = dirname(path);
    if (systemCode(thrown) !== "ENOENT" || parent === path) return path;
    return join(realPathOfFuture(parent), path.slice(parent.length));
  }
}

/** True for the user this process runs as. */
export function isOurUser(uid: number): boolean {
  return process.getuid === undefined || uid === process.getuid();
}

/** True when anybody else has any permission on it. */
export function isOpenToOthers(stats: Stats): boolean {
  return (stats.mode & 0o077) !== 0;
}

function makeMissing(path: string): void {
  const parent = dirname(path);
  if (parent !== path && statOrUndefined(parent) === undefined) makeMissing(parent);
  try {
    mkdirSync(path, { mode: 0o700 });
    // The umask may have taken bits that we need ourselves.
    chmodSync(path, 0o700);
  } catch (thrown) {
    // Another process of ours made it at the same time.
    if (systemCode(thrown) === "EEXIST" && statOrUndefined(path)?.isDirectory()) return;
    throw cannotMake(path, thrown);
  }
}

function checkOwn(path: string, stats: Stats): void {
  if (!stats.isDirectory()) {
    throw new AppError("configuration", `${path} is not a folder`, {
      hint: "Move it away, or set WAKEFUL_HOME to another folder.",
    });
  }
  if (!isOurUser(stats.uid)) {
    throw new AppError("configuration", `${path} belongs to another user (uid ${stats.uid})`, {
      hint: "Set WAKEFUL_HOME to a folder of your own.",
    });
  }
}

function closeToOthers(path: string): void {
  const entries = readdirSync(path);
  const isOurs = entries.length === 0 || entries.some((entry) => OURS.test(entry)) || path.endsWith("/wakeful");
  if (!isOurs) throw openToOthers(path);
  try {
    chmodSync(path, 0o700);
  } catch (thrown) {
    throw cannotMake(path, thrown);
  }
}

function openToOthers(path: string): AppError {
  return new AppError("configuration", `${path} is open to other users`, {
    hint: `Close it with \`chmod 700 '${path}'\`, or set WAKEFUL_HOME to a folder of its own.`,
  });
}

function cannotMake(path: string, cause: unknown): AppError {
  return new AppError("configuration", `cannot make the folder ${path}: ${systemCode(cause) ?? "unknown reason"}`, {
    hint: "Make it writable, or set WAKEFUL_HOME to a folder that is.",
    cause,
  });
}
