import type {
  LanguageModelV4Message,
  LanguageModelV4ReasoningPart,
  LanguageModelV4TextPart,
  LanguageModelV4ToolCallPart,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import { assertNever } from "../base/assert-never.ts";
import { toSafeText } from "../base/text.ts";
import type { SystemItem } from "../protocol/system-item.ts";
import type { Item, MessageItem, ProviderMetadata, ReasoningItem, SystemItemItem, ToolResultItem, UserItem } from "./item.ts";
import { renderSystemItemBlock } from "./system-item-block.ts";
import { toWireArguments } from "./wire-json.ts";
import { type Namespace, toWireOptions } from "./wire-metadata.ts";
import { CallIdMap, wireToolName } from "./wire-name.ts";

/** What lowering must know about the model it lowers for. */
export interface LoweringRules {
  /** Operator items may go in place as role system (capability table). */
  readonly systemInPlace: boolean;
  /** Whether reasoning with this metadata can go back: signed or encrypted by the provider that gets the request (B48, B52). */
  readonly keepsReasoning: (metadata: ProviderMetadata) => boolean;
  /** Whose metadata goes back at all; absent = everybody's. */
  readonly namespace?: Namespace;
  /** Longest id of a tool call; absent = 64 characters. */
  readonly maxCallIdChars?: number;
  /** Neighbouring texts of the user's side become one text: servers of this kind often take no list of texts. */
  readonly joinsUserTexts?: boolean;
  /** An assistant turn must stand between tool results and a user turn (B44). */
  readonly strictRoles?: boolean;
  /** The pieces a text was answered in, where each has a signature of its own that must stay on it (B51). */
  readonly piecesOf?: (text: string, metadata: ProviderMetadata, kind: AnswerPiece["kind"]) => readonly AnswerPiece[] | undefined;
  /** Of so many items at the beginning of the history the provider refuses its own proofs (B50). */
  readonly refusedProofsBefore?: number;
}

/** A piece of what the model said. An unmarked blank one is never sent. */
export interface AnswerPiece {
  readonly kind: "text" | "reasoning";
  readonly text: string;
  readonly metadata?: ProviderMetadata;
}

type UserSideItem = UserItem | SystemItemItem | ToolResultItem;
type AssistantPart = LanguageModelV4TextPart | LanguageModelV4ReasoningPart | LanguageModelV4ToolCallPart;
type UserContent = Extract<LanguageModelV4Message, { role: "user" }>["content"];
interface OpenCall {
  readonly callId: string;
  readonly wireId: string;
  readonly name: string;
}

/**
 * A conversation in the form of the adapter, extended item by item. Every state of it can be sent:
 *
 * 1. It begins with a user turn.
 * 2. What the model said in one go is one assistant message, which never ends with reasoning (providers refuse that).
 * 3. The results of a batch stand directly behind it; texts that came between wait until the last one (B42, B46).
 * 4. Neighbouring texts of the user's side are one user message, each text a part of its own, none blank (N4, N5).
 *    Servers that want one text get one, the texts with a blank line between them.
 * 5. A system message in place stands between a user turn and an assistant turn or the end, alone. So an operator item at the end is
 *    provisional: if something of the user's side follows before the model answered, it becomes a tagged block. No answer ever saw it
 *    otherwise, so what an answer was built on never changes (I11).
 */
export class LoweredConversation {
  readonly #rules: LoweringRules;
  readonly #callIds: CallIdMap;
  #messages: LanguageModelV4Message[] = [];
  #pendingReasoning: LanguageModelV4ReasoningPart[] = [];
  #openCalls: OpenCall[] = [];
  #waiting: UserSideItem[] = [];
  #resultsBegan = false;
  #trailing: SystemItem | undefined;
  #itemCount = 0;

  constructor(rules: LoweringRules) {
    this.#rules = rules;
    this.#callIds = new CallIdMap(rules.maxCallIdChars);
  }

  /** Extends the conversation by one item. */
  push(item: Item): void {
    this.#itemCount += 1;
    switch (item.kind) {
      case "message":
        this.#pushMessage(item);
        return;
      case "reasoning":
        this.#pushReasoning(item);
        return;
      case "tool_call": {
        const call = { callId: item.callId, wireId: this.#callIds.allocate(item.callId), name: wireToolName(item.name) };
        this.#pushAssistant({
          type: "tool-call",
          toolCallId: call.wireId,
          toolName: call.name,
          input: toWireArguments(item.arguments),
          ...this.#optionsOf(item.provider),
        });
        this.#openCalls.push(call);
        return;
      }
      case "tool_result":
        this.#pushResult(item);
        return;
      case "user":
      case "system":
        this.#pendingReasoning = [];
        if (this.#openCalls.length > 0)
          this.#waiting.push(item); // 3
        else this.#pushUserSide(item);
        return;
      default:
        assertNever(item, "item");
    }
  }

  /** The messages as they are sent now. What is returned is never changed afterwards. */
  toMessages(): LanguageModelV4Message[] {
    if (this.#openCalls.length > 0) {
      const closed = this.#copy();
      closed.#closeOpenCalls();
      return closed.toMessages();
    }
    const trailing: LanguageModelV4Message[] =
      this.#trailing === undefined ? [] : [{ role: "system", content: toSafeText(this.#trailing.body) }];
    return [...this.#messages, ...trailing];
  }

  #pushMessage(item: MessageItem): void {
    const text = toSafeText(item.text);
    const pieces =
      item.provider === undefined || this.#areProofsRefused ? undefined : this.#rules.piecesOf?.(text, item.provider, "text");
    if (pieces !== undefined) this.#pushPieces(pieces);
    else if (!isBlank(text)) this.#pushAssistant({ type: "text", text, ...this.#optionsOf(item.provider) });
  }

  #pushReasoning(item: ReasoningItem): void {
    if (item.provider === undefined || this.#areProofsRefused || !this.#rules.keepsReasoning(item.provider)) return;
    // Not toSafeText: a signature holds for exactly this text (B48); only what no server would take is mended.
    const text = item.text.toWellFormed();
    const pieces = this.#rules.piecesOf?.(text, item.provider, "reasoning") ?? [
      { kind: "reasoning", text, metadata: item.provider },
    ];
    this.#pushPieces(pieces);
  }

  #pushPieces(pieces: readonly AnswerPiece[]): void {
    for (const { kind, text, metadata } of pieces) {
      if (kind === "text") this.#pushAssistant({ type: "text", text, ...this.#optionsOf(metadata) });
      else this.#pendingReasoning.push({ type: "reasoning", text, ...this.#optionsOf(metadata) });
    }
  }

  get #areProofsRefused(): boolean {
    return this.#itemCount <= (this.#rules.refusedProofsBefore ?? 0);
  }

  #optionsOf(metadata: ProviderMetadata | undefined): { providerOptions?: SharedV4ProviderOptions } {
    if (metadata === undefined) return {};
    const options = toWireOptions(metadata, this.#rules.namespace, this.#areProofsRefused);
    return options === undefined ? {} : { providerOptions: options };
  }

  #pushAssistant(part: AssistantPart): void {
    // An open call of an earlier answer is never answered any more once the model speaks again (I5 makes this rare).
    if (this.#resultsBegan || this.#waiting.length > 0) this.#closeOpenCalls();
    if (this.#trailing !== undefined) {
      this.#messages.push({ role: "system", content: toSafeText(this.#trailing.body) }); // 5
      this.#trailing = undefined;
    }
    if (this.#messages.length === 0) this.#pushUserText("(the conversation before this is not shown)"); // 1
    const parts = [...this.#pendingReasoning, part];
    this.#pendingReasoning = [];
    const last = this.#messages.at(-1);
    if (last?.role === "assistant") this.#replaceLast({ ...last, content: [...last.content, ...parts] });
    else this.#messages.push({ role: "assistant", content: parts });
  }

  #pushResult(item: ToolResultItem): void {
    this.#pendingReasoning = [];
    const index = this.#openCalls.findIndex((call) => call.callId === item.callId);
    const call = this.#openCalls[index];
    if (call === undefined) {
      if (this.#openCalls.length > 0) this.#waiting.push(item);
      else this.#pushUserSide(item);
      return;
    }
    this.#openCalls.splice(index, 1);
    this.#resultsBegan = true;
    this.#pushToolPart({
      type: "tool-result",
      toolCallId: call.wireId,
      toolName: call.name,
      output: { type: item.isError ? "error-text" : "text", value: resultText(item) },
    });
    if (this.#openCalls.length === 0) this.#endBatch();
  }

  #pushUserSide(item: UserSideItem): void {
    if (this.#trailing !== undefined) {
      this.#pushUserText(renderSystemItemBlock(this.#trailing)); // 5
      this.#trailing = undefined;
    }
    switch (item.kind) {
      case "user": {
        const texts = item.content.map((part) => part.text).filter((text) => !isBlank(text));
        for (const text of texts.length > 0 ? texts : ["(an empty message)"]) this.#pushUserText(text); // 4
        return;
      }
      case "tool_result":
        // Its call is gone: providers would refuse a result, the model should still know what happened.
        this.#pushUserText(`[Result of an earlier call of ${wireToolName(item.name)}]\n${resultText(item)}`);
        return;
      case "system":
        if (this.#canStandInPlace(item.item)) this.#trailing = item.item;
        else this.#pushUserText(renderSystemItemBlock(item.item));
        return;
      default:
        assertNever(item, "user-side item");
    }
  }

  // N14: whatever the model can do, only the owner's own words may have the role of the system.
  #canStandInPlace(item: SystemItem): boolean {
    const lastRole = this.#messages.at(-1)?.role;
    return (
      this.#rules.systemInPlace &&
      item.trust === "operator" &&
      !isBlank(item.body) &&
      (lastRole === "user" || lastRole === "tool")
    );
  }

  #closeOpenCalls(): void {
    for (const call of this.#openCalls) {
      this.#pushToolPart({
        type: "tool-result",
        toolCallId: call.wireId,
        toolName: call.name,
        output: { type: "error-text", value: "(no result of this call was recorded)" },
      });
    }
    this.#openCalls = [];
    this.#endBatch();
  }

  #endBatch(): void {
    this.#resultsBegan = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const item of waiting) this.#pushUserSide(item);
  }

  // Messages that were handed out stay as they are: a longer one takes the place of the last.
  #pushToolPart(part: LanguageModelV4ToolResultPart): void {
    const last = this.#messages.at(-1);
    if (last?.role === "tool") this.#replaceLast({ ...last, content: [...last.content, part] });
    else this.#messages.push({ role: "tool", content: [part] });
  }

  #pushUserText(text: string): void {
    const part = { type: "text", text: toSafeText(text) } as const;
    const last = this.#messages.at(-1);
    if (last?.role === "user") this.#replaceLast({ ...last, content: this.#joinUserTexts(last.content, part) });
    else {
      if (last?.role === "tool" && this.#rules.strictRoles === true) {
        this.#messages.push({ role: "assistant", content: [{ type: "text", text: "(I have these results.)" }] });
      }
      this.#messages.push({ role: "user", content: [part] });
    }
  }

  #joinUserTexts(content: UserContent, part: LanguageModelV4TextPart): UserContent {
    const [first] = content;
    if (this.#rules.joinsUserTexts !== true || first?.type !== "text") return [...content, part];
    return [{ ...first, text: `${first.text}\n\n${part.text}` }];
  }

  #replaceLast(message: LanguageModelV4Message): void {
    this.#messages[this.#messages.length - 1] = message;
  }

  #copy(): LoweredConversation {
    const copy = new LoweredConversation(this.#rules);
    copy.#messages = [...this.#messages];
    copy.#openCalls = [...this.#openCalls];
    copy.#waiting = [...this.#waiting];
    copy.#trailing = this.#trailing;
    return copy;
  }
}

function resultText(item: ToolResultItem): string {
  const text = [item.content, item.summary].find((candidate) => candidate !== undefined && !isBlank(candidate));
  return toSafeText(text ?? "(no output)");
}

/** True for a text without anything visible: providers refuse such a block. */
function isBlank(text: string): boolean {
  return text.trim() === "";
}
