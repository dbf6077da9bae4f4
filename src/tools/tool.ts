import type * as z from "zod";
import type { ScopeGuard } from "./scope-guard.ts";

/** What a tool call gets to work with. One object a Pod; `signal`, `callId` and `onProgress` are the call's own. */
export interface ToolContext {
  readonly callId: string;
  /** Aborts when the turn is cancelled or the Pod ends: the tool stops at once and cleans up after itself. */
  readonly signal: AbortSignal;
  /** The Pod's working directory, absolute. */
  readonly cwd: string;
  readonly scope: ScopeGuard;
  /** What this session read, to notice files that changed since (B120). */
  readonly readFiles: ReadFiles;
  /** Process groups that must end with the Pod, also if it is killed. */
  readonly processes: ProcessLedger;
  /** Environment for programs a tool starts (secrets already taken out). */
  readonly env: Readonly<Record<string, string>>;
  readonly limits: { readonly bashTimeoutS: number; readonly outputChars: number };
  /** Live output for people; merged and dropped under load, never stored. */
  onProgress(text: string): void;
}

/** Remembers the state of files as the model last saw them. Keys are real paths. */
export interface ReadFiles {
  /** Fingerprint of the content the model last saw or wrote, or undefined if it never did. */
  get(realPath: string): string | undefined;
  set(realPath: string, fingerprint: string): void;
}

/** Where started process groups are written down, so that a later process can end what a killed Pod left behind. */
export interface ProcessLedger {
  started(processGroup: number): void;
  ended(processGroup: number): void;
}

/** What a tool answers. A failure is a value: the model reads it and goes on. */
export interface ToolOutput {
  /** One line for people, at most 200 characters. */
  readonly summary: string;
  /** What the model sees, already cut to its cap with a note (I10); absent = the summary is all. */
  readonly content?: string;
  readonly isError: boolean;
}

/** A tool the model can call. One file a tool. */
export interface Tool<Input = unknown> {
  readonly name: string;
  /** Short; what it does, what it refuses, and what to use instead. */
  readonly description: string;
  readonly input: z.ZodType<Input>;
  /** `write`: may change something outside the session; its `tool_started` entry is on disk before it runs (I2). */
  readonly effect: "read" | "write";
  /** Throws only for bugs; everything a normal day brings is a `ToolOutput`. Must settle soon after `signal` aborts. */
  run(input: Input, context: ToolContext): Promise<ToolOutput>;
}
