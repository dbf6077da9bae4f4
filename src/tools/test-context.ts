import { realpathSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../base/ids.ts";
import type { Scope } from "../protocol/scope-rule.ts";
import { createScopeGuard, type ScopeGuardOptions } from "./scope-guard.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";

/** A context for trying tools on real files and processes: a fresh directory holds `inside` (the working directory and scope) and `outside`. */
export interface TestContext extends ToolContext, AsyncDisposable {
  readonly root: string;
  readonly outside: string;
  /** The scope in force; tests change it. */
  rules: Scope;
  /** What the tool reported while it ran. */
  readonly progress: string[];
  /** Process groups that were started and not ended. */
  readonly groups: Set<number>;
  /** Files this session knows. */
  readonly known: Map<string, string>;
  cancel(): void;
}

/** Makes a {@link TestContext} in a directory that is removed with it. */
export async function makeTestContext(
  options: {
    readonly closed?: readonly string[];
    readonly outputChars?: number;
    readonly folds?: ScopeGuardOptions["folds"];
  } = {},
): Promise<TestContext> {
  const root = realpathSync(await mkdtemp(join(tmpdir(), "wakeful-tools-")));
  const cwd = join(root, "inside");
  const outside = join(root, "outside");
  await mkdir(cwd);
  await mkdir(outside);
  const controller = new AbortController();
  const known = new Map<string, string>();
  const groups = new Set<number>();
  const progress: string[] = [];
  const context: TestContext = {
    root,
    outside,
    rules: { allow: [{ path: cwd, access: "write", recursive: true }], deny: [] },
    progress,
    groups,
    known,
    cancel: () => controller.abort(),
    callId: newId("call"),
    signal: controller.signal,
    cwd,
    scope: createScopeGuard({
      scope: () => context.rules,
      closed: options.closed ?? [],
      ...(options.folds === undefined ? {} : { folds: options.folds }),
    }),
    readFiles: { get: (path) => known.get(path), set: (path, fingerprint) => void known.set(path, fingerprint) },
    processes: { started: (group) => void groups.add(group), ended: (group) => void groups.delete(group) },
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LANG: "C.UTF-8" },
    limits: { bashTimeoutS: 60, outputChars: options.outputChars ?? 20_000 },
    onProgress: (text) => void progress.push(text),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
  return context;
}

/** Runs a tool and gives what the model sees. */
export async function call<Input>(
  tool: Tool<Input>,
  input: Input,
  context: ToolContext,
): Promise<ToolOutput & { readonly shown: string }> {
  const output = await tool.run(input, context);
  return { ...output, shown: output.content ?? output.summary };
}
