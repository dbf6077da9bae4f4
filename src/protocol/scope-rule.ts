import * as z from "zod";

/** One path permission: an absolute, real path; `write` includes `read`; `recursive` covers everything below a directory. */
export const ScopeRule = z.object({
  path: z.string().min(1),
  access: z.enum(["read", "write"]),
  recursive: z.boolean(),
});
export type ScopeRule = z.infer<typeof ScopeRule>;

/**
 * What a Pod may touch. Writing needs an `allow` rule of access `write`. Reading is free except where a `deny` rule of access
 * `read` says no. A `deny` rule of access `write` takes writing away. Deny wins over allow.
 */
export const Scope = z.object({
  allow: z.array(ScopeRule),
  deny: z.array(ScopeRule),
});
export type Scope = z.infer<typeof Scope>;

/** How scope is kept: `tools_only` = by the file tools, the shell is not fenced by the operating system. */
export const ScopeEnforcement = z.enum(["tools_only"]);
export type ScopeEnforcement = z.infer<typeof ScopeEnforcement>;
