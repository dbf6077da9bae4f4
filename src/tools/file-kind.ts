import type { TextForm } from "./text-form.ts";

/** First bytes that name a kind of file, as people call it. */
const SIGNATURES: readonly (readonly [start: string, name: string])[] = [
  ["\x89PNG\r\n\x1a\n", "PNG image"],
  ["\xff\xd8\xff", "JPEG image"],
  ["GIF8", "GIF image"],
  ["RIFF", "RIFF file (WebP, WAV or AVI)"],
  ["%PDF-", "PDF document"],
  ["PK\x03\x04", "ZIP archive (or a format built on it)"],
  ["\x1f\x8b", "gzip data"],
  ["BZh", "bzip2 data"],
  ["\xfd7zXZ", "xz data"],
  ["\x28\xb5\x2f\xfd", "zstd data"],
  ["7z\xbc\xaf", "7z archive"],
  ["\x7fELF", "ELF program or library"],
  ["\xcf\xfa\xed\xfe", "Mach-O program or library"],
  ["\xca\xfe\xba\xbe", "Java class or Mach-O universal program"],
  ["SQLite format 3\0", "SQLite database"],
  ["\0asm", "WebAssembly module"],
];

/** What a file without text is called, or undefined when its first bytes look like text. `head`: some KiB of its start. */
export function binaryKindOf(head: Uint8Array, form: TextForm): string | undefined {
  if (form.encoding !== "utf8" || head.length === 0) return undefined;
  const start = String.fromCharCode(...head.subarray(0, 16));
  let control = 0;
  for (const byte of head) {
    if (byte === 0) return nameOf(start) ?? "unknown kind";
    // Escape (colours), backspace, tab and the line and page ends are at home in text.
    if (byte < 0x20 && !(byte >= 0x08 && byte <= 0x0d) && byte !== 0x1b) control++;
  }
  const signed = nameOf(start);
  // A short text may begin with letters that are also a signature: only bytes that no text has make it one.
  return control > 0 && signed !== undefined ? signed : control * 10 > head.length ? "unknown kind" : undefined;
}

function nameOf(start: string): string | undefined {
  return SIGNATURES.find(([signature]) => start.startsWith(signature))?.[1];
}
