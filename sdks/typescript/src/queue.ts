/** A place in a queue: kept over broken connections, and left at once by whoever does not want to wait any longer. */

import type { Client } from "./client.js";
import { sleepUntil } from "./clock.js";
import { BrokenError, FailedError, LeaseholdError, NotAcquiredError } from "./error.js";
import type { Holding } from "./holding.js";
import { requestId } from "./random.js";
import { Attempts, type Manner, persist, type Retry } from "./retry.js";
import { type CommonOptions, retryOf, waits } from "./terms.js";

/** The longest wait the server allows unless it is set otherwise. A longer wait is several, one after the other. */
const WAIT_MAX_MS = 24 * 60 * 60 * 1000;
/** How a queue is left. Nobody waits for this; if it does not work, the place is kept for 10 s at most. */
const LEAVE: Retry = { attemptsMax: 4, totalMaxMs: 2_000, pauseMinMs: 50, pauseMaxMs: 500 };

/** What is asked for, one lock or several. */
export interface Asking<Granted, Held extends Holding> {
  manner: Manner;
  options: CommonOptions;
  owner: string;
  /** A wait that is over early was ended by somebody, and is not begun again. */
  earlyIsEnded: boolean;
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
  const giveUpAt = clock.now() + (waits(options) ? (options.waitMs ?? 0) : retry.totalMaxMs);
  const attempts = new Attempts(retry, manner, giveUpAt);
  let place = new Place(client, asking);
  for (;;) {
    options.signal?.throwIfAborted();
    const sentAt = clock.now();
    const waitMs = manner === "queue" ? Math.ceil(Math.min(giveUpAt - sentAt, WAIT_MAX_MS)) : 0;
    attempts.begin(sentAt, asking.earlyIsEnded ? waitMs : 0);
    const wait = manner === "queue" ? { wait_ms: waitMs } : {};
    let error: LeaseholdError;
    try {
      const held = await asking.take(await place.ask(wait), sentAt);
      if (held.held) {
        return held;
      }
      // We slept through a lease. What may be left of it is given back.
      held.release().catch(() => undefined);
      error = new BrokenError("the lease was over before we knew of it");
      place = new Place(client, asking);
    } catch (caught) {
      if (!(caught instanceof LeaseholdError) || options.signal?.aborted) {
        place.leave();
        throw caught;
      }
      error = caught;
      if (isSpent(error)) {
        // A broken connection kept the lease from us. This id has had its lease.
        error = new BrokenError("the lease was over before we knew of it");
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
    await sleepUntil(clock, clock.now() + pauseMs, options.signal);
    if (options.signal?.aborted) {
      place.leave();
    }
  }
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
      const granted = await this.#asking.ask({ request_id: this.#requestId, ...wait }, this.#asking.options.signal);
      this.mayBeTaken = false;
      return granted;
    } catch (error) {
      if (error instanceof NotAcquiredError) {
        this.mayBeTaken = false;
      } else if (error instanceof LeaseholdError && !error.mayHaveTakenEffect) {
        this.mayBeTaken = before;
      }
      throw error;
    }
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
