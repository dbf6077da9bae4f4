import type { Item } from "../llm/item.ts";
import type { Model, Prompt } from "../llm/model.ts";
import { fromLoggedItem } from "../session-log/logged-item-conversion.ts";
import { chooseTake, promptDigestWith, type Take } from "../session-log/pending.ts";
import type { SessionState } from "../session-log/session-state.ts";

/** A request as chosen in one synchronous step: what it takes, and what the model is shown. */
export interface BuiltRequest {
  /** `seq` of the newest entry it was built from. */
  readonly through: number;
  readonly take: Take;
  readonly prompt: Prompt;
  readonly promptDigest: string;
}

/**
 * Builds requests from the state. The items stand in one array that grows from request to request, so that an adapter lowers only
 * what is new; the array is made anew only where the history was not simply extended.
 */
export class RequestBuilder {
  #items: Item[] = [];

  /** Chooses what is taken and builds the prompt. Nothing may be awaited between this and handing the prompt to the model. */
  build(state: Readonly<SessionState>, model: Model): BuiltRequest {
    // A quarter of the context window, in characters at four a token.
    const take = chooseTake(state, model.capabilities.contextWindow);
    const { items } = state;
    const known = this.#items.length;
    if (known > items.length || (known > 0 && !sameItem(this.#items[known - 1], items[known - 1]))) this.#items = [...items];
    else for (const item of items.slice(known)) this.#items.push(item); // Not spread: a long history has more items than a call takes.
    const prompt: Prompt = { system: state.system, tools: state.tools, items: this.#items };
    const built = { through: state.lastSeq, take, prompt, promptDigest: promptDigestWith(state, take) };
    for (const item of take.items) this.#items.push(fromLoggedItem(item));
    return built;
  }
}

function sameItem(mine: Item | undefined, other: Item | undefined): boolean {
  return mine === other || JSON.stringify(mine) === JSON.stringify(other);
}
