/**
 * Runs the gates of the project one after the other, all of them even if one fails, and ends with one line
 * `N passed, N failed` (`, N skipped`) for everything together; exit code 1 if anything failed.
 *
 *     node scripts/gates.ts check    types, lint, unused code, unit tests (with architecture and pins)
 *     node scripts/gates.ts all      check, then the package build and the end-to-end tests
 *
 * Each gate that is not a test run counts as one test. A test run counts its tests; one that ends badly without a failed test
 * counts as one failed, so that a crash is never a pass. After a whole run each promised line must have a test that passed.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { REQUIREMENTS } from "../test/requirements.ts";
import { summaryLine, type TestCounts } from "../test/support/reporter.ts";

interface Gate {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** True for a run of vitest, which counts for itself. */
  readonly isTestRun?: boolean;
}

const CHECK: readonly Gate[] = [
  { name: "types", command: ["tsc", "-p", "."] },
  { name: "lint and format", command: ["biome", "check", "--error-on-warnings", "."] },
  { name: "unused code", command: ["knip", "--no-progress"] },
  { name: "unit tests", command: ["vitest", "run", "--project", "unit"], isTestRun: true },
];

const ALL: readonly Gate[] = [
  ...CHECK,
  { name: "build", command: ["node", "scripts/build.ts", "--package"] },
  { name: "end-to-end tests", command: ["vitest", "run", "--project", "e2e"], isTestRun: true },
];

const root = resolve(import.meta.dirname, "..");
const which = process.argv[2];
if (which !== "check" && which !== "all") {
  process.stderr.write("usage: node scripts/gates.ts check|all\n");
  process.exit(2);
}

const total: TestCounts = { passed: 0, failed: 0, skipped: 0, proven: [] };
const broken: string[] = [];
for (const gate of which === "all" ? ALL : CHECK) {
  process.stdout.write(`\n=== ${gate.name}: ${gate.command.join(" ")}\n`);
  const counts = await run(gate);
  total.passed += counts.passed;
  total.failed += counts.failed;
  total.skipped += counts.skipped;
  total.proven.push(...counts.proven);
  if (counts.failed > 0) broken.push(gate.name);
}
if (which === "all") checkPromises();

process.stdout.write(broken.length === 0 ? "\nAll gates are green.\n" : `\nNot green: ${broken.join(", ")}\n`);
process.stdout.write(`${summaryLine(total)}\n`);
process.exitCode = broken.length === 0 ? 0 : 1;

async function run(gate: Gate): Promise<TestCounts> {
  if (gate.isTestRun === true) return await runTests(gate);
  const ok = (await exitCode(gate, {})) === 0;
  return { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0, proven: [] };
}

async function runTests(gate: Gate): Promise<TestCounts> {
  const folder = mkdtempSync(join(tmpdir(), "wakeful-gates-"));
  try {
    const file = join(folder, "counts.json");
    const code = await exitCode(gate, { WAKEFUL_TEST_COUNTS: file });
    const counts = readCounts(file);
    if (code === 0 && counts.passed === 0) return { ...counts, failed: counts.failed + 1 }; // a run without tests proves nothing
    return code !== 0 && counts.failed === 0 ? { ...counts, failed: 1 } : counts;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readCounts(file: string): TestCounts {
  try {
    const counts: TestCounts = JSON.parse(readFileSync(file, "utf8"));
    return counts;
  } catch {
    return { passed: 0, failed: 1, skipped: 0, proven: [] }; // the run died before it could count
  }
}

/** The citing of an id is checked by test/requirements.test.ts; this looks at whether what cites it ran and passed. */
function checkPromises(): void {
  const proven = new Set(total.proven);
  const unproven = REQUIREMENTS.filter((requirement) => requirement.status === "now" && !proven.has(requirement.id));
  process.stdout.write("\n=== promises: every line that is built has a test that passed in this run\n");
  for (const { id, text } of unproven) process.stdout.write(`no passed test proves ${id}: ${text}\n`);
  total[unproven.length === 0 ? "passed" : "failed"] += 1;
  if (unproven.length > 0) broken.push("promises");
}

/** Runs a command of the project on the pinned tools, its output passed through; resolves with its exit code (1 for a signal). */
function exitCode(gate: Gate, env: Readonly<Record<string, string>>): Promise<number> {
  const [command, ...args] = gate.command;
  const path = `${join(root, "node_modules", ".bin")}:${process.env["PATH"] ?? ""}`;
  const child = spawn(command === "node" ? process.execPath : command, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, PATH: path, ...env },
  });
  return new Promise((done) => {
    child.on("error", (error) => {
      process.stdout.write(`cannot start ${command}: ${error.message}\n`);
      done(1);
    });
    child.on("close", (code) => done(code ?? 1));
  });
}
