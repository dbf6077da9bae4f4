import type { JSONObject, JSONValue } from "@ai-sdk/provider";
import { isJsonObject, parseJson } from "../base/json.ts";
import { toSafeText } from "../base/text.ts";
import type { ProviderMetadata } from "./item.ts";

/**
 * The arguments of a tool call as an object for the wire. What is not a JSON object (cut off by the output limit, an array, "") becomes `{}`: it
 * was answered with an error, never run, and providers refuse anything else as history (B74, B55).
 */
export function toWireArguments(text: string): JSONObject {
  const parsed = parseJson(text);
  if (!parsed.ok || !isJsonObject(parsed.value)) return {};
  try {
    const safe = toWireJson(parsed.value);
    // Nesting that JSON.parse bears can still be too deep for JSON.stringify: better no arguments than a session that cannot send.
    JSON.stringify(safe);
    return isWireObject(safe) ? safe : {};
  } catch {
    return {};
  }
}

/** A JSON value whose strings are safe to send: no lone surrogate (strict servers refuse them), no NUL. Unfit values become null. */
export function toWireJson(value: unknown): JSONValue {
  switch (typeof value) {
    case "string":
      return toSafeText(value);
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : null;
    case "object":
      if (value === null) return null;
      if (Array.isArray(value)) return value.map((element: unknown) => toWireJson(element));
      return Object.fromEntries(
        Object.entries(value)
          // Absent and undefined are one: JSON of a restored session has no undefined either.
          .filter(([, element]) => element !== undefined)
          .map(([key, element]) => [toSafeText(key), toWireJson(element)]),
      );
    default:
      return null;
  }
}

/** Metadata of a provider as options that send it back (unchanged, but for what {@link toWireJson} must mend). */
export function toProviderOptions(metadata: ProviderMetadata): Record<string, JSONObject> {
  const options: Record<string, JSONObject> = {};
  for (const [provider, value] of Object.entries(metadata)) {
    const safe = toWireJson(value);
    if (isWireObject(safe)) options[provider] = safe;
  }
  return options;
}

function isWireObject(value: JSONValue): value is JSONObject {
  return isJsonObject(value);
}
