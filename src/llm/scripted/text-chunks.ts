/**
 * Cuts a text into pieces of `size` characters (the last may be shorter). A character is a Unicode code point: no piece ends inside a
 * surrogate pair (field report B78). The pieces joined are the text; an empty text has none.
 */
export function* textChunks(text: string, size: number): Generator<string> {
  let start = 0;
  while (start < text.length) {
    const end = indexAfter(text, start, size);
    yield text.slice(start, end);
    start = end;
  }
}

/** Number of characters (code points) of a text. */
export function characterCount(text: string): number {
  let count = 0;
  for (let index = 0; index < text.length; index = indexAfter(text, index, 1)) count++;
  return count;
}

/** The first `count` characters of a text. */
export function firstCharacters(text: string, count: number): string {
  return text.slice(0, indexAfter(text, 0, count));
}

/** The index that lies `count` characters behind `start`, or the end of the text. */
function indexAfter(text: string, start: number, count: number): number {
  let index = start;
  for (let left = count; left > 0 && index < text.length; left--) {
    index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  }
  return index;
}
