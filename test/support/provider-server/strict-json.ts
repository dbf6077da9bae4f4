/** A body read strictly: what is wrong with it, or its value. */
export type StrictJson = { readonly value: unknown; readonly problem?: undefined } | { readonly problem: string };

/** Reads a request body as a strict server does: valid UTF-8, JSON, and no half of a surrogate pair in any text. */
export function readStrictJson(bytes: Uint8Array): StrictJson {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (thrown) {
    return { problem: `json: the body is not valid UTF-8 JSON (${String(thrown)})` };
  }
  const lone = findLoneSurrogate(value, "body");
  return lone === undefined ? { value } : { problem: `surrogates: half of a surrogate pair at ${lone}` };
}

function findLoneSurrogate(value: unknown, place: string): string | undefined {
  if (typeof value === "string") return value.isWellFormed() ? undefined : place;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, element] of Object.entries(value)) {
    const found = key.isWellFormed() ? findLoneSurrogate(element, `${place}.${key}`) : `a key of ${place}`;
    if (found !== undefined) return found;
  }
  return undefined;
}
