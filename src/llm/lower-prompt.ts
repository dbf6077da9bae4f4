import type {
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import { isJsonObject } from "../base/json.ts";
import { toSafeText } from "../base/text.ts";
import type { Adjustments } from "../protocol/session-config.ts";
import type { Item } from "./item.ts";
import { LoweredConversation, type LoweringRules } from "./lowered-conversation.ts";
import type { Prompt, ToolDefinition } from "./model.ts";
import { toWireJson } from "./wire-json.ts";

/** How a {@link PromptLowering} lowers: the rules of the model and what is put on the system prompt (a cache mark). */
export interface PromptLoweringOptions extends LoweringRules {
  readonly systemOptions?: SharedV4ProviderOptions;
}

interface Kept {
  readonly conversation: LoweredConversation;
  readonly seen: Item[];
  readonly systemInPlace: boolean;
  readonly refusedProofsBefore: number;
}

/**
 * Lowers prompts for one model. Pure: the same prompt always gives the same messages. It remembers what it lowered by the identity of the items
 * array, so that a growing history costs only what is new; an array that is no extension of what was seen is lowered from the start.
 */
export class PromptLowering {
  readonly #options: PromptLoweringOptions;
  readonly #kept = new WeakMap<readonly Item[], Kept>();

  constructor(options: PromptLoweringOptions) {
    this.#options = options;
  }

  /** The prompt in the form of the adapter: the system prompt, unless it is blank, and the conversation. */
  lower(prompt: Prompt, adjustments?: Adjustments): LanguageModelV4Prompt {
    const hasSystem = prompt.system.trim() !== "";
    const refused = adjustments?.refused_proofs;
    const messages = this.#lowerItems(prompt.items, {
      // Without a system prompt the adapter would take the first message in place for it.
      systemInPlace: this.#options.systemInPlace && hasSystem,
      refusedProofsBefore: refused !== undefined && refused.provider === this.#options.namespace?.own ? refused.before : 0,
    });
    if (!hasSystem) return messages;
    const { systemOptions } = this.#options;
    const system: LanguageModelV4Message = {
      role: "system",
      content: toSafeText(prompt.system),
      ...(systemOptions === undefined ? {} : { providerOptions: systemOptions }),
    };
    return [system, ...messages];
  }

  #lowerItems(items: readonly Item[], rules: Pick<Kept, "systemInPlace" | "refusedProofsBefore">): LanguageModelV4Message[] {
    let kept = this.#kept.get(items);
    const isSame = kept?.systemInPlace === rules.systemInPlace && kept.refusedProofsBefore === rules.refusedProofsBefore;
    if (kept === undefined || !isSame || !isExtension(items, kept.seen)) {
      kept = { conversation: new LoweredConversation({ ...this.#options, ...rules }), seen: [], ...rules };
      this.#kept.set(items, kept);
    }
    for (const item of items.slice(kept.seen.length)) {
      kept.conversation.push(item);
      kept.seen.push(item);
    }
    return kept.conversation.toMessages();
  }
}

/** The tools as the adapter takes them, in the given order. `strict` is written out where a provider would otherwise assume the opposite. */
export function lowerTools(tools: readonly ToolDefinition[], strict?: boolean): LanguageModelV4FunctionTool[] {
  return tools.map((tool) => {
    const schema = toWireJson(tool.inputSchema);
    return {
      type: "function",
      name: tool.name,
      description: toSafeText(tool.description),
      inputSchema: isJsonObject(schema) ? schema : {},
      ...(strict === undefined ? {} : { strict }),
    };
  });
}

// Compares references only: nothing against the request, which goes over the whole history anyway.
function isExtension(items: readonly Item[], seen: readonly Item[]): boolean {
  return items.length >= seen.length && seen.every((item, index) => items[index] === item);
}
