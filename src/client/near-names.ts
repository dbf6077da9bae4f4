/** Most suggestions somebody is shown. */
const MAX_NEAR = 3;

/** The candidates that look like a slip of `wanted`, nearest first: few edits, or one begins with the other. */
export function nearNames(wanted: string, candidates: Iterable<string>): readonly string[] {
  const needle = wanted.toLowerCase();
  const scored = [...new Set(candidates)].map((candidate) => {
    const name = candidate.toLowerCase();
    const isPrefix = needle.length > 1 && (name.startsWith(needle) || needle.startsWith(name));
    return { candidate, distance: isPrefix ? 1 : editDistance(needle, name) };
  });
  const limit = Math.max(1, Math.ceil(needle.length / 3));
  return scored
    .filter(({ distance }) => distance <= limit)
    .sort((a, b) => a.distance - b.distance || a.candidate.localeCompare(b.candidate))
    .slice(0, MAX_NEAR)
    .map(({ candidate }) => candidate);
}

/** Edits (insert, delete, replace, swap neighbours) from one to the other; names are short (at most 255 bytes). */
function editDistance(a: string, b: string): number {
  let beforeFormer: number[] = [];
  let former = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (former[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? (beforeFormer[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      current.push(Math.min(replaced, swapped, (former[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    beforeFormer = former;
    former = current;
  }
  return former[b.length] ?? 0;
}
