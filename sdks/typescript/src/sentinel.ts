/** Hearing of the end of a lease when it ends, not when it is renewed. */

import type { WatchLeaseRequest } from "./api.js";
import type { Client } from "./client.js";
import { sleepUntil } from "./clock.js";
import { FailedError, named } from "./error.js";
import { type Message, Parser } from "./parser.js";
import { parse } from "./transport.js";

/** The pause after the server could not be watched for a while. */
const PAUSE_MS = 1000;

/** Calls `ended` when the server says that the lease is over, with how that was. If it cannot be watched, renewals still tell. */
export async function keepWatch(
  client: Client,
  lease: WatchLeaseRequest & { lock_name: string },
  signal: AbortSignal,
  ended: (how?: string) => void,
): Promise<void> {
  const { lock_name, owner_id, lease_id, fencing_token } = lease;
  while (!signal.aborted) {
    try {
      const stream = await client.calls.watchLease(lock_name, { owner_id, lease_id, fencing_token }, signal);
      const parser = new Parser();
      for await (const piece of stream) {
        const end = parser.push(piece as Buffer).find((message) => message.event === "ended");
        if (end !== undefined) {
          ended(howItWas(end));
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

/** `lock "a": revoked: host is gone`, or `lock "a": expired`. */
function howItWas({ data }: Message): string | undefined {
  const said = parse(data) as { lock_name?: unknown; how?: unknown; reason?: unknown } | null | undefined;
  if (typeof said?.lock_name !== "string" || typeof said.how !== "string") {
    return undefined;
  }
  const reason = typeof said.reason === "string" && said.reason !== "" ? `: ${said.reason}` : "";
  return `${named([said.lock_name])}: ${said.how}${reason}`;
}
