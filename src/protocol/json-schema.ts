import * as z from "zod";
import { Event } from "./event.ts";
import { METHODS, PROTOCOL_VERSION, Snapshot } from "./method.ts";

/**
 * The protocol as JSON Schema (draft 2020-12), made from the schemas that validate it: the same sources give the same bytes. Params are
 * as a client writes them (defaults may be left out), results and events as a Pod sends them; unknown fields are to be ignored.
 */
export function protocolSchema(): Record<string, unknown> {
  const methods = Object.fromEntries(
    Object.entries(METHODS).map(([name, { params, result }]) => [
      name,
      { params: toSchema(params, "input"), result: toSchema(result, "output") },
    ]),
  );
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Wakeful Pod protocol",
    version: PROTOCOL_VERSION,
    description:
      "JSON-RPC 2.0, one object a line. A method is a request, an event the notification `event` with the event as its params.",
    methods,
    event: toSchema(Event, "output"),
    snapshot: toSchema(Snapshot, "output"),
  };
}

function toSchema(schema: z.ZodType, side: "input" | "output"): unknown {
  const { $schema: _dialect, ...body } = z.toJSONSchema(schema, { io: side });
  return side === "output" ? openObjects(body) : body;
}

/** Without `additionalProperties: false`: an old client has to take what a newer Pod adds. */
function openObjects(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(openObjects);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([key, inner]) => key !== "additionalProperties" || inner !== false);
  return Object.fromEntries(entries.map(([key, inner]) => [key, openObjects(inner)]));
}
