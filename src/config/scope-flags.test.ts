import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { defaultScope, parseScopeFlags } from "./scope-flags.ts";

let root = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "wakeful-scope-")));
  mkdirSync(join(root, "src/deep"), { recursive: true });
  writeFileSync(join(root, "file"), "");
  symlinkSync(join(root, "src"), join(root, "link"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const deny = ["/home/u/.ssh"];
const denied = [{ path: "/home/u/.ssh", access: "read", recursive: true }];
const parse = (...flags: string[]) => parseScopeFlags(flags, root, { deny, home: root });
const refusal = (message: RegExp) => expect.objectContaining({ code: "invalid_input", message: expect.stringMatching(message) });

describe("a scope", () => {
  it("by default is the working directory, write, and everything denied that the configuration denies", () => {
    expect(defaultScope(join(root, "link"), { deny })).toEqual({
      allow: [{ path: join(root, "src"), access: "write", recursive: true }],
      deny: denied,
    });
    expect(() => defaultScope(join(root, "none"), { deny })).toThrow(refusal(/none/));
  });

  it("from flags has real paths, relative to the working directory", () => {
    expect(parse("src", "file:write", "src/deep/..:read", "~/src/deep:read", root)).toEqual({
      allow: [
        { path: join(root, "src"), access: "write", recursive: true },
        { path: join(root, "file"), access: "write", recursive: false },
        { path: join(root, "src/deep"), access: "read", recursive: true },
        { path: root, access: "write", recursive: true },
      ],
      deny: denied,
    });
    expect(parse("link/deep").allow).toEqual([{ path: join(root, "src/deep"), access: "write", recursive: true }]);
  });

  it("of two flags for one path has the wider one, whatever their order", () => {
    const wide = [{ path: join(root, "src"), access: "write", recursive: true }];
    expect(parse("src:read", "link:write").allow).toEqual(wide);
    expect(parse("link:write", "src:read").allow).toEqual(wide);
  });

  it("can name a path that ends like an access", () => {
    mkdirSync(join(root, "a:read"));
    expect(parse("a:read:write").allow).toEqual([{ path: join(root, "a:read"), access: "write", recursive: true }]);
  });

  it.each(["none", "src:rw", "none:read", "", ":read", "file/below", "bad\0"])(
    "from the flag %j is refused naming it",
    (flag) => {
      expect(() => parse(flag)).toThrow(refusal(/^scope '/));
      expect(() => parse("src", flag)).toThrow(
        expect.objectContaining({ message: expect.stringContaining(`'${flag}'`), hint: expect.stringContaining("PATH:read") }),
      );
    },
  );

  it("does not hold a device or a pipe", () => {
    execFileSync("mkfifo", [join(root, "pipe")]);
    expect(() => parse("pipe")).toThrow(refusal(/neither a file nor a directory/));
    expect(() => parse("/dev/null")).toThrow(refusal(/neither/));
  });
});
