import type { Stats } from "node:fs";
import { chmod, lstat, mkdir, rename, unlink } from "node:fs/promises";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { abortReason } from "../base/clock.ts";
import { AppError, systemCode } from "../base/errors.ts";
import { randomText } from "../base/ids.ts";
import { MAX_SOCKET_PATH_BYTES } from "../base/socket-path.ts";

/** Where a Pod listens: a URL, so that a transport across machines is one more scheme. */
export interface Address {
  readonly scheme: "unix";
  /** Absolute path of the socket. */
  readonly path: string;
}

/** Reads an address. Throws `invalid_input` for a scheme this build does not speak or a path that is not absolute. */
export function parseAddress(address: string): Address {
  const shown = JSON.stringify(address.slice(0, 200));
  const colon = address.indexOf(":");
  const scheme = colon === -1 ? "" : address.slice(0, colon);
  if (scheme !== "unix") throw new AppError("invalid_input", `address ${shown} is not of the form unix:<path>`);
  const path = address.slice(colon + 1);
  if (!path.startsWith("/") || path.includes("\0"))
    throw new AppError("invalid_input", `address ${shown} names no absolute path`);
  return { scheme, path };
}

/** The address of a socket path. */
export function unixAddress(path: string): string {
  return `unix:${path}`;
}

/** Paths over the limit are refused, never cut: two names would meet on one socket (field report B100). */
function checkPathLength(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes <= MAX_SOCKET_PATH_BYTES) return;
  throw new AppError("invalid_input", `socket path ${path} has ${bytes} bytes, the system takes ${MAX_SOCKET_PATH_BYTES}`, {
    hint: "use a shorter runtime directory (XDG_RUNTIME_DIR or WAKEFUL_HOME)",
  });
}

/**
 * Connects to a socket. Throws `unavailable` when nobody listens there, `timed_out` after `deadlineMs`, or the abort reason.
 * The socket keeps its own write side open until it is ended.
 */
export function connectUnix(
  path: string,
  options: { readonly deadlineMs: number; readonly signal?: AbortSignal },
): Promise<Socket> {
  const { deadlineMs, signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortReason(signal));
      return;
    }
    checkPathLength(path);
    const socket = createConnection({ path });
    const settle = (error: AppError | undefined) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      socket.removeAllListeners("connect").removeAllListeners("error");
      if (error === undefined) {
        resolve(socket);
        return;
      }
      // A late error of a socket nobody has any more must not end the process.
      socket.on("error", () => undefined);
      socket.destroy();
      reject(error);
    };
    const onAbort = () => settle(abortReason(signal));
    const timer = setTimeout(
      () => settle(new AppError("timed_out", `no connection to ${unixAddress(path)} within ${deadlineMs} ms`)),
      deadlineMs,
    );
    signal?.addEventListener("abort", onAbort, { once: true });
    socket.once("connect", () => settle(undefined));
    socket.once("error", (thrown) =>
      settle(
        new AppError("unavailable", `nobody answers at ${unixAddress(path)} (${systemCode(thrown) ?? "error"})`, {
          cause: thrown,
        }),
      ),
    );
  });
}

/** A listening Pod socket. */
export interface UnixListener extends AsyncDisposable {
  readonly address: string;
  readonly path: string;
  /** Stops listening; removes the socket from disk if it is still ours. Open connections stay with whoever got them. Idempotent. */
  close(): Promise<void>;
}

/**
 * Listens at `path` (mode 0600, its directory made 0700, or refused if it is there and open to others). The caller holds the owner lock of what the path stands for. A stale socket
 * there is replaced; a file that is no socket, or a socket somebody answers on, is left alone and throws `already_exists`.
 *
 * The socket is bound under a temporary name and renamed into place: so it never stands there with wider permissions, and closing never
 * removes another process's socket (Node unlinks the name it bound, whoever holds it by then: field report B98).
 *
 * Connections are half-open: after a client ended its side, answers can still be written, and `onConnection` has to end the socket.
 */
export async function listenUnix(path: string, onConnection: (socket: Socket) => void): Promise<UnixListener> {
  const directory = dirname(path);
  // Shorter than most names, so that it fits wherever the path itself does.
  const temporary = join(directory, `.${randomText(5)}`);
  checkPathLength(path);
  checkPathLength(temporary);
  await makeDirectory(directory);
  const server = createServer({ allowHalfOpen: true }, onConnection);
  try {
    await bind(server, temporary);
    await chmod(temporary, 0o600);
    const ours = await lstat(temporary);
    await refuseIfTaken(path);
    await rename(temporary, path);
    return listenerOf(server, path, ours);
  } catch (thrown) {
    server.close();
    await unlink(temporary).catch(() => undefined); // Already gone when it was renamed or never bound.
    if (thrown instanceof AppError) throw thrown;
    throw new AppError("unavailable", `cannot listen at ${path} (${systemCode(thrown) ?? "error"})`, { cause: thrown });
  }
}

async function makeDirectory(directory: string): Promise<void> {
  const made = await mkdir(directory, { recursive: true, mode: 0o700 });
  // The umask may have taken bits away. A directory that was there is not ours to change, only to refuse.
  if (made !== undefined) await chmod(directory, 0o700);
  if (((await lstat(directory)).mode & 0o077) === 0) return;
  throw new AppError("configuration", `${directory} is open to other users`, { hint: `close it with: chmod 700 '${directory}'` });
}

function bind(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ path }, () => {
      server.removeListener("error", reject);
      // Failing accepts (no file descriptors left) are passing: the next connection is tried again.
      server.on("error", () => undefined);
      resolve();
    });
  });
}

async function refuseIfTaken(path: string): Promise<void> {
  const there = await statOf(path);
  if (there === undefined) return;
  if (!there.isSocket()) {
    throw new AppError("already_exists", `${path} exists and is not a socket`, {
      hint: "move it away; it is not ours to remove",
    });
  }
  try {
    const socket = await connectUnix(path, { deadlineMs: PROBE_MS });
    socket.destroy();
  } catch (thrown) {
    // Only a refusal proves that nobody listens; a full queue or a slow answer is somebody.
    const cause = thrown instanceof AppError ? systemCode(thrown.cause) : undefined;
    if (cause === "ECONNREFUSED" || cause === "ENOENT") return;
  }
  throw new AppError("already_exists", `somebody answers at ${unixAddress(path)}`, { hint: "wakeful ps shows who" });
}

function listenerOf(server: Server, path: string, ours: Stats): UnixListener {
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      // Compared before our descriptor closes: until then the system cannot give our inode number to another file.
      const there = await statOf(path);
      if (there !== undefined && there.ino === ours.ino && there.dev === ours.dev) await unlink(path).catch(() => undefined);
      server.close();
    })();
    return closing;
  };
  return { address: unixAddress(path), path, close, [Symbol.asyncDispose]: close };
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
}

const PROBE_MS = 1000;
