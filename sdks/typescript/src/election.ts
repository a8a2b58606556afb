/**
 * One leader at a time, and who it is.
 *
 * A leader is whoever holds a lock, and says who it is by the lock's metadata. It is a leader only as long as its lease
 * lasts: what it does as one has to carry its fencing token, or check that it still is.
 */

import { isDeepStrictEqual } from "node:util";

import { checkOptions } from "./check.js";
import type { Client } from "./client.js";
import { Events } from "./event.js";
import type { Lease } from "./lease.js";

/** How an election is held. */
export interface ElectionOptions {
  /** How long a leader that is not heard of stays one. Default: 30 s. */
  ttlMs?: number;
}

/** Who leads. */
export interface Leader {
  owner: string;
  /** The token of its term: it grows with every term. */
  fencingToken: number;
  /** What it said of itself in its campaign: an address, perhaps. */
  value: unknown;
}

/** An election: `client.election("scheduler")`. */
export class Election {
  readonly #client: Client;
  readonly #name: string;
  readonly #options: ElectionOptions;

  /** @internal */
  constructor(client: Client, name: string, options: ElectionOptions) {
    this.#client = client;
    this.#name = name;
    this.#options = options;
  }

  /**
   * Waits to be the leader, behind those that came before, and announces `value`. The lease is the term: to resign is to
   * release it.
   */
  async campaign(value: unknown, options: { signal?: AbortSignal } = {}): Promise<Lease> {
    checkOptions("an election", this.#options, ["ttlMs"]);
    const request = this.#client.lock(this.#name, { ...this.#options, ...options, waitMs: Infinity, metadata: value });
    return await request.acquire();
  }

  /** Who leads right now; nothing if nobody does. */
  async leader(): Promise<Leader | undefined> {
    const { holders } = await this.#client.calls.look(this.#name);
    const holder = holders?.[0];
    return holder && { owner: holder.owner_id, fencingToken: holder.fencing_token, value: holder.metadata ?? null };
  }

  /**
   * Who leads, at first, and then whenever that is another. Leaders of terms that were over before we looked are left
   * out.
   */
  async *observe(options: { signal?: AbortSignal } = {}): AsyncGenerator<Leader | undefined, void, void> {
    const events = new Events(this.#client, { ...options, lock: this.#name });
    try {
      // First listen, then look: so nothing is missed in between.
      await events.connect();
      let told = await this.leader();
      yield told;
      for await (const watched of events) {
        if (watched.gap && watched.state !== undefined) {
          continue; // what happened, if anything, follows
        }
        const leader = await this.leader();
        if (!isDeepStrictEqual(leader, told)) {
          told = leader;
          yield told;
        }
      }
    } finally {
      await events.return();
    }
  }
}
