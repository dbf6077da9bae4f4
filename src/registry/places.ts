import { createHash } from "node:crypto";
import { userInfo } from "node:os";
import { isAbsolute, join } from "node:path";
import { AppError } from "../base/errors.ts";
import { MAX_SOCKET_PATH_BYTES } from "../base/socket-path.ts";
import { utf8Bytes } from "../base/text.ts";
import {
  isOpenToOthers,
  isOurUser,
  makePrivateDir,
  makePrivateDirInShared,
  realPathOfFuture,
  statOrUndefined,
} from "./private-dir.ts";

/** Where everything of one user's Wakeful lives. Absolute real paths. Nothing needs to exist: who writes makes the folder. */
export interface Places {
  /** Registry, locks and logs: outlives a logout, the same for every Pod of the user. */
  readonly data: string;
  /** Sockets only. */
  readonly runtime: string;
  /** `config.toml` and `prompts/` of the user; never written by us. */
  readonly config: string;
  /** The user's home, where one is known: what `~` means. */
  readonly home: string | undefined;
  /** Folders for a socket whose path in `runtime` would be too long, best first. */
  readonly temporary: readonly string[];
  /** Which fall-backs were taken and why, one sentence each (B107). */
  readonly notes: readonly string[];
}

/** Environment variables, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Finds the places from the environment. Looks, and makes nothing.
 *
 * Throws `configuration` (one line: path and remedy) where no place for data can be named.
 */
export function resolvePlaces(env: Environment): Places {
  const notes: string[] = [];
  const home = findHome(env, notes);
  const data = findData(env, home, notes);
  return {
    data,
    runtime: findRuntime(env, data, notes),
    config: findConfig(env, home, data, notes),
    home: home?.path,
    temporary: findTemporary(env, notes),
    notes,
  };
}

/** The folder of one session: log, blobs, owner lock. Made by whoever starts the session (`makePrivateDir`). */
export function sessionDir(places: Places, session: string): string {
  // Ids are ours; this is the one place where one becomes a path.
  if (!/^[A-Za-z0-9_-]{1,128}$/.test(session)) {
    throw new AppError("invalid_input", `'${session}' is not a session id`, { hint: "`wakeful ps --all` lists them." });
  }
  return join(places.data, "sessions", session);
}

/**
 * The socket path for a Pod of this name; its folder exists afterwards (0700). Never longer than the system allows and never cut
 * (B100): a name that does not fit, or could meet another one on a file system that folds case or Unicode forms, becomes a hash; a
 * `runtime` that is too long for any name is replaced by a private folder under the temporary one.
 *
 * For the Pod that owns the name only: clients take addresses from the registry.
 */
export function socketPath(places: Places, name: string): string {
  const runtime = places.runtime;
  const plain = `${name}.sock`;
  // `+` never begins a plain file name, so a hash meets no name.
  const hashed = `+${shortHash(name)}.sock`;
  const fileName = /^[a-z0-9][a-z0-9._-]*$/.test(name) && utf8Bytes(plain) <= 255 ? plain : hashed;
  for (const candidate of [fileName, hashed]) {
    if (fits(join(runtime, candidate))) return join(makePrivateDir(runtime), candidate);
  }
  const folder = `wakeful-${process.getuid?.() ?? "user"}-${shortHash(runtime)}`;
  for (const temporary of places.temporary) {
    if (fits(join(temporary, folder, hashed))) return join(makePrivateDirInShared(join(temporary, folder)), hashed);
  }
  throw new AppError("configuration", `no socket fits into ${runtime}: a socket's path holds ${MAX_SOCKET_PATH_BYTES} bytes`, {
    hint: "Set XDG_RUNTIME_DIR (mode 0700) or TMPDIR to a shorter path.",
  });
}

function fits(path: string): boolean {
  return utf8Bytes(path) <= MAX_SOCKET_PATH_BYTES;
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

interface Home {
  readonly path: string;
  readonly exists: boolean;
}

function findHome(env: Environment, notes: string[]): Home | undefined {
  const named = env["HOME"];
  if (named && isAbsolute(named))
    return { path: realPathOfFuture(named), exists: statOrUndefined(named)?.isDirectory() ?? false };
  try {
    const path = userInfo().homedir;
    if (!isAbsolute(path)) return undefined;
    notes.push(`HOME is ${named ? `'${named}', which is not absolute` : "not set"}: using ${path} from the user database.`);
    return { path: realPathOfFuture(path), exists: statOrUndefined(path)?.isDirectory() ?? false };
  } catch {
    // A user without an entry in the user database (usual in containers): there is no home.
    return undefined;
  }
}

function findData(env: Environment, home: Home | undefined, notes: string[]): string {
  const own = env["WAKEFUL_HOME"];
  if (own) {
    if (!isAbsolute(own)) {
      throw new AppError("configuration", `WAKEFUL_HOME is '${own}', which is not an absolute path`, {
        hint: "A relative one would be another place in every folder; write it out in full.",
      });
    }
    return realPathOfFuture(own);
  }
  const xdg = env["XDG_DATA_HOME"];
  if (xdg && isAbsolute(xdg)) return realPathOfFuture(join(xdg, "wakeful"));
  if (xdg) notes.push(`XDG_DATA_HOME is '${xdg}', which is not absolute: not used.`);
  const remedy = "Set HOME, or WAKEFUL_HOME to a folder where Wakeful may keep its data.";
  if (home === undefined) throw new AppError("configuration", "there is no home directory to keep data in", { hint: remedy });
  if (!home.exists) throw new AppError("configuration", `the home directory ${home.path} does not exist`, { hint: remedy });
  return realPathOfFuture(join(home.path, ".local/share/wakeful"));
}

function findConfig(env: Environment, home: Home | undefined, data: string, notes: string[]): string {
  const xdg = env["XDG_CONFIG_HOME"];
  if (xdg && isAbsolute(xdg)) return realPathOfFuture(join(xdg, "wakeful"));
  if (xdg) notes.push(`XDG_CONFIG_HOME is '${xdg}', which is not absolute: not used.`);
  if (home !== undefined) return realPathOfFuture(join(home.path, ".config/wakeful"));
  notes.push(`There is no home directory: configuration is looked for in ${data}/config.`);
  return join(data, "config");
}

function findRuntime(env: Environment, data: string, notes: string[]): string {
  const xdg = env["XDG_RUNTIME_DIR"];
  const fallback = join(data, "run");
  if (!xdg) return fallback;
  const reason = whyUnfit(xdg);
  if (reason === undefined) return realPathOfFuture(join(xdg, "wakeful"));
  notes.push(`XDG_RUNTIME_DIR is '${xdg}', which ${reason}: sockets go to ${fallback}.`);
  return fallback;
}

/** Why a runtime directory cannot be trusted with sockets; undefined when it can. */
function whyUnfit(path: string): string | undefined {
  if (!isAbsolute(path)) return "is not absolute";
  const stats = statOrUndefined(path);
  if (stats === undefined) return "does not exist";
  if (!stats.isDirectory()) return "is not a folder";
  if (!isOurUser(stats.uid)) return `belongs to another user (uid ${stats.uid})`;
  if (isOpenToOthers(stats)) return `is open to other users (mode ${(stats.mode & 0o777).toString(8).padStart(4, "0")})`;
  if ((stats.mode & 0o700) !== 0o700) return "is closed to us";
  return undefined;
}

function findTemporary(env: Environment, notes: string[]): readonly string[] {
  const named = env["TMPDIR"];
  const isThere = named !== undefined && isAbsolute(named) && statOrUndefined(named)?.isDirectory() === true;
  if (named && !isThere) notes.push(`TMPDIR is '${named}', which is not a folder: /tmp is used where it is needed.`);
  const folders = isThere ? [realPathOfFuture(named), realPathOfFuture("/tmp")] : [realPathOfFuture("/tmp")];
  return [...new Set(folders)];
}
