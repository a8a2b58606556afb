/** Every call for locks, as it is on the wire: one request, one answer, nothing in the background. */

import type { IncomingMessage } from "node:http";

import type * as api from "./api.js";
import { checkedName } from "./check.js";
import { InvalidError, type LeaseholdError, NotAcquiredError, NotReleasedError, NotRenewedError } from "./error.js";
import { type Answer, failure, foreign, isSuccess, parse, type Question, type Transport } from "./transport.js";

/** A backup takes as long as the server's disk does. */
const BACKUP_MAX_MS = 600_000;

/** Which locks to list. */
export interface ListQuery {
  /** Only names that begin with this. */
  prefix?: string;
  /** Only those it has or waits for. */
  owner?: string;
  state?: "held" | "waiting" | "free";
  /** At most this many on a page. */
  limit?: number;
  /** `next_cursor` of the page before. */
  cursor?: string;
}

/** Which part of history to tell. */
export interface HistoryQuery {
  /** Only what happened to this lock. */
  lock?: string;
  /** Only what happened to leases of this owner. */
  owner?: string;
  /** Only what happened at or after this time, in epoch milliseconds. */
  since?: number;
  /** At most this many on a page. */
  limit?: number;
  /** `next_cursor` of the page before. */
  cursor?: string;
}

/** The calls. Those that wait, renew and release by themselves are built of these. */
export class Calls {
  readonly #transport: Transport;
  readonly #namespace: string | undefined;

  constructor(transport: Transport, namespace: string | undefined) {
    this.#transport = transport;
    this.#namespace = namespace;
  }

  /** Asks for a lock once. With `wait_ms` it is answered when the lock is granted or the time is over. */
  async acquire(lock: string, body: api.AcquireRequest, signal?: AbortSignal): Promise<api.Acquired> {
    const longerMs = body.wait_ms ?? 0;
    const path = this.#lockPath(lock, "/acquire");
    const answer = await this.#transport.call({ method: "POST", path, body, signal, longerMs });
    return readOr(answer, "acquired", (no: api.NotAcquired) => new NotAcquiredError(no), LEASE);
  }

  /** Makes a lease last longer. */
  async renew(lock: string, body: api.RenewRequest, signal?: AbortSignal): Promise<api.Renewed> {
    const answer = await this.#post(this.#lockPath(lock, "/renew"), body, signal);
    return readOr(answer, "renewed", (no: api.NotRenewed) => new NotRenewedError(no), TIME);
  }

  /** Gives a lease back. */
  async release(lock: string, body: api.ReleaseRequest): Promise<api.Released> {
    const answer = await this.#post(this.#lockPath(lock, "/release"), body);
    return readOr(answer, "released", (no: api.NotReleased) => new NotReleasedError(no, [lock]), { released: isBoolean });
  }

  /** Asks for several locks or none, once. */
  async acquireAll(body: api.AcquireAllRequest, signal?: AbortSignal): Promise<api.AcquiredAll> {
    const longerMs = body.wait_ms ?? 0;
    const path = this.#path("/acquire");
    const answer = await this.#transport.call({ method: "POST", path, body, signal, longerMs });
    return readOr(answer, "acquired", (no: api.NotAcquired) => new NotAcquiredError(no), { leases: areLeases, ...TIME });
  }

  /** Makes several leases last longer, or none. */
  async renewAll(body: api.RenewAllRequest, signal?: AbortSignal): Promise<api.Renewed> {
    const answer = await this.#post(this.#path("/renew"), body, signal);
    return readOr(answer, "renewed", ({ lock_name, lease_id, ...no }: api.NotRenewedAll) => {
      return new NotRenewedError(no, { lock_name, lease_id });
    }, TIME);
  }

  /** Gives several leases back, those that are still active. What became of each is in the answer. */
  async releaseAll(body: api.ReleaseAllRequest): Promise<api.ReleasedAll> {
    const answer = await this.#post(this.#path("/release"), body);
    // That none was active is an answer like any other.
    const said = answer.status === 409 && has(answer, "released") ? { ...answer, status: 200 } : answer;
    return read(said, { released: isBoolean, leases: Array.isArray });
  }

  /** Ends a wait at once. False: there was none, or its lease was granted. */
  async cancel(body: api.CancelRequest): Promise<boolean> {
    const { cancelled } = read<api.Cancelled>(await this.#post(this.#path("/cancel"), body), { cancelled: isBoolean });
    return cancelled;
  }

  /** What is true of a lock right now. A lock nobody ever used is free. */
  async look(lock: string): Promise<api.LockState> {
    return await this.#get(this.#lockPath(lock, ""));
  }

  /** One page of locks. */
  async list(query: ListQuery = {}): Promise<api.LockList> {
    return await this.#get(this.#path("/locks") + queryString({ ...query }));
  }

  /** One page of what happened to locks, newest first. */
  async history({ lock, ...query }: HistoryQuery = {}): Promise<api.History> {
    const path = lock === undefined ? this.#path("/history") : this.#lockPath(lock, "/history");
    return await this.#get(path + queryString(query));
  }

  /** Takes a lock away from all who have it. */
  async revoke(lock: string, reason: string): Promise<api.Revoked> {
    return read(await this.#post(this.#lockPath(lock, "/revoke"), { reason }));
  }

  /** Revokes everything that an owner, a session or a principal has, in all namespaces. */
  async revokeAll(body: api.RevokeAllRequest): Promise<api.RevokedAll> {
    return read(await this.#post("/v1/revoke", body));
  }

  /** Has the server take a backup of itself, below the folder it was told. */
  async takeBackup(): Promise<api.BackupTaken> {
    return read(await this.#post("/v1/admin/backup", undefined, undefined, BACKUP_MAX_MS));
  }

  /**
   * Finds out whether the server that would be asked is there at all. If not, the next one is asked from then on.
   *
   * @internal
   */
  async sound(): Promise<void> {
    if (this.#transport.urls > 1) {
      // Whatever it says, it has answered.
      await this.#transport.call({ method: "GET", path: "/livez" }).catch(() => undefined);
    }
  }

  /** Resolves if the server could make something durable right now. */
  async ready(): Promise<void> {
    const answer = await this.#transport.call({ method: "GET", path: "/readyz" });
    if (!isSuccess(answer.status)) {
      throw failure(answer);
    }
  }

  /**
   * Whether a token's lease is active. This is advice: by the time you act on it, it may not be. What protects is a
   * `FencingGate` at the thing that is written to.
   */
  async checkFence(lock: string, token: number): Promise<api.FenceVerdict> {
    const namespace = this.#namespace === undefined ? {} : { namespace: this.#namespace };
    return read(await this.#post("/v1/fence/check", { lock_name: lock, fencing_token: token, ...namespace }));
  }

  /** Opens a session without keeping it alive. */
  async openSession(body: api.OpenSessionRequest, signal?: AbortSignal): Promise<api.SessionOpened> {
    return read(await this.#post("/v1/sessions", body, signal), { session_id: isText, expires_after_send_ms: isCount });
  }

  /** Keeps a session alive for another ttl. */
  async keepSession(sessionId: string, signal?: AbortSignal): Promise<api.KeptAlive> {
    const answer = await this.#post(`/v1/sessions/${escape(sessionId)}/keepalive`, undefined, signal);
    return read(answer, { expires_after_send_ms: isCount });
  }

  /** Ends a session and releases all its leases. */
  async closeSession(sessionId: string): Promise<void> {
    const answer = await this.#transport.call({ method: "DELETE", path: `/v1/sessions/${escape(sessionId)}` });
    if (!isSuccess(answer.status)) {
      throw failure(answer);
    }
  }

  /** The stream of events, from after the event with the id `since` or from now on. */
  async events(query: { prefix?: string; lock?: string }, since: string | undefined, signal: AbortSignal): Promise<IncomingMessage> {
    const headers = since === undefined ? {} : { "last-event-id": since };
    return await this.#transport.stream({ method: "GET", path: this.#path("/events") + queryString(query), headers, signal });
  }

  /** The stream that tells of one lease's end. */
  async watchLease(lock: string, body: api.WatchLeaseRequest, signal: AbortSignal): Promise<IncomingMessage> {
    return await this.#transport.stream({ method: "POST", path: this.#lockPath(lock, "/watch"), body, signal });
  }

  /**
   * A GET changes nothing, so it is asked again at once if its connection breaks: most likely it had been idle, and
   * the server had closed it.
   */
  async #get<T>(path: string): Promise<T> {
    const question: Question = { method: "GET", path };
    const answer = await this.#transport.call(question).catch((error: LeaseholdError) => {
      if (error.mayHaveTakenEffect) {
        return this.#transport.call(question);
      }
      throw error;
    });
    return read(answer);
  }

  async #post(path: string, body: unknown, signal?: AbortSignal, longerMs?: number): Promise<Answer> {
    return await this.#transport.call({ method: "POST", path, body, signal, longerMs });
  }

  #path(path: string): string {
    return (this.#namespace === undefined ? "/v1" : `/v1/namespaces/${escape(this.#namespace)}`) + path;
  }

  #lockPath(lock: string, path: string): string {
    return this.#path(`/locks/${escape(checkedName(lock))}${path}`);
  }
}

/** What must be there, and how it must be. */
type Needed = Record<string, (value: unknown) => boolean>;

const isText = (value: unknown): boolean => typeof value === "string";
const isBoolean = (value: unknown): boolean => typeof value === "boolean";
const isCount = (value: unknown): boolean => typeof value === "number" && value >= 0;
const isGranted = (value: unknown): boolean => typeof value === "object" && value !== null && fits(value, GRANTED);
const areLeases = (value: unknown): boolean => Array.isArray(value) && value.every(isGranted);

/** Beyond 2^53 a number is rounded, and would be another token. */
const isToken = (value: unknown): boolean => Number.isSafeInteger(value) && isCount(value);

const GRANTED: Needed = { lock_name: isText, lease_id: isText, fencing_token: isToken };
/** `null` is for ever, and has to be said. */
const TIME: Needed = { expires_after_send_ms: (value) => value === null || isCount(value) };
const LEASE: Needed = { owner_id: isText, ...GRANTED, ...TIME };

function fits(said: object, needed: Needed): boolean {
  return Object.entries(needed).every(([name, isRight]) => isRight((said as Record<string, unknown>)[name]));
}

/**
 * What a 2xx says; anything else is an error. So is one that lacks what is needed: it is not our server's, and what would
 * be read of it, a lease without an end for example, is nothing that anybody granted.
 */
function read<T>(answer: Answer, needed: Needed = {}): T {
  if (!isSuccess(answer.status)) {
    throw failure(answer);
  }
  const said = parse(answer.body);
  if (typeof said !== "object" || said === null || !fits(said, needed)) {
    throw foreign(answer);
  }
  return said as T;
}

/** The same; a 409 with `field` is a refusal. */
function readOr<T, No>(answer: Answer, field: string, refuse: (no: No) => LeaseholdError, needed: Needed): T {
  if (answer.status === 409 && has(answer, field)) {
    throw refuse(parse(answer.body) as No);
  }
  return read(answer, needed);
}

function has(answer: Answer, field: string): boolean {
  const said = parse(answer.body);
  return typeof said === "object" && said !== null && field in said;
}

/** `?a=b&c=d` of those that have a value. */
function queryString(query: Record<string, string | number | undefined>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const pairs = given.map(([name, value]) => `${name}=${escape(String(value))}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

function escape(text: string): string {
  // A path step of dots alone would be taken for a way up.
  if (/^\.+$/.test(text)) {
    return text.replaceAll(".", "%2E");
  }
  try {
    return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  } catch {
    throw new InvalidError(`${JSON.stringify(text)} is not valid Unicode`);
  }
}
