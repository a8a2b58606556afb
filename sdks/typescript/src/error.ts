/** What can go wrong, and the two things to know about it: may it be tried again, and could it have happened? */

import type { Failure, NotAcquired, NotReleased, NotRenewed } from "./api.js";

/** Locks in a message: `lock "a"`, or `locks "a", "b"`. */
export function named(locks: readonly string[]): string {
  return `lock${locks.length === 1 ? "" : "s"} ${locks.map((lock) => JSON.stringify(lock)).join(", ")}`;
}

/** Why a call did not do what was asked. */
export class LeaseholdError extends Error {
  /** The same request may be answered otherwise later. */
  readonly retryable: boolean;
  /** The request may have been applied all the same. Ask again with the same `request_id` to find out. */
  mayHaveTakenEffect: boolean;

  constructor(message: string, retryable = false, mayHaveTakenEffect = false) {
    super(message);
    this.name = new.target.name;
    this.retryable = retryable;
    this.mayHaveTakenEffect = mayHaveTakenEffect;
  }
}

/** A setting or an argument makes no sense. Nothing was sent. */
export class InvalidError extends LeaseholdError {}

/** The lock is held by another owner, or another owner goes first. */
export class NotAcquiredError extends LeaseholdError {
  constructor(readonly refusal: NotAcquired) {
    const holder = refusal.current_owner_id == null ? "" : `, held by ${refusal.current_owner_id}`;
    super(`lock ${JSON.stringify(refusal.lock_name)}: ${refusal.error}${holder}`, true);
  }

  /** When the server wants to be asked again. */
  get retryAfterMs(): number {
    return this.refusal.recommended_retry_ms;
  }
}

/** The lease cannot be renewed: it is over. */
export class NotRenewedError extends LeaseholdError {
  /** The lock of the first of several leases that is over; none of them was renewed then. */
  readonly lock: string | undefined;
  readonly #leaseId: string | undefined;

  constructor(
    readonly refusal: NotRenewed,
    first?: { lock_name: string; lease_id: string },
  ) {
    super(refusal.error);
    this.lock = first?.lock_name;
    this.#leaseId = first?.lease_id;
  }

  /** The id of that lease, a secret: whoever prints the error does not see it. */
  get leaseId(): string | undefined {
    return this.#leaseId;
  }
}

/** The lease could not be released: it was over before. Another owner may have had the lock meanwhile. */
export class NotReleasedError extends LeaseholdError {
  constructor(
    readonly refusal: NotReleased,
    /** The locks whose leases were over: of several, those that were released are not among them. */
    readonly locks: readonly string[] = [],
  ) {
    super(locks.length === 0 ? refusal.error : `${named(locks)}: ${refusal.error}`);
  }
}

/** Why a lease counts as lost. */
export type LostReason =
  /** It was not renewed in time. It ends within the margin, or ended while this process was paused. */
  | "out-of-time"
  /** The server says that it is over: expired or revoked. */
  | "ended"
  /** It was released, or its session was closed. */
  | "released";

const LOST: Record<LostReason, string> = {
  "out-of-time": "the lease could not be renewed in time",
  ended: "the server reports that the lease has ended",
  released: "the lease was released",
};

/** The lease is lost: the reason of a lease's `signal`. */
export class LostError extends LeaseholdError {
  constructor(
    readonly reason: LostReason,
    /** What is lost: `lock "a"`, `locks "a", "b"`, or `the session`. */
    readonly what = "the lease",
    /** What the server said of its end, if it said anything: which of several locks it was, and why it was revoked if it is watched. */
    readonly detail?: string,
  ) {
    super(`${what}: ${LOST[reason]}${detail === undefined ? "" : ` (${detail})`}`);
  }
}

/** The server refused the request, or failed and said so. */
export class FailedError extends LeaseholdError {
  constructor(
    readonly status: number,
    readonly failure: Failure,
  ) {
    super(`${failure.error} (${status} ${failure.code})`, failure.retryable, failure.may_have_taken_effect);
  }

  /** For example `REQUEST_ID_SPENT`. */
  get code(): Failure["code"] {
    return this.failure.code;
  }
}

/** No connection came about, so nothing was sent. */
export class UnreachableError extends LeaseholdError {
  readonly #url: string;
  readonly #why: string;

  constructor(url: string, why: string, others: readonly string[] = []) {
    const nor = others.length === 0 ? "" : `, nor to ${others.join(", ")}`;
    super(`cannot connect to ${url}: ${why}${nor}. Is the server running? (LEASEHOLD_URL)`, true);
    this.#url = url;
    this.#why = why;
  }

  /** The same, after others were tried in vain. */
  after(others: readonly string[]): UnreachableError {
    return new UnreachableError(this.#url, this.#why, others);
  }
}

/**
 * TLS and the settings do not fit each other: the server's certificate cannot be verified, or it speaks TLS and the URL begins with
 * http. Nothing was done, and asking again would not help.
 */
export class TlsError extends InvalidError {}

/** The request was sent, but no whole answer came in time. */
export class BrokenError extends LeaseholdError {
  constructor(why: string) {
    super(`no response; the request might have taken effect: ${why}`, true, true);
  }
}

/**
 * A part of a wait is over without an answer: no failure, it is asked again under the same request id.
 *
 * @internal
 */
export class SliceError extends BrokenError {
  constructor(afterMs: number) {
    super(`nothing came within ${afterMs} ms`);
    this.name = "BrokenError";
  }
}

/** An answer, but none of a Leasehold server: perhaps there is a proxy in between. */
export class ForeignError extends LeaseholdError {
  constructor(
    readonly status: number,
    readonly body: string,
  ) {
    const retryable = status !== 501 && (status >= 500 || status === 429);
    super(`not a response of a Leasehold server (${status}): ${body}`, retryable, status >= 500 || status < 400);
  }
}
