import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { parseAst } from "rolldown/parseAst";

/** The checkout. */
export const ROOT = join(import.meta.dirname, "..", "..");

/** A syntax node, as far as the gates look at one. */
export interface SyntaxNode {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A source file: `path` relative to the checkout, with `/`. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** Every file below `folder` (relative to the checkout) whose name matches, in order of path. A folder that is missing has none. */
export function sourceFiles(folder: string, name: RegExp): readonly SourceFile[] {
  if (!existsSync(join(ROOT, folder))) return [];
  return readdirSync(join(ROOT, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && name.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => ({ path: relative(ROOT, path).split(sep).join("/"), text: readFileSync(path, "utf8") }));
}

/** Every syntax node of a file, in no promised order. */
export function syntaxNodes(file: SourceFile): readonly SyntaxNode[] {
  const found: SyntaxNode[] = [];
  const open: unknown[] = [parseAst(file.text, { lang: "ts" }, file.path)];
  while (open.length > 0) {
    const next = open.pop();
    if (Array.isArray(next)) open.push(...next);
    else if (isSyntaxNode(next)) {
      found.push(next);
      open.push(...Object.values(next));
    }
  }
  return found;
}

/** True for anything that is a node of the syntax tree. */
export function isSyntaxNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

/** The number of the line on which a node begins, from 1. */
export function lineOf(file: SourceFile, node: SyntaxNode): number {
  const start = node["start"];
  return typeof start === "number" ? file.text.slice(0, start).split("\n").length : 1;
}

/** The text of a string literal, or of a template without holes; undefined for everything else. */
export function literalText(node: unknown): string | undefined {
  if (!isSyntaxNode(node)) return undefined;
  if (node.type === "Literal") return typeof node["value"] === "string" ? node["value"] : undefined;
  if (node.type !== "TemplateElement") return undefined;
  const value = node["value"];
  const cooked = typeof value === "object" && value !== null && "cooked" in value ? value.cooked : undefined;
  return typeof cooked === "string" ? cooked : undefined;
}
