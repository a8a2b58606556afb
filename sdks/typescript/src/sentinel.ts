/** Hearing of the end of a lease when it ends, not when it is renewed. */

import type { WatchLeaseRequest } from "./api.js";
import type { Client } from "./client.js";
import { sleepUntil } from "./clock.js";
import { FailedError } from "./error.js";
import { Parser } from "./parser.js";

/** The pause after the server could not be watched for a while. */
const PAUSE_MS = 1000;

/** Calls `ended` when the server says that the lease is over. If it cannot be watched, renewals still tell. */
export async function keepWatch(
  client: Client,
  lease: WatchLeaseRequest & { lock_name: string },
  signal: AbortSignal,
  ended: () => void,
): Promise<void> {
  const { lock_name, owner_id, lease_id, fencing_token } = lease;
  while (!signal.aborted) {
    try {
      const stream = await client.calls.watchLease(lock_name, { owner_id, lease_id, fencing_token }, signal);
      const parser = new Parser();
      for await (const piece of stream) {
        if (parser.push(piece as Buffer).some((message) => message.event === "ended")) {
          ended();
          return;
        }
      }
    } catch (error) {
      if (error instanceof FailedError && error.code === "LEASE_NOT_HELD") {
        ended();
        return;
      }
    }
    await sleepUntil(client.clock, client.clock.now() + PAUSE_MS, signal);
  }
}
