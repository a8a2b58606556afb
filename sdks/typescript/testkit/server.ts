/** A real server, on a port and in a folder of its own. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client, type ClientOptions } from "../src/index.js";
import { until } from "./patience.js";

/**
 * A free port. It is below the ports that the system gives to connections and to those who listen on any port, so that
 * none of these takes it while the server is restarted.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    const listener = createServer().listen(port, "127.0.0.1");
    const isFree = await once(listener, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    listener.close();
    await once(listener, "close");
    return port;
  }
}

export class Server {
  readonly #folder = mkdtempSync(join(tmpdir(), "leasehold-ts-"));
  readonly #options: readonly string[];
  readonly #scheme: string;
  #process: ChildProcess | undefined;
  #port = 0;

  private constructor(options: readonly string[], scheme: string) {
    this.#options = options;
    this.#scheme = scheme;
  }

  static async start(options: readonly string[] = [], scheme = "http"): Promise<Server> {
    const server = new Server(options, scheme);
    await server.start();
    return server;
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  client(options: ClientOptions = {}): Client {
    return new Client({ url: this.url, ...options });
  }

  /** Starts it, on the port it had before. */
  async start(): Promise<void> {
    const binary = process.env["LEASEHOLD_BIN"];
    assert.ok(binary, "LEASEHOLD_BIN must name the server's binary");
    const portFile = join(this.#folder, "port");
    rmSync(portFile, { force: true });
    if (this.#port === 0) this.#port = await freePort();
    const options = [...this.#options, "--listen", this.url, "--port-file", portFile];
    const folders = ["--data", join(this.#folder, "data"), "--log", "error"];
    const child = spawn(binary, ["serve", ...options, ...folders], { stdio: ["ignore", "ignore", "inherit"] });
    this.#process = child;
    await until("the server listens", () => existsSync(portFile) && readFileSync(portFile, "utf8").trim() !== "");
  }

  /** Ends it without a warning, as kill -9 does. */
  async kill(): Promise<void> {
    const child = this.#process;
    child?.kill("SIGKILL");
    await until("the server is dead", () => child === undefined || child.exitCode !== null || child.signalCode !== null);
  }

  /** Ends it for good. */
  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
