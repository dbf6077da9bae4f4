import { AppError } from "../base/errors.ts";
import type { PodConnection } from "../client/connection.ts";
import { type SpawnedPod, spawnPod } from "../client/spawn-pod.ts";
import type { LaunchOrder } from "../protocol/launch.ts";
import { resolvePlaces } from "../registry/places.ts";
import { usageError } from "./exit.ts";
import { type CliIo, EXIT } from "./io.ts";
import { launchOptions } from "./launch-options.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { realDirectory } from "./real-directory.ts";

/** A Pod that is up and where it came from. */
interface Target {
  readonly name: string;
  readonly session: string;
  readonly address: string;
  readonly pid: number;
  /** True when this command started the process. */
  readonly isOurs: boolean;
}

/**
 * `wakeful run`: one task, from the text to the end of its turn.
 *
 * What it imports at the top is loaded before the Pod process is started, so that is only what starting needs; the rest comes behind
 * it, while the Pod boots (test/e2e/cli-start.test.ts).
 */
export async function runRunCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const plan = planOf(args, io);
  const places = resolvePlaces(io.env);
  // The usual case has nothing to look up: the Pod boots while everything else is loaded.
  const spawned = plan.target === undefined && plan.text !== "-" ? spawnPod(plan.order, { places, env: io.env }) : undefined;
  const { inputText, MAX_TASK_BYTES } = await import("./input-text.ts");
  const text = await endingWith(spawned, inputText(plan.text, io, { maxBytes: MAX_TASK_BYTES }));
  const target = await reachTarget(plan, spawned, io);
  const { connect } = await import("../client/connection.ts");
  const { startRun, watchRun } = await import("./watch-run.ts");
  const { closeRun } = await import("./close-run.ts");
  const { endPod } = await import("./end-pod.ts");
  const { shellWord } = await import("../client/shell-word.ts");
  const { chainOf } = await import("./reach.ts");
  const chain = target.isOurs ? undefined : chainOf(io);
  let connection: PodConnection | undefined;
  let isKept = !target.isOurs || plan.keep;
  try {
    const options = {
      io,
      json: plan.json,
      timeoutMs: plan.timeoutMs,
      connect: () => connect(target.address, { signal: io.signal }),
      params: {
        input: [{ kind: "text" as const, text }],
        if_running: plan.ifRunning,
        ...(chain === undefined ? {} : { chain }),
      },
    };
    const run = await startRun(options);
    connection = run.connection;
    if (plan.detach) {
      isKept = true;
      if (plan.json)
        io.stdout.write(
          `${JSON.stringify({ ...run.accepted, pod: target.name, session: target.session, address: target.address })}\n`,
        );
      else io.stdout.write(`${target.name}\n`);
      io.stderr.write(`${target.name} works on it; see it with: wakeful attach ${shellWord(target.name)}\n`);
      return EXIT.done;
    }
    const result = await watchRun(run, options);
    const code = closeRun(result, target, io, { json: plan.json });
    if (result.left && !isKept) {
      // Leaving at once: the Pod gets the word and ends without us.
      connection.send("shutdown", { reason: "left" });
      isKept = true;
    }
    return code;
  } finally {
    if (!isKept) await endPod(target, { reason: "run is done", ...(connection === undefined ? {} : { connection }) });
    else if (target.isOurs && !plan.detach && plan.keep)
      io.stderr.write(`${target.name} stays; talk with it: wakeful attach ${shellWord(target.name)}\n`);
    await connection?.close();
  }
}

interface Plan {
  readonly text: string;
  readonly order: LaunchOrder;
  /** What to look up first; undefined for a new Pod. */
  readonly target: { readonly kind: "name" | "session"; readonly value: string } | { readonly kind: "latest" } | undefined;
  readonly ifRunning: "reject" | "queue" | "steer";
  readonly timeoutMs: number | undefined;
  readonly detach: boolean;
  readonly keep: boolean;
  readonly json: boolean;
}

const MODES = ["reject", "queue", "steer"] as const;

function planOf(args: ParsedArgs, io: CliIo): Plan {
  const [text = ""] = args.positionals;
  if (text.trim() === "") throw usageError("run: the text is empty", "give a task, or - to read it from standard input");
  const name = args.value("name");
  const session = args.value("restore");
  const latest = args.has("continue");
  if ([name !== undefined, session !== undefined, latest].filter(Boolean).length > 1) {
    throw usageError("run: --name, --continue and --restore exclude each other", "give one of them");
  }
  const mode = args.value("if-running") ?? "reject";
  const ifRunning = MODES.find((known) => known === mode);
  if (ifRunning === undefined) throw usageError(`run: --if-running ${mode}`, `one of ${MODES.join(", ")}`);
  const seconds = args.value("timeout");
  if (seconds !== undefined && !(Number(seconds) > 0 && Number(seconds) <= 2_000_000))
    throw usageError(`run: --timeout ${seconds}`, "a number of seconds above 0");
  const detach = args.has("detach");
  const keep = detach || args.has("keep");
  const open: LaunchOrder["open"] =
    name !== undefined
      ? { kind: "named", name }
      : session !== undefined
        ? { kind: "restore", target: session }
        : latest
          ? { kind: "latest" }
          : { kind: "new" };
  return {
    text,
    order: { cwd: io.cwd, open, ...launchOptions(args), claimed: !keep },
    target:
      name !== undefined
        ? { kind: "name", value: name }
        : session !== undefined
          ? { kind: "session", value: session }
          : latest
            ? { kind: "latest" }
            : undefined,
    ifRunning,
    timeoutMs: seconds === undefined ? undefined : Number(seconds) * 1000,
    detach,
    keep,
    json: args.has("json"),
  };
}

async function reachTarget(plan: Plan, spawned: SpawnedPod | undefined, io: CliIo): Promise<Target> {
  const places = resolvePlaces(io.env);
  let { order } = plan;
  if (plan.target !== undefined) {
    const { findPod, notFound } = await import("../client/find-pod.ts");
    const { openRegistry } = await import("../registry/registry.ts");
    let value: string;
    if (plan.target.kind === "latest") {
      await using registry = openRegistry(places);
      const row = await registry.latestIn(realDirectory(io.cwd), { signal: io.signal });
      if (row === undefined)
        throw new AppError("not_found", `no session was started in ${io.cwd}`, { hint: "start one: wakeful run TEXT" });
      value = row.session;
    } else ({ value } = plan.target);
    const found = await findPod(places, value, { signal: io.signal });
    if (found.kind === "living") {
      const { name, session, address, process: identity } = found.row;
      await adjust(plan, found.row, io);
      return { name, session, address, pid: identity.pid, isOurs: false };
    }
    if (found.kind === "unknown" && plan.target.kind !== "name") throw notFound(value, found);
    if (found.kind === "stopped") {
      order = { ...order, cwd: found.row?.cwd ?? io.cwd, open: { kind: "restore", target: found.row?.session ?? value } };
    }
  }
  const { launchedPod } = await import("../client/launched-pod.ts");
  const { showNotes } = await import("./reach.ts");
  const interrupted = new AbortController();
  const release = io.onInterrupt(() => interrupted.abort(new AppError("cancelled", "interrupted before the Pod was ready")));
  try {
    const signal = AbortSignal.any([io.signal, interrupted.signal]);
    const ready = await launchedPod(spawned ?? spawnPod(order, { places, env: io.env }), { places, signal });
    showNotes(ready, io);
    return { name: ready.name, session: ready.session, address: ready.address, pid: ready.pid, isOurs: true };
  } finally {
    release();
  }
}

/** Settings for a Pod that is alive already: model and effort change, scope cannot. */
async function adjust(plan: Plan, row: { readonly name: string; readonly address: string }, io: CliIo): Promise<void> {
  const { model, reasoning, scope } = plan.order;
  if (scope !== undefined) {
    const { shellWord } = await import("../client/shell-word.ts");
    throw new AppError("busy", `Pod ${row.name} is alive: its scope cannot be changed`, {
      hint: `stop it first: wakeful stop ${shellWord(row.name)}`,
    });
  }
  if (model === undefined && reasoning === undefined) return;
  const { connect, resultOf } = await import("../client/connection.ts");
  await using connection = await connect(row.address, { signal: io.signal });
  const changes = { ...(model === undefined ? {} : { model }), ...(reasoning === undefined ? {} : { reasoning }) };
  resultOf(await connection.request("set_config", changes, { signal: io.signal, deadlineMs: 10_000 }));
}

/** The value of `work`; where it fails, a Pod that was spawned for it goes. */
async function endingWith<Result>(spawned: SpawnedPod | undefined, work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (thrown) {
    if (spawned !== undefined) {
      const { discardPod } = await import("../client/spawn-pod.ts");
      discardPod(spawned);
    }
    throw thrown;
  }
}
