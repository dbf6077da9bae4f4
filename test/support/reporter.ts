import { writeFileSync } from "node:fs";
import type { Reporter, TestCase, TestModule, TestSuite } from "vitest/node";

/** What one run of tests came to, as the gate runner (scripts/gates.ts) reads it from the file named by `WAKEFUL_TEST_COUNTS`. */
export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
  /** Ids of promised lines whose tests passed (test/support/verifies.ts puts them in front of the title). */
  proven: string[];
}

/**
 * Makes `N passed, N failed` (`, N skipped`) the last line of a run, so that a script can read the outcome. Stands beside the
 * default reporter, which prints the rest.
 *
 * - An error outside of any test (a file that does not load, an unhandled rejection, a broken suite hook) counts as one failed.
 * - An expected failure (`it.fails`) that fails as expected counts as skipped: nothing was proven and nothing broke.
 * - Where `WAKEFUL_TEST_COUNTS` names a file, the counts go there and no line is printed: the gate runner prints one for everything.
 */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts: TestCounts = { passed: 0, failed: unhandledErrors.length, skipped: 0, proven: [] };
    for (const testModule of modules) {
      counts.failed += testModule.errors().length;
      for (const suite of testModule.children.allSuites()) counts.failed += suiteErrors(suite);
      for (const test of testModule.children.allTests()) count(test, counts);
    }
    const file = process.env["WAKEFUL_TEST_COUNTS"];
    if (file !== undefined) writeFileSync(file, JSON.stringify(counts));
    // At exit, so that nothing stands behind it (a coverage table does not).
    else process.once("exit", () => process.stdout.write(`${summaryLine(counts)}\n`));
  }
}

/** The last line of a run. */
export function summaryLine(counts: Pick<TestCounts, "passed" | "failed" | "skipped">): string {
  return `${counts.passed} passed, ${counts.failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`;
}

function suiteErrors(suite: TestSuite): number {
  return suite.errors().length;
}

function count(test: TestCase, counts: TestCounts): void {
  const { state } = test.result();
  if (state === "failed") counts.failed += 1;
  else if (state !== "passed" || test.options.fails === true) counts.skipped += 1;
  else {
    counts.passed += 1;
    const ids = /^\[([^\]]+)\] /.exec(test.name)?.[1];
    if (ids !== undefined) counts.proven.push(...ids.split(" "));
  }
}
