import { expect, test } from "vitest";
import { protocolSchema } from "./json-schema.ts";
import { METHODS } from "./method.ts";

test("the schema names every method, is the same each time, and forbids no unknown field", () => {
  const text = JSON.stringify(protocolSchema());
  expect(JSON.stringify(protocolSchema())).toBe(text);
  expect(protocolSchema()).toMatchObject({
    methods: Object.fromEntries(Object.keys(METHODS).map((name) => [name, { params: { type: "object" } }])),
  });
  expect(text).not.toContain('"additionalProperties":false');
  expect(text).toContain('"const":"system_item"');
});
