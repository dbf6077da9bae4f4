import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "../../base/errors.ts";
import type { Item } from "../item.ts";
import type { Model, ModelEvent, ModelRequest } from "../model.ts";
import { openScriptedModel } from "./scripted-model.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "scripted-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function open(yaml: string): Promise<Model> {
  const file = join(folder, "script.yaml");
  await writeFile(file, yaml);
  return openScriptedModel(file);
}

interface Sending {
  readonly answered?: number;
  readonly attempt?: number;
  readonly items?: readonly Item[];
  readonly system?: string;
  readonly tools?: readonly string[];
  readonly signal?: AbortSignal;
  readonly idleTimeoutMs?: number;
  readonly beforeSend?: (body: Uint8Array) => Promise<void>;
}

function request(sending: Sending): ModelRequest {
  return {
    prompt: {
      system: sending.system ?? "You are a Pod.",
      tools: (sending.tools ?? []).map((name) => ({ name, description: "", inputSchema: {} })),
      items: sending.items ?? [],
    },
    settings: { reasoning: "default" },
    signal: sending.signal ?? new AbortController().signal,
    position: { answered: sending.answered ?? 0, attempt: sending.attempt ?? 1 },
    idleTimeoutMs: sending.idleTimeoutMs ?? 60_000,
    beforeSend: sending.beforeSend ?? (async () => {}),
  };
}

async function play(model: Model, sending: Sending = {}): Promise<ModelEvent[]> {
  const events: ModelEvent[] = [];
  for await (const event of model.stream(request(sending))) events.push(event);
  const ends = events.filter((event) => event.type === "finish" || event.type === "failure");
  expect(ends).toEqual([events.at(-1)]);
  return events;
}

function failureIn(events: readonly ModelEvent[]) {
  const last = events.at(-1);
  if (last?.type !== "failure") throw new Error(`no failure but ${JSON.stringify(last)}`);
  return last.failure;
}

function textIn(events: readonly ModelEvent[]): string {
  return events.map((event) => (event.type === "text_delta" ? event.text : "")).join("");
}

const user = (text: string): Item => ({ kind: "user", id: "input_1", content: [{ kind: "text", text }] });
const call = (callId: string, args = "{}"): Item => ({ kind: "tool_call", callId, name: "Bash", arguments: args });
const result = (callId: string, content: string): Item => ({
  kind: "tool_result",
  callId,
  name: "Bash",
  summary: "ran",
  content,
  isError: false,
});
describe("an answer", () => {
  test("is reasoning, text and calls, streamed in deltas and given as items", async () => {
    const model = await open(`
steps:
  - think: Let me look.
    say: I list the files.
    chunk: 8
    call:
      - tool: Bash
        input: { command: ls, deep: [1, { a: null }] }
      - tool: Write
        arguments: '{"path":"a","content":"abc'
        id: mine
`);
    const bash = '{"command":"ls","deep":[1,{"a":null}]}';
    expect(await play(model)).toEqual([
      { type: "thinking_delta", text: "Let me l" },
      { type: "thinking_delta", text: "ook." },
      { type: "item", item: { kind: "reasoning", text: "Let me look.", provider: { script: { signature: "thought_1" } } } },
      { type: "text_delta", text: "I list t" },
      { type: "text_delta", text: "he files" },
      { type: "text_delta", text: "." },
      { type: "item", item: { kind: "message", text: "I list the files." } },
      ...chunksOf(bash, 8).map((text) => ({ type: "tool_call_delta", callId: "call_1_1", name: "Bash", arguments: text })),
      { type: "item", item: { kind: "tool_call", callId: "call_1_1", name: "Bash", arguments: bash } },
      ...chunksOf('{"path":"a","content":"abc', 8).map((text) => ({
        type: "tool_call_delta",
        callId: "mine",
        name: "Write",
        arguments: text,
      })),
      { type: "item", item: { kind: "tool_call", callId: "mine", name: "Write", arguments: '{"path":"a","content":"abc' } },
      { type: "finish", stop: "tool_calls", usage: { input: expect.any(Number), output: 24, cache_read: 0, cache_write: 0 } },
    ]);
  });

  test("has the stop reason and the usage that the step states", async () => {
    const model = await open(
      "steps: [{ say: cut, stop: max_tokens, usage: { input: 7, output: 8, cache_read: 9, cache_write: 10 } }]",
    );
    expect((await play(model)).at(-1)).toEqual({
      type: "finish",
      stop: "max_tokens",
      usage: { input: 7, output: 8, cache_read: 9, cache_write: 10 },
    });
  });

  test("depends on the position alone, so every attempt and every opened model plays the same", async () => {
    const yaml = "steps: [{ say: one }, { say: two, call: [{ tool: Bash }] }, { say: three }]";
    const first = await play(await open(yaml), { answered: 1 });
    expect(await play(await open(yaml), { answered: 1, attempt: 3 })).toEqual(first);
    expect(textIn(first)).toBe("two");
    expect(first).toContainEqual({
      type: "item",
      item: { kind: "tool_call", callId: "call_2_1", name: "Bash", arguments: "{}" },
    });
  });

  test("takes another call id when the conversation holds it already", async () => {
    const model = await open("steps: [{ call: [{ tool: Bash }, { tool: Bash }] }]");
    const items = [call("call_1_1"), result("call_1_1", "x"), call("call_1_1_2"), result("call_1_1_2", "x")];
    const ids = (await play(model, { items })).flatMap((event) =>
      event.type === "item" && event.item.kind === "tool_call" ? [event.item.callId] : [],
    );
    expect(ids).toEqual(["call_1_1_3", "call_1_2"]);
  });

  test("after the last step is the otherwise step, else a failure that says what is missing", async () => {
    const open2 = await open("steps: [{ say: one }]\notherwise: { say: more }");
    expect(textIn(await play(open2, { answered: 17 }))).toBe("more");
    const closed = await open("steps: [{ say: one }]");
    expect(failureIn(await play(closed, { answered: 1 }))).toMatchObject({
      code: "script",
      retryable: false,
      message: expect.stringMatching(/has no step 2: it has 1 step;.*steps:.*otherwise:/),
    });
  });

  test("that holds nothing is empty_answer, or refused if the step says so", async () => {
    expect(failureIn(await play(await open("steps: [{ say: '' }]"))).code).toBe("empty_answer");
    expect(failureIn(await play(await open("steps: [{ stop: refusal }]"))).code).toBe("refused");
    expect((await play(await open("steps: [{ stop: max_tokens }]"))).at(-1)).toMatchObject({
      type: "finish",
      stop: "max_tokens",
    });
  });

  test("of a call without arguments has one delta", async () => {
    const events = await play(await open("steps: [{ call: [{ tool: Bash, arguments: '' }] }]"));
    expect(events[0]).toEqual({ type: "tool_call_delta", callId: "call_1_1", name: "Bash", arguments: "" });
  });

  test("streams any text in whole characters that join to it, with any chunk", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "grapheme", minLength: 1 }), fc.integer({ min: 1, max: 9 }), async (text, chunk) => {
        const model = await open(
          JSON.stringify({ steps: [{ think: text, say: text, chunk, call: [{ tool: "T", input: { text } }] }] }),
        );
        const events = await play(model);
        expect(textIn(events)).toBe(text);
        for (const event of events) {
          if (event.type !== "text_delta") continue;
          expect(event.text.isWellFormed()).toBe(true);
          expect([...event.text].length).toBeLessThanOrEqual(chunk);
        }
        expect(events).toContainEqual({ type: "item", item: { kind: "message", text } });
      }),
      { numRuns: 60 },
    );
  });
});

describe("trouble", () => {
  const flaky = `
steps:
  - fail: { status: 529, message: busy, times: 2, retry_after: 1.5s }
    drop: { after: 6 }
    say: Here I am.
`;
  test("goes away after its attempts, in the order fail, stall, drop", async () => {
    const model = await open(flaky);
    const busy = {
      code: "overloaded",
      message: "the script answered 529: busy",
      retryable: true,
      status: 529,
      retryAfterMs: 1500,
    };
    expect(await play(model, { attempt: 1 })).toEqual([{ type: "failure", failure: busy }]);
    expect(await play(model, { attempt: 2 })).toEqual([{ type: "failure", failure: busy }]);
    const dropped = await play(model, { attempt: 3 });
    expect(textIn(dropped)).toBe("Here I");
    expect(failureIn(dropped)).toMatchObject({ code: "stream_cut", retryable: true });
    expect(dropped.some((event) => event.type === "item")).toBe(false);
    expect(textIn(await play(model, { attempt: 4 }))).toBe("Here I am.");
    expect((await play(model, { attempt: 4 })).at(-1)).toMatchObject({ type: "finish", stop: "end" });
  });

  test("without an answer behind it stays", async () => {
    const model = await open("steps: [{ fail: { code: authentication } }]");
    expect(failureIn(await play(model, { attempt: 9 }))).toMatchObject({ code: "authentication", retryable: false });
  });

  test.each([
    [400, "invalid_request", false],
    [401, "authentication", false],
    [402, "quota", false],
    [403, "authentication", false],
    [404, "not_found", false],
    [408, "timeout", true],
    [413, "too_large", false],
    [418, "invalid_request", false],
    [429, "rate_limited", true],
    [500, "server_error", true],
    [503, "server_error", true],
    [529, "overloaded", true],
  ] as const)("of status %i is %s", async (status, code, retryable) => {
    const failure = failureIn(await play(await open(`steps: [{ fail: { status: ${status} } }]`)));
    expect(failure).toEqual({ code, retryable, status, message: expect.stringContaining(String(status)) });
  });

  test("of a stated code is that code, whatever the status", async () => {
    const failure = failureIn(
      await play(await open("steps: [{ fail: { status: 400, code: context_too_long, message: too much } }]")),
    );
    expect(failure).toEqual({
      code: "context_too_long",
      retryable: false,
      status: 400,
      message: "the script answered 400: too much",
    });
    const broken = failureIn(await play(await open("steps: [{ fail: { code: connection } }]")));
    expect(broken).toEqual({
      code: "connection",
      retryable: true,
      message: "the script answered connection: the script says so",
    });
  });

  test("after some characters lets whole items through and cuts the next", async () => {
    const model = await open("steps: [{ say: Hello, call: [{ tool: Bash, input: { command: ls } }], drop: { after: 9 } }]");
    const events = await play(model);
    expect(events.slice(0, -1)).toEqual([
      { type: "text_delta", text: "Hello" },
      { type: "item", item: { kind: "message", text: "Hello" } },
      { type: "tool_call_delta", callId: "call_1_1", name: "Bash", arguments: '{"co' },
    ]);
  });

  test("after more characters than there are comes in the place of the finish", async () => {
    const events = await play(await open("steps: [{ say: Hello, fail: { code: overloaded, after: 99 } }]"));
    expect(events.map((event) => event.type)).toEqual(["text_delta", "item", "failure"]);
  });

  test("that stalls ends with timeout after the idle limit, and is answered in the next attempt", async () => {
    const model = await open("steps: [{ stall: true, say: Hello }]");
    const events = await play(model, { idleTimeoutMs: 10 });
    expect(events).toEqual([{ type: "failure", failure: { code: "timeout", retryable: true, message: expect.any(String) } }]);
    expect(textIn(await play(model, { attempt: 2 }))).toBe("Hello");
  });

  test("that stalls in the middle has streamed so many characters", async () => {
    const events = await play(await open("steps: [{ stall: { after: 3, times: 5 }, say: Hello }]"), {
      idleTimeoutMs: 10,
      attempt: 5,
    });
    expect(textIn(events)).toBe("Hel");
    expect(failureIn(events).code).toBe("timeout");
  });

  test("of any cut streams exactly the first characters", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: "grapheme", minLength: 1 }),
        fc.nat(40),
        fc.integer({ min: 1, max: 9 }),
        async (text, after, chunk) => {
          const model = await open(JSON.stringify({ steps: [{ say: text, chunk, drop: { after } }] }));
          expect(textIn(await play(model))).toBe([...text].slice(0, after).join(""));
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("a wait", () => {
  test("longer than the idle limit is a timeout", async () => {
    for (const step of ["wait: 10m, say: Hello", "pace: 10m, say: Hello", "wait_for: { file: never, within: 10m }, say: Hello"]) {
      expect(failureIn(await play(await open(`steps: [{ ${step} }]`), { idleTimeoutMs: 60 })).code).toBe("timeout");
    }
  });

  test("is over after its time; a pace counts anew from each delta", async () => {
    const model = await open("steps: [{ wait: 10ms, pace: 15ms, chunk: 1, say: Hello }]");
    const begin = performance.now();
    expect(textIn(await play(model, { idleTimeoutMs: 30 }))).toBe("Hello");
    expect(performance.now() - begin).toBeGreaterThan(70);
  });

  test("for a file ends when the file appears, which is looked for beside the script", async () => {
    const model = await open("steps: [{ wait_for: { file: sub/ready }, say: Hello }]");
    const playing = play(model);
    await mkdir(join(folder, "sub"));
    await writeFile(join(folder, "sub", "ready"), "");
    expect(textIn(await playing)).toBe("Hello");
  });

  test("for a file that does not come fails and names it", async () => {
    const failure = failureIn(await play(await open("steps: [{ wait_for: { file: ready, within: 50ms }, say: Hello }]")));
    expect(failure).toMatchObject({ code: "script", retryable: false, message: expect.stringContaining(join(folder, "ready")) });
  });

  test.each([
    ["wait", "{ wait: 10m, say: Hello }"],
    ["wait_for", "{ wait_for: { file: never, within: 10m }, say: Hello }"],
    ["pace", "{ pace: 10m, say: Hello }"],
    ["stall", "{ stall: true }"],
    ["stall in the middle", "{ stall: { after: 2 }, say: Hello }"],
  ])("is left at once on abort: %s", { timeout: 5000 }, async (_name, step) => {
    const model = await open(`steps: [${step}]`);
    const controller = new AbortController();
    setTimeout(() => controller.abort(new AppError("cancelled", "enough")), 30);
    const events = await play(model, { signal: controller.signal });
    expect(failureIn(events)).toEqual({ code: "cancelled", retryable: false, message: expect.any(String) });
  });

  test("is not needed to notice an abort between deltas", async () => {
    const model = await open(JSON.stringify({ steps: [{ say: "x".repeat(100_000), chunk: 1 }] }));
    const controller = new AbortController();
    let deltas = 0;
    let last: ModelEvent | undefined;
    for await (const event of model.stream(request({ signal: controller.signal }))) {
      last = event;
      if (event.type === "text_delta" && ++deltas === 1) setTimeout(() => controller.abort(), 0);
    }
    expect(last).toMatchObject({ type: "failure", failure: { code: "cancelled" } });
    expect(deltas).toBeLessThan(1000);
  });
});

describe("what is sent", () => {
  test("goes through the gate once, with the bytes of renderBody, before anything is produced", async () => {
    const model = await open("steps: [{ say: Hello }]");
    const bodies: Uint8Array[] = [];
    const gate = Promise.withResolvers<void>();
    const sending = request({
      items: [user("hi")],
      beforeSend: (body) => {
        bodies.push(body);
        return gate.promise;
      },
    });
    const stream = model.stream(sending)[Symbol.asyncIterator]();
    let produced = false;
    const first = stream.next().then((next) => {
      produced = true;
      return next;
    });
    await setImmediate();
    expect(bodies).toHaveLength(1);
    expect(produced).toBe(false);
    gate.resolve();
    expect((await first).value).toEqual({ type: "text_delta", text: "Hello" });
    await stream.return?.();
    expect(bodies).toEqual([await model.renderBody(sending.prompt, sending.settings)]);
  });

  test("is sent by nobody if the gate throws, and its error leaves the stream as it is", async () => {
    const model = await open("steps: [{ say: Hello }]");
    const broken = new AppError("storage_failed", "the disk is full");
    await expect(play(model, { beforeSend: () => Promise.reject(broken) })).rejects.toBe(broken);
  });

  test("is nothing if the request was aborted before", async () => {
    let sent = 0;
    const beforeSend = async () => {
      sent++;
    };
    const events = await play(await open("steps: [{ say: Hello }]"), { signal: AbortSignal.abort(), beforeSend });
    expect(failureIn(events).code).toBe("cancelled");
    expect(sent).toBe(0);
  });

  test("does not change when items come while the gate is closed", async () => {
    const model = await open("steps: [{ say: Hello, expect: { not_contains: late } }]");
    const items = [user("hi")];
    const beforeSend = async () => {
      items.push(user("late"));
    };
    expect(textIn(await play(model, { items, beforeSend }))).toBe("Hello");
  });
});

test("the model names itself, and a script may set its capabilities", async () => {
  const plain = await open("steps: [{ say: Hello }]");
  expect(plain.ref).toBe(`script:${join(folder, "script.yaml")}`);
  expect(plain.adapter).toBe("wakeful-script@1");
  expect(plain.capabilities).toEqual({ systemInPlace: false, contextWindow: 200_000, maxOutputTokens: 32_000, reasoning: true });
  const other = await open("context_window: 5000\nmax_output_tokens: 100\nsystem_in_place: true\nsteps: [{ say: Hello }]");
  expect(other.capabilities).toEqual({ systemInPlace: true, contextWindow: 5000, maxOutputTokens: 100, reasoning: true });
});

test("an unmet expectation fails before anything is played and names step, expectation and excerpt", async () => {
  const model = await open("steps: [{ say: never, fail: { status: 500 }, expect: { last_contains: bye } }]");
  const events = await play(model, { items: [user("hi")] });
  expect(events).toHaveLength(1);
  const failure = failureIn(events);
  expect(failure).toMatchObject({ code: "script", retryable: false });
  expect(failure.message).toContain(`step 1 of the script ${join(folder, "script.yaml")}`);
  expect(failure.message).toMatch(/last_contains: "bye" is not .* ends "hi"$/);
  const met = await open("steps: [{ say: Hello, expect: { last_contains: hi } }]");
  expect(textIn(await play(met, { items: [user("hi")] }))).toBe("Hello");
});

function chunksOf(text: string, size: number): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) => text.slice(index * size, (index + 1) * size));
}
