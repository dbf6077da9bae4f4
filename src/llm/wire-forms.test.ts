import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toProviderOptions, toWireArguments } from "./wire-json.ts";
import { CallIdMap, wireToolName } from "./wire-name.ts";

describe("tool names on the wire", () => {
  it.each([
    ["Bash", "Bash"],
    ["Bash ", "Bash_"],
    ["", "unnamed"],
    ["__proto__", "tool-__proto__"],
    ["constructor", "tool-constructor"],
    ["読む", "__"],
    ["x".repeat(100), "x".repeat(64)],
  ])("%j becomes %j", (name, expected) => {
    expect(wireToolName(name)).toBe(expected);
  });
});

describe("call ids on the wire (B52)", () => {
  it("leaves a good id as it is and makes a bad one good", () => {
    const ids = new CallIdMap();
    expect(["toolu_1", "functions.read:0", "a|b", "é", "", "x".repeat(120)].map((id) => ids.allocate(id))).toEqual([
      "toolu_1",
      "functions_read_0",
      "a_b",
      "_",
      "call",
      "x".repeat(56),
    ]);
  });

  it("gives every call an id of its own that providers accept, and never another one when more calls follow", () => {
    const id = fc.oneof(fc.constantFrom("a", "a_2", "a:2", "", "call", "x".repeat(80)), fc.string());
    return fc.assert(
      fc.property(fc.array(id), fc.array(id), (before, after) => {
        const ids = new CallIdMap();
        const all = [...before, ...after].map((callId) => ids.allocate(callId));
        const again = new CallIdMap();
        expect(before.map((callId) => again.allocate(callId))).toEqual(all.slice(0, before.length));
        expect(new Set(all).size).toBe(all.length);
        for (const wireId of all) expect(wireId).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      }),
    );
  });
});

describe("call ids for the strictest servers (B52)", () => {
  it("are at most 40 characters long, each its own", () => {
    const ids = new CallIdMap(40);
    const wire = ["x".repeat(120), "x".repeat(41), "x".repeat(40), "a|b"].map((id) => ids.allocate(id));
    expect(wire).toEqual(["x".repeat(32), `${"x".repeat(32)}_2`, "x".repeat(40), "a_b"]);
  });
});

describe("arguments on the wire", () => {
  it.each(['{"path":"a","content":"abc', "[1]", "", "null", '"x"', "{} {}"])("%j becomes an empty object (B74)", (text) => {
    expect(toWireArguments(text)).toEqual({});
  });

  it("keeps an object, mends what no server takes", () => {
    expect(toWireArguments('{"a":[1,{"b":null}],"\\ud800k":"x\\udc00\\u0000😀"}')).toEqual({
      a: [1, { b: null }],
      "\ufffdk": "x\ufffd\u2400😀",
    });
  });

  it("keeps a key called __proto__ as a key", () => {
    expect(JSON.stringify(toWireArguments('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}');
  });

  it("gives up arguments that are nested too deeply to be sent", () => {
    const depth = 50_000;
    expect(toWireArguments(`{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`)).toEqual({});
  });

  it("is the object itself for any object of well-formed texts", () => {
    const key = fc.string({ maxLength: 8, unit: "binary" }).filter((text) => !text.includes("\0"));
    const value = fc.jsonValue({ stringUnit: "grapheme", maxDepth: 3 });
    return fc.assert(
      fc.property(fc.dictionary(key, value, { maxKeys: 4 }), (object) => {
        const text = JSON.stringify(object);
        fc.pre(!text.includes("\\u0000"));
        expect(toWireArguments(text)).toEqual(JSON.parse(text));
      }),
      { numRuns: 40 },
    );
  });
});

describe("metadata of a provider", () => {
  it("goes back unchanged, without what JSON cannot hold", () => {
    const metadata = { anthropic: { signature: "Ev/+=", nested: { list: [1, "é"] }, absent: undefined } };
    expect(toProviderOptions(metadata)).toEqual({ anthropic: { signature: "Ev/+=", nested: { list: [1, "é"] } } });
  });
});
