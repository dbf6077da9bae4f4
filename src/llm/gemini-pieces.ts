import * as z from "zod";
import type { AnswerRules } from "./answer-builder.ts";
import type { ProviderMetadata } from "./item.ts";
import type { AnswerPiece } from "./lowered-conversation.ts";

/**
 * Gemini signs parts of an answer, and a signature must come back on exactly the part it came with (B51): a signed part is not to be merged
 * with its neighbours, not even where they make one text. So a text keeps the lengths of its pieces beside it.
 */
const Pieces = z.array(z.tuple([z.int().min(0), z.string().nullable()])).min(1);

/** How answers of Gemini are kept. */
export const geminiAnswers: Pick<AnswerRules, "pieces"> = {
  pieces: {
    signatureOf,
    toMetadata(pieces, kind) {
      const [first, ...others] = pieces;
      if (pieces.every(({ signature }) => signature === undefined)) return undefined;
      const isText = kind === "text" ? { isText: true } : {};
      if (first !== undefined && others.length === 0) return { google: { thoughtSignature: first.signature, ...isText } };
      return { google: { pieces: pieces.map(({ chars, signature }) => [chars, signature ?? null]), ...isText } };
    },
  },
};

/** Whether something of this metadata is signed. `own`: the provider's name in it. */
export function isSigned(metadata: ProviderMetadata, own: string): boolean {
  const { thoughtSignature, pieces } = metadata[own] ?? {};
  return (typeof thoughtSignature === "string" && thoughtSignature !== "") || Pieces.safeParse(pieces).success;
}

/** The pieces a text came in, each with its own signature; undefined if none of it is signed. `own`: the provider's name in the metadata. */
export function geminiPieces(
  text: string,
  metadata: ProviderMetadata,
  names: { readonly own: string; readonly kind: AnswerPiece["kind"] },
): readonly AnswerPiece[] | undefined {
  const { own } = names;
  const { thoughtSignature, pieces: kept, isText } = metadata[own] ?? {};
  // A signature whose text was blank is kept as reasoning and was none.
  const kind = isText === true ? "text" : names.kind;
  const pieces = Pieces.safeParse(kept).data;
  if (pieces === undefined) {
    if (typeof thoughtSignature !== "string") return undefined;
    return [{ kind, text, metadata: { [own]: { thoughtSignature } } }];
  }
  if (pieces.reduce((sum, [chars]) => sum + chars, 0) !== text.length) return undefined;
  let at = 0;
  return pieces.map(([chars, signature]) => {
    const piece = text.slice(at, at + chars);
    at += chars;
    return { kind, text: piece, ...(signature === null ? {} : { metadata: { [own]: { thoughtSignature: signature } } }) };
  });
}

function signatureOf(metadata: ProviderMetadata): string | undefined {
  const signature = metadata["google"]?.["thoughtSignature"];
  return typeof signature === "string" && signature !== "" ? signature : undefined;
}
