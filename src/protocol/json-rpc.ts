import * as z from "zod";
import { isJsonObject, parseJson } from "../base/json.ts";
import { RPC_CODE, WireError } from "./error-code.ts";
import { isMethodName, METHODS, type MethodCall } from "./method.ts";

/** JSON-RPC 2.0 over lines (docs/protocol.md): the envelope only. Bytes and lines are `transport`, meaning is `pod`. */

export type RequestId = string | number;

/** A line that reached the Pod: a call (without an id nobody waits for the answer), or an error to answer with. */
export type IncomingRequest =
  | { readonly kind: "call"; readonly id: RequestId | undefined; readonly call: MethodCall }
  | { readonly kind: "error"; readonly id: RequestId | null | undefined; readonly error: WireError; readonly fatal: boolean };

/** Reads one line a client sent. `fatal` errors end the connection: what follows on it cannot be trusted to be framed. */
export function readRequest(line: string): IncomingRequest {
  const json = parseJson(line);
  if (!json.ok) return requestError(null, RPC_CODE.parse, `not JSON: ${json.reason}`, { fatal: true });
  const message = json.value;
  if (!isJsonObject(message)) {
    return requestError(null, RPC_CODE.invalidRequest, "a request is one JSON object; batches are not supported");
  }
  const hasId = "id" in message;
  const id = message["id"];
  if (hasId && typeof id !== "string" && typeof id !== "number") {
    return requestError(null, RPC_CODE.invalidRequest, "id is a string or a number", { path: "id" });
  }
  const requestId = typeof id === "string" || typeof id === "number" ? id : undefined;
  if (message["jsonrpc"] !== "2.0") {
    return requestError(requestId, RPC_CODE.invalidRequest, 'jsonrpc is not "2.0"', { path: "jsonrpc" });
  }
  const name = message["method"];
  if (typeof name !== "string") {
    return requestError(requestId, RPC_CODE.invalidRequest, "method is missing", { path: "method" });
  }
  if (!isMethodName(name)) {
    const known = Object.keys(METHODS).join(", ");
    return requestError(requestId, RPC_CODE.unknownMethod, `no method ${JSON.stringify(name.slice(0, 64))}`, {
      hint: `methods: ${known}`,
    });
  }
  const params = METHODS[name].params.safeParse(message["params"] ?? {});
  if (!params.success) {
    const issue = params.error.issues[0];
    const path = ["params", ...(issue?.path ?? [])].join(".");
    return requestError(requestId, RPC_CODE.invalidParams, `${name}: ${path}: ${issue?.message ?? "invalid"}`, { path });
  }
  // The schema was looked up by the same name, which the compiler cannot see through the index.
  return { kind: "call", id: requestId, call: { name, params: params.data } as MethodCall };
}

function requestError(
  id: RequestId | null | undefined,
  code: number,
  message: string,
  more: { path?: string; hint?: string; fatal?: boolean } = {},
): IncomingRequest {
  const { fatal = false, ...data } = more;
  return { kind: "error", id, error: { code, message, data: { code: "invalid_input", ...data } }, fatal };
}

/** The line that answers a request with a result. */
export function resultLine(id: RequestId, result: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

/** The line that answers a request with an error. */
export function errorLine(id: RequestId | null, error: WireError): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error });
}

/** The line that carries an event to an attached client. */
export function eventLine(event: unknown): string {
  return `{"jsonrpc":"2.0","method":"event","params":${JSON.stringify(event)}}`;
}

/** The line of a request from a client; without an id nothing comes back. */
export function requestLine(id: RequestId | undefined, method: string, params: unknown): string {
  return JSON.stringify(id === undefined ? { jsonrpc: "2.0", method, params } : { jsonrpc: "2.0", id, method, params });
}

const Answer = z.object({
  id: z.union([z.string(), z.number(), z.null()]),
  result: z.unknown().optional(),
  error: WireError.optional(),
});

/** A line that reached a client. */
export type IncomingAnswer =
  | { readonly kind: "result"; readonly id: RequestId; readonly result: unknown }
  | { readonly kind: "error"; readonly id: RequestId | null; readonly error: WireError }
  | { readonly kind: "event"; readonly params: unknown }
  | { readonly kind: "malformed"; readonly reason: string };

/** Reads one line a Pod sent. */
export function readAnswer(line: string): IncomingAnswer {
  const json = parseJson(line);
  if (!json.ok) return { kind: "malformed", reason: json.reason };
  if (isJsonObject(json.value) && json.value["method"] === "event") return { kind: "event", params: json.value["params"] };
  const answer = Answer.safeParse(json.value);
  if (!answer.success) return { kind: "malformed", reason: z.prettifyError(answer.error) };
  const { id, result, error } = answer.data;
  if (error) return { kind: "error", id, error };
  if (id === null) return { kind: "malformed", reason: "an answer without an id" };
  return { kind: "result", id, result };
}
