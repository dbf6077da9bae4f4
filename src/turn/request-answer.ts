import { abortReason } from "../base/clock.ts";
import { sha256 } from "../base/digest.ts";
import { AppError } from "../base/errors.ts";
import type { Model, ModelFailure } from "../llm/model.ts";
import { toFailure } from "../llm/provider-failure.ts";
import type { StopReason, TurnError } from "../protocol/event.ts";
import { NO_USAGE } from "../protocol/status.ts";
import { AnswerCollector, type AttemptEnd } from "./answer-collector.ts";
import type { RequestBuilder } from "./build-request.ts";
import type { TurnPort, TurnSignals } from "./turn-port.ts";

/** Longest single wait between attempts. */
const MAX_RETRY_WAIT_MS = 30_000;
/** A provider that asks for more than this is not waited for: the turn fails and says when (field report B68). */
const MAX_RETRY_AFTER_MS = 120_000;

/** A model that says nothing mostly means it: it is asked a few times, not as often as one in trouble. */
const EMPTY_ATTEMPTS = 3;

/** How a request with all its attempts ended. */
export type AnswerEnd =
  | { readonly kind: "answered" }
  | { readonly kind: "failed"; readonly error: TurnError }
  | { readonly kind: "cancelled" }
  | { readonly kind: "paused" };

/**
 * One answer of the model: builds the request, sends it, streams it, commits the answer; tries again after passing troubles.
 *
 * R1 Each attempt is an `llm_request` of its own, on disk before it leaves (I1, I2); what arrived meanwhile enters the next attempt.
 * R2 A failed attempt leaves nothing: its deltas are withdrawn (`live_reset`) and no part of it is committed. An answer that holds
 *    neither text nor call is a failed attempt.
 * R3 Each attempt goes to the model that the session has at that moment: whoever switches away from a failing one need not cancel.
 */
export async function requestAnswer(port: TurnPort, signals: TurnSignals, builder: RequestBuilder): Promise<AnswerEnd> {
  const { attempts_per_request: attempts, retry_base_ms: baseMs } = port.state.config.limits;
  for (let attempt = 1; ; attempt++) {
    const model = await presentModel(port);
    if ("error" in model) return { kind: "failed", error: model.error };
    const collector = new AnswerCollector((event) => port.publishLive(event));
    let end = await tryOnce({ port, signals, builder, model, attempt, collector });
    if (end.kind === "finished") {
      const items = collector.complete(port.state.callIds);
      if (items.some((item) => item.kind !== "reasoning")) {
        port.commit([{ type: "assistant_items", items, usage: end.usage, stop: end.stop }]);
        return { kind: "answered" };
      }
      end = { kind: "failed", failure: emptyAnswer(model, end.stop) };
    }
    if (signals.cancel.aborted) {
      const items = collector.partial();
      if (items.length > 0 && port.state.requestOpen) {
        port.commit([{ type: "assistant_items", items, usage: NO_USAGE, stop: "cancelled" }]);
      } else if (collector.published) port.publishLive({ type: "live_reset" });
      return { kind: "cancelled" };
    }
    if (collector.published) port.publishLive({ type: "live_reset" }); // R2
    if (learnRefusedProofs(port, end.failure)) continue; // at once: this is no trouble that passes (field report B50)
    const error = toTurnError(end.failure);
    const limit = end.failure.code === "empty_answer" ? Math.min(attempts, EMPTY_ATTEMPTS) : attempts;
    if (!end.failure.retryable || attempt >= limit || (end.failure.retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) {
      return { kind: "failed", error };
    }
    // What the provider asks for makes our own wait longer, never shorter: "0" from a server in trouble would be a hammer.
    const waitMs = Math.max(end.failure.retryAfterMs ?? 0, retryWaitMs(attempt, baseMs, port.random()));
    port.publishLive({ type: "retry", attempt, wait_ms: Math.round(waitMs), error });
    const interrupted = await waitUnlessStopped(port, signals, waitMs);
    if (interrupted) return { kind: interrupted };
  }
}

/** The model of the session as it is when this resolves (R3), or why it cannot be opened. */
async function presentModel(port: TurnPort): Promise<Model | { readonly error: TurnError }> {
  for (;;) {
    const { model: ref } = port.state.config;
    try {
      const model = await port.model();
      if (port.state.config.model === ref) return model;
    } catch (thrown) {
      if (!(thrown instanceof AppError)) throw thrown;
      const message = thrown.hint === undefined ? thrown.message : `${thrown.message}. ${thrown.hint}`;
      return { error: { code: thrown.code, message } };
    }
  }
}

interface Attempt {
  readonly port: TurnPort;
  readonly signals: TurnSignals;
  readonly builder: RequestBuilder;
  readonly model: Model;
  readonly attempt: number;
  readonly collector: AnswerCollector;
}

async function tryOnce({ port, signals, builder, model, attempt, collector }: Attempt): Promise<AttemptEnd> {
  const { state } = port;
  const { config } = state;
  const built = builder.build(state, model);
  const beforeSend = async (body: Uint8Array): Promise<void> => {
    if (signals.cancel.aborted) throw abortReason(signals.cancel);
    port.commit([
      {
        type: "llm_request",
        n: state.requests + 1,
        turn: state.turn?.turn ?? 0,
        purpose: "turn",
        through: built.through,
        takes: [...built.take.ids],
        model: model.ref,
        adapter: model.adapter,
        attempt,
        prompt_digest: built.promptDigest,
        body_digest: sha256(body),
        bytes: body.byteLength,
      },
    ]);
    await port.synced(); // R1
  };
  const events = model.stream({
    prompt: built.prompt,
    settings: {
      reasoning: config.reasoning,
      ...(config.max_output_tokens === undefined ? {} : { maxOutputTokens: config.max_output_tokens }),
      ...(config.adjustments === undefined ? {} : { adjustments: config.adjustments }),
    },
    signal: signals.cancel,
    position: { answered: state.answers, attempt },
    idleTimeoutMs: config.limits.stream_idle_s * 1000,
    beforeSend,
  });
  try {
    for await (const event of events) {
      const end = collector.take(event);
      if (end) return end;
    }
  } catch (thrown) {
    // beforeSend refuses to send once the turn was cancelled; anything else it throws (storage) is not the model's failure.
    if (!signals.cancel.aborted) throw thrown;
    return { kind: "failed", failure: { code: "cancelled", message: "cancelled", retryable: false } };
  }
  throw new AppError("internal", `the model ${model.ref} ended its stream without a final event`);
}

/** An answer without text or call is no answer: never a silent end of the turn (field report B80). */
function emptyAnswer(model: Model, stop: StopReason): ModelFailure {
  if (stop === "refusal" || stop === "content_filter") return toFailure("refused", `${model.ref} refused to answer (${stop})`);
  if (stop !== "max_tokens") return toFailure("empty_answer", `${model.ref} answered nothing (${stop})`);
  const message = `${model.ref} used up its output limit before it said anything (model.max_output_tokens)`;
  return { ...toFailure("empty_answer", message), retryable: false };
}

/**
 * Remembers in the log that a provider refuses proofs it made itself; true if that is news. The first time those of the history so far are
 * left out; a provider that refuses newer ones as well gets none any more: no session asks in vain more than twice.
 */
function learnRefusedProofs(port: TurnPort, failure: ModelFailure): boolean {
  const { refusedProofsOf: provider } = failure;
  if (provider === undefined) return false;
  const { adjustments } = port.state.config;
  const known = adjustments?.refused_proofs;
  const knownBefore = known?.provider === provider ? known.before : 0;
  if (knownBefore === Number.MAX_SAFE_INTEGER) return false;
  const before = knownBefore === 0 ? Math.max(port.state.items.length, 1) : Number.MAX_SAFE_INTEGER;
  port.commit([{ type: "config_changed", changes: { adjustments: { ...adjustments, refused_proofs: { provider, before } } } }]);
  return true;
}

function retryWaitMs(attempt: number, baseMs: number, random: number): number {
  const full = Math.min(baseMs * 2 ** (attempt - 1), MAX_RETRY_WAIT_MS);
  return full / 2 + (full / 2) * random;
}

/** Waits; returns what stopped the wait, if something did. */
async function waitUnlessStopped(port: TurnPort, signals: TurnSignals, ms: number): Promise<"cancelled" | "paused" | undefined> {
  try {
    await port.clock.sleep(ms, { signal: AbortSignal.any([signals.cancel, signals.pause]) });
    return undefined;
  } catch (thrown) {
    if (signals.cancel.aborted) return "cancelled";
    if (signals.pause.aborted) return "paused";
    throw thrown;
  }
}

function toTurnError(failure: ModelFailure): TurnError {
  const { code, message, retryAfterMs } = failure;
  return { code, message, ...(retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }) };
}
