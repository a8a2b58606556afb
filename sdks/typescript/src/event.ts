/** What happens to locks, as it happens. */

import type { IncomingMessage } from "node:http";

import type { LockEvent } from "./api.js";
import type { Client } from "./client.js";
import { sleepUntil } from "./clock.js";
import { BrokenError, ForeignError, LeaseholdError } from "./error.js";
import { type Message, Parser } from "./parser.js";
import { jittered } from "./random.js";
import { RETRY_DEFAULT } from "./retry.js";
import { parse } from "./transport.js";

/** The server says something at least every 15 s, if only a comment. */
const SILENCE_MAX_MS = 45_000;

/** Something a watcher is told. */
export type Watched =
  /** Something happened to a lock. `id` is where to go on: see `EventsOptions.since`. */
  | { gap: false; id: string; event: LockEvent }
  /** Something happened that this watcher will not be told. Look at the locks you care about, and go on. */
  | { gap: true; reason: string; state?: undefined }
  /**
   * `stale`: the server cannot reach its store, so events can be late from here on; none is missing. `current`: it reaches its
   * store again, and what was late has been told or follows at once. It is a gap for code that knows only events and gaps.
   */
  | { gap: true; reason: string; state: "stale" | "current" };

/** Which events to tell. */
export interface EventsOptions {
  /** Only of locks whose name begins with this. */
  prefix?: string;
  /** Only of this lock. */
  lock?: string;
  /** Go on after the event with this id instead of beginning now. */
  since?: string;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

/**
 * The events of locks: `for await (const watched of client.events({ prefix: "jobs/" }))`. It goes on over broken
 * connections and restarts of the server. Whenever it cannot be sure to have told everything, it says so by a gap; while its server is
 * cut off from the store, by the state `stale`.
 *
 * `next()` fails when the server cannot be reached for as often as `RETRY_DEFAULT` says, or does not let us watch.
 * Calling it again tries again, and misses nothing.
 */
export class Events implements AsyncIterableIterator<Watched> {
  readonly #client: Client;
  readonly #query: { prefix?: string; lock?: string };
  readonly #controller = new AbortController();
  #lastId: string | undefined;
  #pieces: AsyncIterator<Buffer> | undefined;
  #parser = new Parser();
  #wasConnected = false;
  #ready: Message[] = [];
  #nFailures = 0;

  /** @internal */
  constructor(client: Client, { since, signal, ...query }: EventsOptions) {
    this.#client = client;
    this.#query = query;
    this.#lastId = since;
    if (signal?.aborted) {
      this.#controller.abort();
    }
    signal?.addEventListener("abort", () => this.#controller.abort(), { signal: this.#controller.signal });
  }

  /** Connects, so that nothing that happens from here on is missed. Otherwise the first `next()` does. */
  async connect(): Promise<void> {
    if (this.#pieces !== undefined) {
      return;
    }
    const stream = await this.#client.calls.events(this.#query, this.#lastId, this.#controller.signal);
    this.#pieces = pieces(stream);
    this.#parser = new Parser();
    if (this.#wasConnected && this.#lastId === undefined) {
      const reason = "the connection broke before the first event";
      this.#ready.push({ event: "gap", id: "", data: JSON.stringify({ reason }) });
    }
    this.#wasConnected = true;
  }

  /** The next event, whenever it comes. One call at a time. */
  async next(): Promise<IteratorResult<Watched, undefined>> {
    while (!this.#controller.signal.aborted) {
      const message = this.#ready.shift();
      if (message !== undefined) {
        return { done: false, value: read(message) };
      }
      try {
        await this.#read();
      } catch (error) {
        this.#pieces = undefined;
        if (this.#controller.signal.aborted) {
          break;
        }
        await this.#pauseAfter(error);
      }
    }
    return { done: true, value: undefined };
  }

  /** Ends the iteration and the connection. */
  async return(): Promise<IteratorResult<Watched, undefined>> {
    this.#controller.abort();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** One more piece of the stream. */
  async #read(): Promise<void> {
    await this.connect();
    // Connecting may itself have something to tell.
    if (this.#ready.length > 0 || this.#pieces === undefined) {
      return;
    }
    const piece = await this.#pieces.next();
    if (piece.done) {
      throw new BrokenError("the server ended the stream");
    }
    this.#nFailures = 0;
    for (const message of this.#parser.push(piece.value)) {
      if (message.id !== "") {
        this.#lastId = message.id;
      }
      this.#ready.push(message);
    }
  }

  /** Fails with the error if there is nothing more to try. */
  async #pauseAfter(error: unknown): Promise<void> {
    this.#nFailures += 1;
    const isRetryable = error instanceof LeaseholdError && error.retryable;
    if (!isRetryable || this.#nFailures >= RETRY_DEFAULT.attemptsMax) {
      this.#nFailures = 0;
      throw error;
    }
    const doubled = RETRY_DEFAULT.pauseMinMs * 2 ** (this.#nFailures - 1);
    const pauseMs = jittered(Math.min(doubled, RETRY_DEFAULT.pauseMaxMs));
    const { clock } = this.#client;
    await sleepUntil(clock, clock.now() + pauseMs, this.#controller.signal);
  }
}

/** The pieces of a stream, which breaks if it falls silent. */
async function* pieces(stream: IncomingMessage): AsyncGenerator<Buffer> {
  stream.setTimeout(SILENCE_MAX_MS, () => stream.destroy());
  try {
    for await (const piece of stream) {
      yield piece as Buffer;
    }
  } catch (error) {
    throw new BrokenError((error as Error).message);
  }
}

function read({ event, id, data }: Message): Watched {
  const said = parse(data);
  if (typeof said !== "object" || said === null) {
    throw new ForeignError(200, data);
  }
  const { reason } = said as { reason: string };
  switch (event) {
    case "gap":
      return { gap: true, reason };
    case "stale":
    case "current":
      return { gap: true, reason, state: event };
    default:
      return { gap: false, id, event: said as LockEvent };
  }
}
