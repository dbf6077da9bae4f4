const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** A fresh id: `<prefix>_<16 characters>`, 80 random bits. Never ordered: order comes from `seq` alone. */
export function newId(prefix: string): string {
  return `${prefix}_${randomText(16)}`;
}

/** `length` random characters of a lower-case alphabet without look-alikes. */
export function randomText(length: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  let text = "";
  for (const byte of bytes) text += ALPHABET[byte & 31];
  return text;
}
