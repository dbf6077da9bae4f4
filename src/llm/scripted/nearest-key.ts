import { editDistance } from "../../base/edit-distance.ts";

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
