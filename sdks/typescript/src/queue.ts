/** A place in a queue: kept over broken connections, and left at once by whoever does not want to wait any longer. */

import { setMaxListeners } from "node:events";

import type { Client } from "./client.js";
import { brokenOffAt, sleepUntil } from "./clock.js";
import { BrokenError, FailedError, LeaseholdError, NotAcquiredError, SliceError } from "./error.js";
import type { Holding } from "./holding.js";
import { requestId } from "./random.js";
import { Attempts, type Manner, persist, type Retry } from "./retry.js";
import { type CommonOptions, retryOf, TTL_DEFAULT_MS, waits } from "./terms.js";

/** The longest wait the server allows unless it is set otherwise. A longer wait is several, one after the other. */
const WAIT_MAX_MS = 24 * 60 * 60 * 1000;
/**
 * No try of a longer wait lasts longer than this. Whoever is not answered cannot tell a wait from a connection that has fallen silent;
 * asking again, over another one, keeps the place and finds out.
 */
const WAIT_SLICE_MS = 30_000;
/** How a queue is left. Nobody waits for this; if it does not work, the place is kept for 10 s at most. */
const LEAVE: Retry = { attemptsMax: 4, totalMaxMs: 2_000, pauseMinMs: 50, pauseMaxMs: 500 };

/** What is asked for, one lock or several. */
export interface Asking<Granted, Held extends Holding> {
  manner: Manner;
  options: CommonOptions;
  owner: string;
  /** A wait that is over early was ended by somebody, and is not begun again. */
  earlyIsEnded: boolean;
  /** Asks once. */
  ask(changing: { request_id: string; wait_ms?: number }, signal: AbortSignal | undefined): Promise<Granted>;
  /** Makes of the answer what is held. */
  take(granted: Granted, sentAt: number): Promise<Held>;
  /** Releases what nobody wants any more. */
  giveBack(granted: Granted): Promise<void>;
}

/** Asks until it is granted, or certain not to be. */
export async function persevere<Granted, Held extends Holding>(
  client: Client,
  asking: Asking<Granted, Held>,
): Promise<Held> {
  const { clock } = client;
  const { manner, options } = asking;
  const retry = retryOf(options);
  if (options.signal !== undefined) {
    // One signal may end any number of requests, and each listens while it asks: that is no leak.
    setMaxListeners(0, options.signal);
  }
  const giveUpAt = clock.now() + (waits(options) ? (options.waitMs ?? 0) : retry.totalMaxMs);
  const attempts = new Attempts(retry, manner, giveUpAt, client.nUrls);
  let place = new Place(client, asking);
  for (;;) {
    options.signal?.throwIfAborted();
    const sentAt = clock.now();
    const waitMs = manner === "queue" ? Math.ceil(Math.max(0, Math.min(giveUpAt - sentAt, WAIT_MAX_MS))) : 0;
    attempts.begin(sentAt, asking.earlyIsEnded ? waitMs : 0);
    const wait = manner === "queue" ? { wait_ms: waitMs } : {};
    let error: LeaseholdError;
    try {
      const held = await asking.take(await place.ask(wait), sentAt);
      if (held.held) {
        client.warnIfShort(options.ttlMs ?? TTL_DEFAULT_MS);
        return held;
      }
      // We slept through a lease. What may be left of it is given back.
      held.release().catch(() => undefined);
      error = over(options);
      place = new Place(client, asking);
    } catch (caught) {
      if (!(caught instanceof LeaseholdError) || options.signal?.aborted) {
        place.leave();
        throw caught;
      }
      error = caught;
      if (isSpent(error)) {
        // A broken connection kept the lease from us. This id has had its lease.
        error = over(options);
        place = new Place(client, asking);
      }
    }
    const pauseMs = attempts.after(error, clock.now());
    if (pauseMs === undefined) {
      error.mayHaveTakenEffect ||= place.mayBeTaken;
      if (manner === "queue") {
        place.leave();
      }
      throw error;
    }
    if (pauseMs > 0) {
      await sleepUntil(clock, clock.now() + pauseMs, options.signal);
    }
    if (options.signal?.aborted) {
      place.leave();
    }
  }
}

/** A lease was granted and is over, because we slept, a broken connection kept it from us, or it was to last for no time at all. */
function over({ ttlMs = TTL_DEFAULT_MS }: CommonOptions): BrokenError {
  return new BrokenError(`the lease had ended before the client received it: ttlMs (${ttlMs}) may be too short`);
}

/** Where a request waits, under its request id. */
class Place<Granted, Held extends Holding> {
  readonly #client: Client;
  readonly #asking: Asking<Granted, Held>;
  readonly #requestId = requestId();
  /** The server may have something under this id: a waiter, or a lease. */
  mayBeTaken = false;

  constructor(client: Client, asking: Asking<Granted, Held>) {
    this.#client = client;
    this.#asking = asking;
  }

  async ask(wait: { wait_ms?: number }): Promise<Granted> {
    const before = this.mayBeTaken;
    try {
      this.mayBeTaken = true;
      const granted = await this.#askForSlice(wait);
      this.mayBeTaken = false;
      return granted;
    } catch (error) {
      if (error instanceof SliceError) {
        // Nobody was to answer before. Unless nobody is there.
        await this.#client.calls.sound();
      }
      if (error instanceof NotAcquiredError) {
        this.mayBeTaken = false;
      } else if (error instanceof LeaseholdError && !error.mayHaveTakenEffect) {
        this.mayBeTaken = before;
      }
      throw error;
    }
  }

  async #askForSlice(wait: { wait_ms?: number }): Promise<Granted> {
    const { clock } = this.#client;
    const { signal } = this.#asking.options;
    const ask = (signal: AbortSignal | undefined): Promise<Granted> => {
      return this.#asking.ask({ request_id: this.#requestId, ...wait }, signal);
    };
    if ((wait.wait_ms ?? 0) <= WAIT_SLICE_MS) {
      return await ask(signal);
    }
    const late = (): SliceError => new SliceError(WAIT_SLICE_MS);
    return await brokenOffAt(clock, clock.now() + WAIT_SLICE_MS, signal, late, ask);
  }

  /** Tells the server, in the background, that nobody waits here any more. */
  leave(): void {
    if (this.mayBeTaken) {
      this.mayBeTaken = false;
      this.#leave().catch(() => undefined);
    }
  }

  async #leave(): Promise<void> {
    const { clock, calls } = this.#client;
    const body = { owner_id: this.#asking.owner, request_id: this.#requestId };
    const isCancelled = await persist(clock, () => calls.cancel(body), LEAVE);
    if (!isCancelled) {
      // Perhaps it was granted in the meantime. Whoever asks again learns of it.
      await this.#asking.giveBack(await this.#asking.ask({ request_id: this.#requestId }, undefined));
    }
  }
}

/** This id has had its lease: only another one gets a new one. */
function isSpent(error: LeaseholdError): boolean {
  return error instanceof FailedError && error.code === "REQUEST_ID_SPENT";
}

/**
 * What the server gave counts from the send time, and clocks may have drifted apart over the wait by more than
 * the whole lease. A renewal counts from now.
 */
export async function afterWait(
  client: Client,
  ttlMs: number,
  granted: { sentAt: number; expiresInMs: number },
  renew: () => Promise<number>,
): Promise<{ sentAt: number; expiresInMs: number }> {
  const sentAt = client.clock.now();
  if (sentAt - granted.sentAt <= ttlMs) {
    return granted;
  }
  return await renew().then(
    (expiresInMs) => ({ sentAt, expiresInMs }),
    () => granted,
  );
}
