import { prefixOf } from "../base/text.ts";

/** Ways in which a text from a model is often not quite the file's, with what the model is told. None changes the number of lines. */
const LOOSER: readonly (readonly [differsIn: string, loosen: (text: string) => string])[] = [
  ["Unicode form (composed against decomposed characters)", (text) => text.normalize("NFC")],
  ["quotes or dashes (typographic against plain)", plainPunctuation],
  ["blanks or tabs", collapseBlanks],
  ["upper and lower case", (text) => text.toLowerCase()],
  ["blanks, quotes, dashes or Unicode form", (text) => collapseBlanks(plainPunctuation(text.normalize("NFKC")))],
];

const MAX_SHOWN_CHARS = 600;
const MAX_SHOWN_LINES = 12;

/**
 * Why `oldText` is not in a file, as sentences the model can act on (B131). `text` is the file's content with LF line ends.
 * Called only after an exact search found nothing.
 */
export function explainMiss(text: string, oldText: string): string {
  if (text === "") return "The file is empty. Use Write to fill it.";
  if (oldText.includes("\ufffd") && text.includes("\ufffd")) {
    return "old_text holds U+FFFD, which stands for bytes in the file that are no valid text and cannot be matched. Choose old_text without it.";
  }
  const wanted = oldText.replaceAll("\r\n", "\n");
  for (const [differsIn, loosen] of LOOSER) {
    const loose = loosen(wanted);
    const at = loose.trim() === "" ? -1 : loosen(text).indexOf(loose);
    if (at === -1) continue;
    const line = countLineBreaks(loosen(text).slice(0, at)) + 1;
    const there = linesAt(text, line, countLineBreaks(wanted) + 1);
    return `old_text is not in the file, but line ${line} differs from it only in ${differsIn}. The file has:\n${there}`;
  }
  const first = wanted.split("\n").find((line) => line.trim() !== "");
  const line = first === undefined ? -1 : text.split("\n").findIndex((candidate) => candidate.trim() === first.trim());
  if (first !== undefined && line !== -1 && wanted.includes("\n")) {
    const there = linesAt(text, line + 1, countLineBreaks(wanted) + 1);
    return `old_text is not in the file. Its first line stands in line ${line + 1}, but what follows differs. The file has:\n${there}`;
  }
  return "old_text is not in the file. Read the file again and copy the text exactly, blanks included.";
}

function plainPunctuation(text: string): string {
  return text
    .replaceAll(/[\u2018\u2019\u201a\u201b\u2032]/g, "'")
    .replaceAll(/[\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb]/g, '"')
    .replaceAll(/[\u2010-\u2015\u2212]/g, "-");
}

function collapseBlanks(text: string): string {
  return text
    .replaceAll(/[^\S\n]+/g, " ")
    .replaceAll(/ ?\n ?/g, "\n")
    .replaceAll(/^ | $/g, "");
}

function countLineBreaks(text: string): number {
  return text.split("\n").length - 1;
}

function linesAt(text: string, first: number, count: number): string {
  const lines = text.split("\n").slice(first - 1, first - 1 + Math.min(count, MAX_SHOWN_LINES));
  return prefixOf(lines.join("\n"), MAX_SHOWN_CHARS);
}
