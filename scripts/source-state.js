// Plain JavaScript that every Node since 18 reads: the launcher imports it before it knows what it runs on.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** What a build is made from, besides `src/`: a change in one of them makes `dist/` stale. */
const OTHER_INPUTS = ["package.json", "node_modules/.package-lock.json", "scripts/build.ts", "scripts/dist-entry.ts"];

/** Where a build records what it was made from and which files are its own. Written last: without it there is no build. */
export const RECORD_NAME = ".build.json";

/**
 * A short text that changes whenever an input of the build does: count, sizes and modification times of all of them, in no order.
 * Not «older than»: an edit during a build, a file that came back with an old date and a deleted file are noticed too.
 *
 * @param {string} root the checkout
 * @returns {string}
 */
export function sourceFingerprint(root) {
  const sum = { count: 0, mix: 0 };
  addFolder(join(root, "src"), sum);
  for (const path of OTHER_INPUTS) addFile(join(root, path), sum);
  return `${sum.count}-${(sum.mix >>> 0).toString(16)}`;
}

/**
 * True when `dist/` was built from the sources as they are now.
 *
 * @param {string} root the checkout
 * @returns {boolean}
 */
export function isBuildFresh(root) {
  try {
    const record = JSON.parse(readFileSync(join(root, "dist", RECORD_NAME), "utf8"));
    return record.fingerprint === sourceFingerprint(root);
  } catch {
    return false; // no record, or half a one: not a build that may be run
  }
}

/** @param {string} folder @param {{ count: number, mix: number }} sum */
function addFolder(folder, sum) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) addFolder(path, sum);
    else if (!entry.name.endsWith(".test.ts")) addFile(path, sum);
  }
}

/**
 * Every start from a checkout runs this for each file, so it does next to nothing beside the `stat`.
 *
 * @param {string} path @param {{ count: number, mix: number }} sum
 */
function addFile(path, sum) {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return;
  const part =
    Math.imul(stat.mtimeMs % 1e6, 0x9e3779b1) ^ Math.imul(stat.mtimeMs / 1e6, 0x85ebca6b) ^ Math.imul(stat.size + 1, 0xc2b2ae35);
  sum.count += 1;
  sum.mix = (sum.mix + Math.imul(part ^ path.length ^ (((stat.mtimeMs % 1) * 1e4) | 0), 0x27d4eb2f)) | 0;
}
