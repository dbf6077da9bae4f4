import { isJsonObject, parseJson } from "../base/json.ts";
import { prefixOf } from "../base/text.ts";
import type { ModelFailure, ModelFailureCode } from "./model.ts";

/** An error as a provider reported it: by status, or by an error event within a stream. */
export interface ReportedError {
  /** HTTP status, or the one the kind of error would have had. */
  readonly status?: number;
  /** The provider's name of the error, such as `overloaded_error`. */
  readonly type?: string;
  /** The provider's own words. */
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What the body asked us to wait, milliseconds. */
  readonly retryAfterMs?: number;
  /** Who reported it, and how: begins the message (`https://api.anthropic.com answered 529`). */
  readonly subject: string;
}

/** Longest piece of a server's text in a message, characters. */
const QUOTED_CHARS = 500;

/** Names of errors: Anthropic's, then OpenAI's codes and types, then Google's statuses. */
const CODE_BY_TYPE: Readonly<Record<string, ModelFailureCode>> = {
  overloaded_error: "overloaded",
  rate_limit_error: "rate_limited",
  authentication_error: "authentication",
  permission_error: "authentication",
  not_found_error: "not_found",
  request_too_large: "too_large",
  billing_error: "quota",
  timeout_error: "timeout",
  api_error: "server_error",
  insufficient_quota: "quota",
  billing_hard_limit_reached: "quota",
  rate_limit_exceeded: "rate_limited",
  server_error: "server_error",
  server_is_overloaded: "overloaded",
  slow_down: "overloaded",
  invalid_api_key: "authentication",
  model_not_found: "not_found",
  context_length_exceeded: "context_too_long",
  exceed_context_size_error: "context_too_long",
  RESOURCE_EXHAUSTED: "rate_limited",
  UNAVAILABLE: "overloaded",
  UNAUTHENTICATED: "authentication",
  PERMISSION_DENIED: "authentication",
  NOT_FOUND: "not_found",
  DEADLINE_EXCEEDED: "timeout",
  INTERNAL: "server_error",
  API_KEY_INVALID: "authentication",
  QUOTA_PER_DAY: "quota",
};

const RETRYABLE: ReadonlySet<ModelFailureCode> = new Set([
  "overloaded",
  "rate_limited",
  "server_error",
  "connection",
  "stream_cut",
  "timeout",
  "empty_answer",
]);

const CONTEXT_TOO_LONG =
  /prompt is too long|maximum context|context (length|window|limit)|exceeds? (the )?context|too many (input )?tokens|input is too long/i;
const REFUSED_PROOFS =
  /invalid_encrypted_content|encrypted content .*could not be|thought.?signature|invalid .?signature.? in .?thinking/i;
const NO_CREDIT = /credit balance|billing|quota/i;

/** A failure of our own making; retryable by its code. */
export function toFailure(code: ModelFailureCode, message: string): ModelFailure {
  return { code, message, retryable: RETRYABLE.has(code) };
}

/** A provider's error as a failure: code, retryable or not, and the time it asked us to wait (B68). `nowMs`: Unix milliseconds. */
export function toReportedFailure(error: ReportedError, nowMs: number): ModelFailure {
  const code = codeOf(error);
  const name = error.type === undefined ? "" : ` (${error.type})`;
  const retryAfterMs = RETRYABLE.has(code) ? (readRetryAfter(error.headers ?? {}, nowMs) ?? error.retryAfterMs) : undefined;
  return {
    code,
    message: `${error.subject}${name}: ${quote(error.text)}`,
    retryable: RETRYABLE.has(code),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(error.status === undefined ? {} : { status: error.status }),
  };
}

/** Whether a provider says that it cannot check what it once signed or encrypted itself (B50). */
export function refusesProofs(failure: ModelFailure): boolean {
  return failure.status === 400 && REFUSED_PROOFS.test(failure.message);
}

/** An error in a body: its kind, if it names one (a code rather than a type, as that says more), and the server's words. */
export interface ErrorBody {
  readonly type?: string;
  readonly text: string;
  /** What it asks us to wait, milliseconds. */
  readonly retryAfterMs?: number;
}

/** Reads the error in a body, JSON or not. */
export function readErrorBody(body: string): ErrorBody {
  const parsed = parseJson(body);
  const value = parsed.ok && Array.isArray(parsed.value) ? parsed.value[0] : parsed.ok ? parsed.value : undefined;
  if (!isJsonObject(value)) return { text: body };
  // OpenAI's stream tells of a failed answer one level deeper.
  const outer = isJsonObject(value["response"]) ? value["response"] : value;
  const { error } = outer;
  const holder = isJsonObject(error) ? error : outer;
  const text = [error, holder["message"], holder["detail"]].find((candidate) => typeof candidate === "string") ?? body;
  const details = readDetails(holder["details"]);
  const names = [details.reason, holder["code"], holder["status"], holder["type"]].filter((name) => typeof name === "string");
  const type = names.find((name) => Object.hasOwn(CODE_BY_TYPE, name)) ?? names.find((name) => /[a-z_]{4}/i.test(name));
  // A `type` at the top is no error's name unless it looks like one: it can be the event's.
  const isNamed = type !== undefined && (isJsonObject(error) || Object.hasOwn(CODE_BY_TYPE, type) || /_error$/.test(type));
  return {
    ...(isNamed ? { type } : {}),
    text,
    ...(details.retryAfterMs === undefined ? {} : { retryAfterMs: details.retryAfterMs }),
  };
}

/** Google's details: when to come back, and which quota is used up (one a day is not back in a minute). */
function readDetails(details: unknown): { readonly reason?: string; readonly retryAfterMs?: number } {
  if (!Array.isArray(details)) return {};
  const entries: readonly unknown[] = details;
  const objects = entries.filter(isJsonObject);
  const delay = objects.map((entry) => entry["retryDelay"]).find((value) => typeof value === "string");
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(delay ?? "")?.[1];
  const retry = seconds === undefined ? {} : { retryAfterMs: Number(seconds) * 1000 };
  if (/PerDay/.test(JSON.stringify(objects))) return { reason: "QUOTA_PER_DAY", ...retry };
  const reason = objects.map((entry) => entry["reason"]).find((value) => typeof value === "string");
  return { ...(reason === undefined ? {} : { reason }), ...retry };
}

/** A server's text for a message: without mark-up, on one line, cut. */
export function quote(text: string): string {
  const plain = text
    .replace(/<(script|style)\b[\s\S]*?<\/\1\s*>/gi, " ")
    .replace(/<[a-z!/][^>]*>/gi, " ")
    .replace(/\s+/g, " ")
    .trim()
    .toWellFormed();
  if (plain === "") return "(no text)";
  return plain.length > QUOTED_CHARS ? `${prefixOf(plain, QUOTED_CHARS)}...` : plain;
}

function codeOf({ status, type, text }: ReportedError): ModelFailureCode {
  const byType = type === undefined || !Object.hasOwn(CODE_BY_TYPE, type) ? undefined : CODE_BY_TYPE[type];
  if (byType !== undefined) return byType;
  if (status === undefined) return "server_error";
  switch (status) {
    case 401:
    case 403:
      return "authentication";
    case 402:
      return "quota";
    case 404:
      return "not_found";
    case 408:
      return "timeout";
    case 409:
    case 425:
      return "server_error";
    case 413:
      return "too_large";
    case 429:
      return "rate_limited";
    case 529:
      return "overloaded";
    default:
      if (status >= 500) return "server_error";
      if (CONTEXT_TOO_LONG.test(text)) return "context_too_long";
      return NO_CREDIT.test(text) ? "quota" : "invalid_request";
  }
}

/** Milliseconds of `retry-after-ms` or `retry-after` (seconds or a date), or undefined. */
function readRetryAfter(headers: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const ms = readNumber(headers["retry-after-ms"]);
  if (ms !== undefined) return ms;
  const value = headers["retry-after"];
  const seconds = readNumber(value);
  if (seconds !== undefined) return seconds * 1000;
  const dateMs = value === undefined ? Number.NaN : Date.parse(value);
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - nowMs);
}

function readNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}
