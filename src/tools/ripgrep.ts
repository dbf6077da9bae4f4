import { Buffer } from "node:buffer";
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import type { Readable } from "node:stream";
import { CALL_VARIABLE } from "../base/call-mark.ts";
import { messageOf, systemCode } from "../base/errors.ts";
import { newCallMark } from "./process-tree.ts";
import type { ToolContext } from "./tool.ts";

/**
 * Runs ripgrep for the search tools.
 *
 * 1. Nothing is looked up before the first search: starting a Pod costs nothing for it.
 * 2. Memory is bounded whatever is found: output is taken record by record, a record is cut at `MAX_RECORD_BYTES`, and ripgrep waits
 *    while a record is worked on (field report B109).
 * 3. It always ends: by itself, when enough was found, at the time limit, or when the call is cancelled.
 */

/** A path and a shown line fit; more of one record is not kept. */
const MAX_RECORD_BYTES = 16 * 1024;
/** ripgrep's complaint about a pattern is shorter. */
const MAX_MESSAGE_CHARS = 4000;
/** What a killed ripgrep gets to be gone; one stuck in the kernel is not waited for. */
const END_WAIT_MS = 1000;

const known = new Map<string, string>();

/**
 * The ripgrep to run: the one that came with Wakeful, else `rg` from `PATH` (platforms without a prebuilt one, installs without optional
 * packages). Undefined when there is none. Looked up once for each PATH.
 */
export async function findRipgrep(path: string | undefined): Promise<string | undefined> {
  const key = path ?? "";
  const before = known.get(key);
  if (before !== undefined) return before;
  // Relative entries of PATH would run whatever lies in the working directory.
  const onPath = key.split(":").filter((directory) => isAbsolute(directory));
  for (const candidate of [await packagedRipgrep(), ...onPath.map((directory) => join(directory, "rg"))]) {
    if (candidate !== undefined && (await isExecutable(candidate))) {
      known.set(key, candidate);
      return candidate;
    }
  }
  return undefined;
}

/** The package looks for the binary of this platform while it is loaded, and throws if there is none. */
async function packagedRipgrep(): Promise<string | undefined> {
  try {
    return (await import("@vscode/ripgrep")).rgPath;
  } catch {
    return undefined;
  }
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** One run of ripgrep. */
export interface RipgrepRun {
  readonly binary: string;
  readonly args: readonly string[];
  /** Where it runs, or the descriptor of an open file that is its input. */
  readonly where: { readonly directory: string } | { readonly input: number };
  /** The byte that ends a record of its output. */
  readonly terminator: number;
  readonly timeoutMs: number;
  readonly context: Pick<ToolContext, "signal" | "env" | "processes">;
}

/** How a run ended. `failed`: it could not search at all, `message` says why in its own words. */
export type RipgrepEnd =
  | { readonly how: "ended"; readonly someUnreadable: boolean }
  | { readonly how: "stopped" | "timed_out" | "cancelled" }
  | { readonly how: "failed"; readonly message: string };

/** What to do after a record. */
export type Verdict = "go_on" | "stop";

/** Runs ripgrep and hands over each record of its output, without its terminator, until `visit` has enough. */
export async function runRipgrep(run: RipgrepRun, visit: (record: Buffer) => Promise<Verdict>): Promise<RipgrepEnd> {
  const { signal, processes } = run.context;
  if (signal.aborted) return { how: "cancelled" };
  const child = await start(run);
  if (typeof child === "string") return { how: "failed", message: child };
  const { pid, stdout, stderr } = child;
  if (pid === undefined || stdout === null || stderr === null) return { how: "failed", message: "it could not be started" };
  processes.started(pid);
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const message = collectText(stderr);
  let end: "stopped" | "timed_out" | "cancelled" | undefined;
  const breakOff = (why: "stopped" | "timed_out" | "cancelled") => {
    end ??= why;
    // It only reads: there is nothing it would have to clean up.
    child.kill("SIGKILL");
    stdout.destroy();
  };
  const timer = setTimeout(() => breakOff("timed_out"), run.timeoutMs);
  const onAbort = () => breakOff("cancelled");
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    for await (const record of recordsOf(stdout, run.terminator)) {
      if (end === undefined && (await visit(record)) === "stop") breakOff("stopped");
      if (end !== undefined) break;
    }
    // Its end tells whether it could search at all.
    if (end === undefined) await Promise.race([closed, delay(run.timeoutMs)]);
  } catch (thrown) {
    // Breaking off destroys the stream that is being read: that is how the reading ends then.
    if (end === undefined) throw thrown;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    child.kill("SIGKILL");
    await Promise.race([exited, delay(END_WAIT_MS)]);
    stdout.destroy();
    stderr.destroy();
    if (child.exitCode !== null || child.signalCode !== null) processes.ended(pid);
  }
  if (end !== undefined) return { how: end };
  // 0: found, 1: nothing found, 2: an error, with a message when it was about what was asked (--no-messages hides those about files).
  if (child.exitCode === 2 && message() !== "") return { how: "failed", message: message() };
  if (child.exitCode === null) return { how: "failed", message: `it was ended by ${child.signalCode ?? "somebody"}` };
  return { how: "ended", someUnreadable: child.exitCode === 2 };
}

async function start({ binary, args, where, context }: RipgrepRun): Promise<ChildProcess | string> {
  try {
    const child = spawn(binary, args, {
      ...("directory" in where ? { cwd: where.directory } : {}),
      stdio: ["input" in where ? where.input : "ignore", "pipe", "pipe"],
      env: { ...context.env, [CALL_VARIABLE]: newCallMark() },
      // A group of its own: Ctrl-C is not meant for it (B110), and the next start can end it if this process is killed.
      detached: true,
    });
    if (child.pid === undefined) return messageOf(await new Promise<unknown>((resolve) => child.once("error", resolve)));
    child.on("error", () => {}); // A failed kill: it is gone then.
    return child;
  } catch (thrown) {
    return systemCode(thrown) === "E2BIG" ? "the pattern is too long for the operating system" : messageOf(thrown);
  }
}

/** Cuts a stream into records (law 2). What comes after the last terminator was broken off and is dropped. */
async function* recordsOf(stream: AsyncIterable<Buffer>, terminator: number): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(terminator, start);
      const piece = chunk.subarray(start, end === -1 ? chunk.length : end).subarray(0, MAX_RECORD_BYTES - length);
      if (piece.length > 0) parts.push(piece);
      length += piece.length;
      if (end === -1) break;
      yield Buffer.concat(parts);
      parts = [];
      length = 0;
      start = end + 1;
    }
  }
}

/** Keeps the start of what comes. */
function collectText(stream: Readable): () => string {
  let text = "";
  stream.setEncoding("utf8");
  stream.on("error", () => {});
  stream.on("data", (chunk: string) => {
    if (text.length < MAX_MESSAGE_CHARS) text += chunk.slice(0, MAX_MESSAGE_CHARS - text.length);
  });
  return () => text.trim().replace(/^rg: /, "");
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
