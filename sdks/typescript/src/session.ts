/** One keep-alive for any number of locks. */

import type { SessionOpened } from "./api.js";
import { checkOptions } from "./check.js";
import type { Client } from "./client.js";
import { sleepUntil } from "./clock.js";
import { FailedError, LeaseholdError } from "./error.js";
import { Holding } from "./holding.js";
import { type LockOptions, LockRequest } from "./request.js";
import { Attempts, persist, type Retry } from "./retry.js";
import { Tenure } from "./tenure.js";
import { margin, retryOf, TTL_DEFAULT_MS } from "./terms.js";

/** How a session is opened. */
export interface SessionOptions {
  /** The owner, if not the client's. */
  owner?: string;
  /** How long it lasts without a keep-alive. Default: 30 s. */
  ttlMs?: number;
  /** As that of a lock. */
  marginMs?: number;
  /**
   * How failures are tried again. A try whose answer was lost may leave a session behind that nobody knows; it holds
   * nothing and runs out.
   */
  retry?: Partial<Retry>;
  /** Gives up. */
  signal?: AbortSignal;
}

/** How a lock of a session is asked for: its time and its owner are those of the session. */
export type SessionLockOptions = Omit<LockOptions, "ttlMs" | "marginMs" | "owner">;

/**
 * A session that is kept alive until it is closed or lost. Every lock in it is lost with it. See `Holding` for what it
 * promises. A lock of a session that is revoked by itself is noticed when it is released, or at once if it is
 * `watched`.
 */
export class Session extends Holding {
  readonly #client: Client;
  readonly #opened: SessionOpened;
  readonly #tenure: Tenure;

  private constructor(client: Client, opened: SessionOpened, tenure: Tenure) {
    super(tenure, "(session)");
    this.#client = client;
    this.#opened = opened;
    this.#tenure = tenure;
  }

  /** @internal Opens it and keeps it alive. */
  static async open(client: Client, options: SessionOptions): Promise<Session> {
    checkOptions("a session", options, ["owner", "ttlMs", "marginMs", "retry", "signal"]);
    const { ttlMs = TTL_DEFAULT_MS } = options;
    const marginMs = margin(ttlMs, options.marginMs);
    const { opened, sentAt } = await open(client, options, ttlMs);
    client.warnIfShort(ttlMs);
    const expiresInMs = opened.expires_after_send_ms;
    const session = new Session(client, opened, Tenure.granted(client.clock, marginMs, sentAt, expiresInMs, "the session"));
    const renew = async (signal: AbortSignal): Promise<number> => {
      const kept = await client.calls.keepSession(opened.session_id, signal);
      return kept.expires_after_send_ms;
    };
    session.beat(client.clock, { ttlMs, end: sentAt + expiresInMs, renew });
    return session;
  }

  /** Asks for a lock that lasts as long as the session. */
  lock(name: string, options: SessionLockOptions = {}): LockRequest {
    const membership = { id: this.id, owner: this.owner, tenure: this.#tenure };
    return new LockRequest(this.#client, name, options, membership);
  }

  /** Its id: a secret. */
  get id(): string {
    return this.#opened.session_id;
  }

  /** The owner of the session and of its locks. */
  get owner(): string {
    return this.#opened.owner_id;
  }

  /** Ends it and releases every lock in it: another word for `release()`. `NO_SUCH_SESSION`: it was over before. */
  close(): Promise<void> {
    return this.release();
  }

  /** @internal */
  protected async giveBack(): Promise<void> {
    await persist(this.#client.clock, async (mayHaveTakenEffect) => {
      try {
        await this.#client.calls.closeSession(this.id);
      } catch (error) {
        // The try before may have done it.
        if (!(mayHaveTakenEffect && error instanceof FailedError && error.status === 404)) {
          throw error;
        }
      }
    });
  }
}

async function open(
  client: Client,
  options: SessionOptions,
  ttlMs: number,
): Promise<{ opened: SessionOpened; sentAt: number }> {
  const { clock } = client;
  const { owner = client.owner, signal } = options;
  const retry = retryOf(options);
  const attempts = new Attempts(retry, "once", clock.now() + retry.totalMaxMs);
  for (;;) {
    signal?.throwIfAborted();
    const sentAt = clock.now();
    try {
      return { opened: await client.calls.openSession({ owner_id: owner, ttl_ms: Math.ceil(ttlMs) }, signal), sentAt };
    } catch (error) {
      const pauseMs = error instanceof LeaseholdError ? attempts.after(error, clock.now()) : undefined;
      if (pauseMs === undefined) {
        throw error;
      }
      await sleepUntil(clock, clock.now() + pauseMs, signal);
    }
  }
}
