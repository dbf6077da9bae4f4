import { existsSync, realpathSync, rmSync, statSync } from "node:fs";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import { VERSION } from "../base/version.ts";
import { shellWord } from "../client/shell-word.ts";
import { type Config, loadConfig } from "../config/load-config.ts";
import { loadPrompts, renderSystemPrompt } from "../config/prompts.ts";
import { defaultScope, parseScopeFlags } from "../config/scope-flags.ts";
import type { LaunchOrder } from "../protocol/launch.ts";
import type { ReasoningEffort, SessionConfig } from "../protocol/session-config.ts";
import { type OwnerLock, takeOwnerLock } from "../registry/owner-lock.ts";
import { type Environment, type Places, sessionDir } from "../registry/places.ts";
import { freshPodName, parsePodName } from "../registry/pod-name.ts";
import type { PodRow } from "../registry/pod-row.ts";
import { makePrivateDir } from "../registry/private-dir.ts";
import { openRegistry, type Registry } from "../registry/registry.ts";
import { isReadOnly } from "../registry/scope.ts";
import { type EntryOf, LOG_FORMAT } from "../session-log/entry.ts";
import { listFiles } from "../session-log/file-names.ts";
import { applyEntry, checkEntry } from "../session-log/fold.ts";
import { LogFile } from "../session-log/log-file.ts";
import { emptyState, type SessionState } from "../session-log/session-state.ts";
import { toolDefinitions, toolSet } from "../tools/tool-set.ts";

/** A session this process owns: its lock, its log and the fold of it. */
export interface OpenSession {
  readonly directory: string;
  readonly lock: OwnerLock;
  readonly log: LogFile;
  readonly state: SessionState;
  readonly restored: boolean;
  /** Settings that the order asks a restored session to change to. */
  readonly wanted?: { readonly model?: string; readonly reasoning?: ReasoningEffort };
  /** The configuration of the directory today; a restored session keeps its own (docs/session-log.md, Restore). */
  readonly config: Config;
  readonly notes: readonly string[];
}

/** What a launch order comes to: a session that exists, or a name for a new one. */
export type Target =
  | { readonly kind: "existing"; readonly session: string; readonly name: string | undefined }
  | { readonly kind: "new"; readonly name: string };

/** Finds what an order wants opened. Never makes anything: a mistyped name starts nothing (field report B85). */
export async function findTarget(order: LaunchOrder, places: Places, registry: Registry): Promise<Target> {
  const { open } = order;
  switch (open.kind) {
    case "new":
      return { kind: "new", name: open.name === undefined ? freshPodName(order.cwd) : parsePodName(open.name) };
    case "named": {
      const name = parsePodName(open.name);
      const row = await registry.find(name);
      // A row whose session was removed, or never came to be, does not keep the name.
      const isThere = row?.name === name && (row.alive || listFiles(sessionDir(places, row.session)).length > 0);
      return isThere ? { kind: "existing", session: row.session, name: row.name } : { kind: "new", name };
    }
    case "latest": {
      const row = await registry.latestIn(order.cwd);
      if (row) return { kind: "existing", session: row.session, name: row.name };
      throw new AppError("not_found", `no session was started in ${order.cwd}`, { hint: "start one without -c" });
    }
    case "restore": {
      const row = await registry.find(open.target);
      if (row) return { kind: "existing", session: row.session, name: row.name };
      // The registry can be lost; the logs are the truth.
      if (/^[A-Za-z0-9_-]{1,128}$/.test(open.target) && listFiles(sessionDir(places, open.target)).length > 0) {
        return { kind: "existing", session: open.target, name: undefined };
      }
      throw new AppError("not_found", `there is no session of the name or id ${JSON.stringify(open.target)}`, {
        hint: "`wakeful ps --all` lists what can be restored",
      });
    }
  }
}

/** Starts a new session: lock, log, and its first entry with everything a request depends on. */
export async function createSession(name: string, order: LaunchOrder, places: Places, env: Environment): Promise<OpenSession> {
  const cwd = realDirectory(order.cwd);
  const config = loadConfig({ cwd, env, places, overrides: { model: order.model, reasoning: order.reasoning } });
  const model = config.model.default;
  if (model === undefined) {
    throw new AppError("configuration", "no model is configured", {
      hint: "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a model with -m or in [model] default; `wakeful demo` needs none",
    });
  }
  const prompts = loadPrompts({ cwd, configDir: places.config });
  const deny = { deny: config.scope.deny, home: places.home };
  const scope = order.scope === undefined ? defaultScope(cwd, deny) : parseScopeFlags(order.scope, cwd, deny);
  const sessionConfig: SessionConfig = {
    model,
    reasoning: config.model.reasoning,
    ...(config.model.maxOutputTokens === undefined ? {} : { max_output_tokens: config.model.maxOutputTokens }),
    scope,
    limits: config.limits,
    prompts: { notification: prompts.prompts.notification.text },
  };
  const readOnly = isReadOnly(scope);
  const session = newId("s");
  const started: EntryOf<"session_started"> = {
    type: "session_started",
    format: LOG_FORMAT,
    session,
    pod: name,
    cwd,
    version: VERSION,
    config: sessionConfig,
    system: renderSystemPrompt(
      { cwd, scope, platform: process.platform, shell: readOnly ? null : "bash" },
      prompts.prompts.system,
    ),
    tools: toolDefinitions(toolSet({ readOnly })).map((tool) => ({ ...tool, inputSchema: toJson(tool.inputSchema) })),
    history: [],
  };
  const directory = sessionDir(places, session);
  using undo = new DisposableStack();
  undo.defer(() => rmSync(directory, { recursive: true, force: true }));
  makePrivateDir(directory);
  const lock = undo.use(await own(directory, session, places));
  const log = undo.use(LogFile.create(directory));
  log.rotateBytes = config.log.rotateBytes;
  const state = emptyState();
  for (const entry of log.append([started], Date.now())) applyEntry(state, entry);
  undo.move();
  return { directory, lock, log, state, restored: false, config, notes: [...config.notes, ...prompts.notes] };
}

/** Opens an existing session: lock first, then every line of its newest file is checked and folded. */
export async function restoreSession(
  session: string,
  order: LaunchOrder,
  places: Places,
  env: Environment,
): Promise<OpenSession> {
  if (order.scope !== undefined) {
    throw new AppError("forbidden", `the session ${session} keeps the scope it was started with`, {
      hint: "leave --scope out, or start a new Pod",
    });
  }
  const directory = sessionDir(places, session);
  if (!existsSync(directory)) {
    throw new AppError("not_found", `the session ${session} has no folder at ${directory}`, {
      hint: "it was removed; start a new one",
    });
  }
  const lock = await own(directory, session, places);
  try {
    const state = emptyState();
    const log = LogFile.open(directory, (entry) => {
      const objection = checkEntry(state, entry);
      if (objection === undefined) applyEntry(state, entry);
      return objection;
    });
    const config = loadConfig({ cwd: existsSync(state.cwd) ? state.cwd : "/", env, places });
    log.rotateBytes = config.log.rotateBytes;
    const wanted = wantedSettings(order, env, places);
    const notes = [...config.notes, ...(wanted ? [] : differences(state, config))];
    return { directory, lock, log, state, restored: true, config, notes, ...(wanted && { wanted }) };
  } catch (thrown) {
    lock[Symbol.dispose]();
    throw thrown;
  }
}

function wantedSettings(order: LaunchOrder, env: Environment, places: Places): OpenSession["wanted"] {
  if (order.model === undefined && order.reasoning === undefined) return undefined;
  const overrides = { model: order.model, reasoning: order.reasoning };
  const { model } = loadConfig({ cwd: order.cwd, env, places, overrides });
  return {
    ...(order.model === undefined || model.default === undefined ? {} : { model: model.default }),
    ...(order.reasoning === undefined ? {} : { reasoning: model.reasoning }),
  };
}

async function own(directory: string, session: string, places: Places): Promise<OwnerLock> {
  const taken = await takeOwnerLock(directory);
  if (taken.kind === "taken") return taken.lock;
  const holder = await livingHolder(session, places);
  if (holder !== undefined) {
    throw new AppError("busy", `the Pod ${holder.name} is alive already (process ${holder.process.pid}, session ${session})`, {
      hint: `talk with it: wakeful attach ${shellWord(holder.name)}`,
    });
  }
  const who = taken.pid === undefined ? "another process" : `process ${taken.pid}`;
  throw new AppError("busy", `the session ${session} is owned by ${who}`, { hint: "attach to the living Pod, or stop it first" });
}

/** The Pod that holds the session, where the registry can say it. */
async function livingHolder(session: string, places: Places): Promise<PodRow | undefined> {
  try {
    await using registry = openRegistry(places);
    const row = await registry.find(session);
    return row?.alive ? row : undefined;
  } catch {
    return undefined; // Only for the wording: the lock has said no already.
  }
}

function realDirectory(cwd: string): string {
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) {
    throw new AppError("not_found", `the working directory ${cwd} is not there`, { hint: "make it, or start in another one" });
  }
  return realpathSync(cwd);
}

/** What today's configuration says otherwise: the session's own settings win, and the difference is shown (field report B63). */
function differences(state: SessionState, config: Config): string[] {
  const notes: string[] = [];
  const now = config.model.default;
  if (now !== undefined && now !== state.config.model)
    notes.push(`The session keeps its model ${state.config.model}; the configuration says ${now}.`);
  if (config.model.reasoning !== state.config.reasoning) {
    notes.push(
      `The session keeps its reasoning effort ${state.config.reasoning}; the configuration says ${config.model.reasoning}.`,
    );
  }
  return notes;
}

function toJson(schema: Readonly<Record<string, unknown>>): EntryOf<"session_started">["tools"][number]["inputSchema"] {
  return JSON.parse(JSON.stringify(schema));
}
