/** The known key that a misspelt one most likely means, or undefined if none is near. */
export function nearestKey(key: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  // In a short word two changes already make another word.
  let bestDistance = (key.length <= 3 ? 1 : Math.max(2, Math.floor(key.length / 3))) + 1;
  for (const candidate of known) {
    const distance = editDistance(normal(key), normal(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function normal(key: string): string {
  return key.toLowerCase().replaceAll("-", "_");
}

/** Optimal string alignment distance: insertions, deletions, replacements and swapped neighbours. */
function editDistance(a: string, b: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let best = Math.min(replace, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, (beforeLast[j - 2] ?? 0) + 1);
      row.push(best);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
