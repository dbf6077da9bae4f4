/** The last work queued for each key; a key without work has no entry. */
const tails = new Map<string, Promise<unknown>>();

/**
 * Runs work on one key strictly one after another, in the order of the calls, whether or not earlier work failed. The file tools use it so
 * that calls of one batch that touch the same file see each other's result.
 */
export async function inOrder<T>(key: string, work: () => Promise<T>): Promise<T> {
  const before = tails.get(key);
  const run = before === undefined ? work() : before.then(work, work);
  tails.set(key, run);
  try {
    return await run;
  } finally {
    if (tails.get(key) === run) tails.delete(key);
  }
}
