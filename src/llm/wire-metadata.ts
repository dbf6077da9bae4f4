import type { JSONObject } from "@ai-sdk/provider";
import type { ProviderMetadata } from "./item.ts";
import { toProviderOptions } from "./wire-json.ts";

/**
 * Names of a provider's metadata: `own` in items (two providers that speak the same protocol must not get each other's, B52), `wire` as the
 * adapter writes and reads it.
 */
export interface Namespace {
  readonly own: string;
  readonly wire: string;
}

/** What only the one who made it can check, by its name in the metadata of any adapter. */
const PROOFS: ReadonlySet<string> = new Set(["signature", "redactedData", "reasoningEncryptedContent", "thoughtSignature"]);

/** An item's metadata as options that send it back: only what the provider itself wrote. Undefined if that is nothing. */
export function toWireOptions(
  metadata: ProviderMetadata,
  namespace: Namespace | undefined,
  withoutProofs: boolean,
): Record<string, JSONObject> | undefined {
  if (namespace === undefined) return toProviderOptions(metadata);
  const own = metadata[namespace.own];
  if (own === undefined) return undefined;
  const kept = withoutProofs ? Object.fromEntries(Object.entries(own).filter(([key]) => !PROOFS.has(key))) : own;
  return toProviderOptions({ [namespace.wire]: kept });
}

/** Metadata that the adapter wrote, under the provider's own name. */
export function toOwnMetadata(metadata: ProviderMetadata, namespace: Namespace): ProviderMetadata {
  const { own, wire } = namespace;
  const written = metadata[wire];
  if (own === wire || written === undefined) return metadata;
  return { [own]: written };
}
