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
  /** Who reported it, and how: begins the message (`https://api.anthropic.com answered 529`). */
  readonly subject: string;
}

/** Longest piece of a server's text in a message, characters. */
const QUOTED_CHARS = 500;

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
const NO_CREDIT = /credit balance|billing|quota/i;

/** A failure of our own making; retryable by its code. */
export function toFailure(code: ModelFailureCode, message: string): ModelFailure {
  return { code, message, retryable: RETRYABLE.has(code) };
}

/** A provider's error as a failure: code, retryable or not, and the time it asked us to wait (B68). `nowMs`: Unix milliseconds. */
export function toReportedFailure(error: ReportedError, nowMs: number): ModelFailure {
  const code = codeOf(error);
  const name = error.type === undefined ? "" : ` (${error.type})`;
  const retryAfterMs = RETRYABLE.has(code) ? readRetryAfter(error.headers ?? {}, nowMs) : undefined;
  return {
    code,
    message: `${error.subject}${name}: ${quote(error.text)}`,
    retryable: RETRYABLE.has(code),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(error.status === undefined ? {} : { status: error.status }),
  };
}

/** The error in a body, JSON or not: its kind, if it names one, and the server's words. */
export function readErrorBody(body: string): { readonly type?: string; readonly text: string } {
  const parsed = parseJson(body);
  if (!parsed.ok || !isJsonObject(parsed.value)) return { text: body };
  const { error } = parsed.value;
  const holder = isJsonObject(error) ? error : parsed.value;
  const isNamed = typeof holder["type"] === "string" && (isJsonObject(error) || /_error$/.test(holder["type"]));
  const text = typeof error === "string" ? error : typeof holder["message"] === "string" ? holder["message"] : body;
  return { ...(isNamed ? { type: String(holder["type"]) } : {}), text };
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
