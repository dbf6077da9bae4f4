import { describe, expect, it } from "vitest";
import { verifies } from "../../test/support/verifies.ts";
import { sha256 } from "../base/digest.ts";
import { AppError } from "../base/errors.ts";
import { openAnthropicModel } from "../llm/anthropic.ts";
import type { Model } from "../llm/model.ts";
import { audit, type OpenModel } from "./audit.ts";
import type { EntryOf, NewEntry } from "./entry.ts";
import { chooseTake } from "./pending.ts";
import {
  answer,
  call,
  chainOf,
  DiskSession,
  input,
  items,
  linesOf,
  notification,
  request,
  result,
  STARTED,
  says,
  testSession,
  turnEnded,
  turnStarted,
  writeLines,
} from "./test-support.ts";

/** A model that only renders; `seen` counts how often each items array was new to it. */
class PlainModel implements Model {
  readonly ref: string;
  readonly adapter: string;
  readonly capabilities = { systemInPlace: false, contextWindow: 1000, maxOutputTokens: 100, reasoning: true };
  readonly arrays = new Set<unknown>();

  constructor(ref = STARTED.config.model, adapter = "plain@1") {
    this.ref = ref;
    this.adapter = adapter;
  }

  stream(): AsyncIterable<never> {
    throw new Error("nothing is sent");
  }

  async renderBody(
    prompt: Parameters<Model["renderBody"]>[0],
    settings: Parameters<Model["renderBody"]>[1],
  ): Promise<Uint8Array> {
    this.arrays.add(prompt.items);
    return Buffer.from(JSON.stringify([prompt.system, prompt.tools, prompt.items, settings]));
  }
}

/** Commits a request as a Pod does: built, then rendered while `between` is committed, then recorded. */
async function send(
  disk: DiskSession,
  model: Model,
  between: readonly NewEntry[] = [],
  forge: Partial<EntryOf<"llm_request">> = {},
): Promise<void> {
  const { state } = disk;
  const take = chooseTake(state, 1_000_000);
  const built = request(state, { take });
  const { reasoning } = state.config;
  const shown = take.items
    .map((item) =>
      item.kind === "user"
        ? { kind: "user" as const, id: item.id, content: item.content }
        : item.kind === "system"
          ? { kind: "system" as const, item: item.item }
          : undefined,
    )
    .filter((item) => item !== undefined);
  const body = await model.renderBody(
    { system: state.system, tools: state.tools, items: [...state.items, ...shown] },
    { reasoning },
  );
  if (between.length > 0) disk.commit(...between);
  const { ref, adapter } = model;
  disk.commit({
    ...built,
    n: state.requests + 1,
    model: ref,
    adapter,
    body_digest: sha256(body),
    bytes: body.byteLength,
    ...forge,
  });
}

/** Two turns with a tool call, notifications, a setting that changes and a retry. */
async function busySession(directory: string, model: Model): Promise<void> {
  using disk = new DiskSession(directory);
  disk.commit(input("i1"), turnStarted(1));
  // All of this arrives between building and recording.
  await send(disk, model, [items(notification("gap")), input("i2"), { type: "config_changed", changes: { reasoning: "high" } }]);
  disk.commit(
    answer(says("first"), call("c1"), call("c2")),
    { type: "tool_started", call_id: "c1" },
    result("c2"),
    items(notification("mid")),
    result("c1"),
  );
  await send(disk, model);
  await send(disk, model, [], { attempt: 2 });
  disk.commit(answer(says("done")), turnEnded(1), turnStarted(2));
  await send(disk, model);
  disk.commit(answer(says("bye")), turnEnded(2));
}

const opens =
  (...models: Model[]): OpenModel =>
  async (ref) => {
    const model = models.find((one) => one.ref === ref);
    if (model === undefined) throw new AppError("not_found", `there is no ${ref}`);
    return model;
  };

describe("the audit", () => {
  verifies(["I1", "L5", "S4"], "rebuilds every request from the log: prompt and body", async () => {
    using folder = testSession();
    const model = new PlainModel();
    await busySession(folder.directory, model);
    model.arrays.clear();
    expect(await audit(folder.directory, opens(model))).toMatchObject({
      ok: true,
      requests: 4,
      body_checked: 4,
      other_adapter: 0,
      body_unchecked: 0,
    });
    expect(model.arrays.size).toBe(1); // One growing array: lowering is not redone for each request.
  });

  verifies(["I1", "I11"], "gets the bytes of a real adapter that keeps what it lowered", async () => {
    using folder = testSession();
    const anthropic = openAnthropicModel("claude-opus-5", { apiKey: "none" });
    using disk = new DiskSession(folder.directory);
    disk.commit({ type: "config_changed", changes: { model: anthropic.ref } }, input("i1"), turnStarted(1));
    const reasoning = { kind: "reasoning", text: "hm", provider: { anthropic: { signature: "sig" } } } as const;
    for (let n = 1; n <= 4; n++) {
      await send(disk, anthropic, [items(notification(`gap${n}`, { text: "a <b> & ä😀" }))]);
      disk.commit(answer(reasoning, says(`n${n}`), call(`c${n}`)), result(`c${n}`));
    }
    const fresh: OpenModel = async () => openAnthropicModel("claude-opus-5", { apiKey: "another" });
    expect(await audit(folder.directory, fresh)).toMatchObject({ ok: true, requests: 4, body_checked: 4 });
  });

  it("tells another adapter version and a model that is gone apart from a difference", async () => {
    using folder = testSession();
    await busySession(folder.directory, new PlainModel());
    const newer = new PlainModel(STARTED.config.model, "plain@2");
    expect(await audit(folder.directory, opens(newer))).toMatchObject({
      ok: true,
      requests: 4,
      body_checked: 0,
      other_adapter: 4,
      body_unchecked: 0,
    });
    expect(await audit(folder.directory, opens())).toMatchObject({
      ok: true,
      requests: 4,
      body_unchecked: 4,
      unopened: [{ model: STARTED.config.model, reason: `there is no ${STARTED.config.model}` }],
    });
  });

  it("names the first request whose body comes out otherwise", async () => {
    using folder = testSession();
    const model = new PlainModel();
    await busySession(folder.directory, model);
    const other = new (class extends PlainModel {
      override async renderBody(
        prompt: Parameters<Model["renderBody"]>[0],
        settings: Parameters<Model["renderBody"]>[1],
      ): Promise<Uint8Array> {
        const body = await super.renderBody(prompt, settings);
        return prompt.items.length > 5 ? Buffer.concat([body, Buffer.from(" ")]) : body;
      }
    })();
    const report = await audit(folder.directory, opens(other));
    expect(report).toMatchObject({ ok: false, requests: 4, body_checked: 1, first_bad: { n: 2, differs: "body" } });
    expect(report.first_bad?.message).toContain("request 2");
  });

  verifies(["I1"], "names a request that showed the model what the log does not hold", async () => {
    const forgeries: [string, Partial<EntryOf<"llm_request">>, string][] = [
      ["another prompt", { prompt_digest: "1".repeat(64) }, "prompt"],
      ["a basis behind itself", { through: 99 }, "history"],
      ["a basis before the history changed", { through: 2 }, "history"],
    ];
    for (const [name, forge, differs] of forgeries) {
      using folder = testSession();
      const model = new PlainModel();
      using disk = new DiskSession(folder.directory);
      disk.commit(input("i1"), turnStarted(1));
      await send(disk, model);
      disk.commit(answer(says("one"), call("c")), result("c"));
      await send(disk, model, [], forge);
      disk.commit(answer(says("two")), turnEnded(1));
      const report = await audit(folder.directory, opens(model));
      expect(report, name).toMatchObject({ ok: false, requests: 2, body_checked: 1, first_bad: { n: 2, seq: 7, differs } });
    }
  });

  verifies(["I1", "N8"], "names a request that takes what was accepted only after it was built", async () => {
    using folder = testSession();
    const model = new PlainModel();
    using disk = new DiskSession(folder.directory);
    disk.commit(items(notification("early")), turnStarted(1));
    const { lastSeq: through } = disk.state;
    disk.commit(items(notification("late")));
    await send(disk, model, [], { through });
    expect(await audit(folder.directory, opens(model))).toMatchObject({
      ok: false,
      first_bad: { n: 1, differs: "takes", message: expect.stringContaining("late") },
    });
  });

  it("names a request behind whose basis an entry changed the history", async () => {
    using folder = testSession();
    const model = new PlainModel();
    {
      using disk = new DiskSession(folder.directory);
      disk.commit(input("i1"), turnStarted(1));
      await send(disk, model);
    }
    const bodies = linesOf(folder.file).map((line) => {
      const { seq: _seq, prev: _prev, hash: _hash, ...body } = JSON.parse(line);
      return body;
    });
    writeLines(folder.file, chainOf(bodies.toSpliced(3, 0, { type: "hook_injected_items", items: ["smuggled"] })));
    expect(await audit(folder.directory, opens(model))).toMatchObject({
      ok: false,
      first_bad: { n: 1, differs: "history", message: expect.stringContaining("entry 4 (hook_injected_items)") },
    });
  });

  it("of a damaged log checks what is sound and says that the rest is not", async () => {
    using folder = testSession();
    const model = new PlainModel();
    await busySession(folder.directory, model);
    const lines = linesOf(folder.file);
    writeLines(folder.file, lines.with(lines.length - 2, "rubbish"));
    const report = await audit(folder.directory, opens(model));
    expect(report).toMatchObject({ ok: false, requests: 4, body_checked: 4, damage: { line: lines.length - 1 } });
    expect(report.first_bad).toBeUndefined();
    writeLines(folder.file, lines.slice(0, -1));
    const last = JSON.parse(lines.at(-1) ?? "");
    expect(await audit(folder.directory, opens(model), { mark: { seq: last.seq, hash: last.hash, atMs: 0 } })).toMatchObject({
      ok: false,
      damage: { problem: "cut" },
    });
  });
});
