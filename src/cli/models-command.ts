import type { AppError } from "../base/errors.ts";
import { type Config, loadConfig } from "../config/load-config.ts";
import { shownUrl } from "../llm/base-url.ts";
import { type KnownModels, knownModels } from "../llm/capabilities.ts";
import { checkModelRef } from "../llm/open-model.ts";
import type { ProviderSettings } from "../protocol/provider-settings.ts";
import { toInertLine } from "./inert.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";
import { placesOf } from "./reach.ts";
import { textTable } from "./text-table.ts";

/** A provider as it is shown: of its key only the variable's name and whether it is set. */
interface ProviderReport {
  readonly name: string;
  readonly api: string;
  /** Null = the provider's own. */
  readonly base_url: string | null;
  /** Null = no key is sent. */
  readonly key: { readonly variable: string; readonly set: boolean } | null;
  readonly ready: boolean;
  /** Model lines that the table knows, and what it knows. */
  readonly known: readonly {
    readonly models: string;
    readonly context_window: number;
    readonly max_output_tokens: number;
    readonly reasoning: boolean;
    readonly system_in_place: boolean;
  }[];
}

/** `wakeful models`: which providers can be used, which model is the default, and how to name one. Asks no provider anything. */
export async function runModelsCommand(args: ParsedArgs, io: CliIo): Promise<number> {
  const config = loadConfig({ cwd: io.cwd, env: io.env, places: placesOf(io) });
  const providers = [...config.providers.all].map(([name, settings]) => toReport(name, settings, io));
  const model = defaultModel(config, io);
  if (args.has("json")) {
    const naming = ["<provider>/<model>", "script:<file>"];
    io.stdout.write(`${JSON.stringify({ default: model, providers, naming, notes: config.notes })}\n`);
    return EXIT.done;
  }
  const rows = providers.map((provider) => [
    `${provider.name}/<model>`,
    provider.ready ? "ready" : "no key",
    provider.key === null ? "needs no key" : `${provider.key.variable} is ${provider.key.set ? "set" : "not set"}`,
    provider.base_url === null ? provider.api : `${provider.api}, ${toInertLine(provider.base_url, 200)}`,
  ]);
  for (const line of textTable([...rows, ["script:<file>", "ready", "needs no key", "plays a written script"]])) {
    io.stdout.write(`${line}\n`);
  }
  io.stdout.write(`\ndefault: ${model === null ? "none" : `${toInertLine(model.model)} (${toInertLine(model.source, 200)})`}\n`);
  if (model?.problem !== undefined) io.stdout.write(`  cannot be used: ${toInertLine(model.problem, 400)}\n`);
  for (const { name, known } of providers) {
    if (known.length === 0) continue;
    const lines = known.map(({ models }) => models.slice(name.length + 1)).join(", ");
    io.stdout.write(`known of ${name}: ${lines}\n`);
  }
  io.stdout.write("Any other model of a provider works too; see docs/models.md.\n");
  for (const note of config.notes) io.stderr.write(`note: ${toInertLine(note, 400)}\n`);
  return EXIT.done;
}

function toReport(name: string, settings: ProviderSettings, io: CliIo): ProviderReport {
  const found = settings.keyVariables.find((variable) => io.env[variable]?.trim());
  const variable = found ?? settings.keyVariables[0];
  const key = variable === undefined ? null : { variable, set: found !== undefined };
  return {
    name,
    api: settings.api,
    base_url: settings.baseUrl === undefined ? null : shownUrl(settings.baseUrl),
    key,
    ready: key === null || key.set,
    known: knownModels(name).map(({ prefix, capabilities }: KnownModels) => ({
      models: `${name}/${prefix}*`,
      context_window: capabilities.contextWindow,
      max_output_tokens: capabilities.maxOutputTokens,
      reasoning: capabilities.reasoning,
      system_in_place: capabilities.systemInPlace,
    })),
  };
}

function defaultModel(
  config: Config,
  io: CliIo,
): { readonly model: string; readonly source: string; readonly problem?: string } | null {
  const model = config.model.default;
  if (model === undefined) return null;
  const source = config.entries.find((entry) => entry.key === "model.default")?.source ?? "";
  const problem = checkModelRef(model, io.env, config.providers.all);
  return { model, source, ...(problem === undefined ? {} : { problem: sentence(problem) }) };
}

function sentence(problem: AppError): string {
  return problem.hint === undefined ? problem.message : `${problem.message}. ${problem.hint}`;
}
