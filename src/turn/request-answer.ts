import { abortReason } from "../base/clock.ts";
import { sha256 } from "../base/digest.ts";
import { AppError } from "../base/errors.ts";
import type { Model, ModelFailure } from "../llm/model.ts";
import type { TurnError } from "../protocol/event.ts";
import { NO_USAGE } from "../protocol/status.ts";
import { AnswerCollector, type AttemptEnd } from "./answer-collector.ts";
import type { RequestBuilder } from "./build-request.ts";
import type { TurnPort, TurnSignals } from "./turn-port.ts";

/** Longest single wait between attempts. */
const MAX_RETRY_WAIT_MS = 30_000;
/** A provider that asks for more than this is not waited for: the turn fails and says when (field report B68). */
const MAX_RETRY_AFTER_MS = 120_000;

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
 * R2 A failed attempt leaves nothing: its deltas are withdrawn (`live_reset`) and no part of it is committed.
 */
export async function requestAnswer(port: TurnPort, signals: TurnSignals, builder: RequestBuilder): Promise<AnswerEnd> {
  let model: Model;
  try {
    model = await port.model();
  } catch (thrown) {
    if (!(thrown instanceof AppError)) throw thrown;
    const message = thrown.hint === undefined ? thrown.message : `${thrown.message}. ${thrown.hint}`;
    return { kind: "failed", error: { code: thrown.code, message } };
  }
  const { attempts_per_request: attempts, retry_base_ms: baseMs } = port.state.config.limits;
  for (let attempt = 1; ; attempt++) {
    const collector = new AnswerCollector((event) => port.publishLive(event));
    const end = await tryOnce({ port, signals, builder, model, attempt, collector });
    if (end.kind === "finished") {
      const items = collector.complete(port.state.callIds);
      port.commit([{ type: "assistant_items", items, usage: end.usage, stop: end.stop }]);
      return { kind: "answered" };
    }
    if (signals.cancel.aborted) {
      const items = collector.partial();
      if (items.length > 0 && port.state.requestOpen) {
        port.commit([{ type: "assistant_items", items, usage: NO_USAGE, stop: "cancelled" }]);
      } else if (collector.published) port.publishLive({ type: "live_reset" });
      return { kind: "cancelled" };
    }
    if (collector.published) port.publishLive({ type: "live_reset" }); // R2
    const error = toTurnError(end.failure);
    if (!end.failure.retryable || attempt >= attempts || (end.failure.retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) {
      return { kind: "failed", error };
    }
    const waitMs = end.failure.retryAfterMs ?? retryWaitMs(attempt, baseMs, port.random());
    port.publishLive({ type: "retry", attempt, wait_ms: Math.round(waitMs), error });
    const interrupted = await waitUnlessStopped(port, signals, waitMs);
    if (interrupted) return { kind: interrupted };
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
