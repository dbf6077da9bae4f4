import * as z from "zod";
import type { AppError, ErrorCode } from "../base/errors.ts";

/**
 * Stable error codes of the protocol, in `error.data.code`:
 *
 * - `already_running` a turn runs (or a queue is not wanted); `not_running`, `not_paused`: the method needs that state.
 * - `busy`            the Pod does something that cannot be joined now; try again.
 * - `queue_full`      what waits is bounded (N9); try again when some of it was taken in.
 * - `too_large`       this one thing exceeds its limit.
 * - `invalid_input`   the message is not what the method takes; `data.path` names the field.
 * - `not_found`       no such thing.
 * - `forbidden`       the sender may not.
 * - `storage_failed`  the log cannot be written; nothing was accepted.
 * - `shutting_down`   the Pod is on its way out.
 * - `internal`        a fault of ours.
 */
export const WireErrorCode = z.enum([
  "already_running",
  "not_running",
  "not_paused",
  "busy",
  "queue_full",
  "too_large",
  "invalid_input",
  "not_found",
  "forbidden",
  "storage_failed",
  "shutting_down",
  "internal",
]);
export type WireErrorCode = z.infer<typeof WireErrorCode>;

/** JSON-RPC numbers: the standard ones for the envelope, one of ours for a refused method (its kind is in `data.code`). */
export const RPC_CODE = {
  parse: -32700,
  invalidRequest: -32600,
  unknownMethod: -32601,
  invalidParams: -32602,
  internal: -32603,
  refused: -32000,
} as const;

/** An error as it stands in a JSON-RPC answer. */
export const WireError = z.object({
  code: z.int(),
  message: z.string(),
  data: z
    .looseObject({
      code: z.string(),
      /** Path of the offending field, such as `params.input.0.text`. */
      path: z.string().optional(),
      hint: z.string().optional(),
    })
    .optional(),
});
export type WireError = z.infer<typeof WireError>;

/** A refused method: a value, because a busy Pod is a normal day. */
export interface Refusal {
  readonly code: WireErrorCode;
  readonly message: string;
  readonly hint?: string;
}

/** The one function that makes a wire error out of a refusal. */
export function refusalToWire(refusal: Refusal): WireError {
  const { code, message, hint } = refusal;
  return {
    code: code === "internal" ? RPC_CODE.internal : RPC_CODE.refused,
    message,
    data: hint === undefined ? { code } : { code, hint },
  };
}

/** The refusal that tells a client about an error inside the Pod. */
export function toRefusal(error: AppError): Refusal {
  const refusal = { code: WIRE_CODE[error.code], message: error.message };
  return error.hint === undefined ? refusal : { ...refusal, hint: error.hint };
}

const WIRE_CODE: Readonly<Record<ErrorCode, WireErrorCode>> = {
  invalid_input: "invalid_input",
  not_found: "not_found",
  forbidden: "forbidden",
  already_exists: "busy",
  busy: "busy",
  queue_full: "queue_full",
  too_large: "too_large",
  storage_failed: "storage_failed",
  damaged: "storage_failed",
  unavailable: "internal",
  timed_out: "internal",
  cancelled: "not_running",
  configuration: "invalid_input",
  internal: "internal",
};
