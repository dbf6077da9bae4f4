import { newId } from "../base/ids.ts";
import type { Chain } from "../protocol/chain.ts";
import type { SessionState } from "../session-log/session-state.ts";

/** Where a turn's causal chain comes from (N11). */

/** A chain that begins here. */
export function freshChain(): Chain {
  return { id: newId("chain"), hops: 0 };
}

/** Causality of an automatic turn: the longest chain among what is owed. */
export function chainOfOwed(state: Readonly<SessionState>): Chain {
  let longest: Chain | undefined;
  for (const pending of state.pending.values()) {
    if (pending.kind !== "item" || !state.owed.has(pending.id)) continue;
    if (!longest || pending.item.chain.hops > longest.hops) longest = pending.item.chain;
  }
  return longest ?? freshChain();
}

/** Causality of a turn that a waiting input starts: that of the oldest one. */
export function chainOfInput(state: Readonly<SessionState>): Chain {
  for (const pending of state.pending.values()) if (pending.kind === "input") return pending.input.chain;
  return freshChain();
}
