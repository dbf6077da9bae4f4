import * as z from "zod";

/** What the fake tools of the turn's tests take: one text, empty unless given. */
export const FakeToolInput = z.strictObject({ x: z.string().default("") });
