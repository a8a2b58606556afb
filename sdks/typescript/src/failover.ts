/** Which leases outlast a leader change of a cluster, as its servers say. */

/** Leases with a shorter TTL than this, in milliseconds, might end when the leader changes. */
const FAILOVER_MS = "leasehold-failover-ms";

/** What the servers said last, and whether it was warned of a TTL that is too short. */
export class Failover {
  #ms: number | undefined;
  #isWarned = false;

  /** Takes note of what an answer says. A single server says nothing. */
  learn(headers: NodeJS.Dict<string | string[]>): void {
    const said = headers[FAILOVER_MS];
    if (typeof said === "string" && /^\d+$/.test(said)) {
      this.#ms = Number(said);
    }
  }

  /** Warns of a TTL that is too short, but only once. */
  warn(ttlMs: number): void {
    if (this.#ms === undefined || ttlMs >= this.#ms || this.#isWarned) {
      return;
    }
    this.#isWarned = true;
    const why = `ttlMs (${ttlMs}) is shorter than a fail-over of this cluster: a leader change might end the lease`;
    process.emitWarning(`${why}; use at least ${this.#ms}`, { type: "LeaseholdWarning", code: "LEASEHOLD_SHORT_TTL" });
  }
}
