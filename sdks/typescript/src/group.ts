/** Several locks or none: asked for in one request, held as one. */

import type { AcquireAllRequest, AcquiredAll, GrantedLease, WantedLock } from "./api.js";
import type { Client } from "./client.js";
import { named, NotReleasedError } from "./error.js";
import { Holding } from "./holding.js";
import type { Granted } from "./lease.js";
import { afterWait, persevere } from "./queue.js";
import { persist } from "./retry.js";
import { keepWatch } from "./sentinel.js";
import { Tenure } from "./tenure.js";
import { checkLocks, type CommonOptions, margin, type Sharing, sharing, TTL_DEFAULT_MS, waits } from "./terms.js";

/** One lock of several: its name, or its name and how it is shared. */
export type Wanted = string | (Sharing & { name: string });

/** Several locks to be asked for together: `client.locks(["a", { name: "b", shared: true }]).acquire()`. */
export class LocksRequest {
  readonly #client: Client;
  readonly #locks: readonly Wanted[];
  readonly #options: CommonOptions;

  /** @internal */
  constructor(client: Client, locks: readonly Wanted[], options: CommonOptions) {
    this.#client = client;
    this.#locks = locks;
    this.#options = options;
  }

  /** All the locks, if they are free or become free together within `waitMs`. They are granted at one instant. */
  async acquire(): Promise<LeaseSet> {
    const { owner = this.#client.owner, ttlMs = TTL_DEFAULT_MS } = this.#options;
    checkLocks(this.#locks, this.#options);
    const marginMs = margin(ttlMs, this.#options.marginMs, this.#options.waitMs);
    return await persevere<AcquiredAll, LeaseSet>(this.#client, {
      manner: waits(this.#options) ? "queue" : "once",
      options: this.#options,
      owner,
      // That the wait of several was over early can have another reason.
      earlyIsEnded: false,
      ask: (changing, signal) => {
        return this.#client.calls.acquireAll({ ...this.#question(owner, ttlMs), ...changing }, signal);
      },
      take: async (acquired, sentAt) => {
        const first = { sentAt, expiresInMs: acquired.expires_after_send_ms ?? Infinity };
        const granted = await afterWait(this.#client, ttlMs, first, () => renewAll(this.#client, acquired, ttlMs));
        const set = new LeaseSet(this.#client, acquired, ttlMs, marginMs, granted);
        if (this.#options.watched === true) {
          set.watch();
        }
        return set;
      },
      giveBack: (acquired) => releaseAll(this.#client, acquired),
    });
  }

  #question(owner: string, ttlMs: number): AcquireAllRequest {
    const { graceMs, metadata } = this.#options;
    const question = {
      owner_id: owner,
      ttl_ms: Math.ceil(ttlMs),
      locks: this.#locks.map(wantedLock),
      ...(graceMs === undefined ? {} : { grace_ms: Math.ceil(graceMs) }),
      ...(metadata === undefined ? {} : { metadata }),
    };
    return question as AcquireAllRequest;
  }
}

function wantedLock(wanted: Wanted): WantedLock {
  const { name, ...shared } = typeof wanted === "string" ? { name: wanted } : wanted;
  return { lock_name: name, ...sharing(shared) } as WantedLock;
}

/** Several locks that are ours, all of them, until they are released or one of them is lost. */
export class LeaseSet extends Holding {
  readonly #client: Client;
  readonly #acquired: AcquiredAll;

  /** @internal */
  constructor(client: Client, acquired: AcquiredAll, ttlMs: number, marginMs: number, granted: Granted) {
    const { sentAt, expiresInMs } = granted;
    const names = acquired.leases.map((lease) => lease.lock_name);
    const tenure = Tenure.granted(client.clock, marginMs, sentAt, expiresInMs, named(names));
    super(tenure, names.join(", "));
    this.#client = client;
    this.#acquired = acquired;
    const renew = (signal: AbortSignal): Promise<number> => renewAll(client, acquired, ttlMs, signal);
    this.beat(client.clock, { ttlMs, end: sentAt + expiresInMs, renew });
  }

  /** @internal Hears of the end of each lease when it ends. */
  watch(): void {
    const { owner_id, leases } = this.#acquired;
    for (const lease of leases) {
      void keepWatch(this.#client, { owner_id, ...lease }, this.signal, (how) => this.lose("ended", how));
    }
  }

  /** The owner of the leases. */
  get owner(): string {
    return this.#acquired.owner_id;
  }

  /** The leases, in the order in which the locks were named. Their ids are secrets. */
  get leases(): readonly Readonly<GrantedLease>[] {
    return this.#acquired.leases;
  }

  /** The fencing token of one of the locks: send it along to whatever that lock protects. */
  fencingToken(lock: string): number | undefined {
    return this.leases.find((lease) => lease.lock_name === lock)?.fencing_token;
  }

  /** Leaves all the locks held for `timeMs` from now: as `Lease.leaveFor`. */
  leaveFor(timeMs: number): Promise<void> {
    return this.leaveHeld(timeMs, async () => {
      await persist(this.#client.clock, () => renewAll(this.#client, this.#acquired, timeMs));
    });
  }

  /** @internal */
  protected async giveBack(): Promise<void> {
    await releaseAll(this.#client, this.#acquired);
  }
}

function proofs({ owner_id, leases }: AcquiredAll): Pick<AcquiredAll, "owner_id" | "leases"> {
  return { owner_id, leases };
}

async function renewAll(client: Client, acquired: AcquiredAll, ttlMs: number, signal?: AbortSignal): Promise<number> {
  const body = { ...proofs(acquired), extend_by_ms: Math.ceil(ttlMs) };
  const renewed = await client.calls.renewAll(body, signal);
  return renewed.expires_after_send_ms ?? Infinity;
}

/**
 * Releases those that are still active, and says which were not. A release that is repeated finds nothing left to release, which is as
 * good; if it finds anything, the try before did nothing.
 */
async function releaseAll(client: Client, acquired: AcquiredAll): Promise<void> {
  await persist(client.clock, async (mayHaveTakenEffect) => {
    const { released, leases } = await client.calls.releaseAll(proofs(acquired));
    const over = leases.filter((lease) => !lease.released);
    if (over.length === 0 || (!released && mayHaveTakenEffect)) {
      return;
    }
    const reason = over[0]?.reason ?? "NOT_OWNER";
    const error = "the lease was over before; another owner may have had the lock meanwhile";
    throw new NotReleasedError({ released: false, reason, error }, over.map((lease) => lease.lock_name));
  });
}
