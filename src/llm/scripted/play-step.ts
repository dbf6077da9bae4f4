import { resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { StopReason } from "../../protocol/event.ts";
import type { Usage } from "../../protocol/status.ts";
import type { AnswerItem, Item, ToolCallItem } from "../item.ts";
import type { ModelEvent, ModelFailure } from "../model.ts";
import { toFailure } from "../provider-failure.ts";
import { reasoningProvider } from "./script-body.ts";
import type { Step } from "./script-format.ts";
import type { Silence } from "./silence.ts";
import { characterCount, firstCharacters, textChunks } from "./text-chunks.ts";
import { troubleOf } from "./trouble.ts";

const DEFAULT_CHUNK = 12;
const DEFAULT_WITHIN_MS = 30_000;
/** Deltas without a pace that are produced before the rest of the process gets its turn: an abort must be noticed. */
const DELTAS_A_TICK = 16;

/** Everything a step needs to be played besides itself. */
interface StepContext {
  /** Number of the step, counted from 1. */
  readonly number: number;
  /** 1 = first. */
  readonly attempt: number;
  /** The conversation it answers. */
  readonly items: readonly Item[];
  /** Size of the body that was sent, bytes: what the input usage is estimated from. */
  readonly bodyBytes: number;
  /** The script's own `pace` and `chunk`. */
  readonly defaults: { readonly pace?: number | undefined; readonly chunk?: number | undefined };
  /** What `wait_for` paths are relative to. */
  readonly folder: string;
  readonly silence: Silence;
}

/** One item of the answer, with the text that is streamed for it. */
interface Part {
  readonly item: AnswerItem;
  readonly text: string;
}

/** Plays one attempt at a step; ends with exactly one `finish` or `failure`. */
export async function* playStep(step: Step, context: StepContext): AsyncGenerator<ModelEvent, void, void> {
  const { silence } = context;
  const waited = await waitBefore(step, context);
  if (waited !== undefined) return yield failed(waited);

  const parts = partsOf(step, context);
  const trouble = troubleOf(step, context.attempt);
  const paceMs = step.pace ?? context.defaults.pace ?? 0;
  const chunk = step.chunk ?? context.defaults.chunk ?? DEFAULT_CHUNK;
  let deltas = 0;
  for (const event of answerEvents(parts, { chunk, limit: trouble?.afterCharacters ?? Number.POSITIVE_INFINITY })) {
    const paused = event.type === "item" ? silence.break() : await pause(silence, { paceMs, deltas: deltas++ });
    if (paused !== undefined) return yield failed(paused);
    yield event;
  }
  if (trouble?.end.kind === "failure") return yield failed(silence.break() ?? trouble.end.failure);
  if (trouble !== undefined) {
    const ended = await silence.wait(Number.POSITIVE_INFINITY);
    return yield failed(ended ?? toFailure("timeout", "the script stays silent here"));
  }
  const cancelled = silence.break();
  yield cancelled === undefined ? toEnd(step, parts, context) : failed(cancelled);
}

function failed(failure: ModelFailure): ModelEvent {
  return { type: "failure", failure };
}

async function waitBefore(step: Step, { silence, folder }: StepContext): Promise<ModelFailure | undefined> {
  const waited = step.wait === undefined ? undefined : await silence.wait(step.wait);
  if (waited !== undefined || step.wait_for === undefined) return waited;
  const { file, within = DEFAULT_WITHIN_MS } = step.wait_for;
  return silence.waitForFile(resolve(folder, file), within);
}

/** The wait before a delta: its pace, or now and then a tick of the event loop. */
async function pause(
  silence: Silence,
  { paceMs, deltas }: { readonly paceMs: number; readonly deltas: number },
): Promise<ModelFailure | undefined> {
  if (paceMs > 0) {
    const paused = await silence.wait(paceMs);
    if (paused !== undefined) return paused;
  } else if (deltas % DELTAS_A_TICK === DELTAS_A_TICK - 1) {
    await setImmediate();
  }
  return silence.break();
}

/** The deltas and items of an answer, up to `limit` streamed characters; an item only when all of it was streamed. */
function* answerEvents(
  parts: readonly Part[],
  { chunk, limit }: { readonly chunk: number; readonly limit: number },
): Generator<ModelEvent, void, void> {
  let left = limit;
  for (const { item, text } of parts) {
    // A call without arguments still has one delta: people see that it begins.
    for (const piece of text === "" ? [""] : textChunks(text, chunk)) {
      if (left <= 0) return;
      const size = characterCount(piece);
      yield toDelta(item, size <= left ? piece : firstCharacters(piece, left));
      left -= size;
      if (left < 0) return;
    }
    yield { type: "item", item };
  }
}

function toDelta(item: AnswerItem, text: string): ModelEvent {
  switch (item.kind) {
    case "reasoning":
      return { type: "thinking_delta", text };
    case "message":
      return { type: "text_delta", text };
    case "tool_call":
      return { type: "tool_call_delta", callId: item.callId, name: item.name, arguments: text };
  }
}

/** The answer in the order in which providers give it: reasoning, text, calls. Empty texts are no items. */
function partsOf(step: Step, { number, items }: StepContext): readonly Part[] {
  const parts: Part[] = [];
  const { think = "", say = "", call = [] } = step;
  if (think !== "") parts.push({ item: { kind: "reasoning", text: think, provider: reasoningProvider(number) }, text: think });
  if (say !== "") parts.push({ item: { kind: "message", text: say }, text: say });
  if (call.length === 0) return parts;
  const taken = new Set<string>(items.flatMap((item) => (item.kind === "tool_call" ? [item.callId] : [])));
  for (const [index, { tool, input = {}, arguments: raw, id }] of call.entries()) {
    const text = raw ?? JSON.stringify(input);
    const callId = id ?? freeId(`call_${number}_${index + 1}`, taken);
    taken.add(callId);
    const item: ToolCallItem = { kind: "tool_call", callId, name: tool, arguments: text };
    parts.push({ item, text });
  }
  return parts;
}

/** A fork counts its answers anew over a history that holds the same ids: the id must differ, and be the same in every attempt. */
function freeId(wanted: string, taken: ReadonlySet<string>): string {
  let id = wanted;
  for (let n = 2; taken.has(id); n++) id = `${wanted}_${n}`;
  return id;
}

function toEnd(step: Step, parts: readonly Part[], context: StepContext): ModelEvent {
  const calls = parts.some(({ item }) => item.kind === "tool_call");
  const stop: StopReason = step.stop ?? (calls ? "tool_calls" : "end");
  if (parts.length === 0) {
    if (stop === "refusal" || stop === "content_filter")
      return failed(toFailure("refused", `the script refuses to answer (stop: ${stop})`));
    if (stop === "end" || stop === "tool_calls") {
      return failed(
        toFailure("empty_answer", `step ${context.number} of the script says nothing: give it "say", "think" or "call"`),
      );
    }
  }
  return { type: "finish", stop, usage: usageOf(step, parts, context) };
}

/** What the step states, else about four characters a token. */
function usageOf(step: Step, parts: readonly Part[], { bodyBytes }: StepContext): Usage {
  const outputChars = parts.reduce((sum, { text }) => sum + text.length, 0);
  const { input, output, cache_read = 0, cache_write = 0 } = step.usage ?? {};
  return { input: input ?? Math.ceil(bodyBytes / 4), output: output ?? Math.ceil(outputChars / 4), cache_read, cache_write };
}
