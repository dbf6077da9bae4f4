import { assertNever } from "../base/assert-never.ts";
import type { Clock } from "../base/clock.ts";
import { runDetached } from "../base/detach.ts";
import { AppError, toAppError } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import type { Logger } from "../base/logger.ts";
import { plural, toSafeText } from "../base/text.ts";
import type { Model } from "../llm/model.ts";
import type { Chain } from "../protocol/chain.ts";
import { type Refusal, toRefusal } from "../protocol/error-code.ts";
import type { CommittedEvent, LiveEvent } from "../protocol/event.ts";
import { MAX_HOPS } from "../protocol/limits.ts";
import type { MethodParams, MethodResult, Snapshot } from "../protocol/method.ts";
import type { ScopeEnforcement } from "../protocol/scope-rule.ts";
import type { Status, TurnTrigger } from "../protocol/status.ts";
import type { EntryOf, NewEntry } from "../session-log/entry.ts";
import type { LogFile } from "../session-log/log-file.ts";
import { inputWaits } from "../session-log/pending.ts";
import type { SessionState } from "../session-log/session-state.ts";
import type { Tool } from "../tools/tool.ts";
import { closeTurnEntries } from "../turn/close-turn.ts";
import type { Interceptor } from "../turn/interceptor.ts";
import { restoreEntries } from "../turn/restore.ts";
import { makeSystemItem } from "../turn/system-item-body.ts";
import { TurnLoop } from "../turn/turn-loop.ts";
import type { TurnPort } from "../turn/turn-port.ts";
import { Alerter } from "./alerter.ts";
import { Broadcaster, type EventSink } from "./broadcaster.ts";
import { CommitDoor } from "./commit.ts";
import { LiveBuffer } from "./live-buffer.ts";
import { ModelSlot } from "./model-slot.ts";
import { type ChangingCall, type Decision, decide, type Phase } from "./pod-state.ts";
import { checkPrompt, type PromptCheck } from "./prompt-check.ts";
import { eventsBefore, headCursor, newestEvents, olderPendingEvents, readOutput } from "./snapshot.ts";
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
  /** Told once when nothing can be written any more: the process should end. */
  readonly onStorageLost: (error: AppError) => void;
}

/** How long an orderly end waits for a running turn to stop. */
const CLOSE_GRACE_MS = 4000;

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

  constructor(parts: PodParts) {
    this.#parts = parts;
    const { log, state, clock } = parts;
    this.#door = new CommitDoor({ log, state, clock, publish: (events) => this.#publishCommitted(events) });
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
      onMended: () => this.#alerter.clear("storage_failed"),
      onChange: () => {
        this.#changed();
        this.#waker.ifDue();
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
    const entries = restoreEntries(this.state);
    const interrupted = entries.some((entry) => entry.type === "turn_ended");
    for (const entry of entries) this.#door.commit([entry]);
    if (entries.length > 0) await this.#door.synced();
    if (interrupted)
      this.#alerter.raise("warning", "turn_interrupted", `turn ${this.state.turns} was interrupted; \`resume\` goes on`);
    if (inputWaits(this.state)) {
      this.#alerter.raise(
        "info",
        "input_waits",
        "a message sent before the restart waits; it enters the next request, or send `resume`",
      );
    }
    this.#waker.ifDue();
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
    this.#runner.writeUnwritten();
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
        if (decision.abandon) this.#door.commit(closeTurnEntries(this.state, "abandoned"));
        const { entry, items } = this.#inputEntries(call.params, "turn", prompt);
        const turn = this.state.turns + 1;
        const [first] = this.#startTurn("user", entry.chain, [entry, ...items]);
        await this.#door.synced(); // N8
        return { ok: true, result: { turn, seq: first } };
      }
      case "queue_input": {
        if (call.name !== "run") break;
        const { entry, items } = this.#inputEntries(call.params, decision.waitsFor, prompt);
        const [placed] = this.#door.commit([entry, ...items]);
        await this.#door.synced();
        return { ok: true, result: { queued: true, seq: placed?.seq ?? 0 } };
      }
      case "accept_item": {
        if (call.name !== "notify") break;
        return this.#acceptNotification(call.params, decision);
      }
      case "pause_turn": {
        await this.#runner.pause(new AppError("cancelled", "a pause was asked for"));
        await this.#door.synced();
        return DONE;
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
        this.#startTurn("resume", this.#chainOfOwed(), []);
        await this.#door.synced();
        return { ok: true, result: { turn } };
      }
      case "cancel_turn": {
        await this.#runner.cancel(new AppError("cancelled", "the turn was cancelled"));
        await this.#door.synced();
        return DONE;
      }
      case "drop_paused_turn":
        this.#door.commit(closeTurnEntries(this.state, "cancelled"));
        this.#changed();
        this.#waker.ifDue();
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
    const { source, message, id } = params;
    const item = makeSystemItem(
      {
        content: { kind: "notification", payload: { source: toSafeText(source), message: toSafeText(message) } },
        origin: { by: "client", name: source },
        chain: params.chain ?? freshChain(),
        wake: decision.wake,
      },
      this.state.config.prompts,
    );
    const answers = id === undefined ? {} : { answers: { id, state: decision.state } };
    const [placed] = this.#door.commit([{ type: "system_items", items: [item], ...answers }]);
    if (params.wake && !decision.wake) {
      this.#alerter.raise(
        "warning",
        "hop_limit",
        `a notification over more than ${MAX_HOPS} hops wakes nobody; it enters the next request`,
      );
    }
    this.#changed();
    this.#waker.ifDue();
    await this.#door.synced(); // N8
    return { ok: true, result: { item: item.id, seq: placed?.seq ?? 0, state: decision.state } };
  }

  #inputEntries(
    params: MethodParams<"run">,
    waitsFor: "request" | "turn",
    prompt: PromptCheck,
  ): { readonly entry: EntryOf<"user_input">; readonly items: readonly NewEntry[] } {
    const entry: EntryOf<"user_input"> = {
      type: "user_input",
      id: prompt.id,
      segments: params.input.map((segment) => ({ ...segment, text: toSafeText(segment.text) })),
      waits_for: waitsFor,
      ...(params.submission === undefined ? {} : { submission: params.submission }),
      origin: { by: "client" },
      chain: params.chain ?? freshChain(),
    };
    const items = prompt.items.map((item) => ({ ...item, for: prompt.id }));
    return { entry, items: items.length === 0 ? [] : [{ type: "system_items", items }] };
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
      this.#startTurn(trigger, trigger === "user" ? this.#chainOfInput() : this.#chainOfOwed(), []);
    } catch (thrown) {
      this.#alerter.raise("error", "storage_failed", `a turn is due but cannot be recorded: ${toAppError(thrown).message}`);
    }
  }

  #onBroken(error: AppError): void {
    this.#parts.logger.warn(`turn ${this.state.turns} broke: ${error.stack ?? error.message}`);
    this.#alerter.raise("error", error.code, `turn ${this.state.turns} failed: ${error.message}`);
    this.#publishLive({ type: "live_reset" });
    if (this.#parts.log.failure) this.#parts.onStorageLost(this.#parts.log.failure);
  }

  /** Causality of an automatic turn: the longest chain among what is owed (N11). */
  #chainOfOwed(): Chain {
    let longest: Chain | undefined;
    for (const pending of this.state.pending.values()) {
      if (pending.kind !== "item" || !this.state.owed.has(pending.id)) continue;
      if (!longest || pending.item.chain.hops > longest.hops) longest = pending.item.chain;
    }
    return longest ?? freshChain();
  }

  #chainOfInput(): Chain {
    for (const pending of this.state.pending.values()) if (pending.kind === "input") return pending.input.chain;
    return freshChain();
  }

  // Clients

  /** Attaches a client; snapshot and subscription are taken in the same tick (no gap, no overlap). */
  attach(sink: EventSink, params: MethodParams<"attach">): Snapshot {
    const { log } = this.#parts;
    const cursor = headCursor(log);
    const { events, more } = newestEvents(log, params.since);
    const windowStart = events[0]?.seq ?? log.head.seq + 1;
    const older = params.since === undefined ? olderPendingEvents(log, this.state, windowStart) : [];
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
    }
    this.#parts.onGrowth();
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

  /** Begins to load the model before the first turn needs it. Failures show when the turn asks. */
  warmUp(): void {
    runDetached(this.#model.get(this.state.config.model), () => {});
  }
}

const CONTINUE: PromptCheck = { id: "", items: [], refused: undefined };
const DONE: Outcome<Record<string, never>> = { ok: true, result: {} };

function refusalOf(thrown: unknown): Outcome<never> {
  const error = toAppError(thrown);
  if (error.code === "internal") throw error;
  return { ok: false, refusal: toRefusal(error) };
}

function changedConfig(state: Readonly<SessionState>, params: MethodParams<"set_config">): EntryOf<"config_changed">["changes"] {
  const { model, reasoning } = params;
  return {
    ...(model !== undefined && model !== state.config.model ? { model } : {}),
    ...(reasoning !== undefined && reasoning !== state.config.reasoning ? { reasoning } : {}),
  };
}

function freshChain(): Chain {
  return { id: newId("chain"), hops: 0 };
}
