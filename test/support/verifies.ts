import { it } from "vitest";
import { type RequirementId, requirementOf } from "../requirements.ts";

/** How a test that proves promised lines may differ from a plain one. */
export interface VerifiesOptions {
  /** Time limit in milliseconds; absent = that of the test's project. */
  readonly timeoutMs?: number;
}

/**
 * A test that proves promised lines: `it`, with the ids in front of the title.
 *
 *     verifies(["N3", "M-notify-running"], "a notification while running follows the tool result", async () => { ... });
 *
 * The gate (test/requirements.test.ts) reads the ids from the source text: write each as a plain string literal in the test's
 * file, also where a table of rows makes the tests. Throws on an id that test/requirements.ts does not list.
 */
export function verifies(
  ids: readonly [RequirementId, ...RequirementId[]],
  title: string,
  body: () => void | Promise<void>,
  options: VerifiesOptions = {},
): void {
  for (const id of ids) {
    if (requirementOf(id) === undefined)
      throw new Error(`unknown requirement "${id}": test/requirements.ts lists those there are`);
  }
  it(`[${ids.join(" ")}] ${title}`, options.timeoutMs === undefined ? {} : { timeout: options.timeoutMs }, body);
}
