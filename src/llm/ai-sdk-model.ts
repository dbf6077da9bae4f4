import {
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  type LanguageModelV4,
  type LanguageModelV4CallOptions,
  type LanguageModelV4StreamPart,
  type SharedV4ProviderOptions,
  TypeValidationError,
} from "@ai-sdk/provider";
import { AppError, messageOf } from "../base/errors.ts";
import { isJsonObject } from "../base/json.ts";
import { AnswerBuilder } from "./answer-builder.ts";
import type { ProviderMetadata } from "./item.ts";
import { lowerTools, PromptLowering } from "./lower-prompt.ts";
import type { Capabilities, Model, ModelEvent, ModelFailure, ModelRequest, Prompt, RequestSettings } from "./model.ts";
import { bodyBytes, ProviderExchange } from "./provider-exchange.ts";
import { readErrorBody, toFailure, toReportedFailure } from "./provider-failure.ts";

/** What makes one provider's adapter a {@link Model}. */
export interface AiSdkModelOptions {
  readonly ref: string;
  /** `<package>@<version>` of the adapter. */
  readonly adapter: string;
  readonly capabilities: Capabilities;
  /** Where requests go, for messages. */
  readonly baseUrl: string;
  /** The adapter's model, sending through `fetch`. Called once for each request. */
  readonly createModel: (fetch: typeof globalThis.fetch) => LanguageModelV4;
  /** Whether reasoning with this metadata is this provider's and signed, so that it can go back (B48). */
  readonly keepsReasoning: (metadata: ProviderMetadata) => boolean;
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
    systemInPlace: options.capabilities.systemInPlace,
    keepsReasoning: options.keepsReasoning,
    ...(options.systemOptions === undefined ? {} : { systemOptions: options.systemOptions }),
  });
  const toCallOptions = (prompt: Prompt, settings: RequestSettings): LanguageModelV4CallOptions => ({
    prompt: lowering.lower(prompt),
    maxOutputTokens: settings.maxOutputTokens ?? options.capabilities.maxOutputTokens,
    ...(prompt.tools.length === 0 ? {} : { tools: lowerTools(prompt.tools) }),
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

async function* streamAnswer(
  request: ModelRequest,
  toCallOptions: (prompt: Prompt, settings: RequestSettings) => LanguageModelV4CallOptions,
  options: AiSdkModelOptions,
): AsyncGenerator<ModelEvent> {
  using exchange = new ProviderExchange(request, options.baseUrl);
  const answer = new AnswerBuilder();
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
        failure = toStreamFailure(value.error, options);
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
  const { end } = answer;
  if (failure !== undefined) yield { type: "failure", failure };
  else if (end.kind === "finished") yield { type: "finish", stop: end.stop, usage: end.usage };
  else {
    const what = end.kind === "cut" ? end.what : "ended its answer without saying that it was complete";
    yield { type: "failure", failure: exchange.cutFailure(what) }; // B64
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

/** What an `error` part means: undefined for an event of a newer kind, which is no error. */
function toStreamFailure(error: unknown, options: AiSdkModelOptions): ModelFailure | undefined {
  const subject = `${options.baseUrl} reported an error in the middle of its answer`;
  if (TypeValidationError.isInstance(error)) {
    if (options.isUnknownEvent(error.value)) return undefined;
    const { type, text } = readErrorBody(JSON.stringify(error.value) ?? "");
    return toReportedFailure({ ...(type === undefined ? {} : { type }), text, subject }, Date.now());
  }
  if (JSONParseError.isInstance(error)) {
    return toReportedFailure({ text: error.text, subject: `${options.baseUrl} sent an event that is no JSON` }, Date.now());
  }
  if (InvalidResponseDataError.isInstance(error)) {
    return toFailure("server_error", `${options.baseUrl} mixed up its answer: ${error.message}`);
  }
  if (!isJsonObject(error)) return toReportedFailure({ text: messageOf(error), subject }, Date.now());
  const { message, type, statusCode } = error;
  return toReportedFailure(
    {
      subject,
      text: typeof message === "string" ? message : (JSON.stringify(error) ?? ""),
      ...(typeof type === "string" ? { type } : {}),
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
  const { type } = readErrorBody(thrown.responseBody ?? "");
  return toReportedFailure(
    {
      subject: `${options.baseUrl} reported an error in place of an answer`,
      text: thrown.message,
      ...(type === undefined ? {} : { type }),
      ...(thrown.statusCode === undefined ? {} : { status: thrown.statusCode }),
      ...(thrown.responseHeaders === undefined ? {} : { headers: thrown.responseHeaders }),
    },
    Date.now(),
  );
}
