import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { connect, resultOf } from "../../client/connection.ts";
import { launchPod, type ReadyPod } from "../../client/launched-pod.ts";
import { openModel } from "../../llm/open-model.ts";
import { requestLine } from "../../protocol/json-rpc.ts";
import { type Places, resolvePlaces, sessionDir } from "../../registry/places.ts";
import { openRegistry } from "../../registry/registry.ts";
import { audit } from "../../session-log/audit.ts";
import type { EntryOf, EntryType, LogEntry } from "../../session-log/entry.ts";
import { type HeadMark, verify } from "../../session-log/verify.ts";
import { parseAddress } from "../../transport/unix-socket.ts";
import { endPod } from "../end-pod.ts";
import type { CliIo } from "../io.ts";
import { DEMO_SCRIPT } from "./demo-script.ts";
import { readEntries, waitForEntry, waitInDirectory } from "./log-watch.ts";
import type { DemoStep, Teller } from "./teller.ts";

/**
 * The demo: a real Pod process keeps a lighthouse through one night. Nothing is faked but the model, whose script also checks what it
 * is sent. Every claim is read back from the session's log.
 */
export class Story {
  readonly #teller: Teller;
  readonly #io: CliIo;
  readonly #work: string;
  readonly #places: Places;
  readonly #env: Record<string, string | undefined>;
  readonly #model: string;
  #pod: ReadyPod | undefined;
  #failed = 0;

  /** `directory` is empty and ours; everything happens in it. */
  constructor(directory: string, io: CliIo, teller: Teller) {
    this.#teller = teller;
    this.#io = io;
    this.#work = join(directory, "lighthouse");
    mkdirSync(this.#work);
    const script = join(directory, "script.yaml");
    writeFileSync(script, DEMO_SCRIPT);
    writeFileSync(join(this.#work, "lamp.txt"), "lamp: out\noil: full\n");
    this.#model = `script:${script}`;
    // The user's own configuration and keys have no part in the story.
    this.#env = {
      PATH: io.env["PATH"],
      HOME: directory,
      TMPDIR: io.env["TMPDIR"],
      WAKEFUL_HOME: join(directory, "data"),
      XDG_CONFIG_HOME: join(directory, "config"),
    };
    this.#places = resolvePlaces(this.#env);
  }

  /** Tells it from dusk to dawn; returns how many claims did not hold. */
  async tell(): Promise<number> {
    try {
      await this.#dusk();
      await this.#tide();
      await this.#accident();
      await this.#dawn();
    } finally {
      await this.#end();
    }
    return this.#failed;
  }

  async #dusk(): Promise<void> {
    this.#teller.scene(
      "Dusk",
      "A Pod takes over a lighthouse. It is a process of its own, with one session, one socket,\nand one folder it may write. We ask it to light the lamp.",
    );
    const pod = await this.#launch({ kind: "new", name: "keeper" });
    await using client = await connect(pod.address, { signal: this.#io.signal });
    resultOf(await client.request("run", { input: [{ kind: "text", text: "Light the lamp and keep the book for tonight." }] }));
    this.#teller.line("you", "Light the lamp and keep the book for tonight.");
    const busy = await this.#entry(
      "the Pod's shell call",
      (entry) => entry.type === "tool_started" && entry.call_id === "call_2_3",
    );
    this.#teller.line("harbour", "(to the busy Pod) Fog bank from the west.");
    const told = resultOf(await client.request("notify", { source: "harbour", message: "Fog bank from the west, half a mile." }));
    writeFileSync(join(this.#work, "foghorn"), "");
    await this.#entry("the end of the first turn", (entry) => entry.type === "turn_ended");
    this.#quote(0);
    const entries = this.#entries();
    const result = only(entries, "tool_results").find((entry) => entry.items.some((item) => item.call_id === "call_2_3"));
    const taking = only(entries, "llm_request").find((entry) => entry.takes.includes(told.item));
    this.#claim({
      step: "task",
      claim: "the task was done with real tools on real files",
      ok: read(join(this.#work, "lamp.txt")) === "lamp: lit\noil: full\n" && read(join(this.#work, "night.log")).includes("fog"),
      detail: `lamp.txt and night.log say so; ${only(entries, "tool_results").length} results in the log`,
    });
    this.#claim({
      step: "notified_while_running",
      claim: "a notification to the busy Pod interrupted nothing and reached the model behind the tool results",
      ok: told.state === "next_request" && order(busy.seq, told.seq, result?.seq, taking?.seq),
      detail: `call started at entry ${busy.seq}, notification ${told.seq}, result ${result?.seq}, taken by request at ${taking?.seq}`,
    });
  }

  async #tide(): Promise<void> {
    this.#teller.scene(
      "Midnight",
      "We leave. Nobody is attached, the Pod is idle. A clock, which is any program on this machine,\nwrites one line into its socket and hangs up at once.",
    );
    const before = this.#entries().at(-1)?.seq ?? 0;
    await this.#writeAndHangUp(requestLine(undefined, "notify", { source: "tide-clock", message: "High water at 00:41." }));
    this.#teller.line("tide-clock", "High water at 00:41.");
    await this.#entry("the end of the turn that the notification started", (entry) => entry.type === "turn_ended", before);
    this.#quote(before);
    const after = this.#entries().filter((entry) => entry.seq > before);
    const item = only(after, "system_items")[0]?.items[0];
    const started = only(after, "turn_started");
    const takers = only(after, "llm_request").filter((entry) => item !== undefined && entry.takes.includes(item.id));
    this.#claim({
      step: "woken_while_idle",
      claim: "the idle Pod woke by itself, with no client attached, and did something about it",
      ok:
        started.length === 1 &&
        started[0]?.trigger === "notification" &&
        read(join(this.#work, "night.log")).includes("high water"),
      detail: `one turn, started by the notification; night.log has the entry`,
    });
    this.#claim({
      step: "exactly_once",
      claim: "the notification entered the model's context exactly once",
      ok: takers.length === 1,
      detail: `${item?.id ?? "?"} was taken by request ${takers[0]?.n ?? "?"} alone`,
    });
  }

  async #accident(): Promise<void> {
    this.#teller.scene(
      "Three o'clock",
      "We ask for the bell. In the middle of the call somebody kills the process with signal 9.",
    );
    const pod = this.#ready();
    const before = this.#entries().at(-1)?.seq ?? 0;
    {
      await using client = await connect(pod.address, { signal: this.#io.signal });
      resultOf(await client.request("run", { input: [{ kind: "text", text: "Ring the bell once." }] }));
      this.#teller.line("you", "Ring the bell once.");
      await waitInDirectory(this.#work, "the bell", () => existsSync(join(this.#work, "bell.txt")) || undefined);
      await this.#shellIsKnown(pod);
    }
    process.kill(pod.pid, "SIGKILL");
    this.#teller.line("kill", `-9 ${pod.pid}`);
    const restored = await this.#launch({ kind: "restore", target: "keeper" });
    this.#teller.line("restore", `keeper is back as process ${restored.pid}`);
    const call = this.#entries().find((entry) => entry.seq > before && entry.type === "tool_results");
    this.#claim({
      step: "restored",
      claim: "the restored Pod knows that its call was cut off, and did not run it again",
      ok: call?.type === "tool_results" && call.items[0]?.is_error === true && read(join(this.#work, "bell.txt")) === "ding\n",
      detail: `call ${call?.type === "tool_results" ? call.items[0]?.call_id : "?"} has an interrupted result; bell.txt has one line`,
    });
    await using client = await connect(restored.address, { signal: this.#io.signal });
    resultOf(await client.request("resume", {}));
    const resumed = await this.#entry("the resumed turn", (entry) => entry.type === "turn_started", call?.seq ?? before);
    await this.#entry("the end of the resumed turn", (entry) => entry.type === "turn_ended", resumed.seq);
    this.#quote(resumed.seq);
    const bell = read(join(this.#work, "bell.txt"));
    const end = this.#entries().findLast((entry) => entry.type === "turn_ended");
    this.#claim({
      step: "went_on",
      claim: "it went on where it was, and the bell rang exactly once",
      ok: end?.type === "turn_ended" && end.outcome === "completed" && bell === "ding\n",
      detail: `turn ${end?.type === "turn_ended" ? end.turn : "?"} completed; bell.txt: ${JSON.stringify(bell)}`,
    });
  }

  async #dawn(): Promise<void> {
    this.#teller.scene(
      "Dawn",
      "The Pod goes to rest. Its log can prove the night: every line is chained to the one before,\nand every request can be rebuilt from it.",
    );
    await this.#end();
    const directory = this.#directory();
    const verified = await verify(directory, { mark: await this.#headMark() });
    this.#claim({
      step: "verify",
      claim: "the log is whole",
      ok: verified.ok,
      detail: verified.ok ? `${verified.entries} entries, hash chain unbroken` : JSON.stringify(verified.first_bad),
    });
    const audited = await audit(directory, (ref) => openModel(ref, { env: this.#env }));
    this.#claim({
      step: "audit",
      claim: "every request to the model follows from the log, byte for byte",
      ok: audited.ok && audited.body_checked === audited.requests,
      detail: audited.ok
        ? `${audited.requests} requests rebuilt, ${audited.body_checked} bodies compared`
        : JSON.stringify(audited.first_bad),
    });
  }

  // Doing

  async #launch(open: { kind: "new"; name: string } | { kind: "restore"; target: string }): Promise<ReadyPod> {
    const order = { cwd: this.#work, open, model: this.#model };
    const pod = await launchPod(order, { places: this.#places, env: this.#env, signal: this.#io.signal });
    this.#pod = pod;
    return pod;
  }

  #writeAndHangUp(line: string): Promise<void> {
    const { path } = parseAddress(this.#ready().address);
    return new Promise((resolve, reject) => {
      const socket = createConnection({ path }, () => socket.end(`${line}\n`));
      socket.once("error", reject);
      socket.once("close", () => resolve());
      socket.resume();
    });
  }

  /** Waits until the registry knows the shell's process group: from then on a later start ends it if the Pod cannot. */
  async #shellIsKnown(pod: ReadyPod): Promise<void> {
    await using registry = openRegistry(this.#places);
    for (;;) {
      const row = await registry.find(pod.session);
      if ((row?.processGroups.length ?? 0) > 0) return;
      await waitForNextLook(this.#io.signal);
    }
  }

  /** What the registry remembers of the log's end: with it a cut end is noticed too. */
  async #headMark(): Promise<HeadMark | null> {
    await using registry = openRegistry(this.#places);
    return (await registry.find("keeper"))?.head ?? null;
  }

  async #end(): Promise<void> {
    const pod = this.#pod;
    this.#pod = undefined;
    if (!pod) return;
    // Also when a claim broke the story off: it must not outlive it.
    await endPod(pod, { reason: "dawn" });
    this.#last = pod;
  }

  #last: ReadyPod | undefined;

  // Looking

  #ready(): ReadyPod {
    if (!this.#pod) throw new Error("the story has no Pod");
    return this.#pod;
  }

  #directory(): string {
    return sessionDir(this.#places, (this.#pod ?? this.#last)?.session ?? "");
  }

  #entries(): LogEntry[] {
    return readEntries(this.#directory());
  }

  #entry(what: string, matches: (entry: LogEntry) => boolean, afterSeq = 0): Promise<LogEntry> {
    return waitForEntry(this.#directory(), what, matches, afterSeq);
  }

  #quote(afterSeq: number): void {
    for (const entry of this.#entries()) {
      if (entry.seq <= afterSeq || entry.type !== "assistant_items") continue;
      for (const item of entry.items) {
        if (item.kind === "message") this.#teller.line("keeper", item.content.map((part) => part.text).join(""));
      }
    }
  }

  #claim(step: DemoStep): void {
    if (!step.ok) this.#failed += 1;
    this.#teller.claim(step);
  }
}

function only<T extends EntryType>(entries: readonly LogEntry[], type: T): (EntryOf<T> & { readonly seq: number })[] {
  return entries.filter((entry): entry is LogEntry & EntryOf<T> => entry.type === type);
}

function order(...seqs: readonly (number | undefined)[]): boolean {
  return seqs.every((seq, i) => seq !== undefined && (i === 0 || seq > (seqs[i - 1] ?? seq)));
}

function read(file: string): string {
  return readFileSync(file, "utf8");
}

function waitForNextLook(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    setTimeout(resolve, 20);
  });
}
