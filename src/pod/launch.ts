import { rmSync } from "node:fs";
import type { Socket } from "node:net";
import { dirname } from "node:path";
import { systemClock } from "../base/clock.ts";
import { runDetached } from "../base/detach.ts";
import { AppError } from "../base/errors.ts";
import { stderrLogger } from "../base/logger.ts";
import { checkModelRef, openModel } from "../llm/open-model.ts";
import type { LaunchOrder, LaunchReport } from "../protocol/launch.ts";
import type { ScopeEnforcement } from "../protocol/scope-rule.ts";
import type { ClaimResult, Leftover } from "../registry/claim.ts";
import { type Environment, type Places, resolvePlaces, socketPath } from "../registry/places.ts";
import type { HeadMark } from "../registry/pod-row.ts";
import { openRegistry, type Registry } from "../registry/registry.ts";
import { isReadOnly } from "../registry/scope.ts";
import type { ChainHead } from "../session-log/line.ts";
import { endCallsOfProcess, endProcessGroup } from "../tools/process-tree.ts";
import { createScopeGuard } from "../tools/scope-guard.ts";
import type { ToolContext } from "../tools/tool.ts";
import { toolSet } from "../tools/tool-set.ts";
import { listenUnix, type UnixListener, unixAddress } from "../transport/unix-socket.ts";
import { requestBudget } from "../turn/interceptor.ts";
import { Controller } from "./controller.ts";
import { createSession, findTarget, type OpenSession, restoreSession } from "./open-session.ts";
import { Pod } from "./pod.ts";
import { RegistryReporter } from "./registry-reporter.ts";
import { ClientConnection } from "./socket-server.ts";

/** The shell is not fenced by the operating system in this version: scope is kept by the file tools. */
const SCOPE_ENFORCEMENT: ScopeEnforcement = "tools_only";
/** A Pod whose starter will end it ends by itself when nobody claimed it by then. */
const UNCLAIMED_MS = 30_000;

/** A Pod that is up, and the way to end it. */
export interface RunningPod {
  readonly report: Extract<LaunchReport, { ok: true }>;
  /** Ends it in order; resolves when the process may exit. Idempotent. */
  end(reason: string): Promise<void>;
  /** Resolves with the exit code when it ended for any reason: 0 after an orderly end, 5 when its disk gave up. */
  readonly ended: Promise<0 | 5>;
}

/**
 * Makes this process a Pod (orchestration.md, Places): finds or makes the session, takes its lock, claims name and scope, listens, and
 * brings the session back to where it can go on. Whatever fails undoes what came before, and so does `signal`: no half state stays.
 */
export async function launchPod(order: LaunchOrder, env: Environment, signal?: AbortSignal): Promise<RunningPod> {
  await using undo = new AsyncDisposableStack();
  const places = resolvePlaces(env);
  const registry = undo.use(openRegistry(places));
  const target = await findTarget(order, places, registry);
  const session =
    target.kind === "existing"
      ? await restoreSession(target.session, order, places, env)
      : await createSession(target.name, order, places, env);
  undo.defer(async () => {
    session.log[Symbol.dispose]();
    session.lock[Symbol.dispose]();
    if (session.restored) return;
    rmSync(session.directory, { recursive: true, force: true });
    // A handle of its own: the other one may be closed by now.
    await using last = openRegistry(places);
    await last.forget(session.state.session);
  });
  const running = await serve(session, { order, env, places, registry, undo, signal });
  undo.move();
  return running;
}

interface Surroundings {
  readonly order: LaunchOrder;
  readonly env: Environment;
  readonly places: Places;
  readonly registry: Registry;
  /** What is to be done when the launch fails, last things first. */
  readonly undo: AsyncDisposableStack;
  readonly signal: AbortSignal | undefined;
}

async function serve(session: OpenSession, surroundings: Surroundings): Promise<RunningPod> {
  const { order, env, places, registry, undo, signal } = surroundings;
  const { state, log } = session;
  const name = state.pod;
  const path = socketPath(places, name);
  const former = session.restored ? await registry.find(state.session) : undefined;
  const claim = await registry.claim({
    name,
    session: state.session,
    cwd: state.cwd,
    address: unixAddress(path),
    scope: state.config.scope,
    scopeEnforcement: SCOPE_ENFORCEMENT,
    model: state.config.model,
    isRestore: session.restored,
  });
  const reporter = new RegistryReporter({ registry, session: state.session, log, logger: stderrLogger });
  if (claim.kind === "claimed") undo.defer(() => reporter.release("it did not start"));
  await endLeftovers(claim.reclaimed);
  refuseIfTaken(claim, name);
  // Also what left its process group, and what started in the moment before the registry was told.
  if (former && former.process.pid !== process.pid) await endCallsOfProcess(former.process.pid);
  signal?.throwIfAborted();
  const providers = session.config.providers.all;
  const running = Promise.withResolvers<0 | 5>();
  const pod = new Pod({
    log,
    state,
    clock: systemClock,
    logger: stderrLogger,
    tools: toolSet({ readOnly: isReadOnly(state.config.scope) }),
    interceptors: [requestBudget],
    scopeEnforcement: SCOPE_ENFORCEMENT,
    openModel: (ref) => openModel(ref, { env, providers, baseDir: state.cwd }),
    checkModel(ref) {
      const problem = checkModelRef(ref, env, providers);
      if (problem) throw problem;
    },
    toolContext: toolContexts({ session, env, reporter, closed: [places.data, places.runtime, places.config, dirname(path)] }),
    onStatus: (status) => reporter.noteStatus(status),
    onGrowth: () => reporter.noteGrowth(),
    onStorageLost: () => void end("storage_failed"),
  });
  const opened = pod.warmUp();
  // A script is checked as a whole before anything is accepted; what a provider needs to load goes on while we start to listen.
  if (!session.restored && state.config.model.startsWith("script:")) await opened;
  else runDetached(opened, () => {});
  const connections = new Set<ClientConnection>();
  let isClaimed = false;
  let unclaimed: NodeJS.Timeout | undefined;
  const controller = new Controller(pod, () => {
    isClaimed = true;
    clearTimeout(unclaimed);
  });
  const listener = await listenUnix(path, (socket: Socket) => {
    const connection = new ClientConnection(socket, controller, stderrLogger);
    connections.add(connection);
    socket.once("close", () => connections.delete(connection));
  });
  let ending: Promise<void> | undefined;
  const end = (reason: string): Promise<void> => {
    ending ??= endAll({ pod, reason, listener, connections, reporter, session, registry }).then(
      () => running.resolve(log.failure === undefined ? 0 : 5),
      running.reject,
    );
    return ending;
  };
  undo.defer(() => end("it did not start"));
  pod.onClosed = (reason) => void end(reason);
  const shortened = former?.head && describeShortening(former.head, log.head);
  if (shortened) pod.alerter.raise("error", "log_shortened", shortened);
  if (session.wanted) {
    const changed = await pod.change({ name: "set_config", params: session.wanted });
    if (!changed.ok) throw new AppError("configuration", changed.refusal.message, { hint: changed.refusal.hint });
  }
  await pod.restore();
  signal?.throwIfAborted();
  if (order.claimed && !isClaimed) unclaimed = setTimeout(() => void end("nobody claimed it"), UNCLAIMED_MS);
  const notes = [...places.notes, ...session.notes, ...(shortened ? [shortened] : [])];
  if (!isReadOnly(state.config.scope)) notes.push("Scope is kept by the file tools only: the shell can write wherever you can.");
  const report = {
    ok: true as const,
    name,
    session: state.session,
    address: listener.address,
    pid: process.pid,
    restored: session.restored,
    notes,
  };
  return { report, end, ended: running.promise };
}

interface Everything {
  readonly pod: Pod;
  readonly reason: string;
  readonly listener: UnixListener;
  readonly connections: ReadonlySet<ClientConnection>;
  readonly reporter: RegistryReporter;
  readonly session: OpenSession;
  readonly registry: Registry;
}

/** The order matters: the log first, then nobody new, then the name is free, and last the lock. */
async function endAll({ pod, reason, listener, connections, reporter, session, registry }: Everything): Promise<void> {
  await pod.close(reason);
  await listener.close();
  for (const connection of connections) connection.close();
  await reporter.release(reason);
  session.log[Symbol.dispose]();
  session.lock[Symbol.dispose]();
  await registry[Symbol.asyncDispose]();
}

/** What the registry's head mark tells about a log that lost its end, which no chain can show (docs/session-log.md, head mark). */
function describeShortening(mark: HeadMark, head: ChainHead): string | undefined {
  if (mark.seq < head.seq || (mark.seq === head.seq && mark.hash === head.hash)) return undefined;
  return `The log ends at entry ${head.seq}, but entry ${mark.seq} was on disk before: its end was cut off or replaced.`;
}

async function endLeftovers(leftovers: readonly Leftover[]): Promise<void> {
  for (const { name, groups } of leftovers) {
    for (const group of groups) {
      stderrLogger.warn(`ending process group ${group}, which the killed Pod ${name} left behind`);
      await endProcessGroup(group);
    }
  }
}

function refuseIfTaken(claim: ClaimResult, name: string): void {
  switch (claim.kind) {
    case "claimed":
      return;
    case "name_taken":
      throw new AppError("already_exists", `a Pod named ${name} is running (process ${claim.holder.process.pid})`, {
        hint: `use another name, or \`wakeful attach ${name}\``,
      });
    case "session_taken":
      throw new AppError("busy", `the session is owned by ${claim.holder.name} (process ${claim.holder.process.pid})`, {
        hint: "attach to it, or stop it first",
      });
    case "scope_held": {
      const { holder, path } = claim;
      throw new AppError("busy", `${path} may be written by the Pod ${holder.name} (process ${holder.process.pid}) only`, {
        hint: `give this Pod another scope (--scope PATH, or --scope PATH:read), or stop ${holder.name}`,
        details: { path, holder: holder.name, pid: holder.process.pid },
      });
    }
  }
}

/** Keys are for the model's adapter, not for what a tool runs. */
const SECRET = /(_API_KEY|_AUTH_TOKEN|_ACCESS_KEY|_SECRET|_SECRET_KEY|_PASSWORD)$/i;

function toolContexts(parts: {
  readonly session: OpenSession;
  readonly env: Environment;
  readonly reporter: RegistryReporter;
  /** Folders that no scope opens: ours, and where the socket is. */
  readonly closed: readonly string[];
}): (call: Pick<ToolContext, "callId" | "signal" | "onProgress">) => ToolContext {
  const { session, env, reporter, closed } = parts;
  const { state } = session;
  const scope = createScopeGuard({ scope: () => state.config.scope, closed });
  const readFiles = new Map<string, string>();
  const baseEnv: Record<string, string> = { WAKEFUL_POD: state.pod };
  // Also the names that the configuration gives for keys: those can be any.
  const keyVariables = new Set([...session.config.providers.all.values()].flatMap((provider) => provider.keyVariables));
  for (const [key, value] of Object.entries(env)) {
    if (value !== undefined && !SECRET.test(key) && !keyVariables.has(key)) baseEnv[key] = value;
  }
  return ({ callId, signal, onProgress }) => ({
    callId,
    signal,
    onProgress,
    cwd: state.cwd,
    scope,
    readFiles,
    processes: reporter,
    env: state.turn ? { ...baseEnv, WAKEFUL_CHAIN: `${state.turn.chain.id}:${state.turn.chain.hops}` } : baseEnv,
    limits: { bashTimeoutS: state.config.limits.bash_timeout_s, outputChars: state.config.limits.tool_output_chars },
  });
}
