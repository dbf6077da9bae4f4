/** Ends a switch over a union: the compiler proves that no case is missing, the runtime names one that slipped through. */
export function assertNever(value: never, what: string): never {
  throw new Error(`unexpected ${what}: ${JSON.stringify(value)}`);
}
