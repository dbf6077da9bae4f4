/**
 * The one way to start work that nobody awaits: its failure always reaches `onError`.
 * Not for anything whose result matters to an answer that is still owed.
 */
export function runDetached(work: Promise<unknown>, onError: (thrown: unknown) => void): void {
  work.then(undefined, onError);
}
