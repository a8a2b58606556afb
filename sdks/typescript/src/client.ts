/** A server, as its clients see it. */

import { inspect } from "node:util";

import { Calls } from "./call.js";
import { type Clock, MachineClock } from "./clock.js";
import { Election, type ElectionOptions } from "./election.js";
import { Events, type EventsOptions } from "./event.js";
import { LocksRequest, type Wanted } from "./group.js";
import { ownerId } from "./random.js";
import { type LockOptions, LockRequest } from "./request.js";
import { Session, type SessionOptions } from "./session.js";
import { type ClientOptions, settings } from "./settings.js";
import type { CommonOptions } from "./terms.js";
import { Transport } from "./transport.js";

/** A client of one server, or of several that stand in for each other. */
export class Client {
  /** The owner of its locks unless another is named: different for each client. */
  readonly owner: string;
  /** The clock that deadlines are on. */
  readonly clock: Clock;
  /** Every call as it is on the wire, with nothing in the background. */
  readonly calls: Calls;
  /** @internal How many servers there are to ask. */
  readonly nUrls: number;
  readonly #transport: Transport;

  /** A URL, or settings, or nothing: then the environment says where the server is. Nothing is sent yet. */
  constructor(options: string | ClientOptions = {}) {
    const given = typeof options === "string" ? { url: options } : options;
    const known = settings(given);
    this.nUrls = known.urls.length;
    this.#transport = new Transport(known);
    const namespace = given.namespace ?? (process.env["LEASEHOLD_NAMESPACE"] || undefined);
    this.owner = given.owner ?? ownerId();
    this.clock = given.clock ?? new MachineClock();
    this.calls = new Calls(this.#transport, namespace);
  }

  /** Asks for a lock. */
  lock(name: string, options: LockOptions = {}): LockRequest {
    return new LockRequest(this, name, options);
  }

  /** Asks for several locks or none. */
  locks(locks: readonly Wanted[], options: CommonOptions = {}): LocksRequest {
    return new LocksRequest(this, locks, options);
  }

  /** Opens a session: one keep-alive for any number of locks. */
  async openSession(options: SessionOptions = {}): Promise<Session> {
    return await Session.open(this, options);
  }

  /** What happens to locks, from now on. */
  events(options: EventsOptions = {}): Events {
    return new Events(this, options);
  }

  /** One leader at a time. */
  election(name: string, options: ElectionOptions = {}): Election {
    return new Election(this, name, options);
  }

  /** @internal Warns once of a TTL that a leader change of the cluster might outlast. */
  warnIfShort(ttlMs: number): void {
    this.#transport.failover.warn(ttlMs);
  }

  /** Closes idle connections. They also close by themselves, and do not keep the process running. */
  close(): void {
    this.#transport.close();
  }

  [inspect.custom](): string {
    return `Client { owner: ${inspect(this.owner)}, ${inspect(this.#transport)} }`;
  }
}
