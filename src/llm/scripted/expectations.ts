import { plural, prefixOf, suffixOf } from "../../base/text.ts";
import type { Item } from "../item.ts";
import type { Prompt } from "../model.ts";
import { type BodyOptions, sentText } from "./script-body.ts";
import type { Expect } from "./script-format.ts";

const EXCERPT_CHARS = 300;

/** The conversation as texts, one an item, rendered once for all expectations of a step. */
interface Sent {
  readonly system: string;
  readonly tools: readonly string[];
  readonly items: readonly Item[];
  readonly texts: readonly string[];
}

/**
 * Checks what a step expects of the prompt it answers. Returns undefined if all holds, else one sentence that names the first expectation
 * that does not and shows an excerpt of what was sent. Costs one search through the prompt for each text that is named.
 */
export function findUnmet(expect: Expect, prompt: Prompt, options: BodyOptions): string | undefined {
  const sent: Sent = {
    system: prompt.system,
    tools: prompt.tools.map((tool) => tool.name),
    items: prompt.items,
    texts: prompt.items.map((item) => sentText(item, options)),
  };
  for (const check of CHECKS) {
    const unmet = check(expect, sent);
    if (unmet !== undefined) return unmet;
  }
  return undefined;
}

type Check = (expect: Expect, sent: Sent) => string | undefined;

const CHECKS: readonly Check[] = [
  ({ tools = [] }, sent) => {
    const missing = tools.find((tool) => !sent.tools.includes(tool));
    return missing === undefined
      ? undefined
      : `tools: ${quote(missing)} is not among the tools offered: ${sent.tools.join(", ") || "none"}`;
  },
  ({ system_contains = [] }, sent) => {
    const missing = system_contains.find((text) => !sent.system.includes(text));
    if (missing === undefined) return undefined;
    return `system_contains: ${quote(missing)} is not in the system prompt, which begins ${quote(prefixOf(sent.system, EXCERPT_CHARS))}`;
  },
  ({ contains = [] }, sent) => {
    const missing = contains.find((text) => placeOf(text, sent) === undefined);
    return missing === undefined ? undefined : `contains: ${quote(missing)} is nowhere in the conversation; ${newest(sent)}`;
  },
  ({ not_contains = [] }, sent) => {
    for (const text of not_contains) {
      const place = placeOf(text, sent);
      if (place !== undefined) return `not_contains: ${quote(text)} is in the conversation: ${around(place, sent)}`;
    }
    return undefined;
  },
  ({ last_contains = [] }, sent) => {
    if (last_contains.length === 0) return undefined;
    const fresh = sent.texts.slice(sent.items.findLastIndex(isAnswer) + 1);
    const missing = last_contains.find((text) => !fresh.some((candidate) => candidate.includes(text)));
    if (missing === undefined) return undefined;
    return `last_contains: ${quote(missing)} is not in what is new since the model's last answer (${plural(fresh.length, "item")}); ${newest(sent)}`;
  },
  ({ count = {} }, sent) => {
    for (const [text, wanted] of Object.entries(count)) {
      const found = sent.texts.reduce((sum, candidate) => sum + occurrences(text, candidate), 0);
      if (found === wanted) continue;
      const place = placeOf(text, sent);
      const where = place === undefined ? newest(sent) : `first: ${around(place, sent)}`;
      return `count: ${quote(text)} occurs ${plural(found, "time")} in the conversation and not ${plural(wanted, "time")}; ${where}`;
    }
    return undefined;
  },
  ({ order = [] }, sent) => {
    let former: Place | undefined;
    let formerText = "";
    for (const text of order) {
      const place = placeOf(text, sent);
      if (place === undefined) return `order: ${quote(text)} is nowhere in the conversation; ${newest(sent)}`;
      if (former !== undefined && !isBefore(former, place)) {
        return `order: ${quote(formerText)} does not stand before ${quote(text)}, which stands here: ${around(place, sent)}`;
      }
      former = place;
      formerText = text;
    }
    return undefined;
  },
  ({ results_before = [] }, sent) => {
    if (results_before.length === 0) return undefined;
    const lastResult = sent.items.findLastIndex((item) => item.kind === "tool_result");
    if (lastResult < 0) return `results_before: the conversation holds no tool result; ${newest(sent)}`;
    for (const text of results_before) {
      const place = placeOf(text, sent);
      if (place === undefined) return `results_before: ${quote(text)} is nowhere in the conversation; ${newest(sent)}`;
      if (place.item <= lastResult) {
        return `results_before: ${quote(text)} does not stand behind the newest tool result: ${around(place, sent)}`;
      }
    }
    return undefined;
  },
];

/** Where a text occurs first: number of the item and offset in its text. */
interface Place {
  readonly item: number;
  readonly offset: number;
}

function placeOf(text: string, sent: Sent): Place | undefined {
  for (const [item, candidate] of sent.texts.entries()) {
    const offset = candidate.indexOf(text);
    if (offset >= 0) return { item, offset };
  }
  return undefined;
}

function isBefore(a: Place, b: Place): boolean {
  return a.item < b.item || (a.item === b.item && a.offset < b.offset);
}

function isAnswer(item: Item): boolean {
  return item.kind === "message" || item.kind === "reasoning" || item.kind === "tool_call";
}

function occurrences(text: string, candidate: string): number {
  let found = 0;
  for (let from = candidate.indexOf(text); from >= 0; from = candidate.indexOf(text, from + text.length)) found++;
  return found;
}

function newest({ texts, items }: Sent): string {
  const text = texts.at(-1);
  if (text === undefined) return "the conversation is empty";
  return `the newest of ${plural(texts.length, "item")} (${items.at(-1)?.kind}) ends ${quote(suffixOf(text, EXCERPT_CHARS))}`;
}

function around({ item, offset }: Place, sent: Sent): string {
  const text = sent.texts[item] ?? "";
  const begin = suffixOf(text.slice(0, offset), EXCERPT_CHARS / 3);
  const excerpt = begin + prefixOf(text.slice(offset), (EXCERPT_CHARS * 2) / 3);
  return `item ${item + 1} of ${sent.texts.length} (${sent.items[item]?.kind}) reads ${quote(excerpt)}`;
}

/** A text on one line. */
function quote(text: string): string {
  return JSON.stringify(text);
}
