/** Rules that several wires share. */

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;

/** A name of a tool that every provider takes. */
export function isToolName(name: string): boolean {
  return NAME.test(name);
}

/** Whether a text holds a JSON object. */
export function holdsJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Whether nothing of a text can be seen. */
export function isBlank(text: string): boolean {
  return text.trim() === "";
}

/** The texts of a message's content. */
export function textsOf(content: string | readonly { readonly text: string }[] | null | undefined): string[] {
  if (typeof content === "string") return [content];
  return (content ?? []).map((part) => part.text);
}
