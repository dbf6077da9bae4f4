import { describe, expect, it } from "vitest";
import { REQUIREMENTS, type Requirement, requirementOf } from "./requirements.ts";
import { isSyntaxNode, literalText, type SourceFile, sourceFiles, syntaxNodes } from "./support/source-files.ts";

const citations = citationsIn([...sourceFiles("src", /\.test\.ts$/), ...sourceFiles("test", /\.test\.ts$/)]);
const open = REQUIREMENTS.filter((requirement) => requirement.status === "later");

describe("the list of promises", () => {
  it("names each line once, with a text that is a sentence", () => {
    expect(REQUIREMENTS.length).toBeGreaterThan(100);
    expect(REQUIREMENTS.filter((requirement) => requirementOf(requirement.id) !== requirement)).toEqual([]);
    expect(REQUIREMENTS.filter((requirement) => !/^\S.*\.$/.test(requirement.text))).toEqual([]);
  });

  it("has a test for every line that is built", () => {
    const missing = REQUIREMENTS.filter((requirement) => requirement.status === "now" && !citations.has(requirement.id));
    expect(
      missing.map((requirement) => requirement.id),
      `no test cites these lines; cite each with verifies([id], ...) where it is proven:\n${grouped(missing)}`,
    ).toEqual([]);
  });

  it("has no test for a line that is said to be built later", () => {
    const early = open.filter((requirement) => citations.has(requirement.id));
    const where = early.map((requirement) => `${requirement.id} in ${citations.get(requirement.id)?.join(", ")}`).join("; ");
    expect(
      early.map(({ id }) => id),
      `these lines have tests, so turn them from later to now in test/requirements.ts: ${where}`,
    ).toEqual([]);
  });

  // The one place where what is not done yet stands as an expected failure: one entry, however many lines are open.
  it.fails(`keeps every promise: ${open.length} of ${REQUIREMENTS.length} lines are built later (${summary(open)})`, () => {
    expect(open).toEqual([]);
  });
});

describe("the search for citations", () => {
  const file = (text: string): SourceFile => ({ path: "a.test.ts", text });

  it("finds ids in the calls and in tables of rows", () => {
    const found = citationsIn([file(`const rows = [{ id: "M-run-idle" }];\nverifies(["N1", \`N2\`], "t", () => {});`)]);
    expect([...found.keys()].sort()).toEqual(["M-run-idle", "N1", "N2"]);
  });

  it("finds none in comments, in longer texts and where nothing is verified", () => {
    const quiet = `/* verifies(["N1"]) */ // "N2"\nverifies(["N3"], "says N4 and N5", () => {});`;
    expect([...citationsIn([file(quiet), file(`it("N6", () => f("N7"));`)]).keys()]).toEqual(["N3"]);
  });
});

/** Which files cite which ids: the string literals that are an id, in files that call `verifies`. */
function citationsIn(files: readonly SourceFile[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const file of files) {
    if (!file.text.includes("verifies(")) continue;
    const nodes = syntaxNodes(file);
    if (
      !nodes.some(
        (node) => node.type === "CallExpression" && isSyntaxNode(node["callee"]) && node["callee"]["name"] === "verifies",
      )
    )
      continue;
    const ids = new Set(nodes.map(literalText).filter((text) => text !== undefined && requirementOf(text) !== undefined));
    for (const id of ids) if (id !== undefined) found.set(id, [...(found.get(id) ?? []), file.path]);
  }
  return found;
}

function grouped(requirements: readonly Requirement[]): string {
  return [...Map.groupBy(requirements, (requirement) => requirement.source)]
    .map(([source, group]) => `  ${source}:\n${group.map(({ id, text }) => `    ${id}: ${text}`).join("\n")}`)
    .join("\n");
}

function summary(requirements: readonly Requirement[]): string {
  return [...Map.groupBy(requirements, (requirement) => requirement.source)]
    .map(([source, group]) => `${source} ${group.length}`)
    .join(", ");
}
