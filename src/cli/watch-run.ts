import { AppError, toAppError } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import { type PodConnection, type ReceivedEvent, resultOf } from "../client/connection.ts";
import type { Event } from "../protocol/event.ts";
import type { MethodInput, MethodResult } from "../protocol/method.ts";
import { addUsage, NO_USAGE, type TurnOutcome, type Usage } from "../protocol/status.ts";
import { reduceRead, type View, viewOfSnapshot } from "../protocol/view.ts";
import { AnswerPrinter } from "./answer-printer.ts";
import { describeEvent, eventLine } from "./describe-event.ts";
import { exitCodeOf } from "./exit.ts";
import { type CliIo, EXIT } from "./io.ts";

export interface WatchOptions {
  readonly io: CliIo;
  readonly json: boolean;
  readonly params: Omit<MethodInput<"run">, "submission">;
  readonly timeoutMs: number | undefined;
  /** Connects to the Pod; asked again when a connection is lost before the task was accepted. */
  readonly connect: () => Promise<PodConnection>;
}

export interface WatchResult {
  readonly exitCode: number;
  /** Of the last turn. */
  readonly outcome: TurnOutcome;
  /** The model's last words. */
  readonly text: string;
  readonly turns: number;
  readonly usage: Usage;
  /** Why it failed: the turn's own error, or why its end could not be waited for. */
  readonly error: RunError | undefined;
  /** True when the person left without waiting for the end. */
  readonly left: boolean;
}

/** What went wrong: within the turn (the Pod told about it), or with watching it (nobody has said so yet). */
export type RunError =
  | { readonly kind: "turn"; readonly code: string; readonly message: string }
  | { readonly kind: "watch"; readonly error: AppError };

/** A task the Pod accepted, on the attached connection that carried it. */
export interface StartedRun {
  readonly connection: PodConnection;
  readonly accepted: MethodResult<"run">;
  readonly submission: string;
  readonly view: View;
}

/**
 * Attaches and sends a task, exactly once: where a connection is lost before the answer, the same submission goes again, and a Pod that
 * had taken it answers with the first result (field report B35). Throws the Pod's refusal.
 */
export async function startRun(options: Pick<WatchOptions, "params" | "connect" | "io" | "timeoutMs">): Promise<StartedRun> {
  const deadlineMs = Math.min(ACCEPT_MS, options.timeoutMs ?? ACCEPT_MS);
  const submission = newId("sub");
  for (let attempt = 1; ; attempt++) {
    const connection = await options.connect();
    try {
      const { signal } = options.io;
      // One behind the other on the wire without waiting in between: the Pod takes them in order.
      const [attached, ran] = await Promise.all([
        connection.request("attach", {}, { signal, deadlineMs }),
        connection.request("run", { ...options.params, submission }, { signal, deadlineMs }),
      ]);
      return { connection, accepted: resultOf(ran), submission, view: viewOfSnapshot(resultOf(attached)) };
    } catch (thrown) {
      await connection.close();
      const isLost = thrown instanceof AppError && thrown.code === "unavailable" && thrown.details === undefined;
      if (!isLost || attempt === MAX_ATTEMPTS) throw thrown;
    }
  }
}

/** Shows a started run until the Pod is idle and nothing is pending or owed. Never throws: a Pod that is lost is an ending too. */
export async function watchRun(run: StartedRun, options: WatchOptions): Promise<WatchResult> {
  const watch = new RunWatch(run, options);
  return watch.untilDone();
}

class RunWatch {
  readonly #run: StartedRun;
  readonly #options: WatchOptions;
  readonly #printer: AnswerPrinter;
  readonly #done = Promise.withResolvers<void>();
  #view: View;
  /** Id of our input in the log. */
  #input: string | undefined;
  /** False while another turn runs before ours: its answer is not what was asked for. */
  #isOurs: boolean;
  #ending: "interrupted" | "timed_out" | undefined;
  #left = false;
  /** The line that told of the last turn's end: an alert that says the same is not told again. */
  #toldEnd: string | undefined;
  #turnError: { readonly code: string; readonly message: string } | undefined;
  #isDone = false;
  #text = "";
  #turns = 0;
  #usage: Usage = NO_USAGE;
  #pendingPolls = 0;
  #timers = new Set<NodeJS.Timeout>();

  constructor(run: StartedRun, options: WatchOptions) {
    this.#run = run;
    this.#options = options;
    this.#view = run.view;
    this.#isOurs = "turn" in run.accepted;
    this.#printer = new AnswerPrinter((text) => options.io.stdout.write(text));
    for (const block of run.view.blocks) {
      if (block.kind === "user_message" && block.submission === run.submission) this.#input = block.id;
    }
  }

  async untilDone(): Promise<WatchResult> {
    const { io, timeoutMs } = this.#options;
    const release = io.onInterrupt(() => this.#interrupt());
    const onAbort = () => this.#done.reject(toAppError(io.signal.reason));
    io.signal.addEventListener("abort", onAbort, { once: true });
    if (timeoutMs !== undefined) this.#later(timeoutMs, () => this.#cancel("timed_out"));
    try {
      const events = this.#consume();
      events.catch((thrown: unknown) => this.#done.reject(thrown));
      this.#check();
      await this.#done.promise;
      return this.#result(undefined);
    } catch (thrown) {
      return this.#result(toAppError(thrown));
    } finally {
      this.#isDone = true;
      release();
      io.signal.removeEventListener("abort", onAbort);
      for (const timer of this.#timers) clearTimeout(timer);
      this.#printer.end();
    }
  }

  async #consume(): Promise<void> {
    for await (const received of this.#run.connection.events()) this.#take(received);
  }

  #take(received: ReceivedEvent): void {
    if (this.#isDone) return; // What comes behind the end (the Pod's own) is not part of the run.
    const { json, io } = this.#options;
    this.#view = reduceRead(this.#view, received);
    if (json) io.stdout.write(`${JSON.stringify(received.raw)}\n`);
    if (received.kind !== "known") return;
    const { event } = received;
    if (event.type === "user_message" && event.submission === this.#run.submission) this.#input = event.id;
    if (event.type === "request_started" && this.#input !== undefined && event.takes.includes(this.#input)) this.#isOurs = true;
    if (this.#isOurs) this.#count(event);
    if (!json && this.#isOurs) this.#show(event);
    switch (event.type) {
      case "turn_ended":
      case "status":
        this.#check();
        return;
      case "turn_started":
        this.#pendingPolls = 0;
        return;
      case "lagged":
        this.#done.reject(
          new AppError("unavailable", "this reader was too slow and the Pod cut it off", {
            hint: "read its answer: wakeful output",
          }),
        );
        return;
      case "shutdown":
        this.#finish();
        return;
    }
  }

  #count(event: Event): void {
    if (event.type === "turn_ended") {
      this.#turns++;
      this.#turnError = event.error;
    } else if (event.type === "request_ended") this.#usage = addUsage(this.#usage, event.usage);
    else if (event.type === "assistant_item" && event.item.kind === "text") this.#text = event.item.text;
  }

  #show(event: Event): void {
    if (event.type === "text_delta") this.#printer.delta(event.text);
    else if (event.type === "live_reset") this.#printer.reset();
    else if (event.type === "assistant_item" && event.item.kind === "text") this.#printer.commit(event.item.text);
    else if (event.type === "system_item" && event.item.kind === "reminder") {
      // Written by the Pod for the model about what the person saw happen.
    } else if (event.type === "alert" && event.alert.message === this.#toldEnd) {
      // Said already, as the end of the turn.
    } else {
      const line = eventLine(event, this.#options.io);
      if (line !== undefined) this.#say(line);
      if (event.type === "turn_ended") this.#toldEnd = describeEvent(event);
    }
  }

  #say(line: string): void {
    // On a terminal both streams share the screen; elsewhere standard output stays the answer alone.
    if (this.#options.io.stdout.isTTY) this.#printer.breakLine();
    this.#options.io.stderr.write(`${line}\n`);
  }

  /** Our input was taken, and the turn that took it is over. */
  #isAnswered(): boolean {
    const { accepted } = this.#run;
    const turn = this.#view.turn;
    if (turn === undefined) return false;
    if ("turn" in accepted) return turn.number > accepted.turn || (turn.number === accepted.turn && turn.state === "ended");
    return this.#input !== undefined && !this.#view.pending.has(this.#input) && turn.state === "ended";
  }

  /** Asks the Pod whether all is done, where the events say that it may be: an answer to a question is never out of date. */
  #check(): void {
    if (!this.#isAnswered()) return;
    if (this.#ending !== undefined) {
      this.#finish();
      return;
    }
    this.#run.connection.request("status", {}).then(
      (answer) => {
        if (!answer.ok) return;
        const { state, pending, wake_held: held } = answer.result;
        if (state === "running" || state === "paused") return;
        if (pending === 0 || held !== null || this.#pendingPolls >= MAX_PENDING_POLLS) {
          this.#finish();
          return;
        }
        // Items that wake start a turn within milliseconds; passive ones wait for a next request that nobody owes.
        this.#pendingPolls++;
        this.#later(PENDING_POLL_MS, () => this.#check());
      },
      (thrown: unknown) => this.#done.reject(thrown),
    );
  }

  #interrupt(): void {
    if (this.#ending === undefined && this.#isOurs) {
      this.#say("cancelling the turn; Ctrl-C again leaves at once");
      this.#cancel("interrupted");
      return;
    }
    if (!this.#isOurs) this.#say("left; the task stays queued");
    this.#ending = "interrupted";
    this.#left = true;
    this.#finish();
  }

  #cancel(why: "interrupted" | "timed_out"): void {
    this.#ending ??= why;
    this.#run.connection.request("cancel", {}).then(
      () => this.#check(),
      (thrown: unknown) => this.#done.reject(thrown),
    );
    // A Pod that does not end its turn must not hold us.
    this.#later(CANCEL_MS, () => this.#finish());
  }

  #finish(): void {
    this.#isDone = true;
    this.#done.resolve();
  }

  #later(ms: number, action: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      action();
    }, ms);
    this.#timers.add(timer);
  }

  #result(failure: AppError | undefined): WatchResult {
    const turn = this.#view.turn;
    const outcome: TurnOutcome = turn?.state === "ended" ? (turn.outcome ?? "interrupted") : "interrupted";
    const exitCode =
      this.#ending === "timed_out"
        ? EXIT.timedOut
        : this.#ending === "interrupted"
          ? EXIT.interrupted
          : failure !== undefined
            ? exitCodeOf(failure)
            : outcome === "completed"
              ? EXIT.done
              : EXIT.failed;
    const error: RunError | undefined =
      failure !== undefined
        ? { kind: "watch", error: failure }
        : outcome === "failed" && this.#turnError !== undefined
          ? { kind: "turn", ...this.#turnError }
          : undefined;
    return { exitCode, outcome, text: this.#text, turns: this.#turns, usage: this.#usage, error, left: this.#left };
  }
}

/** A Pod that does not take a task within this time hangs, milliseconds. */
const ACCEPT_MS = 30_000;
const MAX_ATTEMPTS = 3;
const MAX_PENDING_POLLS = 4;
const PENDING_POLL_MS = 250;
const CANCEL_MS = 10_000;
