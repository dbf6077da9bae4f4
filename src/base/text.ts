/**
 * Text that is safe to log and to send to any provider: lone surrogates become U+FFFD (strict servers refuse them), NUL becomes U+2400
 * (process spawns and some servers refuse it).
 */
export function toSafeText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\u2400");
}

/** The longest prefix of `text` that is at most `maxChars` UTF-16 units and does not end inside a character. */
export function prefixOf(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  const splitsPair = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splitsPair ? maxChars - 1 : maxChars);
}

/** The longest suffix of `text` that is at most `maxChars` UTF-16 units and does not begin inside a character. */
export function suffixOf(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const start = text.length - maxChars;
  const first = text.charCodeAt(start);
  const splitsPair = first >= 0xdc00 && first <= 0xdfff;
  return text.slice(splitsPair ? start + 1 : start);
}

/** Size of a text in UTF-8 bytes, without encoding it into a new buffer. */
export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    else if (unit >= 0xd800 && unit <= 0xdbff && i + 1 < text.length) {
      bytes += 4;
      i++;
    } else bytes += 3;
  }
  return bytes;
}

/** `1 request`, `2 requests`: a count with its noun. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
