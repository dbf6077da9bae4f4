import { once } from "node:events";
import { chmodSync, existsSync, lstatSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MAX_SOCKET_PATH_BYTES } from "../base/socket-path.ts";
import { connectUnix, listenUnix, parseAddress } from "./unix-socket.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "wk-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const echo = (socket: Socket) => {
  socket.on("error", () => undefined);
  socket.pipe(socket);
};

async function answerOf(path: string, text: string): Promise<string> {
  const socket = await connectUnix(path, { deadlineMs: 2000 });
  socket.write(text);
  const [data] = await once(socket, "data");
  socket.destroy();
  return String(data);
}

describe("parseAddress", () => {
  test("takes unix:<absolute path> and nothing else", () => {
    expect(parseAddress("unix:/run/a b.sock")).toEqual({ scheme: "unix", path: "/run/a b.sock" });
    for (const bad of ["", "/run/a", "tcp:127.0.0.1:1", "unix:", "unix:a", "unix://x/../\0", "UNIX:/a"]) {
      if (bad.startsWith("unix://")) expect(() => parseAddress(bad)).toThrow(/absolute path/);
      else expect(() => parseAddress(bad)).toThrow(expect.objectContaining({ code: "invalid_input" }));
    }
  });
});

describe("listenUnix", () => {
  test("the socket has mode 0600 and its directory 0700 whatever the umask", async () => {
    const path = join(directory, "run", "a.sock");
    await using listener = await listenUnix(path, echo);
    expect(lstatSync(path).mode & 0o777).toBe(0o600);
    expect(lstatSync(join(directory, "run")).mode & 0o777).toBe(0o700);
    expect(listener.address).toBe(`unix:${path}`);
    expect(await answerOf(path, "hi")).toBe("hi");
  });

  test("closing removes the socket, twice is once, and nothing else is left behind", async () => {
    const path = join(directory, "a.sock");
    const listener = await listenUnix(path, echo);
    await Promise.all([listener.close(), listener.close()]);
    expect(readdirSync(directory)).toEqual([]);
    await expect(connectUnix(path, { deadlineMs: 500 })).rejects.toMatchObject({ code: "unavailable" });
  });

  test("a stale socket nobody answers on is replaced", async () => {
    const path = join(directory, "a.sock");
    const dead = await listenUnix(join(directory, "b.sock"), echo);
    renameSync(dead.path, path); // Stays on disk when its listener closes: what a killed process leaves.
    await dead.close();
    expect(existsSync(path)).toBe(true);
    await using _listener = await listenUnix(path, echo);
    expect(await answerOf(path, "new")).toBe("new");
  });

  test("a socket somebody answers on is left alone", async () => {
    const path = join(directory, "a.sock");
    await using _owner = await listenUnix(path, echo);
    await expect(listenUnix(path, () => undefined)).rejects.toMatchObject({ code: "already_exists" });
    expect(await answerOf(path, "owner")).toBe("owner");
    expect(readdirSync(directory)).toEqual(["a.sock"]);
  });

  test("a file that is no socket is left alone", async () => {
    const path = join(directory, "a.sock");
    writeFileSync(path, "precious");
    await expect(listenUnix(path, echo)).rejects.toMatchObject({ code: "already_exists" });
    expect(readdirSync(directory)).toEqual(["a.sock"]);
  });

  test("a loser that closes does not remove the winner's socket (B98)", async () => {
    const path = join(directory, "a.sock");
    const loser = await listenUnix(path, echo);
    rmSync(path);
    await using _winner = await listenUnix(path, echo);
    await loser.close();
    expect(await answerOf(path, "winner")).toBe("winner");
  });

  test("a path over the system's limit is refused with path and limit, and leaves nothing behind (B100)", async () => {
    const path = join(directory, "x".repeat(MAX_SOCKET_PATH_BYTES - directory.length));
    await expect(listenUnix(path, echo)).rejects.toThrow(/108 bytes.*107/);
    await expect(connectUnix(path, { deadlineMs: 500 })).rejects.toMatchObject({ code: "invalid_input" });
    expect(readdirSync(directory)).toEqual([]);
    const fits = path.slice(0, -1);
    await using _listener = await listenUnix(fits, echo);
    expect(await answerOf(fits, "fits")).toBe("fits");
  });

  test("a client that ended its side still gets what is written to it", async () => {
    const path = join(directory, "a.sock");
    await using _listener = await listenUnix(path, (socket) => {
      socket.resume().on("end", () => socket.end("late answer"));
    });
    const socket = await connectUnix(path, { deadlineMs: 1000 });
    socket.end("question");
    const [data] = await once(socket, "data");
    expect(String(data)).toBe("late answer");
  });
});

describe("connectUnix", () => {
  test("an aborted wait rejects with the reason", async () => {
    await expect(connectUnix(join(directory, "a"), { deadlineMs: 1000, signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "cancelled",
    });
  });

  test("a directory we may not enter is said", async () => {
    chmodSync(directory, 0o700);
    await expect(connectUnix(join(directory, "none.sock"), { deadlineMs: 1000 })).rejects.toThrow(/ENOENT/);
  });
});
