/**
 * A list that looks immutable and grows cheaply: `append` and `set` give a new list that shares all but one path with the old one
 * (a tree of nodes of 32), so that a client can fold a session of any length event by event and compare by identity.
 */
export class BlockList<T> implements Iterable<T> {
  readonly length: number;
  readonly #depth: number;
  readonly #root: Node<T>;

  private constructor(length: number, depth: number, root: Node<T>) {
    this.length = length;
    this.#depth = depth;
    this.#root = root;
  }

  static empty<T>(): BlockList<T> {
    return new BlockList<T>(0, 0, { values: [], children: [] });
  }

  /** The element at `index`; negative counts from the end, as in `Array.at`. */
  at(index: number): T | undefined {
    const place = index < 0 ? this.length + index : index;
    if (place < 0 || place >= this.length) return undefined;
    let node = this.#root;
    for (let level = this.#depth; level > 0; level--) {
      const child = node.children[(place >>> (BITS * level)) & MASK];
      if (child === undefined) return undefined;
      node = child;
    }
    return node.values[place & MASK];
  }

  /** This list with `value` behind its last element. */
  append(value: T): BlockList<T> {
    const full = this.length === WIDTH << (BITS * this.#depth);
    const root = full ? { values: [], children: [this.#root] } : this.#root;
    const depth = full ? this.#depth + 1 : this.#depth;
    return new BlockList(this.length + 1, depth, put(root, depth, this.length, value));
  }

  /** This list with another element at `index`, which must exist. */
  set(index: number, value: T): BlockList<T> {
    if (index < 0 || index >= this.length) throw new RangeError(`no element ${index} in a list of ${this.length}`);
    return new BlockList(this.length, this.#depth, put(this.#root, this.#depth, index, value));
  }

  /** The elements from `start` on, as an array. */
  slice(start: number): readonly T[] {
    const from = start < 0 ? Math.max(0, this.length + start) : start;
    const values: T[] = [];
    for (let i = from; i < this.length; i++) {
      const value = this.at(i);
      if (value !== undefined) values.push(value);
    }
    return values;
  }

  *[Symbol.iterator](): Iterator<T> {
    yield* leaves(this.#root, this.#depth);
  }
}

/** A leaf holds `values`, an inner node `children`; the other list of each is empty. */
interface Node<T> {
  readonly values: readonly T[];
  readonly children: readonly Node<T>[];
}

const BITS = 5;
const WIDTH = 1 << BITS;
const MASK = WIDTH - 1;

function put<T>(node: Node<T>, level: number, index: number, value: T): Node<T> {
  const slot = (index >>> (BITS * level)) & MASK;
  if (level === 0) {
    const values = node.values.slice();
    values[slot] = value;
    return { values, children: [] };
  }
  const children = node.children.slice();
  children[slot] = put(children[slot] ?? { values: [], children: [] }, level - 1, index, value);
  return { values: [], children };
}

function* leaves<T>(node: Node<T>, level: number): Generator<T> {
  if (level === 0) yield* node.values;
  else for (const child of node.children) yield* leaves(child, level - 1);
}
