const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Blocks whose characters a terminal draws two columns wide (East Asian Width W and F; Unicode's ranges, joined where only gaps lie between). */
const WIDE =
  /^[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18aff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]/u;
const EMOJI = /^\p{Emoji_Presentation}|^\p{RI}\p{RI}|^\p{Emoji}.*\ufe0f/u;
const NOTHING = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;

/** Columns that `text` takes on a terminal: a Japanese character or an emoji takes two, what combines with the one before takes none. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += graphemeWidth(segment);
  return width;
}

/** `text` in at most `columns` columns; what is cut is shown by an ellipsis. */
export function fitWidth(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  let cut = "";
  let width = 1;
  for (const { segment } of graphemes.segment(text)) {
    width += graphemeWidth(segment);
    if (width > columns) break;
    cut += segment;
  }
  return columns < 1 ? "" : `${cut}…`;
}

/** `text` and as many blanks as make it `columns` wide. */
export function padWidth(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - displayWidth(text)));
}

function graphemeWidth(grapheme: string): number {
  if (NOTHING.test(grapheme)) return 0;
  return WIDE.test(grapheme) || EMOJI.test(grapheme) ? 2 : 1;
}
