import * as z from "zod";
import type { ToolDefinition } from "../llm/model.ts";
import { bashTool } from "./bash.ts";
import { editTool } from "./edit.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { readTool } from "./read.ts";
import type { Tool } from "./tool.ts";
import { writeTool } from "./write.ts";

/** The tools of a Pod, in the order the model sees them. A read-only Pod has none that writes, and no shell, which is not fenced (B118). */
export function toolSet({ readOnly }: { readonly readOnly: boolean }): readonly Tool[] {
  return readOnly ? [readTool, globTool, grepTool] : [bashTool, readTool, writeTool, editTool, globTool, grepTool];
}

/** The tools as a model is told of them. Equal tools give equal bytes: the definitions stand in every request (I11). */
export function toolDefinitions(tools: readonly Tool[]): ToolDefinition[] {
  return tools.map(({ name, description, input }) => {
    const { $schema: _, ...inputSchema } = z.toJSONSchema(input, { target: "draft-7", io: "input" });
    return { name, description, inputSchema: { ...inputSchema, additionalProperties: false } };
  });
}
