import fc from "fast-check";
import { expect, test } from "vitest";
import { BlockList } from "./block-list.ts";

test("a block list behaves like an array that is copied at every change", () => {
  const change = fc.oneof(fc.record({ append: fc.nat() }), fc.record({ set: fc.nat(), to: fc.nat() }));
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1100 }), fc.array(change, { maxLength: 100 }), (size, changes) => {
      let list = BlockList.empty<number>();
      let model: number[] = [];
      for (let i = 0; i < size; i++) {
        list = list.append(i);
        model.push(i);
      }
      for (const step of changes) {
        const [former, formerModel] = [list, model];
        if ("append" in step) {
          list = list.append(step.append);
          model = [...model, step.append];
        } else if (model.length > 0) {
          list = list.set(step.set % model.length, step.to);
          model = model.with(step.set % model.length, step.to);
        }
        expect(former.length).toBe(formerModel.length);
        expect(former.at(-1)).toBe(formerModel.at(-1));
        expect(former.at(0)).toBe(formerModel.at(0));
      }
      expect([...list]).toEqual(model);
      expect(list.slice(-7)).toEqual(model.slice(-7));
      expect(model.every((value, i) => list.at(i) === value)).toBe(true);
      expect(list.at(model.length)).toBeUndefined();
    }),
    { numRuns: 30 },
  );
});

test("an element out of range cannot be set", () => {
  expect(() => BlockList.empty().set(0, 1)).toThrow(RangeError);
});
