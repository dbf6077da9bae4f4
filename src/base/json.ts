/** A value that JSON can hold. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** Outcome of reading JSON text from outside: bad text is a normal day, not an exception. */
export type JsonResult = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly reason: string };

/** Parses JSON text into `unknown`; validation against a schema is the caller's next step. */
export function parseJson(text: string): JsonResult {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (thrown) {
    return { ok: false, reason: thrown instanceof Error ? thrown.message : String(thrown) };
  }
}

/** True for a plain JSON object (not null, not an array). */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
