import { setTimeout as startTimer } from "node:timers";
import { assertNever } from "../base/assert-never.ts";
import type { Clock } from "../base/clock.ts";
import { AppError, toAppError } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { plural } from "../base/text.ts";
import type { Model } from "../llm/model.ts";
import type { Chain } from "../protocol/chain.ts";
import { type Refusal, toRefusal } from "../protocol/error-code.ts";
import type { CommittedEvent, LiveEvent } from "../protocol/event.ts";
import { MAX_HOPS } from "../protocol/limits.ts";
import type { MethodParams, MethodResult, Snapshot } from "../protocol/method.ts";
import type { ScopeEnforcement } from "../protocol/scope-rule.ts";
import type { Status, TurnTrigger } from "../protocol/status.ts";
import type { NewEntry } from "../session-log/entry.ts";
import type { LogFile } from "../session-log/log-file.ts";
import { inputWaits } from "../session-log/pending.ts";
import type { SessionState } from "../session-log/session-state.ts";
import type { Tool } from "../tools/tool.ts";
import { closeTurnEntries } from "../turn/close-turn.ts";
import type { Interceptor } from "../turn/interceptor.ts";
import { restoreEntries } from "../turn/restore.ts";
import { TurnLoop } from "../turn/turn-loop.ts";
import type { TurnPort } from "../turn/turn-port.ts";
import { changedConfig, inputEntries, notificationItem } from "./accepted-entries.ts";
import { Alerter } from "./alerter.ts";
import { Broadcaster, type EventSink } from "./broadcaster.ts";
import { CommitDoor, type StorageWatch } from "./commit.ts";
import { LiveBuffer } from "./live-buffer.ts";
import { ModelSlot } from "./model-slot.ts";
import { type ChangingCall, type Decision, decide, type Phase } from "./pod-state.ts";
import { checkPrompt, type PromptCheck } from "./prompt-check.ts";
import { eventsBefore, headCursor, newestEvents, olderPendingEvents, readOutput } from "./snapshot.ts";
import { chainOfInput, chainOfOwed } from "./turn-chain.ts";
import { TurnRunner } from "./turn-runner.ts";
import { Waker } from "./waker.ts";

/** What a method comes to: its result, or why it was refused. */
export type Outcome<R> = { readonly ok: true; readonly result: R } | { readonly ok: false; readonly refusal: Refusal };

/** What a Pod is made of. `state` is the fold of `log` and is changed by the Pod's commit door only. */
export interface PodParts {
  readonly log: LogFile;
  readonly state: SessionState;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tools: readonly Tool[];
  readonly interceptors: readonly Interceptor[];
  readonly scopeEnforcement: ScopeEnforcement;
  readonly openModel: (ref: string) => Promise<Model>;
  /** Says whether a model reference could be opened; throws `configuration` if not. */
  readonly checkModel: (ref: string) => void;
  readonly toolContext: TurnPort["toolContext"];
  /** Told after every change of the status, for the registry; must not throw. */
  readonly onStatus: (status: Status) => void;
  /** Told after every commit; must not throw. */
  readonly onGrowth: () => void;
  /** Told when nothing can be written any more, maybe several times: the process should end. */
  readonly onStorageLost: (error: AppError) => void;
}

/** How long an orderly end waits for a running turn to stop. */
const CLOSE_GRACE_MS = 4000;
/** What could not be written is tried again after this long: a disk that has room again tells nobody. */
const STORAGE_RETRY_MS = 2000;

/**
 * A Pod without its process and socket: starts, pauses, cancels and resumes turns, accepts inputs and notifications, and wakes by
 * itself. Methods are handled synchronously in the order they arrive: there is no queue in front of them that could overflow; only
 * the answers wait (for the sync, or for a turn to stop).
 */
export class Pod {
  readonly #parts: PodParts;
  readonly #door: CommitDoor;
  readonly #broadcaster = new Broadcaster();
  readonly #alerter: Alerter;
  readonly #live = new LiveBuffer();
  readonly #model: ModelSlot;
  readonly #runner: TurnRunner;
  readonly #waker: Waker;
  #closing: Promise<void> | undefined;
  /** Inputs up to here waited when the session was restored; until a turn starts they start none (N6). */
  #inputsAfter: number;
  /** Told once the end is on disk: the process may end. */
  onClosed: (reason: string) => void = () => {};
  #statusText = "";
  #storageTimer: NodeJS.Timeout | undefined;

  constructor(parts: PodParts) {
    this.#parts = parts;
    const { log, state, clock } = parts;
    const storage: StorageWatch = {
      refused: (error) => {
        this.#alerter.raise("error", "storage_failed", error.message);
        this.#storageTimer ??= startTimer(() => this.#tryStorageAgain(), STORAGE_RETRY_MS).unref();
      },
      mended: () => this.#alerter.clear("storage_failed"),
      notRotated: (error) => this.#alerter.raise("warning", "log_not_rotated", error.message),
      rotated: () => this.#alerter.clear("log_not_rotated"),
      lost: (error) => parts.onStorageLost(error),
    };
    this.#door = new CommitDoor({ log, state, clock, publish: (events) => this.#publishCommitted(events), storage });
    this.#alerter = new Alerter(clock, (alert) => this.#broadcaster.state({ type: "alert", alert }));
    this.#inputsAfter = state.lastSeq;
    this.#model = new ModelSlot(parts.openModel);
    const loop = new TurnLoop({
      state,
      commit: (entries) => this.#door.commit(entries),
      synced: () => this.#door.synced(),
      publishLive: (event) => this.#publishLive(event),
      model: () => this.#model.get(state.config.model),
      tools: parts.tools,
      toolContext: parts.toolContext,
      interceptors: parts.interceptors,
      clock,
      random: Math.random,
    });
    this.#runner = new TurnRunner(loop, {
      state,
      commit: (entries) => void this.#door.commit(entries),
      isClosing: () => this.#closing !== undefined,
      onFailed: (error) => this.#alerter.raise("error", "turn_failed", `turn ${state.turns} failed: ${error.message}`),
      onBroken: (error) => this.#onBroken(error),
      onChange: () => {
        this.#waker.ifDue();
        this.#changed();
      },
    });
    this.#waker = new Waker({
      state,
      clock,
      alerter: this.#alerter,
      mayStart: () => !this.#closing && !this.#runner.isRunning && !this.#runner.isStuck,
      inputsAfter: () => this.#inputsAfter,
      start: (trigger) => this.#wake(trigger),
      onHeld: () => this.#changed(),
    });
  }

  get state(): Readonly<SessionState> {
    return this.#parts.state;
  }

  get alerter(): Alerter {
    return this.#alerter;
  }

  /** What the Pod does now, as methods see it. */
  get phase(): Phase {
    if (this.#closing) return "closing";
    if (this.#runner.isRunning) return "running";
    return this.state.turn?.phase === "paused" ? "paused" : "idle";
  }

  get status(): Status {
    const { state } = this;
    const phase = this.phase;
    return {
      state: phase === "closing" ? "stopped" : phase,
      turn: state.turns,
      trigger: state.turn?.trigger ?? null,
      last_outcome: state.lastOutcome ?? null,
      pending: state.pending.size,
      wake_held: phase === "paused" && state.owed.size > 0 ? { reason: "paused" } : (this.#waker.held ?? null),
      model: state.config.model,
      usage: state.usage,
      scope_enforcement: this.#parts.scopeEnforcement,
    };
  }

  /** Brings a restored session back to where it can go on, then applies the wake rule (N6). A new session has nothing to mend. */
  async restore(): Promise<void> {
    const { repair } = this.#parts.log;
    if (repair.kind === "cut") {
      this.#alerter.raise(
        "warning",
        "tail_repaired",
        `the log ended in ${plural(repair.bytes, "byte")} of an unfinished entry; they were cut off`,
      );
    }
    // In one append: half a repair would be taken for an orderly end by the next restore.
    const entries = restoreEntries(this.state);
    this.#door.commit(entries);
    if (entries.some((entry) => entry.type === "turn_ended"))
      this.#alerter.raise("warning", "turn_interrupted", `turn ${this.state.turns} was interrupted; \`resume\` goes on`);
    if (inputWaits(this.state)) {
      this.#alerter.raise(
        "info",
        "input_waits",
        "a message sent before the restart waits; it enters the next request, or send `resume`",
      );
    }
    if (entries.length > 0) await this.#door.synced();
    this.#waker.ifDue();
    this.#changed(); // The registry's row is mended from the log, also where nothing changes.
  }

  /** Handles a method that changes the session. Everything up to the acceptance happens before this returns its promise. */
  change<C extends ChangingCall>(call: C): Promise<Outcome<MethodResult<C["name"]>>>;
  change(call: ChangingCall): Promise<Outcome<MethodResult<ChangingCall["name"]>>> {
    try {
      if (call.name === "run") {
        const checked = checkPrompt(this.#parts.interceptors, call.params.input);
        if (checked instanceof Promise) return checked.then((decision) => this.#decided(call, decision)).catch(refusalOf);
        return this.#decided(call, checked).catch(refusalOf);
      }
      return this.#decided(call, CONTINUE).catch(refusalOf);
    } catch (thrown) {
      return Promise.resolve(refusalOf(thrown));
    }
  }

  #decided(call: ChangingCall, prompt: PromptCheck): Promise<Outcome<MethodResult<ChangingCall["name"]>>> {
    // Whoever wants the Pod gone gets that, also from a disk that takes nothing.
    if (call.name !== "shutdown") this.#runner.writeUnwritten();
    const situation = { state: this.state, phase: this.phase, nowMs: this.#parts.clock.nowMs() };
    const decision = decide(situation, call);
    if (prompt.refused !== undefined && decision.kind !== "refuse") {
      return Promise.resolve({ ok: false, refusal: { code: "invalid_input", message: prompt.refused } });
    }
    return this.#carryOut(decision, call, prompt);
  }

  async #carryOut(
    decision: Decision,
    call: ChangingCall,
    prompt: PromptCheck,
  ): Promise<Outcome<MethodResult<ChangingCall["name"]>>> {
    switch (decision.kind) {
      case "refuse":
        return { ok: false, refusal: decision.refusal };
      case "answer_again":
        await this.#door.synced();
        return { ok: true, result: decision.answered.result };
      case "nothing":
        return DONE;
      case "start_with_input": {
        if (call.name !== "run") break;
        // One append: what is refused has not ended the paused turn either.
        const closing = decision.abandon ? closeTurnEntries(this.state, "abandoned") : [];
        const entries = inputEntries(call.params, "turn", prompt);
        const turn = this.state.turns + 1;
        const seqs = this.#startTurn("user", entries[0].chain, [...closing, ...entries]);
        await this.#door.synced(); // N8
        return { ok: true, result: { turn, seq: seqs[closing.length] ?? 0 } };
      }
      case "queue_input": {
        if (call.name !== "run") break;
        const [placed] = this.#door.commit(inputEntries(call.params, decision.waitsFor, prompt));
        this.#changed();
        await this.#door.synced();
        return { ok: true, result: { queued: true, seq: placed?.seq ?? 0 } };
      }
      case "accept_item": {
        if (call.name !== "notify") break;
        return this.#acceptNotification(call.params, decision);
      }
      case "pause_turn": {
        const left = await this.#runner.pause(new AppError("cancelled", "a pause was asked for"));
        this.#runner.writeUnwritten();
        await this.#door.synced();
        return left === "paused" ? DONE : ENDED_INSTEAD;
      }
      case "resume_turn": {
        const turn = this.state.turn?.turn ?? 0;
        this.#door.commit([{ type: "turn_resumed", turn }]);
        this.#waker.stop();
        this.#runner.start();
        await this.#door.synced();
        return { ok: true, result: { turn } };
      }
      case "start_resumed": {
        const turn = this.state.turns + 1;
        this.#startTurn("resume", chainOfOwed(this.state), []);
        await this.#door.synced();
        return { ok: true, result: { turn } };
      }
      case "cancel_turn": {
        await this.#runner.cancel(new AppError("cancelled", "the turn was cancelled"));
        this.#runner.writeUnwritten();
        await this.#door.synced();
        return DONE;
      }
      case "drop_paused_turn":
        this.#door.commit(closeTurnEntries(this.state, "cancelled"));
        this.#waker.ifDue();
        this.#changed();
        await this.#door.synced();
        return DONE;
      case "change_config": {
        if (call.name !== "set_config") break;
        const changes = changedConfig(this.state, call.params);
        if (changes.model !== undefined) this.#parts.checkModel(changes.model);
        if (Object.keys(changes).length > 0) this.#door.commit([{ type: "config_changed", changes }]);
        this.#changed();
        await this.#door.synced();
        return DONE;
      }
      case "close":
        await this.close(call.name === "shutdown" ? (call.params.reason ?? "shutdown") : "shutdown");
        return DONE;
      default:
        return assertNever(decision, "decision");
    }
    throw new AppError("internal", `${decision.kind} does not belong to ${call.name}`);
  }

  async #acceptNotification(
    params: MethodParams<"notify">,
    decision: Extract<Decision, { kind: "accept_item" }>,
  ): Promise<Outcome<MethodResult<"notify">>> {
    const { id } = params;
    const item = notificationItem(params, { wake: decision.wake, state: this.state });
    const answers = id === undefined ? {} : { answers: { id, state: decision.state } };
    const [placed] = this.#door.commit([{ type: "system_items", items: [item], ...answers }]);
    if (params.wake && !decision.wake) {
      this.#alerter.raise(
        "warning",
        "hop_limit",
        `a notification over more than ${MAX_HOPS} hops wakes nobody; it enters the next request`,
      );
    }
    this.#waker.ifDue();
    this.#changed();
    await this.#door.synced(); // N8
    return { ok: true, result: { item: item.id, seq: placed?.seq ?? 0, state: decision.state } };
  }

  // Turns

  /** Commits `before` and `turn_started` in one append and runs the turn; returns the seqs. */
  #startTurn(trigger: TurnTrigger, chain: Chain, before: readonly NewEntry[]): number[] {
    const placed = this.#door.commit([...before, { type: "turn_started", turn: this.state.turns + 1, trigger, chain }]);
    this.#inputsAfter = 0;
    this.#waker.stop();
    this.#runner.start();
    return placed.map((entry) => entry.seq);
  }

  #wake(trigger: "user" | "notification"): void {
    try {
      this.#startTurn(trigger, trigger === "user" ? chainOfInput(this.state) : chainOfOwed(this.state), []);
    } catch (thrown) {
      // The commit door has raised the alert and tries again.
      this.#parts.logger.warn(`a turn is due but cannot be recorded: ${toAppError(thrown).message}`);
    }
  }

  /** Nobody may come whose method would try: what is owed must not wait for that (N6, N8). */
  #tryStorageAgain(): void {
    this.#storageTimer = undefined;
    if (this.#closing) return;
    try {
      this.#runner.writeUnwritten();
    } catch {
      return; // Refused again: the commit door has set the timer again.
    }
    this.#waker.ifDue();
    this.#changed();
  }

  #onBroken(error: AppError): void {
    this.#parts.logger.warn(`turn ${this.state.turns} broke: ${error.stack ?? error.message}`);
    this.#alerter.raise("error", error.code, `turn ${this.state.turns} failed: ${error.message}`);
    this.#publishLive({ type: "live_reset" });
  }

  // Clients

  /** Attaches a client; snapshot and subscription are taken in the same tick (no gap, no overlap). */
  attach(sink: EventSink, params: MethodParams<"attach">): Snapshot {
    const { log } = this.#parts;
    const cursor = headCursor(log);
    const { events, more } = newestEvents(log, params.since);
    const windowStart = events[0]?.seq ?? log.head.seq + 1;
    const older = params.since === undefined ? olderPendingEvents(this.state, windowStart) : [];
    this.#broadcaster.attach(sink, cursor);
    return {
      pod: { name: this.state.pod, session: this.state.session },
      status: this.status,
      cursor,
      more,
      events: [...older, ...events],
      live: this.#live.snapshot(),
      alerts: this.#alerter.snapshot(),
    };
  }

  detach(sink: EventSink): void {
    this.#broadcaster.detach(sink);
  }

  drained(sink: EventSink): void {
    this.#broadcaster.drained(sink);
  }

  history(params: MethodParams<"history">): MethodResult<"history"> {
    return eventsBefore(this.#parts.log, params);
  }

  readOutput(params: MethodParams<"read_output">): MethodResult<"read_output"> {
    const { text, cursor } = readOutput(this.#parts.log, params);
    return { text, cursor, status: this.status.state, turns: this.state.turns };
  }

  /** Orderly end: stops a running turn, records the end, and waits until everything is on disk. Further calls wait for the same end. */
  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  async #close(reason: string): Promise<void> {
    // The assignment to #closing happens after this function's first synchronous part: give it its turn.
    await undefined;
    this.#waker.stop();
    clearTimeout(this.#storageTimer);
    const late = new AbortController();
    const grace = this.#parts.clock.sleep(CLOSE_GRACE_MS, { signal: late.signal }).catch(() => {});
    await Promise.race([this.#runner.cancel(new AppError("cancelled", "the Pod is shutting down")), grace]);
    late.abort();
    try {
      this.#runner.writeUnwritten();
      this.#door.commit([{ type: "closed", reason }]);
      await this.#door.synced();
    } catch (thrown) {
      this.#parts.logger.warn(`the end cannot be recorded: ${toAppError(thrown).message}`);
    }
    this.#changed();
    this.#broadcaster.state({ type: "shutdown", reason });
    this.onClosed(reason);
  }

  // Publishing

  #publishCommitted(events: readonly CommittedEvent[]): void {
    for (const event of events) {
      this.#live.settle(event);
      this.#broadcaster.committed(event);
      // What the next turn makes history is told no longer.
      if (event.type === "turn_started") for (const code of UNTIL_NEXT_TURN) this.#alerter.clear(code);
    }
    this.#parts.onGrowth();
    // In the middle of a turn: a request takes what was pending, an answer adds to the usage.
    if (events.some(({ type }) => type === "request_started" || type === "request_ended")) this.#changed();
  }

  #publishLive(event: LiveEvent): void {
    this.#live.note(event);
    this.#broadcaster.live(event);
  }

  /** Tells clients and the registry about a changed status, once for each change. */
  #changed(): void {
    const { status } = this;
    const text = JSON.stringify(status);
    if (text === this.#statusText) return;
    this.#statusText = text;
    this.#broadcaster.state({ type: "status", status });
    this.#parts.onStatus(status);
  }

  /**
   * Loads the model before the first turn needs it. Rejects with `configuration` or `not_found` where it cannot be opened; a turn asks
   * again.
   */
  async warmUp(): Promise<void> {
    await this.#model.get(this.state.config.model);
  }
}

/** Alerts that hold until a turn starts. */
const UNTIL_NEXT_TURN = ["turn_failed", "turn_interrupted", "input_waits"] as const;

const CONTINUE: PromptCheck = { id: "", items: [], refused: undefined };
const DONE: Outcome<Record<string, never>> = { ok: true, result: {} };
const ENDED_INSTEAD: Outcome<never> = {
  ok: false,
  refusal: { code: "not_running", message: "the turn ended before it came to a point where it could pause" },
};

function refusalOf(thrown: unknown): Outcome<never> {
  const error = toAppError(thrown);
  if (error.code === "internal") throw error;
  return { ok: false, refusal: toRefusal(error) };
}
