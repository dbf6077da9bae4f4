import { expect, test } from "vitest";
import { nearNames } from "./near-names.ts";

test.each([
  ["rnu", ["run", "ps", "resume"], ["run"]],
  ["revewer", ["review", "reviewer", "builder"], ["reviewer", "review"]],
  ["rev", ["reviewer", "builder"], ["reviewer"]],
  ["Reviewer", ["reviewer"], ["reviewer"]],
  ["x", ["reviewer", "builder"], []],
  ["", ["a"], ["a"]],
  ["xyzzy", ["run", "stop"], []],
])("%j is near to %j: %j", (wanted, candidates, expected) => {
  expect(nearNames(wanted, candidates)).toEqual(expected);
});
