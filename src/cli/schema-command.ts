import { protocolSchema } from "../protocol/json-schema.ts";
import { type CliIo, EXIT } from "./io.ts";
import type { ParsedArgs } from "./parse-args.ts";

/** `wakeful schema`: the published JSON Schema of the protocol. */
export async function runSchemaCommand(_args: ParsedArgs, io: CliIo): Promise<number> {
  io.stdout.write(`${JSON.stringify(protocolSchema(), undefined, 2)}\n`);
  return EXIT.done;
}
