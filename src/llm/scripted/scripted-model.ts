import { dirname, resolve } from "node:path";
import { type Clock, systemClock } from "../../base/clock.ts";
import { plural } from "../../base/text.ts";
import type { Model, ModelEvent, ModelRequest, Prompt } from "../model.ts";
import { toFailure } from "../provider-failure.ts";
import { findUnmet } from "./expectations.ts";
import { playStep } from "./play-step.ts";
import { readScript } from "./read-script.ts";
import { renderScriptBody } from "./script-body.ts";
import type { Script, Step } from "./script-format.ts";
import { Silence } from "./silence.ts";

/** What turns prompts into bodies; grows when the same prompt would give other bytes. */
const ADAPTER = "wakeful-script@1";
const DEFAULT_CONTEXT_WINDOW = 200_000;
const DEFAULT_MAX_OUTPUT_TOKENS = 32_000;

/**
 * Opens the scripted model: a real `Model` that plays a written script (`docs/scripts.md`) without a key or a network. The step it
 * plays is a function of the request's `position` alone, so retries, kill -9 and restore change nothing. The file is read once, here.
 *
 * Throws `not_found` if there is no such file and `configuration` if it is no script, naming line and column.
 */
export async function openScriptedModel(file: string, options: { readonly clock?: Clock } = {}): Promise<Model> {
  const path = resolve(file);
  const script = await readScript(path);
  return toModel(script, path, options.clock ?? systemClock);
}

function toModel(script: Script, file: string, clock: Clock): Model {
  const capabilities = {
    systemInPlace: script.system_in_place ?? false,
    contextWindow: script.context_window ?? DEFAULT_CONTEXT_WINDOW,
    maxOutputTokens: script.max_output_tokens ?? DEFAULT_MAX_OUTPUT_TOKENS,
    reasoning: true,
  };
  return {
    ref: `script:${file}`,
    adapter: ADAPTER,
    capabilities,
    stream: (request) => play({ script, file, clock, bodyOptions: capabilities }, request),
    renderBody: async (prompt, settings) => renderScriptBody(prompt, settings, capabilities),
  };
}

interface Opened {
  readonly script: Script;
  readonly file: string;
  readonly clock: Clock;
  readonly bodyOptions: { readonly systemInPlace: boolean };
}

async function* play(
  { script, file, clock, bodyOptions }: Opened,
  request: ModelRequest,
): AsyncGenerator<ModelEvent, void, void> {
  const { signal, settings, position, idleTimeoutMs } = request;
  const failed = (code: "script" | "cancelled", message: string): ModelEvent => ({
    type: "failure",
    failure: toFailure(code, message),
  });
  if (signal.aborted) return yield failed("cancelled", "the request was cancelled before it was sent");

  // The caller's array may grow while we wait: what is checked must be what was sent.
  const prompt: Prompt = { ...request.prompt, items: request.prompt.items.slice() };
  const body = renderScriptBody(prompt, settings, bodyOptions);
  // Before anything is produced, exactly once; what it throws is not the provider's doing and leaves as it is (I1).
  await request.beforeSend(body);
  if (signal.aborted) return yield failed("cancelled", "the request was cancelled");

  const number = position.answered + 1;
  const step = stepFor(script, position.answered);
  if (step === undefined) return yield failed("script", noStep(script, file, number));
  const unmet = step.expect === undefined ? undefined : findUnmet(step.expect, prompt, bodyOptions);
  if (unmet !== undefined)
    return yield failed("script", `step ${number} of the script ${file} was sent something unexpected. ${unmet}`);

  const silence = new Silence(clock, { signal, idleTimeoutMs });
  const { attempt } = position;
  const context = {
    number,
    attempt,
    items: prompt.items,
    bodyBytes: body.byteLength,
    defaults: script,
    folder: dirname(file),
    silence,
  };
  yield* playStep(step, context);
}

function stepFor(script: Script, answered: number): Step | undefined {
  return script.steps[answered] ?? script.otherwise;
}

function noStep(script: Script, file: string, number: number): string {
  const has = plural(script.steps.length, "step");
  return `the script ${file} has no step ${number}: it has ${has}; add one at the end of "steps:", or an "otherwise:" step that answers everything after them`;
}
