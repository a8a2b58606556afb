/** Asking for a lock until it is there, or certain not to be. */

import type { AcquireRequest, Acquired } from "./api.js";
import type { Client } from "./client.js";
import { InvalidError, LostError, NotReleasedError } from "./error.js";
import { Lease, releaseLease, renewLease } from "./lease.js";
import { tell } from "./news.js";
import { afterWait, type Asking, persevere } from "./queue.js";
import { requestId } from "./random.js";
import type { Manner } from "./retry.js";
import type { Tenure } from "./tenure.js";
import { checkLock, type CommonOptions, margin, type Sharing, sharing, TTL_DEFAULT_MS, waits } from "./terms.js";

/** How a lock is asked for. */
export interface LockOptions extends CommonOptions, Sharing {}

/** The session a lock is in. */
export interface Membership {
  id: string;
  owner: string;
  tenure: Tenure;
}

/**
 * A lock to be asked for: `client.lock("orders", { waitMs: 60_000 }).acquire()`.
 *
 * Every try carries the same request id, so however often a connection breaks there is one lease, one place in the
 * queue and one answer.
 */
export class LockRequest {
  readonly #client: Client;
  readonly #name: string;
  readonly #options: LockOptions;
  readonly #session: Membership | undefined;

  /** @internal */
  constructor(client: Client, name: string, options: LockOptions, session?: Membership) {
    this.#client = client;
    this.#name = name;
    this.#options = options;
    this.#session = session;
  }

  /**
   * The lock, if it is free or becomes free within `waitMs`. The queue is first come, first served, and a broken
   * connection does not cost the place in it if the server is back soon: it gives up after `retry.attemptsMax` tries that
   * failed one after the other, by default after about 4 s.
   */
  acquire(): Promise<Lease> {
    return this.#ask(waits(this.#options) ? "queue" : "once");
  }

  /** The lock, by coming back whenever the server recommends it. It does not queue: whoever does goes first. */
  acquireWithRetry(): Promise<Lease> {
    return this.#ask("return");
  }

  /**
   * Does the work while the lock is held, and releases the lock in every way out. If the lock is lost meanwhile, the
   * result is a `LostError`, at once; the work has to stop by itself when `lease.signal` fires.
   */
  async run<T>(work: (lease: Lease) => T | PromiseLike<T>): Promise<T> {
    const lease = await this.acquire();
    let done: T;
    try {
      done = await unlessLost(lease, async () => work(lease));
    } catch (error) {
      // What the work says is more important than how the release went, and a loss is told at once.
      const released = lease.release().catch(() => undefined);
      if (!(error instanceof LostError)) {
        await released;
      }
      throw error;
    }
    try {
      await lease.release();
    } catch (error) {
      if (error instanceof NotReleasedError) {
        throw error;
      }
      tell({ what: "not-released", lock: this.#name, error });
    }
    return done;
  }

  async #ask(manner: Manner): Promise<Lease> {
    const marginMs = this.#check();
    const asking: Asking<Acquired, Lease> = {
      manner,
      options: this.#options,
      owner: this.#owner(),
      earlyIsEnded: true,
      ask: (changing, signal) => {
        return this.#client.calls.acquire(this.#name, { ...this.#question(), ...changing }, signal);
      },
      take: (acquired, sentAt) => this.#lease(marginMs, sentAt, acquired),
      giveBack: (acquired) => releaseLease(this.#client, acquired, requestId()),
    };
    return await persevere(this.#client, asking);
  }

  /** The margin, if everything makes sense together. */
  #check(): number {
    checkLock(this.#name, this.#options);
    if (this.#session !== undefined) {
      if (this.#options.ttlMs !== undefined || this.#options.marginMs !== undefined) {
        throw new InvalidError("ttlMs and marginMs of a session's lock are those of the session");
      }
      const lost = this.#session.tenure.loss;
      if (lost !== undefined) {
        throw new LostError(lost.reason, lost.what, lost.detail);
      }
    }
    return margin(this.#ttlMs(), this.#options.marginMs, this.#options.waitMs);
  }

  #question(): AcquireRequest {
    const { shared, limit, graceMs, metadata } = this.#options;
    const question = {
      owner_id: this.#owner(),
      ...(this.#session === undefined ? { ttl_ms: Math.ceil(this.#ttlMs()) } : { session_id: this.#session.id }),
      ...(graceMs === undefined ? {} : { grace_ms: Math.ceil(graceMs) }),
      ...(metadata === undefined ? {} : { metadata }),
      ...sharing({ shared, limit }),
    };
    // That grace is for exclusive locks only is for the server to say.
    return question as AcquireRequest;
  }

  async #lease(marginMs: number, sentAt: number, acquired: Acquired): Promise<Lease> {
    const lease = await this.#held(marginMs, sentAt, acquired);
    if (this.#options.watched === true) {
      lease.watch();
    }
    return lease;
  }

  async #held(marginMs: number, sentAt: number, acquired: Acquired): Promise<Lease> {
    if (this.#session !== undefined) {
      return Lease.ofSession(this.#client, acquired, this.#session.tenure);
    }
    const ttlMs = this.#ttlMs();
    const renew = (): Promise<number> => renewLease(this.#client, acquired, ttlMs);
    const first = { sentAt, expiresInMs: acquired.expires_after_send_ms ?? Infinity };
    const granted = await afterWait(this.#client, ttlMs, first, renew);
    return Lease.alone(this.#client, acquired, ttlMs, marginMs, granted);
  }

  #owner(): string {
    return this.#session?.owner ?? this.#options.owner ?? this.#client.owner;
  }

  #ttlMs(): number {
    return this.#options.ttlMs ?? TTL_DEFAULT_MS;
  }
}

/** What the work returns, or the loss if that comes first. */
function unlessLost<T>(lease: Lease, work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const { signal } = lease;
    const lost = (): void => reject(signal.reason);
    if (signal.aborted) {
      lost();
      return;
    }
    signal.addEventListener("abort", lost);
    work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", lost));
  });
}
