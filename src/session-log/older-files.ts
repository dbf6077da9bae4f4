import { join } from "node:path";
import { AppError } from "../base/errors.ts";
import type { LogEntry } from "./entry.ts";
import { type FileIndex, firstSeqOf, indexFile, readIndexed, withFile } from "./file-index.ts";
import { fileName } from "./file-names.ts";

/**
 * The files of a session in front of the one that is written: read only when somebody asks for what stands in them. Nothing of them is
 * needed to go on. Memory: the first `seq` of each file that was looked at, and the lines' places of one.
 */
export class OlderFiles {
  readonly #directory: string;
  /** Number of the newest of them; 0 = there is none. */
  #newest: number;
  /** `seq` of the first line behind the newest of them. */
  #end: number;
  readonly #firstSeqs = new Map<number, number>();
  #index: { readonly number: number; readonly index: FileIndex } | undefined;
  /** What is wrong with a file that could not be indexed: not looked for again and again. */
  readonly #problems = new Map<number, AppError>();

  constructor(directory: string, newest: number, end: number) {
    this.#directory = directory;
    this.#newest = newest;
    this.#end = end;
  }

  /** The file that was written so far is one of them now. */
  add(number: number, index: FileIndex): void {
    this.#firstSeqs.set(number, index.firstSeq);
    this.#newest = number;
    this.#end = index.firstSeq + index.offsets.length;
    this.#index = { number, index };
  }

  /** The entries from `fromSeq` to `toSeq`, without those that later files begin with. Throws `damaged`, `storage_failed`. */
  read(fromSeq: number, toSeq: number): LogEntry[] {
    const parts: LogEntry[][] = [];
    let end = this.#end;
    for (let number = this.#newest; number >= 1 && fromSeq < end; number--) {
      const firstSeq = this.#firstSeq(number);
      if (firstSeq <= toSeq) {
        const index = this.#indexOf(number, firstSeq, end - 1);
        const [from, to] = [Math.max(fromSeq, firstSeq), Math.min(toSeq, end - 1)];
        parts.push(withFile(index.file, (descriptor) => readIndexed(descriptor, index, from, to)));
      }
      end = firstSeq;
    }
    return parts.reverse().flat();
  }

  #firstSeq(number: number): number {
    const known = this.#firstSeqs.get(number);
    if (known !== undefined) return known;
    const firstSeq = firstSeqOf(join(this.#directory, fileName(number)));
    this.#firstSeqs.set(number, firstSeq);
    return firstSeq;
  }

  #indexOf(number: number, firstSeq: number, lastSeq: number): FileIndex {
    if (this.#index?.number === number) return this.#index.index;
    const problem = this.#problems.get(number);
    if (problem !== undefined) throw problem;
    try {
      const index = indexFile(join(this.#directory, fileName(number)), firstSeq, lastSeq);
      this.#index = { number, index };
      return index;
    } catch (thrown) {
      if (thrown instanceof AppError && thrown.code === "damaged") this.#problems.set(number, thrown);
      throw thrown;
    }
  }
}
