import type { LanguageModelV4FinishReason, LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider";
import { assertNever } from "../base/assert-never.ts";
import type { StopReason } from "../protocol/event.ts";
import type { Usage } from "../protocol/status.ts";
import type { AnswerItem, ProviderMetadata } from "./item.ts";
import type { ModelEvent } from "./model.ts";
import { type Namespace, toOwnMetadata } from "./wire-metadata.ts";

/** A piece of a text as it came: pieces with a signature stay apart from those without, and from each other. */
export interface ReceivedPiece {
  /** UTF-16 units. */
  readonly chars: number;
  readonly signature: string | undefined;
}

/** What the answers of one provider need beyond the adapter. */
export interface AnswerRules {
  /** Names of the provider's metadata; absent = as the adapter says. */
  readonly namespace?: Namespace;
  /** Whether an answer that ended for this reason is whole; absent = every reason that the provider itself gave (B64). */
  readonly isWhole?: (reason: LanguageModelV4FinishReason) => boolean;
  /** How the pieces of a block are kept (B51); absent = one signature for the whole block, whichever came last. */
  readonly pieces?: {
    readonly signatureOf: (metadata: ProviderMetadata) => string | undefined;
    readonly toMetadata: (pieces: readonly ReceivedPiece[], kind: "text" | "reasoning") => ProviderMetadata | undefined;
  };
  /** Metadata for reasoning that came without any, so that it can go back; absent = it cannot. */
  readonly reasoningMark?: ProviderMetadata;
}

interface Block {
  readonly kind: "text" | "reasoning" | "tool_call";
  readonly key: string;
  readonly callId: string;
  readonly name: string;
  /** What the provider itself ran: shown to nobody, answered by nobody. */
  readonly isProvidersOwn: boolean;
  text: string;
  provider: ProviderMetadata | undefined;
  pieces: ReceivedPiece[];
  isComplete: boolean;
}

/** Where an answer stands: still open, ended with its last event, or ended without it. */
export type AnswerEnd =
  | { readonly kind: "open" }
  | {
      readonly kind: "finished";
      readonly stop: StopReason;
      readonly usage: Usage;
      /** The provider's own word for it. */
      readonly reason: string;
      /** The model neither said nor called anything. */
      readonly isEmpty: boolean;
    }
  | { readonly kind: "cut"; readonly what: string };

/** Turns the stream parts of one answer into events: deltas as they come, items complete and in the order they began. */
export class AnswerBuilder {
  #blocks: Block[] = [];
  readonly #callIds = new Set<string>();
  readonly #rules: AnswerRules;
  #end: AnswerEnd = { kind: "open" };
  #isEmpty = true;

  constructor(rules: AnswerRules = {}) {
    this.#rules = rules;
  }

  get end(): AnswerEnd {
    return this.#end;
  }

  /** Takes the next part. `error` parts are the caller's. Nothing may follow once {@link end} is not `open`. */
  *push(part: LanguageModelV4StreamPart): Generator<ModelEvent> {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        this.#begin({ kind: part.type === "text-start" ? "text" : "reasoning", key: part.id, provider: part.providerMetadata });
        return;
      case "text-delta":
      case "reasoning-delta": {
        const block = this.#find(part.type === "text-delta" ? "text" : "reasoning", part.id);
        if (block === undefined) return; // of a kind of block we do not know: nothing was begun
        block.text += part.delta;
        block.provider = merge(block.provider, part.providerMetadata);
        this.#notePiece(block, part.delta, part.providerMetadata);
        if (part.delta === "") return;
        yield { type: part.type === "text-delta" ? "text_delta" : "thinking_delta", text: part.delta };
        return;
      }
      case "text-end":
      case "reasoning-end": {
        const block = this.#find(part.type === "text-end" ? "text" : "reasoning", part.id);
        if (block === undefined) return;
        block.provider = merge(block.provider, part.providerMetadata);
        block.isComplete = true;
        yield* this.#takeComplete();
        return;
      }
      case "tool-input-start": {
        const isProvidersOwn = part.providerExecuted === true;
        const block = this.#begin({ kind: "tool_call", key: part.id, name: part.toolName, isProvidersOwn });
        if (!isProvidersOwn) yield { type: "tool_call_delta", callId: block.callId, name: block.name, arguments: "" };
        return;
      }
      case "tool-input-delta": {
        const block = this.#find("tool_call", part.id);
        if (block === undefined) return;
        block.text += part.delta;
        if (!block.isProvidersOwn) {
          yield { type: "tool_call_delta", callId: block.callId, name: block.name, arguments: part.delta };
        }
        return;
      }
      case "tool-call": {
        const block =
          this.#find("tool_call", part.toolCallId) ??
          this.#begin({
            kind: "tool_call",
            key: part.toolCallId,
            name: part.toolName,
            isProvidersOwn: part.providerExecuted === true,
          });
        block.text = part.input;
        block.provider = merge(block.provider, part.providerMetadata);
        block.isComplete = true;
        yield* this.#takeComplete();
        return;
      }
      case "finish":
        yield* this.#finish(part.finishReason, part.usage);
        return;
      case "tool-input-end": // the call itself follows
      case "stream-start":
      case "response-metadata":
      case "ping":
      case "raw":
      case "error":
      case "custom":
      case "source":
      case "file":
      case "reasoning-file":
      case "tool-result": // of a tool the provider ran
      case "tool-approval-request":
        return;
      default:
        assertNever(part, "stream part");
    }
  }

  *#finish(reason: LanguageModelV4FinishReason, usage: LanguageModelV4Usage): Generator<ModelEvent> {
    const isWhole = this.#rules.isWhole ?? hasReason;
    if (!isWhole(reason)) {
      this.#end = { kind: "cut", what: "ended its answer without saying that it was complete" };
      return;
    }
    const stop = toStopReason(reason);
    // A filter can step in anywhere: what was said stays, a call that it cut does not.
    if (stop === "content_filter" || stop === "refusal") this.#blocks = this.#blocks.filter(({ kind }) => kind !== "tool_call");
    else if (this.#blocks.length > 0 && stop !== "max_tokens") {
      this.#end = { kind: "cut", what: "ended its answer in the middle of a block" };
      return;
    }
    // B74: what the output limit cut off is kept as it is; nobody runs a call whose arguments are no object.
    for (const block of this.#blocks) block.isComplete = true;
    yield* this.#takeComplete();
    this.#end = { kind: "finished", stop, usage: toUsage(usage), reason: reason.raw ?? "", isEmpty: this.#isEmpty };
  }

  #begin(
    start: Pick<Block, "kind" | "key"> & { name?: string; isProvidersOwn?: boolean; provider?: ProviderMetadata | undefined },
  ): Block {
    const block: Block = {
      kind: start.kind,
      key: start.key,
      callId: start.kind === "tool_call" ? this.#uniqueCallId(start.key) : "",
      name: start.name ?? "",
      isProvidersOwn: start.isProvidersOwn ?? false,
      text: "",
      provider: start.provider,
      pieces: [],
      isComplete: false,
    };
    this.#blocks.push(block);
    return block;
  }

  // A result finds its call by this id, so two calls of one answer must not share one.
  #uniqueCallId(id: string): string {
    let callId = id === "" ? "call" : id;
    for (let n = 2; this.#callIds.has(callId); n++) callId = `${id === "" ? "call" : id}_${n}`;
    this.#callIds.add(callId);
    return callId;
  }

  #find(kind: Block["kind"], key: string): Block | undefined {
    return this.#blocks.findLast((block) => block.kind === kind && block.key === key && !block.isComplete);
  }

  *#takeComplete(): Generator<ModelEvent> {
    for (let block = this.#blocks[0]; block?.isComplete === true; block = this.#blocks[0]) {
      this.#blocks.shift();
      const item = this.#toItem(block);
      if (item === undefined) continue;
      if (item.kind !== "reasoning") this.#isEmpty = false;
      yield { type: "item", item };
    }
  }

  #notePiece(block: Block, delta: string, metadata: ProviderMetadata | undefined): void {
    const { pieces } = this.#rules;
    if (pieces === undefined) return;
    const signature = metadata === undefined ? undefined : pieces.signatureOf(metadata);
    const last = block.pieces.at(-1);
    if (signature === undefined && last !== undefined && last.signature === undefined) {
      block.pieces[block.pieces.length - 1] = { chars: last.chars + delta.length, signature };
    } else if (delta !== "" || signature !== undefined) block.pieces.push({ chars: delta.length, signature });
  }

  #toItem(block: Block): AnswerItem | undefined {
    const { kind, pieces } = block;
    let metadata = block.provider;
    if (kind !== "tool_call" && this.#rules.pieces !== undefined) metadata = this.#rules.pieces.toMetadata(pieces, kind);
    if (metadata !== undefined && this.#rules.namespace !== undefined) metadata = toOwnMetadata(metadata, this.#rules.namespace);
    if (kind === "reasoning") metadata ??= this.#rules.reasoningMark;
    // A signature without a text is no message; it is kept as reasoning and goes back as the text it was.
    const isSignatureOnly =
      kind === "text" && block.text.trim() === "" && pieces.some(({ signature }) => signature !== undefined);
    return toItem(isSignatureOnly ? { ...block, kind: "reasoning", provider: metadata } : { ...block, provider: metadata });
  }
}

// The adapters report a stream that just ended as `interrupted`, and one whose last event gave no reason without a raw one (B64).
function hasReason(reason: LanguageModelV4FinishReason): boolean {
  return reason.unified !== "interrupted" && reason.raw !== undefined;
}

function toItem(block: Block): AnswerItem | undefined {
  const provider = block.provider === undefined ? {} : { provider: block.provider };
  switch (block.kind) {
    case "text":
      return block.text.trim() === "" ? undefined : { kind: "message", text: block.text, ...provider };
    case "reasoning":
      return block.text === "" && block.provider === undefined ? undefined : { kind: "reasoning", text: block.text, ...provider };
    case "tool_call":
      if (block.isProvidersOwn) return undefined;
      return { kind: "tool_call", callId: block.callId, name: block.name, arguments: block.text, ...provider };
    default:
      return assertNever(block.kind, "block");
  }
}

function merge(a: ProviderMetadata | undefined, b: ProviderMetadata | undefined): ProviderMetadata | undefined {
  if (a === undefined || b === undefined) return b ?? a;
  const merged: Record<string, Readonly<Record<string, unknown>>> = { ...a };
  for (const [provider, value] of Object.entries(b)) merged[provider] = { ...merged[provider], ...value };
  return merged;
}

function toStopReason(reason: LanguageModelV4FinishReason): StopReason {
  switch (reason.unified) {
    case "stop":
      return "end";
    case "tool-calls":
      return "tool_calls";
    case "length":
      return "max_tokens";
    case "content-filter":
      // A refusal in the model's own words ends like any other answer.
      return reason.raw === "refusal" || reason.raw === "stop" || reason.raw === undefined ? "refusal" : "content_filter";
    case "interrupted":
    case "error":
    case "other":
      return reason.raw === undefined || reason.raw === "" ? "end" : "other";
    default:
      return assertNever(reason.unified, "finish reason");
  }
}

/** Tokens by how they are charged: `input` excludes what was read from or written to the provider's cache; `output` includes reasoning. */
function toUsage(usage: LanguageModelV4Usage): Usage {
  const { inputTokens, outputTokens } = usage;
  return {
    input: toCount(inputTokens.noCache ?? inputTokens.total),
    output: toCount(outputTokens.total),
    cache_read: toCount(inputTokens.cacheRead),
    cache_write: toCount(inputTokens.cacheWrite),
  };
}

function toCount(tokens: number | undefined): number {
  return tokens === undefined || !Number.isFinite(tokens) ? 0 : Math.max(0, Math.trunc(tokens));
}
