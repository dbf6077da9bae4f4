import { assertNever } from "../base/assert-never.ts";
import type { LogEntry } from "./entry.ts";
import type { ScanEnd } from "./log-scan.ts";
import type { LoggedItem } from "./logged-item.ts";
import { type StepOptions, scanInSteps } from "./scan-in-steps.ts";
import { walkSession } from "./walk-session.ts";

export interface ExportOptions extends StepOptions {
  readonly format: "markdown" | "json";
  /** Gets the document piece by piece. */
  readonly write: (text: string) => void;
}

/**
 * Writes the whole session in `directory` as one document: Markdown to read, or JSON (`{"entries": [...], "end": ...}`, valid also of a
 * damaged log). What later files begin with is left out: it repeats the rest. Says how the log ended: a damaged one is exported up to the
 * damage. Throws what `walkFile` throws.
 */
export async function exportLog(directory: string, options: ExportOptions): Promise<ScanEnd> {
  const { format, write } = options;
  if (format === "markdown") {
    const end = await scanInSteps(walkSession(directory), (line) => writeAll(write, toMarkdown(line.entry)), options);
    if (end.kind === "torn" && end.complete) write(toMarkdown(end.complete.entry));
    return end;
  }
  let separator = "";
  const writeEntry = (entry: LogEntry) => {
    if (entry.type === "session_started" && entry.continues) return;
    write(`${separator}${JSON.stringify(entry)}`);
    separator = ",\n";
  };
  write('{"entries":[\n');
  const end = await scanInSteps(walkSession(directory), (line) => writeAll(writeEntry, line.entry), options);
  if (end.kind === "torn" && end.complete) writeEntry(end.complete.entry);
  const damage = end.kind === "damaged" ? { file: end.file, line: end.line, byte: end.start, ...end.problem } : null;
  write(`\n],"end":${JSON.stringify(end.kind)},"damage":${JSON.stringify(damage)}}\n`);
  return end;
}

function writeAll<Value>(write: (value: Value) => void, value: Value): undefined {
  write(value);
  return undefined;
}

/** An entry as people read it; empty for what only the machinery needs. */
export function toMarkdown(entry: LogEntry): string {
  const place = `<sub>#${entry.seq} · ${new Date(entry.ts).toISOString()}</sub>`;
  switch (entry.type) {
    case "session_started": {
      if (entry.continues) return "";
      const facts = [
        `Pod \`${entry.pod}\``,
        `model \`${entry.config.model}\``,
        `directory \`${entry.cwd}\``,
        `Wakeful ${entry.version}`,
      ];
      const kept = entry.history.map(itemToMarkdown);
      return blocks(
        `# Session ${entry.session}`,
        `${facts.join(" · ")} ${place}`,
        "## System prompt",
        fence(entry.system),
        ...kept,
      );
    }
    case "turn_started":
      return blocks(`## Turn ${entry.turn} (${entry.trigger})`, place);
    case "turn_paused":
      return blocks(`*Turn ${entry.turn} is paused.* ${place}`);
    case "turn_resumed":
      return blocks(`*Turn ${entry.turn} goes on.* ${place}`);
    case "turn_ended":
      return blocks(
        `*Turn ${entry.turn} ended: ${entry.outcome}${entry.error ? ` (${oneLine(entry.error.message)})` : ""}.* ${place}`,
      );
    case "user_input":
      return blocks(`### User ${place}`, ...entry.segments.map((segment) => fence(segment.text, segment.kind)));
    case "system_items":
    case "hook_injected_items":
      return entry.items.map((item) => `${itemToMarkdown({ kind: "system", item })} ${place}\n\n`).join("");
    case "llm_request":
      return blocks(`*Request ${entry.n} to ${entry.model}${entry.attempt > 1 ? `, attempt ${entry.attempt}` : ""}.* ${place}`);
    case "assistant_items":
      return blocks(
        `### Assistant ${place}`,
        ...entry.items.map(itemToMarkdown),
        ...(entry.stop === "end" ? [] : [`*Stopped: ${entry.stop}.*`]),
      );
    case "tool_started":
      return "";
    case "tool_results":
      return blocks(...entry.items.map((item) => `${itemToMarkdown(item)} ${place}`));
    case "config_changed":
      return blocks(`*Settings changed: \`${JSON.stringify(entry.changes)}\`.* ${place}`);
    case "closed":
      return blocks(`*Closed: ${oneLine(entry.reason)}.* ${place}`);
    default:
      return assertNever(entry, "log entry");
  }
}

function itemToMarkdown(item: LoggedItem): string {
  switch (item.kind) {
    case "user":
      return blocks("### User", ...item.segments.map((segment) => fence(segment.text, segment.kind))).trimEnd();
    case "message":
      return item.content.map((part) => part.text).join("");
    case "reasoning":
      return `<details><summary>Reasoning</summary>\n\n${fence(item.text)}\n\n</details>`;
    case "tool_call":
      return `**Call ${oneLine(item.name)}** \`${oneLine(item.call_id)}\`\n\n${fence(item.arguments, "json")}`;
    case "tool_result": {
      const failed = item.is_error ? " (failed)" : "";
      const content = item.content === undefined ? "" : `\n\n${fence(item.content)}`;
      return `**Result of ${oneLine(item.name)}**${failed} \`${oneLine(item.call_id)}\`: ${oneLine(item.summary)}${content}`;
    }
    case "system":
      return `### System item: ${item.item.kind} (${item.item.trust})\n\n${fence(item.item.body)}`;
    default:
      return assertNever(item, "logged item");
  }
}

function blocks(...parts: readonly string[]): string {
  return parts.map((part) => `${part}\n\n`).join("");
}

/** Text as it is, whatever it holds: the fence is longer than every run of backticks inside. */
function fence(text: string, info = ""): string {
  const longest = Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const ticks = "`".repeat(Math.max(3, longest + 1));
  return `${ticks}${info}\n${text}${text.endsWith("\n") ? "" : "\n"}${ticks}`;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}
