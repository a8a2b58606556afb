/** A link to a server that can be cut and stalled, and that keeps what was sent over it. */

import { createServer, request as send, type IncomingMessage, type Server as HttpServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What becomes of a request that was passed on: its answer is passed back, lost, or never comes. */
export type Fate = "pass" | "cut" | "stall" | "swallow";

/** A request as it was seen. */
export interface Seen {
  path: string;
  headers: IncomingMessage["headers"];
  body: Record<string, unknown>;
}

export class Link {
  readonly seen: Seen[] = [];
  /**
   * Decides for each request. `cut`: the server answers, and the connection breaks before the answer arrives.
   * `swallow`: the server never hears of it, and nobody answers. `stall`: the same, after the server has answered.
   */
  fate: (seen: Seen) => Fate = () => "pass";
  readonly #server: HttpServer;
  readonly #target: () => string;

  private constructor(target: () => string) {
    this.#target = target;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  /** To what `target` says, until the test is over. */
  static async to(target: () => string, test?: { after(done: () => void): void }): Promise<Link> {
    const link = new Link(target);
    test?.after(() => link.close());
    await new Promise<void>((resolve) => link.#server.listen(0, "127.0.0.1", resolve));
    return link;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Those whose path ends so. */
  of(end: string): Seen[] {
    return this.seen.filter(({ path }) => path.endsWith(end));
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Breaks what is open. */
  cut(): void {
    this.#server.closeAllConnections();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) {
      pieces.push(piece as Buffer);
    }
    const body = Buffer.concat(pieces);
    const seen = { path: request.url ?? "", headers: request.headers, body: body.length === 0 ? {} : JSON.parse(body.toString()) };
    this.seen.push(seen);
    const fate = this.fate(seen);
    if (fate === "swallow") {
      return;
    }
    const { method, headers } = request;
    const onward = send(this.#target() + seen.path, { method, headers, agent: false }, (answer) => {
      if (fate === "cut") {
        answer.resume().on("end", () => response.destroy());
      } else if (fate === "pass") {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        // A stream may have nothing to say for a while.
        response.flushHeaders();
        answer.pipe(response);
        answer.on("close", () => response.destroy());
      }
    });
    onward.on("error", () => response.destroy());
    // Whoever hangs up here hangs up there.
    response.on("close", () => onward.destroy());
    onward.end(body);
  }
}
