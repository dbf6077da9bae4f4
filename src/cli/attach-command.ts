import { AppError, messageOf } from "../base/errors.ts";
import { newId } from "../base/ids.ts";
import { connect, type PodConnection, type ReceivedEvent, resultOf } from "../client/connection.ts";
import { findLivingPod } from "../client/find-pod.ts";
import { follow } from "../client/follow.ts";
import { shellWord } from "../client/shell-word.ts";
import { submitRun } from "../client/submit-run.ts";
import { compareCursors } from "../protocol/cursor.ts";
import { type CommittedEvent, cursorOf, type Event } from "../protocol/event.ts";
import type { Snapshot } from "../protocol/method.ts";
import { emptyView, reduceRead, resumeView, type View } from "../protocol/view.ts";
import { AnswerPrinter } from "./answer-printer.ts";
import { describeEvent, eventLine } from "./describe-event.ts";
import { toInert, toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import { type Look, paintFor } from "./paint.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { chainOf, placesOf, reachPod } from "./reach.ts";
import { typedMessages } from "./typed-messages.ts";

/** `wakeful attach`: the plain line client. */
export async function runAttachCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const [target = ""] = args.positionals;
  const pod = await reachPod(target, io, { restore: true });
  return attachTo(pod.session, io, { json: args.has("json") });
}

/** Talks with a living session until the person leaves (0) or the Pod ends (1). */
export async function attachTo(session: string, io: CliIo, options: { readonly json: boolean }): Promise<number> {
  const client = new LineClient(session, io, options.json);
  return client.run();
}

const PROMPT = "> ";

/** Events of the past that are shown at the start. */
const RECENT = 20;

const HELP = `/help    this text
/status  how the Pod is
/cancel  abort the turn
/pause   stop at the next safe point
/resume  go on
/quit    leave; the Pod lives on (also Ctrl-D, or Ctrl-C while no turn runs)
A text that begins with // is sent with one / less.
`;

class LineClient {
  readonly #session: string;
  readonly #io: CliIo;
  readonly #json: boolean;
  readonly #printer: AnswerPrinter;
  readonly #leaving = new AbortController();
  /** Submissions of what was typed here: the terminal shows those already. */
  readonly #own = new Set<string>();
  #view: View = emptyView;
  #connection: PodConnection | undefined;
  #attached = Promise.withResolvers<void>();
  #idle: (() => void) | undefined;
  #isLeft = false;
  /** True while the cursor stands behind our prompt. */
  #isPrompting = false;
  /** The line that told of the last turn's end: an alert that says the same is not told again. */
  #toldEnd: string | undefined;
  #name = "";

  constructor(session: string, io: CliIo, json: boolean) {
    this.#session = session;
    this.#io = io;
    this.#json = json;
    this.#printer = new AnswerPrinter((text) => {
      this.#leavePrompt();
      io.stdout.write(text);
    });
  }

  async run(): Promise<number> {
    const { signal } = this.#io;
    const release = this.#io.onInterrupt(() => this.#interrupt());
    const onAbort = () => this.#leave();
    signal.addEventListener("abort", onAbort, { once: true });
    const typing = this.#readTyped();
    typing.catch((thrown: unknown) => {
      this.#say(`input: ${messageOf(thrown)}`);
      this.#leave();
    });
    try {
      const events = follow({ connect: () => this.#connect(), signal: this.#leaving.signal });
      for await (const followed of events) {
        if (followed.kind === "snapshot") this.#begin(followed.snapshot, followed.connection);
        else this.#take(followed.received);
      }
    } catch (thrown) {
      if (!this.#isLeft) throw thrown;
    } finally {
      release();
      signal.removeEventListener("abort", onAbort);
      this.#printer.end();
    }
    if (this.#isLeft) {
      if (this.#isPerson() && this.#name !== "") this.#say(`left; ${this.#reach()}`, "dim");
      return EXIT.done;
    }
    this.#say(`the Pod has ended; bring it back: wakeful restore ${shellWord(this.#name)}`);
    return EXIT.failed;
  }

  async #connect(): Promise<PodConnection> {
    // Asked of the registry each time: a restored Pod has another address.
    const row = await findLivingPod(placesOf(this.#io), this.#session, { signal: this.#leaving.signal });
    return connect(row.address, { signal: this.#leaving.signal });
  }

  #begin(snapshot: Snapshot, connection: PodConnection): void {
    const former = this.#view;
    const isFirst = former.pod === undefined;
    this.#view = resumeView(former, snapshot);
    this.#name = snapshot.pod.name;
    this.#connection = connection;
    if (this.#json) {
      if (isFirst) this.#io.stdout.write(`${JSON.stringify({ type: "snapshot", ...snapshot })}\n`);
      else for (const event of snapshot.events) this.#io.stdout.write(`${JSON.stringify(event)}\n`);
    } else {
      const missed = snapshot.events.filter((event) => compareCursors(cursorOf(event), former.cursor) > 0);
      this.#showPast(isFirst ? missed.slice(-RECENT) : missed);
      if (isFirst)
        this.#say(`${toInertLine(snapshot.pod.name)} is ${snapshot.status.state}; /help lists the commands, /quit leaves`, "dim");
      for (const event of snapshot.live) this.#show(event);
    }
    this.#attached.resolve();
    this.#noteIdle();
    this.#prompt();
  }

  #showPast(events: readonly CommittedEvent[]): void {
    for (const event of events) this.#show(event);
  }

  #take(received: ReceivedEvent): void {
    this.#view = reduceRead(this.#view, received);
    if (this.#json) this.#io.stdout.write(`${JSON.stringify(received.raw)}\n`);
    else if (received.kind === "known") this.#show(received.event);
    if (received.kind === "known" && (received.event.type === "status" || received.event.type === "turn_ended")) {
      this.#noteIdle();
      this.#prompt();
    }
  }

  #show(event: Event): void {
    if (event.type === "text_delta") this.#printer.delta(event.text);
    else if (event.type === "live_reset") this.#printer.reset();
    else if (event.type === "assistant_item" && event.item.kind === "text") this.#printer.commit(event.item.text);
    else if (event.type === "user_message") {
      if (event.submission !== undefined && this.#own.has(event.submission)) return;
      this.#say(`you: ${toInert(event.segments.map((segment) => segment.text).join(""))}`);
    } else if (event.type === "alert" && event.alert.message === this.#toldEnd) {
      // Said already, as the end of the turn.
    } else {
      const line = eventLine(event, this.#io);
      if (line !== undefined) this.#say(line);
      if (event.type === "turn_ended") this.#toldEnd = describeEvent(event);
    }
  }

  #say(line: string, look?: Look): void {
    if (this.#io.stdout.isTTY) this.#printer.breakLine();
    this.#leavePrompt();
    this.#io.stderr.write(`${look === undefined ? line : paintFor(this.#io.stderr, this.#io.env)[look](line)}\n`);
  }

  #isPerson(): boolean {
    return this.#io.stdin.isTTY && this.#io.stderr.isTTY && !this.#json;
  }

  /** Shows that a message can be typed. While a turn runs there is none, as its answer stands there; what is typed counts all the same. */
  #prompt(): void {
    if (!this.#isPerson() || this.#isPrompting || this.#isLeft || !this.#isIdle()) return;
    this.#isPrompting = true;
    this.#io.stderr.write(PROMPT);
  }

  /** What is said next begins on a line of its own: a text typed so far stays on the screen. */
  #leavePrompt(): void {
    if (this.#isPrompting) this.#io.stderr.write("\n");
    this.#isPrompting = false;
  }

  #reach(): string {
    const name = toInertLine(this.#name);
    return `${name} lives on. Come back: wakeful attach ${shellWord(this.#name)}; end it: wakeful stop ${shellWord(this.#name)}`;
  }

  async #readTyped(): Promise<void> {
    await this.#attached.promise;
    for await (const text of typedMessages(this.#io)) {
      if (this.#isLeft) return;
      this.#isPrompting = false; // The terminal began a new line with it.
      await this.#act(text);
      this.#prompt();
    }
    // A terminal's Ctrl-D leaves at once; a script that sent its lines wants the answers.
    if (!this.#io.stdin.isTTY) await this.#untilIdle();
    this.#leave();
  }

  async #act(text: string): Promise<void> {
    const command = /^\/([a-z]+)\s*$/.exec(text)?.[1];
    try {
      if (command === "help") this.#say(HELP.trimEnd());
      else if (command === "quit") this.#leave();
      else if (command === "status") this.#sayStatus();
      else if (command === "cancel" || command === "pause" || command === "resume") await this.#control(command);
      else await this.#send(text.startsWith("//") ? text.slice(1) : text);
    } catch (thrown) {
      this.#say(`not done: ${toInert(messageOf(thrown))}`);
    }
  }

  async #control(method: "cancel" | "pause" | "resume"): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    const answering = connection.request(method, {}, { signal: this.#leaving.signal });
    if (method !== "pause") {
      resultOf(await answering);
      return;
    }
    // A pause waits for its safe point; what is typed meanwhile must not wait behind it.
    answering.then(
      (answer) => {
        if (!answer.ok) this.#say(`not done: ${toInert(answer.refusal.message)}`);
      },
      () => undefined, // The connection went: `follow` says so.
    );
  }

  /** Sends a typed text, exactly once; one that could not be sent is given back, never lost (field report B30). */
  async #send(text: string): Promise<void> {
    if (text.trim() === "") return;
    const submission = newId("sub");
    this.#own.add(submission);
    const chain = chainOf(this.#io);
    try {
      const connection = this.#connection?.isOpen ? this.#connection : await this.#connect();
      const { answer } = await submitRun(
        connection,
        { input: [{ kind: "text", text }], if_running: "queue", submission, ...(chain === undefined ? {} : { chain }) },
        { reconnect: () => this.#connect(), signal: this.#leaving.signal },
      );
      const result = resultOf(answer);
      if ("queued" in result) this.#say("queued: the next turn starts with it");
    } catch (thrown) {
      this.#own.delete(submission);
      const reason = thrown instanceof AppError ? thrown.message : messageOf(thrown);
      this.#say(`not sent (${toInert(reason)}); your text was:\n${toInert(text)}`);
    }
  }

  #sayStatus(): void {
    const { status } = this.#view;
    if (status === undefined) return;
    const { input, output } = status.usage;
    this.#say(
      `${status.state}, turn ${status.turn}, ${status.pending} pending, ${toInertLine(status.model)}, ${input} tokens in, ${output} out`,
    );
  }

  #interrupt(): void {
    if (this.#view.turn?.state === "running" && this.#connection?.isOpen) {
      this.#say("cancelling the turn");
      this.#control("cancel").catch((thrown: unknown) => this.#say(`not done: ${messageOf(thrown)}`));
    } else this.#leave();
  }

  #untilIdle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idle = resolve;
      this.#noteIdle();
    });
  }

  #noteIdle(): void {
    if (this.#isIdle()) this.#idle?.();
  }

  /** No turn runs, and none is due for what was sent from here: items that wake nobody may stay pending for ever. */
  #isIdle(): boolean {
    const { status, turn, pending, blocks } = this.#view;
    if (status?.state !== "idle" || turn?.state === "running") return false;
    for (const index of pending.values()) {
      const block = blocks.at(index);
      if (block?.kind === "user_message" && block.submission !== undefined && this.#own.has(block.submission)) return false;
    }
    return true;
  }

  #leave(): void {
    this.#isLeft = true;
    this.#leaving.abort(new AppError("cancelled", "left"));
  }
}
