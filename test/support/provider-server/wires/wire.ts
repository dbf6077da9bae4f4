import type { IncomingHttpHeaders } from "node:http";
import type { Step } from "../answer.ts";

/** The steps that a wire turns into bytes; the others are the server's. */
export type WireStep = Extract<
  Step,
  {
    kind:
      | "text"
      | "thinking"
      | "redacted_thinking"
      | "tool_call"
      | "open_text"
      | "open_tool_call"
      | "stop"
      | "error"
      | "event"
      | "ping";
  }
>;

/** The steps that hold what the model says. */
export type ContentStep = Exclude<WireStep, { kind: "event" | "error" | "ping" }>;

/** Writes one answer of a wire. */
export interface WireWriter {
  readonly contentType: string;
  /** The pieces of text for a step, each one event; the opening event stands before the first. */
  write(step: WireStep): string[];
  /** Why the answer would end now if nothing said otherwise. */
  readonly defaultStop: string;
}

/** One provider's protocol: which requests are its own, its rules, its answers. A further wire is one file that makes one of these. */
export interface Wire {
  readonly name: string;
  matches(path: string): boolean;
  /** The rules that a request breaks, each as one sentence that begins with the rule's name. */
  check(body: unknown, headers: IncomingHttpHeaders): string[];
  openWriter(): WireWriter;
  /** The body of an HTTP error as this provider writes it. */
  errorBody(type: string, message: string): string;
}
