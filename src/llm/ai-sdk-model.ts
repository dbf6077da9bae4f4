import {
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  type LanguageModelV4,
  type LanguageModelV4CallOptions,
  type LanguageModelV4FinishReason,
  type LanguageModelV4StreamPart,
  type SharedV4ProviderOptions,
  TypeValidationError,
} from "@ai-sdk/provider";
import { AppError, messageOf } from "../base/errors.ts";
import { isJsonObject } from "../base/json.ts";
import { AnswerBuilder, type AnswerEnd, type AnswerRules } from "./answer-builder.ts";
import { lowerTools, PromptLowering } from "./lower-prompt.ts";
import type { LoweringRules } from "./lowered-conversation.ts";
import type {
  Capabilities,
  Model,
  ModelEvent,
  ModelFailure,
  ModelFailureCode,
  ModelRequest,
  Prompt,
  RequestSettings,
} from "./model.ts";
import { bodyBytes, ProviderExchange } from "./provider-exchange.ts";
import { quote, readErrorBody, refusesProofs, toFailure, toReportedFailure } from "./provider-failure.ts";
import type { Namespace } from "./wire-metadata.ts";

/** What makes one provider's adapter a {@link Model}. */
export interface AiSdkModelOptions {
  readonly ref: string;
  /** `<package>@<version>` of the adapter. */
  readonly adapter: string;
  readonly capabilities: Capabilities;
  /** What is spoken, for messages. */
  readonly protocol: string;
  /** Where requests go, for messages. */
  readonly baseUrl: string;
  /** The adapter's model, sending through `fetch`. Called once for each request. */
  readonly createModel: (fetch: typeof globalThis.fetch) => LanguageModelV4;
  /** Names of the metadata that this provider writes and gets back. */
  readonly namespace: Namespace;
  /** How prompts become messages, beyond what the capabilities say. */
  readonly lowering: Omit<LoweringRules, "systemInPlace" | "namespace" | "refusedProofsBefore">;
  /** How answers are read. */
  readonly answers?: Omit<AnswerRules, "namespace" | "isWhole">;
  /** Whether an answer that ended for this reason is whole, given the last bytes that came; absent = any reason is good (B64). */
  readonly isWhole?: (reason: LanguageModelV4FinishReason, tail: string) => boolean;
  /** A failure that the provider reports as the reason its answer ended (B80); undefined = no failure. */
  readonly failureOf?: (reason: string) => ModelFailureCode | undefined;
  /** An answer that says nothing and calls nothing is a failure: its provider never means it (B80). */
  readonly refusesEmpty?: boolean;
  /** Whether an output limit is always sent, or only when the settings say one. */
  readonly outputLimit: "always" | "when_set";
  /** Written out on each tool where the provider would otherwise assume the opposite. */
  readonly strictTools?: boolean;
  /** Options of the adapter for every request: must not depend on the history, or the prefix of the bytes moves (B61). */
  readonly providerOptions?: SharedV4ProviderOptions;
  /** Options of the adapter on the system prompt. */
  readonly systemOptions?: SharedV4ProviderOptions;
  /** Whether an event that the adapter could not read is just one of a newer kind, to be ignored. */
  readonly isUnknownEvent: (event: unknown) => boolean;
}

/** A {@link Model} over a `LanguageModelV4` adapter: one request each, beneath our own loop; never retries. */
export function createAiSdkModel(options: AiSdkModelOptions): Model {
  const lowering = new PromptLowering({
    ...options.lowering,
    systemInPlace: options.capabilities.systemInPlace,
    namespace: options.namespace,
    ...(options.systemOptions === undefined ? {} : { systemOptions: options.systemOptions }),
  });
  const defaultLimit = options.outputLimit === "always" ? options.capabilities.maxOutputTokens : undefined;
  const toCallOptions = (prompt: Prompt, settings: RequestSettings): LanguageModelV4CallOptions => ({
    prompt: lowering.lower(prompt, settings.adjustments),
    ...withLimit(settings.maxOutputTokens ?? defaultLimit),
    ...(prompt.tools.length === 0 ? {} : { tools: lowerTools(prompt.tools, options.strictTools) }),
    ...(settings.reasoning === "default" || !options.capabilities.reasoning ? {} : { reasoning: settings.reasoning }),
    ...(options.providerOptions === undefined ? {} : { providerOptions: options.providerOptions }),
  });
  return {
    ref: options.ref,
    adapter: options.adapter,
    capabilities: options.capabilities,
    stream: (request) => streamAnswer(request, toCallOptions, options),
    renderBody: (prompt, settings) => captureBody(options.createModel, () => toCallOptions(prompt, settings)),
  };
}

function withLimit(maxOutputTokens: number | undefined): { maxOutputTokens?: number } {
  return maxOutputTokens === undefined ? {} : { maxOutputTokens };
}

async function* streamAnswer(
  request: ModelRequest,
  toCallOptions: (prompt: Prompt, settings: RequestSettings) => LanguageModelV4CallOptions,
  options: AiSdkModelOptions,
): AsyncGenerator<ModelEvent> {
  using exchange = new ProviderExchange(request, options.baseUrl);
  const { isWhole } = options;
  const answer = new AnswerBuilder({
    ...options.answers,
    namespace: options.namespace,
    ...(isWhole === undefined ? {} : { isWhole: (reason) => isWhole(reason, exchange.tail) }),
  });
  let reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart> | undefined;
  let failure: ModelFailure | undefined;
  try {
    const model = options.createModel(exchange.fetch);
    const callOptions = { ...toCallOptions(request.prompt, request.settings), abortSignal: exchange.signal };
    const { stream } = await exchange.untilAborted(model.doStream(callOptions));
    reader = stream.getReader();
    while (answer.end.kind === "open" && failure === undefined) {
      const { done, value } = await exchange.untilAborted(reader.read());
      if (done) break;
      if (value.type === "error") {
        if (!isMissingReason(value.error)) failure = toStreamFailure(value.error, options);
        continue;
      }
      if (isSignOfLife(value)) exchange.alive();
      exchange.pause();
      yield* answer.push(value);
      exchange.resume();
    }
  } catch (thrown) {
    const end = await exchange.end(thrown);
    if (end?.kind === "gate") throw end.thrown;
    failure = end?.failure ?? toThrownFailure(thrown, options);
  } finally {
    // The connection is closed with the exchange; a cancelled stream may fail once more, which tells nothing new.
    reader?.cancel().catch(() => undefined);
  }
  failure ??= toEndFailure(answer.end, exchange, options);
  const { end } = answer;
  if (failure !== undefined) {
    yield {
      type: "failure",
      failure: refusesProofs(failure) ? { ...failure, refusedProofsOf: options.namespace.own } : failure,
    };
  } else if (end.kind === "finished") yield { type: "finish", stop: end.stop, usage: end.usage };
}

/** What is wrong with the way an answer ended, or undefined. */
function toEndFailure(end: AnswerEnd, exchange: ProviderExchange, options: AiSdkModelOptions): ModelFailure | undefined {
  if (end.kind === "open") return exchange.cutFailure("ended its answer without saying that it was complete"); // B64
  if (end.kind === "cut") return exchange.cutFailure(end.what);
  const code = options.failureOf?.(end.reason);
  if (code !== undefined) return toFailure(code, `${options.baseUrl} ended its answer with the reason ${quote(end.reason)}`);
  if (!end.isEmpty || options.refusesEmpty !== true) return undefined;
  switch (end.stop) {
    case "refusal":
    case "content_filter":
      return toFailure("refused", `${options.baseUrl} refused to answer: ${quote(end.reason)}`);
    case "max_tokens":
      return {
        ...toFailure("empty_answer", `${options.baseUrl} used up the output limit before the model said anything`),
        retryable: false,
      };
    default:
      return toFailure("empty_answer", `${options.baseUrl} ended its answer (${quote(end.reason)}) without saying anything`);
  }
}

async function captureBody(
  createModel: AiSdkModelOptions["createModel"],
  toCallOptions: () => LanguageModelV4CallOptions,
): Promise<Uint8Array> {
  let body: Uint8Array | undefined;
  const capture: typeof globalThis.fetch = async (_input, init) => {
    body = bodyBytes(init?.body);
    throw new Error("nothing is sent");
  };
  try {
    await createModel(capture).doStream(toCallOptions());
  } catch (thrown) {
    if (body !== undefined) return body;
    throw new AppError("invalid_input", `the request could not be built: ${messageOf(thrown)}`, { cause: thrown });
  }
  throw new AppError("internal", "the adapter answered a request that was never sent");
}

// What is empty or unknown is no more than a ping in another dress (B71).
function isSignOfLife(part: LanguageModelV4StreamPart): boolean {
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta":
    case "tool-input-delta":
      return part.delta !== "" || part.providerMetadata !== undefined;
    case "ping":
    case "raw":
    case "stream-start":
      return false;
    default:
      return true;
  }
}

// The adapter's own remark that no reason came; whether that is a failure is for the end to say.
function isMissingReason(error: unknown): boolean {
  return InvalidResponseDataError.isInstance(error) && error.data === undefined;
}

/** What an `error` part means: undefined for an event of a newer kind, which is no error. */
function toStreamFailure(error: unknown, options: AiSdkModelOptions): ModelFailure | undefined {
  const subject = `${options.baseUrl} reported an error in the middle of its answer`;
  if (TypeValidationError.isInstance(error)) {
    if (options.isUnknownEvent(error.value)) return undefined;
    return toReportedFailure({ ...readErrorBody(JSON.stringify(error.value) ?? ""), subject }, Date.now());
  }
  if (JSONParseError.isInstance(error)) {
    return toReportedFailure({ text: error.text, subject: `${options.baseUrl} sent an event that is no JSON` }, Date.now());
  }
  // Thrown for a stream of another protocol: asking again changes nothing.
  if (APICallError.isInstance(error) && error.statusCode === undefined) {
    return toFailure(
      "invalid_request",
      `${options.baseUrl} answers in another protocol than ${options.protocol}: ${quote(error.message)}`,
    );
  }
  if (InvalidResponseDataError.isInstance(error)) {
    return toFailure("server_error", `${options.baseUrl} mixed up its answer: ${error.message}`);
  }
  if (!isJsonObject(error)) return toReportedFailure({ text: messageOf(error), subject }, Date.now());
  const { message, type, code, statusCode, data } = error;
  // OpenAI's and Google's adapters keep the event they read in `data`.
  const read = readErrorBody(JSON.stringify(data ?? { error: { message, type, code } }) ?? "");
  return toReportedFailure(
    {
      ...read,
      subject,
      text: typeof message === "string" ? message : read.text,
      ...(typeof statusCode === "number" ? { status: statusCode } : {}),
    },
    Date.now(),
  );
}

/** What the adapter threw by itself: an error that was the first event of a stream, or something it cannot read. */
function toThrownFailure(thrown: unknown, options: AiSdkModelOptions): ModelFailure {
  if (!APICallError.isInstance(thrown)) {
    return toFailure("server_error", `the answer of ${options.baseUrl} cannot be read: ${messageOf(thrown)}`);
  }
  const { type, retryAfterMs } = readErrorBody(thrown.responseBody ?? "");
  return toReportedFailure(
    {
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      subject: `${options.baseUrl} reported an error in place of an answer`,
      text: thrown.message,
      ...(type === undefined ? {} : { type }),
      ...(thrown.statusCode === undefined ? {} : { status: thrown.statusCode }),
      ...(thrown.responseHeaders === undefined ? {} : { headers: thrown.responseHeaders }),
    },
    Date.now(),
  );
}
