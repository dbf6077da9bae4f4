import { editDistance } from "../base/edit-distance.ts";

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
