import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { FIRST_FILE, listFiles } from "../../session-log/file-names.ts";
import { encodeLine } from "../../session-log/line.ts";
import {
  chainOf,
  DiskSession,
  input,
  items,
  linesOf,
  notification,
  STARTED,
  writeLines,
} from "../../session-log/test-support.ts";
import { runCli } from "../dispatch.ts";
import type { CliIo } from "../io.ts";

/** A home of its own with sessions in it. */
class Home implements Disposable {
  readonly path = realpathSync(mkdtempSync(join(tmpdir(), "wl-")));
  readonly env = { HOME: this.path, WAKEFUL_HOME: join(this.path, "data"), PATH: process.env["PATH"] };

  directory(session: string): string {
    const directory = join(this.path, "data", "sessions", session);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    return directory;
  }

  file(session: string): string {
    return join(this.directory(session), FIRST_FILE);
  }

  /** A session of two turns. */
  make(session: string): string {
    using disk = new DiskSession(this.directory(session));
    disk.turn().turn();
    return this.file(session);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function run(
  home: Home,
  args: readonly string[],
  options: { readonly isTTY?: boolean; readonly signal?: AbortSignal; readonly onOut?: (text: string) => void } = {},
): Promise<Ran> {
  let out = "";
  let err = "";
  const { isTTY = false, signal = new AbortController().signal } = options;
  const io: CliIo = {
    stdin: { isTTY, [Symbol.asyncIterator]: async function* () {} },
    stdout: {
      isTTY,
      write: (text) => {
        out += text;
        options.onOut?.(out);
      },
    },
    stderr: {
      isTTY,
      write: (text) => {
        err += text;
      },
    },
    env: home.env,
    cwd: home.path,
    signal,
    onInterrupt: () => () => undefined,
  };
  const code = await runCli(["log", ...args], io);
  return { code, out, err };
}

/** Control characters a terminal would obey. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

describe("wakeful log show", () => {
  it("prints one block an entry of a session that the registry does not know, and what became of each input", async () => {
    using home = new Home();
    {
      using disk = new DiskSession(home.directory("s_one"));
      disk.turn().commit(items(notification("n1", { text: "still waits" })), input("later"));
    }
    const { code, out, err } = await run(home, ["show", "s_one"]);
    expect([code, err]).toEqual([0, ""]);
    expect(out.match(/^#\d+ /gm)).toHaveLength(12);
    expect(out).toMatch(/^#1 {2}\d{4}-\d\d-\d\dT[\d:.]+Z {2}session_started$/m);
    expect(out).toContain("input_1 [taken by request 1, #4] from client");
    expect(out).toContain("n1 [pending] notification, trust external, owes a wake\n    [Notification from ci]\n    still waits");
    expect(out).toContain("later [pending] from client, waits for a turn");
    expect(out).toContain("> Bash call_1");
    expect(out).toContain("output of call_1");
  });

  it("prints a part of it, and the raw lines", async () => {
    using home = new Home();
    const lines = linesOf(home.make("s_one"));
    expect((await run(home, ["show", "s_one", "--json"])).out).toBe(lines.map((line) => `${line}\n`).join(""));
    const seqs = async (...args: string[]) =>
      (await run(home, ["show", "s_one", "--json", ...args])).out
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line).seq);
    expect(await seqs("--last", "2")).toEqual([18, 19]);
    expect(await seqs("--since", "16")).toEqual([17, 18, 19]);
    expect(await seqs("--since", "18", "--last", "10")).toEqual([19]);
    expect(await seqs("--last", "0")).toEqual([]);
    expect(await seqs("--since", "999")).toEqual([]);
  });

  it("lets no text of a log act on the terminal", async () => {
    using home = new Home();
    {
      using disk = new DiskSession(home.directory("s_one"));
      const evil = "\u001b]0;title\u0007 \u009b31m \u007f \u0085 \u001b[2J";
      disk.commit(items({ ...notification("n", { text: evil }), body: evil }), input("i", { text: evil }), {
        type: "closed",
        reason: evil,
      });
    }
    for (const args of [
      ["show", "s_one"],
      ["show", "s_one", "--json"],
      ["export", "s_one"],
      ["export", "s_one", "--json"],
    ]) {
      const { out } = await run(home, args, { isTTY: true });
      expect(out, args.join(" ")).toContain("title");
      expect(CONTROL.test(out), args.join(" ")).toBe(false);
    }
  });

  verifies(
    ["L9"],
    "prints a damaged log up to the damage, then the error with file, line and what to do, and exits with 5",
    async () => {
      using home = new Home();
      const file = home.make("s_one");
      writeLines(file, linesOf(file).with(4, "rubbish"));
      const { code, out, err } = await run(home, ["show", "s_one"]);
      expect(code).toBe(5);
      expect(out.match(/^#\d+ /gm)).toHaveLength(4);
      expect(err).toContain(`${file}: line 5 `);
      expect(err).toContain("wakeful log repair");
      const raw = await run(home, ["show", "s_one", "--json"]);
      expect(raw.code).toBe(5);
      const parsed = raw.out
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      expect(parsed).toHaveLength(5);
      expect(parsed.at(-1)).toMatchObject({ error: { code: "damaged" } });
    },
  );

  verifies(["S10"], "shows items of the former tag as kind legacy", async () => {
    using home = new Home();
    writeLines(
      home.file("s_old"),
      chainOf([STARTED, { type: "hook_injected_items", items: [{ role: "system", text: "from long ago" }] }]),
    );
    const { code, out } = await run(home, ["show", "s_old"]);
    expect(code).toBe(0);
    expect(out).toContain("legacy, trust external\n    from long ago");
    expect((await run(home, ["verify", "s_old"])).code).toBe(0);
  });

  it("says what it cut of a long text", async () => {
    using home = new Home();
    {
      using disk = new DiskSession(home.directory("s_one"));
      disk.commit(input("i", { text: "x".repeat(5000) }));
    }
    expect((await run(home, ["show", "s_one"])).out).toContain("(1000 more characters: wakeful log export shows all)");
  });
});

describe("wakeful log verify and audit", () => {
  verifies(["L7"], "say in one line that a log is whole, or where it is not, and exit with 0 or 1", async () => {
    using home = new Home();
    const file = home.make("s_one");
    const good = await run(home, ["verify", "s_one"]);
    expect(good).toMatchObject({ code: 0, err: "" });
    expect(good.out).toMatch(/^ok: 19 entries.*no head mark.*\n$/);
    const audited = await run(home, ["audit", "s_one"]);
    expect(audited.code).toBe(0);
    expect(audited.out).toMatch(/^ok: 4 requests rebuilt.*4 without a model.*nowhere\.yaml.*\n$/);

    writeLines(file, linesOf(file).toSpliced(9, 1));
    const bad = await run(home, ["verify", "s_one"]);
    expect(bad.code).toBe(1);
    expect(bad.out).toContain(`not ok: ${file} line 10 `);
    expect(bad.out.split("\n")).toHaveLength(2);
    const report = await run(home, ["verify", "s_one", "--json"]);
    expect(JSON.parse(report.out)).toMatchObject({ ok: false, entries: 9, first_bad: { line: 10, problem: "bad_prev" } });
    expect(report.code).toBe(1);
    const audit = await run(home, ["audit", "s_one", "--json"]);
    expect(JSON.parse(audit.out)).toMatchObject({ ok: false, requests: 2, damage: { line: 10 } });
    expect(audit.code).toBe(1);
  });

  it("say that the last line is unfinished, which is no damage", async () => {
    using home = new Home();
    appendFileSync(home.make("s_one"), '{"seq":20');
    const { code, out } = await run(home, ["verify", "s_one"]);
    expect(code).toBe(0);
    expect(out).toContain("line 20 was cut off while it was written (9 bytes)");
    expect((await run(home, ["show", "s_one"])).err).toContain("line 20 is not finished");
  });
});

describe("wakeful log repair", () => {
  verifies(["L9"], "makes a damaged log usable and says what it kept", async () => {
    using home = new Home();
    const file = home.make("s_one");
    writeLines(file, linesOf(file).with(9, "rubbish"));
    const repaired = await run(home, ["repair", "s_one"]);
    expect(repaired.code).toBe(0);
    expect(repaired.out).toContain("Kept the 9 entries before line 10");
    expect(repaired.out).toContain(`${file}.damaged-1`);
    expect(existsSync(`${file}.damaged-1`)).toBe(true);
    expect((await run(home, ["verify", "s_one"])).code).toBe(0);
    expect((await run(home, ["repair", "s_one"])).out).toContain("Nothing to do: all 9 entries are sound.");
  });

  it("of a log without a sound entry is an error that changes nothing", async () => {
    using home = new Home();
    writeFileSync(home.file("s_one"), "rubbish\n");
    expect(await run(home, ["repair", "s_one"])).toMatchObject({ code: 5, err: expect.stringContaining("nothing was changed") });
    expect(readFileSync(home.file("s_one"), "utf8")).toBe("rubbish\n");
  });
});

describe("wakeful log", () => {
  it("is strict about how it is called", async () => {
    using home = new Home();
    home.make("s_one");
    const cases: [string[], number, string][] = [
      [[], 2, "SUBCOMMAND is missing"],
      [["shov", "s_one"], 2, "id you mean log show?"],
      [["show"], 2, "NAME|SESSION is missing"],
      [["show", "s_one", "--last", "many"], 2, "--last is 'many'"],
      [["verify", "s_one", "--jsn"], 2, "id you mean --json?"],
      [["verify", "s_two"], 3, "no Pod or session is called s_two"],
      [["show", "../s_one"], 3, "no Pod or session"],
    ];
    for (const [args, code, message] of cases) {
      const ran = await run(home, args);
      expect(ran.code, args.join(" ")).toBe(code);
      expect(ran.err, args.join(" ")).toContain(message);
      expect(ran.out, args.join(" ")).toBe("");
    }
    for (const name of ["show", "follow", "verify", "audit", "export", "repair"]) {
      const help = await run(home, [name, "--help"]);
      expect(help.code).toBe(0);
      expect(help.out).toMatch(
        new RegExp(`^Usage: wakeful log ${name} .*NAME\\|SESSION[\\s\\S]*Example:\n {2}wakeful log ${name} `),
      );
    }
  });

  it("reads a session by its id also when the registry is damaged", async () => {
    using home = new Home();
    home.make("s_one");
    writeFileSync(
      join(home.path, "data", "registry.db"),
      "this is no database, and long enough to be taken for one: ".repeat(100),
    );
    const { code, err } = await run(home, ["verify", "s_one"]);
    expect(code).toBe(0);
    expect(err).toContain("the registry cannot be asked");
  });
});

describe("wakeful log follow", () => {
  it("of a stopped session prints the newest entries and what is appended, until it is interrupted", async () => {
    using home = new Home();
    const file = home.make("s_one");
    const stop = new AbortController();
    let grown = false;
    const { code, out } = await run(home, ["follow", "s_one", "--last", "2"], {
      signal: stop.signal,
      onOut: (text) => {
        if (!grown && text.includes("#19 ")) {
          grown = true;
          const { seq, hash } = JSON.parse(linesOf(file).at(-1) ?? "");
          const { bytes } = encodeLine(items(notification("fresh")), { seq, hash }, 5);
          // In two pieces, as a reader may meet it.
          appendFileSync(file, bytes.subarray(0, 20));
          appendFileSync(file, bytes.subarray(20));
        }
        if (text.includes("fresh")) stop.abort();
      },
    });
    expect(code).toBe(130);
    expect(out).toMatch(/^#18 [\s\S]*#19 [\s\S]*#20 [\s\S]*fresh/);
    expect(out).not.toContain("#17 ");
  });
});

describe("a log of several files", () => {
  /** Three files of one turn each; gives their paths. */
  function makeThree(home: Home, session: string): string[] {
    using disk = new DiskSession(home.directory(session));
    disk.turn().rotate().turn().rotate().turn();
    return listFiles(home.directory(session)).map((file) => file.path);
  }

  verifies(["L8-rotation"], "is shown, verified and exported like one", async () => {
    using home = new Home();
    const files = makeThree(home, "s_one");
    const shown = await run(home, ["show", "s_one"]);
    expect(shown.code).toBe(0);
    expect(shown.out.match(/^#\d+ /gm)).toHaveLength(30);
    expect(shown.out.match(/a new file of the log begins/g)).toHaveLength(2);
    expect((await run(home, ["show", "s_one", "--json"])).out).toBe(files.map((file) => readFileSync(file, "utf8")).join(""));
    expect((await run(home, ["verify", "s_one"])).out).toMatch(/^ok: 30 entries in 3 files, /);
    expect((await run(home, ["audit", "s_one"])).out).toMatch(/^ok: 6 requests /);
    expect((await run(home, ["export", "s_one"])).out.match(/## Turn/g)).toHaveLength(3);
  });

  verifies(
    ["L8-rotation", "L9"],
    "of which an old one is damaged still shows its newest part, and repair says what is lost",
    async () => {
      using home = new Home();
      const [first = "", second = ""] = makeThree(home, "s_one");
      writeLines(second, linesOf(second).with(3, "rubbish"));
      const seqs = async (...args: string[]) => {
        const { out, code } = await run(home, ["show", "s_one", "--json", ...args]);
        return { code, seqs: out.split("\n").flatMap((line) => (line === "" ? [] : (JSON.parse(line).seq ?? []))) };
      };
      expect(await seqs("--last", "3")).toEqual({ code: 0, seqs: [28, 29, 30] });
      expect(await seqs("--since", "20")).toEqual({ code: 0, seqs: Array.from({ length: 10 }, (_, n) => 21 + n) });
      expect(await seqs()).toEqual({ code: 5, seqs: Array.from({ length: 13 }, (_, n) => 1 + n) });
      const repaired = await run(home, ["repair", "s_one"]);
      expect(repaired.code).toBe(0);
      expect(repaired.out).toContain(`entries 14 to 20 (${second} line 4: `);
      expect(repaired.out).toContain("The file is left as it is.");
      expect(existsSync(first)).toBe(true);
      const verified = await run(home, ["verify", "s_one"]);
      expect(verified.out).toContain(`not ok: ${second} line 4 `);
    },
  );

  it("whose newest is damaged from its first line on is repaired by going back to the one before", async () => {
    using home = new Home();
    const [, , third = ""] = makeThree(home, "s_one");
    writeLines(third, linesOf(third).with(0, "rubbish"));
    const repaired = await run(home, ["repair", "s_one"]);
    expect(repaired.code).toBe(0);
    expect(repaired.out).toContain(`it is saved as ${third}.damaged-1, and the session goes on from the file before it`);
    expect((await run(home, ["verify", "s_one"])).code).toBe(0);
  });

  verifies(["L8-rotation"], "is followed into the next file", async () => {
    using home = new Home();
    using disk = new DiskSession(home.directory("s_one"));
    disk.turn().rotate().turn();
    const stop = new AbortController();
    let step = 0;
    const { code, out, err } = await run(home, ["follow", "s_one", "--last", "12"], {
      signal: stop.signal,
      onOut: (text) => {
        if (step === 0 && text.includes("#20 ")) {
          step = 1;
          disk.commit(items(notification("before")));
          disk.rotate().rotate();
          disk.commit(items(notification("behind")));
        }
        if (text.includes("behind")) stop.abort();
      },
    });
    expect([code, err]).toEqual([130, ""]);
    expect(out.match(/^#\d+/gm)).toEqual([
      "#9",
      "#10",
      "#12",
      "#13",
      "#14",
      "#15",
      "#16",
      "#17",
      "#18",
      "#19",
      "#20",
      "#21",
      "#24",
    ]);
  });

  it("is followed from its newest part on where an old file is gone, and that is said", async () => {
    using home = new Home();
    const [, second = ""] = makeThree(home, "s_one");
    writeLines(second, linesOf(second).with(3, "rubbish"));
    const stop = new AbortController();
    const { out, err } = await run(home, ["follow", "s_one", "--since", "0"], {
      signal: stop.signal,
      onOut: (text) => {
        if (text.includes("#30 ")) stop.abort();
      },
    });
    expect(out.match(/^#\d+/gm)?.at(0)).toBe("#22");
    expect(err).toContain("older entries cannot be shown");
    expect(err).toContain(second);
  });
});
