import { defineConfig } from "vitest/config";

/** `unit`: beside the sources, and the gates in test/. `e2e`: real processes, on the bundle. */
export default defineConfig({
  test: {
    reporters: ["default", "./test/support/reporter.ts"],
    passWithNoTests: false,
    projects: [
      {
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude: ["test/e2e/**", "test/fixtures/**"],
          testTimeout: 30_000,
          // Each file has its own process: tests use real sockets, files and signals, and none sees another's leftovers.
          pool: "forks",
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          globalSetup: ["test/support/build-once.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          pool: "forks",
          // Each test starts several processes of its own; more files at once only make deadlines meaningless on a small machine.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
