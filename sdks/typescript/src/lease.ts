/** A lock that is ours. */

import type { Acquired } from "./api.js";
import type { Client } from "./client.js";
import { named } from "./error.js";
import { Holding } from "./holding.js";
import { requestId } from "./random.js";
import { persist } from "./retry.js";
import { keepWatch } from "./sentinel.js";
import { Tenure } from "./tenure.js";

/** When something was granted, and for how long from then on. */
export interface Granted {
  sentAt: number;
  expiresInMs: number;
}

/** A lock that is ours until it is released or lost. See `Holding` for what it promises. */
export class Lease extends Holding {
  readonly #client: Client;
  readonly #acquired: Acquired;
  readonly #releaseId = requestId();

  private constructor(client: Client, acquired: Acquired, tenure: Tenure) {
    super(tenure, acquired.lock_name);
    this.#client = client;
    this.#acquired = acquired;
  }

  /** @internal A lease that is renewed by itself. */
  static alone(client: Client, acquired: Acquired, ttlMs: number, marginMs: number, granted: Granted): Lease {
    const { sentAt, expiresInMs } = granted;
    const tenure = Tenure.granted(client.clock, marginMs, sentAt, expiresInMs, named([acquired.lock_name]));
    const lease = new Lease(client, acquired, tenure);
    const renew = (signal: AbortSignal): Promise<number> => renewLease(client, acquired, ttlMs, signal);
    lease.beat(client.clock, { ttlMs, end: sentAt + expiresInMs, renew });
    return lease;
  }

  /** @internal A lease that lasts as long as its session. */
  static ofSession(client: Client, acquired: Acquired, session: Tenure): Lease {
    return new Lease(client, acquired, Tenure.within(session, named([acquired.lock_name])));
  }

  /** @internal Is told of the lease's end by the server. */
  watch(): void {
    void keepWatch(this.#client, this.#acquired, this.signal, (how) => this.lose("ended", how));
  }

  /** The name of the lock. */
  get name(): string {
    return this.#acquired.lock_name;
  }

  /** The owner of the lease. */
  get owner(): string {
    return this.#acquired.owner_id;
  }

  /** The proof that the lease is ours: a secret. */
  get leaseId(): string {
    return this.#acquired.lease_id;
  }

  /** It grows with every grant of the lock. Send it along to whatever the lock protects. */
  get fencingToken(): number {
    return this.#acquired.fencing_token;
  }

  /**
   * Leaves the lock held for `timeMs` from now, or a little longer, with nobody to renew or release it: so that work
   * that was quick is not done again at once by another. A lease is never made to end sooner, so `timeMs` should not
   * be less than the ttl. If it fails, nothing is renewed any more all the same, and the lease can still be released.
   */
  leaveFor(timeMs: number): Promise<void> {
    return this.leaveHeld(timeMs, async () => {
      await persist(this.#client.clock, () => renewLease(this.#client, this.#acquired, timeMs));
    });
  }

  /** @internal */
  protected async giveBack(): Promise<void> {
    await releaseLease(this.#client, this.#acquired, this.#releaseId);
  }
}

/** Renews a lease, and returns how long it lasts from when this was called. */
export async function renewLease(
  client: Client,
  acquired: Acquired,
  ttlMs: number,
  signal?: AbortSignal,
): Promise<number> {
  const { owner_id, lease_id, fencing_token, lock_name } = acquired;
  // Without a request id: renewing twice is renewing once.
  const body = { owner_id, lease_id, fencing_token, extend_by_ms: Math.ceil(ttlMs) };
  const renewed = await client.calls.renew(lock_name, body, signal);
  return renewed.expires_after_send_ms ?? Infinity;
}

/** Releases a lease: every try carries the same request id, so it is released once. */
export async function releaseLease(client: Client, acquired: Acquired, releaseId: string): Promise<void> {
  const { owner_id, lease_id, fencing_token, lock_name } = acquired;
  const body = { owner_id, lease_id, fencing_token, request_id: releaseId };
  await persist(client.clock, () => client.calls.release(lock_name, body));
}
