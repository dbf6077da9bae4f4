import type { TurnError } from "../protocol/event.ts";
import type { SystemItem } from "../protocol/system-item.ts";
import { turnInputWaits } from "../session-log/pending.ts";
import { RequestBuilder } from "./build-request.ts";
import { requestAnswer } from "./request-answer.ts";
import { runToolCalls } from "./run-tool-calls.ts";
import type { TurnPort, TurnSignals } from "./turn-port.ts";

/** How a turn left the loop. The Pod commits the matching `turn_ended` or `turn_paused`. */
export type TurnEnd =
  | { readonly kind: "completed" }
  | { readonly kind: "failed"; readonly error: TurnError }
  | { readonly kind: "cancelled" }
  | { readonly kind: "paused" };

/**
 * Runs a turn from wherever the log says it is, until the model asks for nothing more:
 *
 *     loop
 *       open calls?            run them, each result committed as its call ends
 *       nothing more asked?    the turn is over, unless an interceptor goes on or its own input has not been taken in yet
 *       pause wanted?          stop here: no further call or request starts
 *       else                   one request: take in what is pending, send, stream, commit the answer
 *
 * So a fresh turn, a resumed one and one restored in the middle of its calls are the same case. Notifications are not looked for:
 * the next request takes in what is pending (I7).
 */
export class TurnLoop {
  readonly #port: TurnPort;
  // Kept across turns: what an adapter lowered for one turn's requests serves the next.
  readonly #builder = new RequestBuilder();

  constructor(port: TurnPort) {
    this.#port = port;
  }

  /** Runs the open turn. Throws only when the log cannot be written. */
  async run(signals: TurnSignals): Promise<TurnEnd> {
    const end = await this.#loop(signals);
    if (end.kind === "cancelled") for (const interceptor of this.#port.interceptors) interceptor.onAbort?.(this.#port.state);
    return end;
  }

  async #loop(signals: TurnSignals): Promise<TurnEnd> {
    const port = this.#port;
    for (;;) {
      if (port.state.batch) {
        await runToolCalls(port, signals);
        if (signals.cancel.aborted) return { kind: "cancelled" };
        if (signals.pause.aborted) return { kind: "paused" };
        continue;
      }
      if (signals.cancel.aborted) return { kind: "cancelled" };
      const isOver = port.state.turn?.finished && !turnInputWaits(port.state);
      if (isOver && !(await this.#goesOn())) return { kind: signals.pause.aborted ? "paused" : "completed" };
      if (signals.pause.aborted) return { kind: "paused" };
      const refused = await this.#beforeRequest();
      if (refused) return { kind: "failed", error: refused };
      const end = await requestAnswer(port, signals, this.#builder);
      if (end.kind !== "answered") return end;
    }
  }

  /** Asks the interceptors whether the turn may end; true when one of them added something the model has to see. */
  async #goesOn(): Promise<boolean> {
    const added: SystemItem[] = [];
    for (const interceptor of this.#port.interceptors) {
      const decision = await interceptor.onTurnEnd?.(this.#port.state);
      if (decision?.kind === "continue_with") added.push(...decision.items);
    }
    return this.#commitItems(added);
  }

  async #beforeRequest(): Promise<TurnError | undefined> {
    for (const interceptor of this.#port.interceptors) {
      const decision = await interceptor.preLlmRequest?.(this.#port.state);
      if (decision?.kind === "cancel") return decision.error;
      if (decision?.kind === "continue_with") this.#commitItems(decision.items);
    }
    return undefined;
  }

  #commitItems(items: readonly SystemItem[]): boolean {
    if (items.length === 0) return false;
    this.#port.commit([{ type: "system_items", items: [...items] }]);
    return true;
  }
}
