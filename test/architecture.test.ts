import { describe, expect, it } from "vitest";
import {
  isSyntaxNode,
  lineOf,
  literalText,
  type SourceFile,
  type SyntaxNode,
  sourceFiles,
  syntaxNodes,
} from "./support/source-files.ts";

/** Which folder of src/ may import which (itself always). ARCHITECTURE.md gives the reasons. */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  base: [],
  protocol: ["base"],
  transport: ["base", "protocol"],
  llm: ["base", "protocol"],
  registry: ["base", "protocol"],
  config: ["base", "protocol"],
  "session-log": ["base", "protocol", "llm"],
  tools: ["base", "protocol", "llm", "registry", "config"],
  turn: ["base", "protocol", "llm", "registry", "config", "session-log", "tools"],
  client: ["base", "protocol", "transport", "config", "registry"],
  pod: ["base", "protocol", "transport", "llm", "registry", "config", "session-log", "tools", "turn", "client"],
  tui: ["base", "protocol", "client", "config"],
  cli: [
    ...["base", "protocol", "transport", "llm", "registry", "config", "session-log", "tools", "turn", "client", "pod", "tui"],
  ],
};

/** Which folders may use which npm package. A package that is not here is used nowhere in src/. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  // Data is checked at the edges (wire, disk, database, configuration, tool input, script files) and trusted behind them.
  zod: ["protocol", "session-log", "registry", "config", "tools", "llm", "client", "pod"],
  "@ai-sdk/anthropic": ["llm"],
  "@ai-sdk/google": ["llm"],
  "@ai-sdk/openai": ["llm"],
  "@ai-sdk/openai-compatible": ["llm"],
  "@ai-sdk/provider": ["llm"],
  "@vscode/ripgrep": ["tools"],
  yaml: ["llm"],
  "smol-toml": ["config"],
};

/** Which folders may use (not only name a type of) a part of Node that is a door to the outside. The rest is free to all but `protocol`. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  "node:net": ["transport", "cli"],
  "node:http": ["llm"],
  "node:https": ["llm"],
  "node:sqlite": ["registry"],
  "node:child_process": ["base", "tools", "client", "pod", "cli"],
  "node:worker_threads": [],
  "node:cluster": [],
};

/** The one folder that a browser must be able to load: no part of Node at all, and none of its globals. */
const WITHOUT_NODE = "protocol";
const NODE_GLOBALS = new Set(["process", "Buffer", "setImmediate", "global", "__dirname", "__filename", "require"]);

/** Files longer than this are split. */
const MAX_LINES = 500;

const sources = sourceFiles("src", /\.(ts|js)$/);
/** Tests, and what tests of one folder share (`test-support.ts`): not part of the product, and no product file imports them. */
const isTest = (path: string) => /\.test\.ts$|\/test-support(\.ts$|\/)/.test(path);
const productFiles = sources.filter((file) => !isTest(file.path));
const everything = [
  ...sources,
  ...["test", "scripts", "bin"]
    .flatMap((folder) => sourceFiles(folder, /\.(ts|js)$/))
    .filter((file) => !file.path.startsWith("test/fixtures/")),
];

describe("the layers", () => {
  it("are the folders of src, each a row of the table, without files beside them", () => {
    const folders = new Set(sources.map(folderOf));
    expect([...folders].filter((folder) => !Object.hasOwn(FOLDERS, folder))).toEqual([]);
  });

  it("import only what the table allows", () => {
    expect(productFiles.length).toBeGreaterThan(20);
    expect(productFiles.flatMap((file) => forbiddenImports(file))).toEqual([]);
  });

  it("have a table without circles", () => {
    const reached = (folder: string): string[] => (FOLDERS[folder] ?? []).flatMap((next) => [next, ...reached(next)]);
    expect(Object.keys(FOLDERS).filter((folder) => reached(folder).includes(folder))).toEqual([]);
  });

  it("keep tests to their own folder, what it may import, test/ and test libraries", () => {
    const tests = sources.filter((file) => isTest(file.path));
    const isTestLibrary = (name: string) => name === "vitest" || name === "fast-check" || name.startsWith("node:");
    const wrong = tests.flatMap((file) =>
      forbiddenImports(file, { mayImport: (target) => target.startsWith("test/") || isTest(target) || isTestLibrary(target) }),
    );
    expect(wrong).toEqual([]);
  });

  it("leave the protocol free of what only Node has", () => {
    const uses = productFiles.filter((file) => folderOf(file) === WITHOUT_NODE).flatMap(nodeGlobals);
    expect(uses).toEqual([]);
  });
});

describe("a source file", () => {
  it(`has at most ${MAX_LINES} lines`, () => {
    const long = everything
      .map((file) => ({ path: file.path, lines: file.text.split("\n").length - 1 }))
      .filter(({ lines }) => lines > MAX_LINES);
    expect(long, "split these, each part named for its one main export").toEqual([]);
  });

  it("hands on no exports of another file", () => {
    expect(productFiles.flatMap(barrels), "import from the file that has it").toEqual([]);
  });

  it("says any nowhere", () => {
    expect(
      everything.flatMap((file) => places(file, (node) => node.type === "TSAnyKeyword", "any")),
      "use unknown and check it",
    ).toEqual([]);
  });

  it("writes to no console", () => {
    const isConsole = (node: SyntaxNode) =>
      node.type === "MemberExpression" && isSyntaxNode(node["object"]) && node["object"]["name"] === "console";
    const outside = productFiles.filter((file) => folderOf(file) !== "cli");
    expect(
      outside.flatMap((file) => places(file, isConsole, "console")),
      "take a Logger",
    ).toEqual([]);
  });

  it("and no page or script names a place of one machine", () => {
    const pages = ["docs", "examples"].flatMap((folder) => sourceFiles(folder, /\.(md|yaml|toml|json|sh)$/));
    const top = sourceFiles(".github", /\.yml$/);
    const place = new RegExp(String.raw`(?<![\w.}$-])/(?:wo${"rk"}|ro${"ot"})/`);
    const found = [...everything, ...pages, ...top].flatMap((file) =>
      file.text.split("\n").flatMap((line, index) => (place.test(line) ? [`${file.path}:${index + 1}: ${line.trim()}`] : [])),
    );
    expect(found).toEqual([]);
  });
});

describe("the search for imports", () => {
  it("sees every way to import, types included", () => {
    const text = `import "a"; import type { B } from "b"; export * from "c"; export { d } from "d";
      type E = import("e").E; const f = await import("f"); const g = await import(\`g\`);`;
    expect(
      importsOf({ path: "src/base/x.ts", text })
        .map((found) => found.target)
        .sort(),
    ).toEqual(["a", "b", "c", "d", "e", "f", "g"]);
  });

  it("refuses a folder, a package and a door that the tables do not give", () => {
    const text = `import "../cli/main.ts"; import "zod"; import "node:net"; import "left-pad"; import "node:fs"; import "./y.ts";`;
    expect(
      forbiddenImports({ path: "src/base/x.ts", text }).map((wrong) => wrong.split(" imports ")[1]?.split(":")[0]),
    ).toHaveLength(4);
    expect(
      forbiddenImports({ path: "src/protocol/x.ts", text: `import "node:fs"; import "zod"; import "../base/y.ts";` }),
    ).toHaveLength(1);
  });
});

function folderOf(file: SourceFile): string {
  return file.path.split("/")[1] ?? "";
}

interface Import {
  readonly target: string;
  readonly line: number;
  readonly isType: boolean;
}

/** What a file imports, in every way the language has; a computed `import()` is a target of its own, which no table allows. */
function importsOf(file: SourceFile): readonly Import[] {
  const imports: Import[] = [];
  for (const node of syntaxNodes(file)) {
    if (!/^(Import|ExportAll|ExportNamed)Declaration$|^ImportExpression$|^TSImportType$/.test(node.type)) continue;
    const source = node["source"];
    if (source === null || source === undefined) continue;
    const template =
      isSyntaxNode(source) && source.type === "TemplateLiteral" && Array.isArray(source["quasis"]) ? source["quasis"] : [];
    const target = literalText(source) ?? (template.length === 1 ? literalText(template[0]) : undefined);
    imports.push({ target: target ?? "(a computed path)", line: lineOf(file, node), isType: node["importKind"] === "type" });
  }
  return imports;
}

interface Exceptions {
  /** Further targets that are fine: a path from the checkout on, or a package. */
  mayImport(target: string): boolean;
}

function forbiddenImports(file: SourceFile, exceptions?: Exceptions): string[] {
  const folder = folderOf(file);
  return importsOf(file).flatMap(({ target, line, isType }) => {
    const isFile = target.startsWith(".");
    const path = isFile ? pathFromRoot(file, target) : target;
    if (exceptions?.mayImport(path) === true) return [];
    const refusal = isFile ? refuseFile(folder, path) : refusePackage(folder, target, { isType });
    return refusal === undefined ? [] : [`${file.path}:${line} imports ${target}: ${refusal}`];
  });
}

function pathFromRoot(file: SourceFile, target: string): string {
  return new URL(target, `file:///${file.path}`).pathname.slice(1);
}

function refuseFile(folder: string, path: string): string | undefined {
  if (path === "package.json" && folder === "base") return undefined; // base/version.ts
  const [top, target = ""] = path.split("/");
  if (top !== "src") return "src/ imports nothing outside of src/";
  if (isTest(path)) return "it is for tests only";
  if (target === folder || FOLDERS[folder]?.includes(target) === true) return undefined;
  return `${folder} may import ${FOLDERS[folder]?.join(", ") || "nothing"}`;
}

function refusePackage(folder: string, target: string, { isType }: Pick<Import, "isType">): string | undefined {
  const owners = (list: readonly string[]) => `only ${list.join(", ") || "nobody"} may use it`;
  if (target.startsWith("node:")) {
    if (folder === WITHOUT_NODE) return `${WITHOUT_NODE} runs in browsers and uses nothing of Node`;
    const allowed = Object.hasOwn(DOORS, target) ? DOORS[target] : undefined;
    return isType || allowed === undefined || allowed.includes(folder) ? undefined : owners(allowed);
  }
  const name = target.split("/", target.startsWith("@") ? 2 : 1).join("/");
  const allowed = Object.hasOwn(PACKAGES, name) ? PACKAGES[name] : undefined;
  if (allowed === undefined) return "no row for this package in the table of test/architecture.test.ts";
  return allowed.includes(folder) ? undefined : owners(allowed);
}

function places(file: SourceFile, isWrong: (node: SyntaxNode) => boolean, what: string): string[] {
  return syntaxNodes(file)
    .filter(isWrong)
    .map((node) => `${file.path}:${lineOf(file, node)} ${what}`);
}

/** A name used as a value or a property's owner; property names and keys are somebody else's `process`. */
function nodeGlobals(file: SourceFile): string[] {
  const owned = new Set<unknown>();
  const nodes = syntaxNodes(file);
  for (const node of nodes) {
    if (node.type === "MemberExpression" && node["computed"] !== true) owned.add(node["property"]);
    if (node.type === "Property" || node.type === "TSPropertySignature") owned.add(node["key"]);
  }
  return nodes
    .filter((node) => node.type === "Identifier" && NODE_GLOBALS.has(String(node["name"])) && !owned.has(node))
    .map((node) => `${file.path}:${lineOf(file, node)} ${String(node["name"])}`);
}

function barrels(file: SourceFile): string[] {
  const handsOn = (node: SyntaxNode) => /^Export(All|Named)Declaration$/.test(node.type) && isSyntaxNode(node["source"]);
  return places(file, handsOn, "exports what another file has");
}
