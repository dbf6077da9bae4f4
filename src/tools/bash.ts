import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { readlinkSync } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable, type Writable } from "node:stream";
import * as z from "zod";
import { CALL_DESCRIPTOR, CALL_VARIABLE } from "../base/call-mark.ts";
import { messageOf, systemCode } from "../base/errors.ts";
import { OutputCollector } from "./output-collector.ts";
import { groupExists } from "./process-scan.ts";
import { type Ended, endTree, newCallMark } from "./process-tree.ts";
import { ProgressFeed } from "./progress-feed.ts";
import { shown } from "./scope-guard.ts";
import { findShell } from "./shell.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";
import { failure, toSummary } from "./tool-output.ts";

const DEFAULT_TIMEOUT_S = 120;
/** What output and background processes get to end by themselves after the shell did. */
const SETTLE_MS = 100;
/** What the last output gets to arrive after everything was ended. */
const DRAIN_MS = 1000;
/** Room for the notes behind the output. */
const NOTE_CHARS = 400;

const Input = z.strictObject({
  command: z.string().describe("Command line for bash -c"),
  timeout_s: z.number().min(1).optional().describe(`Time limit in seconds (default ${DEFAULT_TIMEOUT_S})`),
  description: z.string().optional().describe("A few words for people: what it does"),
});
type Input = z.infer<typeof Input>;

/** Runs a shell command and ends everything it started with it. */
export const bashTool: Tool<Input> = {
  name: "Bash",
  description:
    "Runs a command with bash in the working directory, without input, and shows its output (stdout and stderr together) and exit code. Each call is a new shell; everything it started is ended when the command ends, so nothing goes on in the background. Write to stderr with >&2, not /dev/stderr. For files prefer Read, Write, Edit, Glob and Grep.",
  input: Input,
  effect: "write",
  async run(input, context) {
    const label = `Bash: ${input.description ?? input.command}`;
    const refused = (reason: string) => failure(label, reason, context.limits.outputChars);
    if (context.signal.aborted) return refused("The call was cancelled; nothing was run.");
    // B111: no argument of a process can hold it.
    if (input.command.includes("\0"))
      return refused("The command holds a NUL character: write it as \\0 for printf instead. Nothing was run.");
    const noDirectory = await whyNoDirectory(context.cwd);
    if (noDirectory !== undefined) return refused(noDirectory);
    const mark = newCallMark();
    const started = await start(input.command, mark, context);
    if (typeof started === "string") return refused(started);
    return await attend(started, { input, label, mark, context });
  },
};

/** B96: the error of spawn would blame the shell. */
async function whyNoDirectory(cwd: string): Promise<string | undefined> {
  try {
    if ((await stat(cwd)).isDirectory()) return undefined;
    return `The working directory ${shown(cwd)} is no longer a directory. Nothing was run: no command can start there until it is back.`;
  } catch (thrown) {
    const why = systemCode(thrown) === "ENOENT" ? "no longer exists" : `cannot be used (${messageOf(thrown)})`;
    return `The working directory ${shown(cwd)} ${why}. Nothing was run: no command can start there until it is back.`;
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly processGroup: number;
  readonly streams: readonly Readable[];
}

/** Resolves with the reason when the shell cannot be started. */
async function start(command: string, mark: string, { cwd, env }: ToolContext): Promise<Started | string> {
  const shell = await findShell(env["PATH"]);
  const between = new Array<"ignore">(CALL_DESCRIPTOR - 3).fill("ignore");
  let child: ChildProcess;
  try {
    // One pipe for both outputs keeps their order; what the shell says before that line runs (a syntax error) comes through the other.
    child = spawn(shell, ["-c", `exec 2>&1; ${command}`], {
      cwd,
      env: { ...env, [CALL_VARIABLE]: mark },
      detached: true,
      stdio: ["ignore", "pipe", "pipe", ...between, "pipe"],
    });
  } catch (thrown) {
    return startFailureText(thrown, cwd);
  }
  if (child.pid === undefined) {
    const thrown = await new Promise<unknown>((resolve) => child.once("error", resolve));
    return (await whyNoDirectory(cwd)) ?? startFailureText(thrown, cwd);
  }
  // Node reports a failed kill this way too; we send signals ourselves.
  child.on("error", () => {});
  // The type of `stdio` knows only five.
  const pipes: readonly (Readable | Writable | null | undefined)[] = child.stdio;
  const streams = [child.stdout, child.stderr, pipes[CALL_DESCRIPTOR]].filter((stream) => stream instanceof Readable);
  return { child, processGroup: child.pid, streams };
}

function startFailureText(thrown: unknown, cwd: string): string {
  if (systemCode(thrown) === "E2BIG")
    return "The command is too long for the operating system. Write it to a file with Write and run that.";
  return `The shell could not be started in ${shown(cwd)}: ${messageOf(thrown)}`;
}

interface Call {
  readonly input: Input;
  readonly label: string;
  readonly mark: string;
  readonly context: ToolContext;
}

/** From the running shell to the answer: collect output, wait for an end, leave nothing behind. */
async function attend({ child, processGroup, streams }: Started, { input, label, mark, context }: Call): Promise<ToolOutput> {
  const { limits, processes, signal } = context;
  processes.started(processGroup);
  const tree = { processGroup, mark, descriptor: descriptorOf(processGroup) };
  const output = new OutputCollector(limits.outputChars);
  const progress = new ProgressFeed((text) => context.onProgress(text));
  for (const stream of streams) {
    stream.on("error", () => {}); // A reset of the pipe is its end: `close` follows.
    stream.on("data", (chunk: Buffer) => {
      output.add(chunk);
      progress.add(chunk);
    });
  }
  const exited = new Promise<"exited">((resolve) => child.once("exit", () => resolve("exited")));
  const closed = new Promise<"closed">((resolve) => child.once("close", () => resolve("closed")));
  const timeoutS = Math.min(input.timeout_s ?? DEFAULT_TIMEOUT_S, limits.bashTimeoutS);

  const how = await firstOf(exited, timeoutS * 1000, signal);
  let cleanUp: Ended = { ended: 0, resisting: 0 };
  // Cheap for the usual command: all pipes are closed and the group is empty right away.
  if (how !== "exited" || (await firstOf(closed, SETTLE_MS)) !== "closed" || groupExists(processGroup)) {
    cleanUp = await endTree(tree);
    await firstOf(closed, DRAIN_MS);
    for (const stream of streams) stream.destroy();
  }
  progress.end();
  if (cleanUp.resisting === 0) processes.ended(processGroup);
  return answer({
    how,
    exitCode: child.exitCode,
    exitSignal: child.signalCode,
    cleanUp,
    timeoutS,
    output,
    label,
    maxChars: limits.outputChars,
  });
}

/** The socket every process of the call inherits; by it a process is found that has left its group and cleaned its environment. */
function descriptorOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/fd/${CALL_DESCRIPTOR}`);
  } catch {
    // It has ended already, or there is no /proc: group and mark must do.
    return undefined;
  }
}

/** Waits for an event, a time limit or a cancel, whichever is first. */
function firstOf<T>(event: Promise<T>, limitMs: number, signal?: AbortSignal): Promise<T | "timed_out" | "cancelled"> {
  return new Promise((resolve) => {
    const finish = (how: T | "timed_out" | "cancelled") => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      resolve(how);
    };
    const onAbort = () => finish("cancelled");
    const timer = setTimeout(() => finish("timed_out"), limitMs);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    event.then(finish, () => finish("timed_out"));
  });
}

interface Finished {
  readonly how: "exited" | "timed_out" | "cancelled";
  readonly exitCode: number | null;
  readonly exitSignal: NodeJS.Signals | null;
  readonly cleanUp: Ended;
  readonly timeoutS: number;
  readonly output: OutputCollector;
  readonly label: string;
  readonly maxChars: number;
}

function answer(finished: Finished): ToolOutput {
  const { how, exitCode, cleanUp, output, label, maxChars } = finished;
  const ending = endingText(finished);
  const notes = [ending];
  if (how === "exited" && cleanUp.ended > 0) notes.push("what it left running in the background was ended");
  if (cleanUp.resisting > 0) notes.push(`${cleanUp.resisting} could not be ended, not even by KILL`);
  if (output.totalBytes === 0) notes.unshift("no output");
  const text = output.text(Math.max(0, maxChars - NOTE_CHARS));
  const gap = text === "" || text.endsWith("\n") ? "" : "\n";
  return {
    summary: toSummary(`${label.slice(0, 120)} (${ending})`),
    content: `${text}${gap}[${notes.join("; ")}]`,
    isError: how !== "exited" || exitCode !== 0,
  };
}

function endingText({ how, exitCode, exitSignal, timeoutS }: Finished): string {
  switch (how) {
    case "exited":
      return exitSignal === null ? `exit code ${exitCode ?? "unknown"}` : `ended by ${exitSignal}`;
    case "timed_out":
      return `time limit of ${timeoutS} s reached: the command and everything it started were ended`;
    case "cancelled":
      return "cancelled: the command and everything it started were ended";
  }
}
