/**
 * Text from anywhere made harmless for a terminal: control characters (C0, DEL, C1) lose their power and stay visible, so that an
 * answer, a file name or a Pod's name cannot move the cursor, set the title or write the clipboard. Works on any piece of a stream,
 * because every control character is replaced by itself. Line breaks and tabs stay; carriage returns go.
 */
export function toInert(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it replaces
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, (character) => {
    if (character === "\r") return "";
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : "\ufffd";
  });
}

/** Like {@link toInert} for what must stay on one line; cut to `maxChars` with an ellipsis. */
export function toInertLine(text: string, maxChars = 200): string {
  const line = toInert(text.slice(0, maxChars * 4))
    .replaceAll(/[\s\u2028\u2029]+/g, " ")
    .trim();
  const characters = [...line];
  return characters.length > maxChars ? `${characters.slice(0, maxChars - 1).join("")}…` : line;
}
