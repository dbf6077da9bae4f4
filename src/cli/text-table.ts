import { displayWidth, fitWidth, padWidth } from "./display-width.ts";

/** A column is not made narrower than this many columns of the terminal. */
const NARROWEST = 8;
const GAP = 2;

/** Rows in columns, one line each. With `columns` (a terminal's width) the widest cells give way until a line fits. */
export function textTable(
  rows: readonly (readonly string[])[],
  options: { readonly columns?: number | undefined } = {},
): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, displayWidth(cell));
  }
  if (options.columns !== undefined) shrink(widths, options.columns);
  return rows.map((row) => {
    const line = row
      .map((cell, index) => padWidth(fitWidth(cell, widths[index] ?? 0), widths[index] ?? 0))
      .join(" ".repeat(GAP))
      .trimEnd();
    // A terminal too narrow even so: the columns on the right go.
    return options.columns === undefined ? line : fitWidth(line, options.columns);
  });
}

function shrink(widths: number[], columns: number): void {
  let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - columns;
  while (excess > 0) {
    const widest = Math.max(...widths);
    if (widest <= NARROWEST) return;
    widths[widths.indexOf(widest)] = widest - 1;
    excess--;
  }
}
